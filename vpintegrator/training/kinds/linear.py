"""Linear maps of measured states: one least-squares problem."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import ClassVar

import torch

from vpintegrator.errors import InputError
from vpintegrator.training.choice import Fit
from vpintegrator.training.kinds.kind import Budget, Kind, Trial, count, why_not_complete
from vpintegrator.training.linear import FEWEST, ROWS
from vpintegrator.training.linear_map import fit_linear_map
from vpintegrator.training.training_data import TrainingData


class LinearMaps(Kind):
    """Linear maps, by least squares."""

    name: ClassVar[str] = "linear maps"

    def admits(self, data: TrainingData) -> str | None:
        """Return the reason why these data have no linear map, or None."""
        return why_not_complete(data)

    def is_needed(self, data: TrainingData, fits: Sequence[Fit]) -> bool:
        """Whether the map may be linear: of measured states, without angles and parameters."""
        system = data.dataset.system
        return system.is_measured and not (data.dataset.is_family or system.periods)

    def models(self, data: TrainingData, fits: Sequence[Fit], budget: Budget) -> Iterator[Trial]:
        """Yield the one linear map."""
        model = self.build(data, "linear", budget.seed)
        if isinstance(model, str):
            raise InputError(model)
        yield Trial(model, f"{count(model)} coefficients")

    def train(self, trial: Trial, data: TrainingData, budget: Budget) -> Fit:
        """Solve; few data are fitted by all pairs that are not of the test group."""
        data.normalise(trial.model)
        folds = None
        if data.is_few:
            before, after, folds = known = data.known_pairs
            folds = None if known.are_single else folds
        else:
            number = max(FEWEST, ROWS * (trial.model.dim + 1))
            generator = torch.Generator().manual_seed(budget.seed)
            before, after = (
                states[:, -1] for states in data.pairs(trial.model).sample(number, generator)
            )
        return self.solved(trial, fit_linear_map(trial.model, before, after, folds), data, budget)
