"""Maps without structure: linear maps, polynomials, and networks."""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import ClassVar

from vpintegrator.errors import InputError
from vpintegrator.models import Model
from vpintegrator.training.kinds import kind as base
from vpintegrator.training.kinds.kind import ModelKind, Sizes, count
from vpintegrator.training.options import TrainingOptions
from vpintegrator.training.results import TOLERANCES, Fit
from vpintegrator.training.trainer import Trainer
from vpintegrator.training.training_data import TrainingData


class LinearMaps(ModelKind):
    """Linear maps, by least squares: one has a structure where its matrix keeps it."""

    name: ClassVar[str] = "linear maps"
    structured: ClassVar[bool] = False

    def is_needed(self, data: TrainingData, fits: Sequence[Fit]) -> bool:
        """Whether the map may be linear: of measured states, without angles and parameters."""
        system = data.system
        return system.is_measured and not (data.dataset.is_family or system.periods)

    def search(self, data: TrainingData, train: Trainer, fits: Sequence[Fit]) -> None:
        """Solve for the one linear map."""
        model = self.build(data, "linear", train.seed)
        train.solve(model, f"{count(model)} coefficients")


@dataclass(frozen=True)
class PolynomialRegression(ModelKind):
    """Polynomials of degree 1, 2, 3, ... by ridge regression, no structure.

    A baseline, and the answer where the map of the data keeps nothing, or where states are
    observations: with the argument ``window`` polynomials read several of them.

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
    architecture: ClassVar[str] = "polynomial"
    shortest: ClassVar[int] = 1  # window without the argument

    def admits(self, data: TrainingData) -> str | None:
        """Return the reason why these data have no polynomial regression, or None."""
        if data.dataset.is_family:
            return "a family of maps is no polynomial of the states"
        variables = data.dataset.dim * self._window
        # of single states those of degree 1 are linear maps, which are a kind of their own
        least = 1 if self._window > 1 else 2
        if (
            "degree" not in self.arguments
            and math.comb(variables + least, least) > self.coefficients
        ):
            return f"polynomials of {variables:,} components have too many terms"
        if self._window > 1 and not data.may_be_incomplete:
            return "states of this system are complete: one determines the next"
        return super().admits(data)

    def is_needed(self, data: TrainingData, fits: Sequence[Fit]) -> bool:
        """Whether no structure is known, or the maps that keep it err by more than 1e-9.

        An explicit map at rounding that keeps a structure ends the search.
        """
        if self._window > 1:
            return min((fit.error for fit in fits), default=1.0) > TOLERANCES.good
        if not super().is_needed(data, fits):
            return False
        system = data.system
        claimed = system.divergence_free or system.is_canonical
        return not claimed or base.least(fits) > TOLERANCES.good

    def search(self, data: TrainingData, train: Trainer, fits: Sequence[Fit]) -> None:
        """Solve for polynomials of higher and higher degree while the error falls by a half."""
        given = self.arguments.get("degree")
        sizes = Sizes()
        before: Model | None = None
        for degree in range(1, self.highest + 1) if given is None else [given]:
            try:
                model = self.build(data, self.architecture, train.seed, self._sizes(degree))
            except InputError:
                if before is None:
                    raise
                return  # too many terms
            if before is not None and count(model) > self.coefficients * model.dim:
                return
            words = f"window {self._window}, " if self._window > 1 else ""
            size = f"{words}degree {degree}, {count(model)} coefficients"
            done = [
                fit
                for fit in fits
                if isinstance(fit.model, type(model)) and fit.model.arguments == model.arguments
            ]
            fit = done[0] if done else train.solve(model, size, start=before)
            before = fit.model
            if sizes.end(fit.error, self.patience, train.budget.target):
                return

    def _sizes(self, degree: int) -> dict[str, int]:
        return {"degree": degree, "window": self._window}

    @property
    def _window(self) -> int:
        window: int = self.arguments.get("window", self.shortest)
        return window


@dataclass(frozen=True)
class Leapfrogs(PolynomialRegression):
    """Polynomial leapfrogs of windows, by degree: for the volume of windows.

    They err more than polynomials of the same window, which need not keep it.
    """

    name: ClassVar[str] = "leapfrogs"
    architecture: ClassVar[str] = "window-leapfrog"
    shortest: ClassVar[int] = 2

    def is_needed(self, data: TrainingData, fits: Sequence[Fit]) -> bool:
        """Whether no other map can be chosen, as where the volume must be kept."""
        return not fits


@dataclass(frozen=True)
class Network(ModelKind):
    """A single model, trained for all of its time.

    Attributes
    ----------
    architecture
        Name of the architecture, or "auto" for the one that suits the data. Its arguments are the
        defaults of the class, but for those of the kind.
    model
        A model that is trained instead, or further.
    training
        How it is trained.
    """

    architecture: str = "auto"
    model: Model | None = None
    training: TrainingOptions = field(default_factory=TrainingOptions)
    name: ClassVar[str] = "networks"
    structured: ClassVar[bool] = False
    iterative: ClassVar[bool] = True

    def admits(self, data: TrainingData) -> str | None:
        """Return None: whoever names a model wants it."""
        return None

    def is_needed(self, data: TrainingData, fits: Sequence[Fit]) -> bool:
        """Whether the map is not known exactly already."""
        return min((fit.error for fit in fits), default=1.0) > TOLERANCES.exact

    def search(self, data: TrainingData, train: Trainer, fits: Sequence[Fit]) -> None:
        """Train the model."""
        model = self.model or self._untrained(data, train.seed)
        if data.equations and not model.reads_equations:
            raise InputError(f"{model.name} has no use for equations; leave out equations")
        data.check(model)
        size = f"{model.name}, {count(model)} parameters"
        if self.model is None and model.linear_in_parameters and not self.training.changed:
            train.solve(model, size)
            return
        train(model, size, epochs=train.budget.epochs, options=self.training)

    def _untrained(self, data: TrainingData, seed: int) -> Model:
        """Return the untrained model."""
        try:
            return self.build(data, self.architecture, seed)
        except InputError as error:
            if data.equations or data.dataset.system.is_measured or self.architecture == "auto":
                raise
            if self.refusal(TrainingData(data.dataset, equations=True), self.architecture):
                raise  # the equations would not help
            raise InputError(
                f"{error} (training sees states alone; equations=True, --equations, lets it read "
                "the equations)"
            ) from None


@dataclass(frozen=True)
class WidestNetwork(ModelKind):
    """A network without structure, as wide as the time allows.

    Attributes
    ----------
    architecture
        Name of an architecture with the argument ``width``; None for a residual network where no
        structure is known.
    training
        How it is trained.
    patience
        Iterations without progress after which the training ends.
    iterations, seconds
        The width is that of so many iterations in the time of the fit, if an iteration takes
        ``seconds`` times the cube of the number of parameters. In 60 s on rigid body and
        Henon-Heiles resnets err by 2.8e-8 and 6.0e-7 with 900 iterations, by 1.3e-7 and 2.8e-6 with
        half as many.
    """

    architecture: str | None = None
    training: TrainingOptions = field(default_factory=TrainingOptions)
    patience: int = 300
    iterations: int = 900
    seconds: float = 4e-10
    name: ClassVar[str] = "networks"
    structured: ClassVar[bool] = False
    iterative: ClassVar[bool] = True

    def admits(self, data: TrainingData) -> str | None:
        """Return why data have a better kind than a network without structure, or None."""
        keeps = data.system.may_preserve_volume and base.claims_structure(data)
        if self.architecture is None and keeps and data.dataset.dim > 1:
            return "the flow keeps a structure, which a residual network does not"
        return None

    def is_needed(self, data: TrainingData, fits: Sequence[Fit]) -> bool:
        """Whether no map errs less than networks do in minutes."""
        return min((fit.error for fit in fits), default=1.0) > TOLERANCES.good

    def search(self, data: TrainingData, train: Trainer, fits: Sequence[Fit]) -> None:
        """Train the network of the width that there is time for."""
        model = self._widest(data, train)
        size = f"{model.name}, {count(model)} parameters"
        epochs = train.budget.epochs
        train(model, size, epochs=epochs, patience=self.patience, options=self.training)

    def _widest(self, data: TrainingData, train: Trainer) -> Model:
        """Return the network of the greatest width that time allows."""
        seconds = train.budget.whole
        name = self.architecture or "resnet"
        if seconds == math.inf or "width" in self.arguments:
            return self.build(data, name, train.seed)
        most = (seconds / self.iterations / self.seconds) ** (1 / 3)
        widest: Model | None = None
        for width in range(data.dataset.dim, 257):
            with suppress(InputError):  # such as a number of heads that does not divide it
                model = self.build(data, name, train.seed, {"width": width})
                if widest is not None and count(model) > most:
                    break
                widest = model
        if widest is None:
            raise InputError(f"no {name} can be built for states of {data.dataset.dim} components")
        words = f"was chosen: {seconds:g} s suffice for its parameters"
        widest.choices.append(f"width {widest.arguments['width']} {words}")
        return widest
