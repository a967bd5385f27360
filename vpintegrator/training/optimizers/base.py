"""Base class of optimizers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

import torch

from vpintegrator.compiled import CompiledResidual
from vpintegrator.data.pairs import Pair, Pairs
from vpintegrator.models import Integrator
from vpintegrator.training.residuals import Objective, Residuals
from vpintegrator.training.training_data import TrainingData


class Optimizer(ABC):
    """Base class of optimizers; :mod:`vpintegrator.names` lists them all.

    Parameters
    ----------
    model
        Trained in place.
    pairs
        Pairs of windows, of which the optimizer reads those that it uses.
    objective
        Objective to minimise.
    batch, learning_rate
        Windows in a step, and the rate at the beginning.
    generator
        Generator of the choice and order of windows, and of the noise.
    compiled
        The residuals as machine code, for those that can use it.

    Attributes
    ----------
    name
        Name for users.
    compiles
        Whether it can use machine code.
    step_seconds
        Approximate time of a step in PyTorch, for the smallest models.
    has_learning_rate
        Whether it has a learning rate.
    takes_batch_statistics
        Whether models compute with whole batches, as batch norm needs it; else window by window.
    finished
        Why further epochs change nothing, as in ``History.stopped_by``; empty where they may.
    """

    name: ClassVar[str]
    compiles: ClassVar[bool] = False
    step_seconds: ClassVar[float] = 0.0
    has_learning_rate: ClassVar[bool] = False
    takes_batch_statistics: ClassVar[bool] = False
    finished: str = ""

    def __init__(
        self,
        model: Integrator,
        pairs: Pairs,
        objective: Objective | None = None,
        *,
        batch: int | None = None,
        learning_rate: float | None = None,
        generator: torch.Generator,
        compiled: CompiledResidual | None = None,
    ) -> None:
        self.model, self.pairs, self.generator = model, pairs, generator
        self.objective = objective or Objective()
        self.learning_rate = learning_rate
        self.batch = batch or self.default_batch(model, self.objective)
        self.residuals = Residuals(model, self.objective, compiled)

    @classmethod
    @abstractmethod
    def default_batch(cls, model: Integrator, objective: Objective) -> int:
        """Return windows in a step, if no number is given."""

    @classmethod
    def pairs_of(cls, data: TrainingData, model: Integrator, objective: Objective) -> Pairs:
        """Return pairs of windows of the training group that the optimizer reads."""
        return data.pairs(model, objective.horizon)

    @classmethod
    def steps(cls, pairs: int, batch: int) -> float:
        """Return the number of steps in an epoch."""
        return 1.0

    @abstractmethod
    def epoch(self, progress: float) -> float:
        """Improve the model once; return the root mean square distance from the new states.

        It is that of the windows that were used.

        Parameters
        ----------
        progress
            Share of the budget used so far, 0 to 1.
        """

    def observe(self, training_error: float, validation_error: float) -> None:  # noqa: B027
        """Learn how well the last epoch generalises."""

    @abstractmethod
    def roll_back(self) -> None:
        """Go on from the better weights that the model has been set back to, more carefully."""

    @property
    def windows(self) -> int:
        """Windows in use, if that is a number that changes; else 0."""
        return 0

    def ready(self, pair: Pair) -> Pair:
        """Return inputs with noise, and the states to be predicted from them."""
        inputs, targets = (tensor.to(self.model.scale) for tensor in pair)
        targets = self.objective.new_states(self.model, targets).contiguous()
        return self.objective.noisy(self.model, inputs, self.generator), targets
