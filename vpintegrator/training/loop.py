"""The training loop: one for all optimizers, stopped and resumed at the end of any epoch."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from copy import deepcopy
from typing import Any, Protocol

import torch

from vpintegrator.compiled import CompiledResidual
from vpintegrator.models import Integrator
from vpintegrator.training import processes
from vpintegrator.training.checkpoint import Checkpoint, Tensors
from vpintegrator.training.history import Budget, History
from vpintegrator.training.objective import relative_error

_EXPLODED = 100.0  # times the best error so far
_ROLLBACKS = 5


class Optimizer(Protocol):
    """What the loop asks of an optimizer."""

    def epoch(self, progress: float) -> float:
        """Improve the model once; ``progress`` is the share of the budget used so far."""
        ...

    def observe(self, training_error: float, validation_error: float) -> None:
        """Learn how well the last epoch generalises."""
        ...

    def roll_back(self) -> None:
        """Go on from the weights that the model has been set back to."""
        ...

    def state(self) -> tuple[Tensors, dict[str, float]]:
        """Tensors and numbers from which ``restore`` goes on exactly."""
        ...

    def restore(self, tensors: Tensors, numbers: dict[str, float]) -> None:
        """Go on from a state."""
        ...


class Training:
    """A model that is being trained, with all that changes on the way.

    Parameters
    ----------
    model, optimizer
        The optimizer works on this model.
    generator
        Random numbers of the optimizer.
    held_out
        Pairs of windows by which the best weights are chosen.
    history
        Empty, to be filled.
    compiled
        The residuals as machine code.

    Attributes
    ----------
    best
        The weights of least validation error so far.
    """

    def __init__(
        self,
        model: Integrator,
        optimizer: Optimizer,
        generator: torch.Generator,
        held_out: tuple[torch.Tensor, torch.Tensor],
        history: History,
        compiled: CompiledResidual | None = None,
    ) -> None:
        self.compiled = compiled
        self.model, self.optimizer, self.generator = model, optimizer, generator
        self.held_out, self.history = held_out, history
        self.best = self._weights()

    def run(
        self,
        budget: Budget,
        after_epoch: Callable[[Training], None] | None = None,
        start: float | None = None,
    ) -> None:
        """Train until the budget is used up or the user interrupts; end with the best weights.

        Parameters
        ----------
        budget
            Of all epochs, those before a checkpoint included.
        after_epoch
            Called after every epoch.
        start
            Value of ``time.perf_counter`` from which the seconds count, if not from now on.
        """
        if start is None:
            start = time.perf_counter() - self.history.used
        like = self.model.scale
        try:
            while not self.history.stopped_by:
                used = processes.first_says(time.perf_counter() - start, like)
                training_error = self.optimizer.epoch(budget.share(self.history.epochs, used))
                error = relative_error(self.model, *self.held_out, self.compiled)
                used = processes.first_says(time.perf_counter() - start, like)
                before = self.history.best_validation_error
                if self.history.add(used, training_error, error):
                    self.best = self._weights()
                if math.isfinite(training_error + error) and error < _EXPLODED * max(before, 0.01):
                    self.optimizer.observe(training_error, error)
                else:
                    self._roll_back()
                self.history.stopped_by = self.history.stopped_by or budget.ended(self.history)
                if after_epoch:
                    after_epoch(self)
        except KeyboardInterrupt:
            self.history.stopped_by = "interrupt"
        self.model.load_state_dict(self.best)

    def _roll_back(self) -> None:
        """The error exploded: go back to the best weights, or give up after a few times."""
        if self.history.rollbacks == _ROLLBACKS:
            self.history.stopped_by = "divergence"
            return
        self.history.rollbacks += 1
        self.model.load_state_dict(self.best)
        self.optimizer.roll_back()

    def checkpoint(self, identity: dict[str, Any]) -> Checkpoint:
        """All of this, to be written down."""
        tensors, numbers = self.optimizer.state()
        return Checkpoint(
            identity=identity,
            history=deepcopy(self.history),
            model=self._weights(),
            best=self.best,
            optimizer=tensors,
            numbers=numbers,
            generator=self.generator.get_state(),
        )

    def restore(self, checkpoint: Checkpoint) -> None:
        """Go on from a checkpoint."""
        device = self.model.scale.device
        self.history = checkpoint.history
        self.history.stopped_by = ""
        self.model.load_state_dict(checkpoint.model)
        self.best = {name: tensor.to(device) for name, tensor in checkpoint.best.items()}
        tensors = {name: tensor.to(device) for name, tensor in checkpoint.optimizer.items()}
        self.optimizer.restore(tensors, checkpoint.numbers)
        self.generator.set_state(checkpoint.generator)

    def _weights(self) -> Tensors:
        return {name: tensor.clone() for name, tensor in self.model.state_dict().items()}
