"""Maps without structure: linear maps, polynomials, and networks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import ClassVar

from vpintegrator.errors import InputError
from vpintegrator.models import Model
from vpintegrator.models.arguments import arguments_of
from vpintegrator.models.building import suited
from vpintegrator.models.registry import ARCHITECTURES
from vpintegrator.training.kinds import kind as base
from vpintegrator.training.kinds.kind import Budget, Kind, Sizes, SolvedKind, Trial, count
from vpintegrator.training.results import Fit
from vpintegrator.training.training_data import TrainingData


class LinearMaps(SolvedKind):
    """Linear maps, by least squares."""

    name: ClassVar[str] = "linear maps"

    def is_needed(self, data: TrainingData, fits: Sequence[Fit]) -> bool:
        """Whether the map may be linear: of measured states, without angles and parameters."""
        system = data.dataset.system
        return system.is_measured and not (data.dataset.is_family or system.periods)

    def models(self, data: TrainingData, fits: Sequence[Fit], budget: Budget) -> Iterator[Trial]:
        """Yield the one linear map."""
        model = self.build(data, "linear", budget.seed)
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
        return super().admits(data)

    def is_needed(self, data: TrainingData, fits: Sequence[Fit]) -> bool:
        """Whether no structure is known, or the maps that keep it err by more than 1e-9."""
        system = data.system
        claimed = system.divergence_free or system.is_canonical
        return not claimed or base.least(fits) > base.GOOD

    def models(self, data: TrainingData, fits: Sequence[Fit], budget: Budget) -> Iterator[Trial]:
        """Yield polynomials of higher and higher degree while the error falls by a half."""
        given = self.options.get("degree")
        sizes, before = Sizes(), None
        for degree in range(1, self.highest + 1) if given is None else [given]:
            try:
                model = self.build(data, "polynomial", budget.seed, {"degree": degree})
            except InputError:
                if before is None:
                    raise
                return  # too many terms
            if before is not None and count(model) > self.coefficients * model.dim:
                return
            size = f"degree {degree}, {count(model)} coefficients"
            yield Trial(model, size, training={"start": before})
            before = fits[-1].model
            if sizes.end(fits[-1].error, self.patience, budget.target):
                return


@dataclass(frozen=True)
class Network(Kind):
    """A single model of an architecture, trained for all of its time.

    Attributes
    ----------
    architecture
        Name of the architecture; None for a residual network where no structure is known.
    model
        A trained model that is trained further, instead.
    patience
        Iterations without progress after which an unnamed network ends.
    iterations, seconds
        The width of a network without structure is that of so many iterations in the time of the
        fit, if an iteration takes ``seconds`` times the cube of the number of parameters. In 60 s
        on rigid body and Henon-Heiles resnets err by 2.8e-8 and 6.0e-7 with 900 iterations, by
        1.3e-7 and 2.8e-6 with half as many.
    """

    architecture: str | None = None
    model: Model | None = None
    patience: int = 300
    iterations: int = 900
    seconds: float = 4e-10
    name: ClassVar[str] = "networks"
    structured: ClassVar[bool] = False
    iterative: ClassVar[bool] = True

    @property
    def is_named(self) -> bool:
        """Whether a model is asked for."""
        return self.model is not None or self.architecture is not None

    def admits(self, data: TrainingData) -> str | None:
        """Return why data have a better kind than a network without structure, or None."""
        keeps = data.system.may_preserve_volume and base.claims_structure(data)
        if not self.is_named and keeps and data.dataset.dim > 1:
            return "the flow keeps a structure, which a residual network does not"
        return None

    def is_needed(self, data: TrainingData, fits: Sequence[Fit]) -> bool:
        """Whether the map is not known exactly already."""
        return min((fit.error for fit in fits), default=1.0) > base.EXACT

    def models(self, data: TrainingData, fits: Sequence[Fit], budget: Budget) -> Iterator[Trial]:
        """Yield the network of the width that there is time for."""
        model = self.model or self._untrained(data, budget)
        size = f"{model.name}, {count(model)} parameters"
        training = {} if self.model is None else {"normalise": False}
        patience = None if self.is_named else self.patience
        yield Trial(model, size, budget.epochs, patience, training)

    def _untrained(self, data: TrainingData, budget: Budget) -> Model:
        """Return the network; one without structure of the greatest width that time allows."""
        name = architecture = self.architecture or "resnet"
        if name == "auto":
            architecture = suited(data.system, self.options, self.options.get("chart", data.chart))
        declared = arguments_of(ARCHITECTURES.find(architecture)).keys()
        free = "width" in declared - self.options.keys() and "functions" not in declared
        if not free or budget.seconds is None:
            return self.build(data, name, budget.seed)
        most = (budget.seconds / self.iterations / self.seconds) ** (1 / 3)
        widest: Model | None = None
        for width in range(data.dataset.dim, 257):
            with suppress(InputError):  # such as a number of heads that does not divide it
                model = self.build(data, name, budget.seed, {"width": width})
                if widest is not None and count(model) > most:
                    break
                widest = model
        if widest is None:
            raise InputError(f"no {name} can be built for states of {data.dataset.dim} components")
        words = f"was chosen: {budget.seconds:g} s suffice for its parameters"
        widest.choices.append(f"width {widest.arguments['width']} {words}")
        return widest
