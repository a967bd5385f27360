"""Linear maps and polynomials: maps without structure, by one linear solve each."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

from vpintegrator.errors import InputError
from vpintegrator.models import Model
from vpintegrator.training.choice import Fit
from vpintegrator.training.kinds.kind import (
    GOOD,
    ROUNDING,
    Budget,
    SolvedKind,
    Trial,
    count,
    least,
    why_not_complete,
)
from vpintegrator.training.training_data import TrainingData


class LinearMaps(SolvedKind):
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


@dataclass(frozen=True)
class PolynomialRegression(SolvedKind):
    """Polynomials of degree 1, 2, 3, ... by ridge regression, no structure.

    A baseline, and the answer where the map of the data keeps nothing.

    Attributes
    ----------
    coefficients
        Most coefficients for each component, some ten seconds.
    highest
        Largest degree.
    patience
        Degrees in a row that may fail to halve the least error.
    """

    coefficients: int = 1_500
    highest: int = 64
    patience: int = 2
    name: ClassVar[str] = "polynomial regression"
    structured: ClassVar[bool] = False

    def admits(self, data: TrainingData) -> str | None:
        """Return the reason why these data have no polynomial regression, or None."""
        if data.dataset.is_family:
            return "a family of maps is no polynomial of the states"
        if not data.dataset.is_complete:
            return "some states were not observed"
        if self.options.get("window", 1) != 1:
            return "a polynomial reads one state, no window"
        if self.options.get("dtype", "float64") != "float64":
            return "the linear solve needs double precision"
        if data.dataset.dim >= self.coefficients:
            return f"polynomials of {data.dataset.dim:,} components have too many terms"
        return None

    def is_needed(self, data: TrainingData, fits: Sequence[Fit]) -> bool:
        """Whether no structure is known, or the maps that keep it err by more than 1e-9."""
        system = data.dataset.system
        claimed = system.divergence_free or system.is_canonical
        return not claimed or least(fits) > GOOD

    def models(self, data: TrainingData, fits: Sequence[Fit], budget: Budget) -> Iterator[Trial]:
        """Yield polynomials of higher and higher degree while the error falls by a half."""
        given = self.options.get("degree")
        error, failures = math.inf, 0
        before: Model | None = None
        for degree in range(1, self.highest + 1) if given is None else [given]:
            model = self.build(data, "polynomial", budget.seed, {"degree": degree})
            if isinstance(model, str):
                return  # too many terms
            terms = count(model) // model.dim
            if terms > self.coefficients and before is not None:
                return
            size = f"degree {degree}, {count(model)} coefficients"
            yield Trial(model, size, training={"start": before})
            before = fits[-1].model
            failures = 0 if fits[-1].error < error / 2 else failures + 1
            error = min(error, fits[-1].error)
            met = budget.target is not None and error <= budget.target
            if error < ROUNDING or failures > self.patience or met:
                return
