"""Linear maps and polynomials: maps without structure, by one linear solve each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

from vpintegrator.errors import InputError
from vpintegrator.training.choice import Fit
from vpintegrator.training.kinds.kind import (
    GOOD,
    Budget,
    Sizes,
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
        Degrees in a row that fail to halve the least error, after which no higher one is tried.
    """

    coefficients: int = 1_500
    highest: int = 64
    patience: int = 3
    name: ClassVar[str] = "polynomial regression"
    structured: ClassVar[bool] = False

    def admits(self, data: TrainingData) -> str | None:
        """Return the reason why these data have no polynomial regression, or None."""
        if data.dataset.is_family:
            return "a family of maps is no polynomial of the states"
        if data.dataset.dim >= self.coefficients:
            return f"polynomials of {data.dataset.dim:,} components have too many terms"
        return why_not_complete(data)

    def is_needed(self, data: TrainingData, fits: Sequence[Fit]) -> bool:
        """Whether no structure is known, or the maps that keep it err by more than 1e-9."""
        system = data.system
        claimed = system.divergence_free or system.is_canonical
        return not claimed or least(fits) > GOOD

    def models(self, data: TrainingData, fits: Sequence[Fit], budget: Budget) -> Iterator[Trial]:
        """Yield polynomials of higher and higher degree while the error falls by a half."""
        given = self.options.get("degree")
        sizes, before = Sizes(), None
        for degree in range(1, self.highest + 1) if given is None else [given]:
            model = self.build(data, "polynomial", budget.seed, {"degree": degree})
            if isinstance(model, str) and before is None:
                raise InputError(model)
            if isinstance(model, str):
                return  # too many terms
            if before is not None and count(model) > self.coefficients * model.dim:
                return
            size = f"degree {degree}, {count(model)} coefficients"
            yield Trial(model, size, training={"start": before})
            before = fits[-1].model
            if sizes.end(fits[-1].error, self.patience, budget.target):
                return
