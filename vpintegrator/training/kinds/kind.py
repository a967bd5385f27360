"""A kind of map that ``vp.fit`` tries: the data that it needs, and the search for its size."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from vpintegrator.errors import InputError
from vpintegrator.models import Model
from vpintegrator.models.building import build, suited
from vpintegrator.nn import Reversible
from vpintegrator.training.results import TOLERANCES, Fit
from vpintegrator.training.trainer import Trainer
from vpintegrator.training.training_data import TrainingData


class Kind(ABC):
    """A kind of map.

    A kind of your own derives from this class, and defines :meth:`search`; then it is an argument,
    ``vp.fit(data, [*vp.training.KINDS, MyKind()])``.

    Attributes
    ----------
    name
        Name of the kind in lists: "generating functions".
    explicit
        Whether a step is a formula, and costs less than that of an implicit map.
    structured
        Whether the maps keep the structure that the system has.
    iterative
        Whether training goes on as long as there is time.
    canonical
        Whether the maps are of positions and of as many momenta.
    of_observations
        Whether the maps are of states that may be incomplete.
    follows
        Whether the maps are made of the best one of the other kinds, after these.
    """

    name: ClassVar[str]
    explicit: ClassVar[bool] = True
    structured: ClassVar[bool] = True
    iterative: ClassVar[bool] = False
    canonical: ClassVar[bool] = False
    of_observations: ClassVar[bool] = False
    follows: ClassVar[bool] = False

    def unsuited(self, data: TrainingData) -> str | None:
        """Return the reason why no data of these components or claims have such a map, or None."""
        if self.canonical and data.dataset.dim % 2:
            return "the states are no positions and momenta"
        return data.why_complete if self.of_observations else None

    def admits(self, data: TrainingData) -> str | None:
        """Return the reason why these data have no such map, or None."""
        return None

    def is_needed(self, data: TrainingData, fits: Sequence[Fit]) -> bool:
        """Whether a map of this kind can still be chosen, if there are other kinds, too."""
        return least_explicit(fits) > TOLERANCES.rounding

    @abstractmethod
    def search(self, data: TrainingData, train: Trainer, fits: Sequence[Fit]) -> None:
        """Train maps from small to large, as long as a larger one is of use.

        Parameters
        ----------
        data
            Training data.
        train
            Trains a model, solves for its coefficients, or judges a map that is made otherwise.
            Each returns the fit, and adds it to the record.
        fits
            Fits of the kinds before, and of this one.
        """


@dataclass(frozen=True)
class ModelKind(Kind):
    """A kind of models that are built for a system.

    Attributes
    ----------
    arguments
        Arguments of the model that stay as they are, by name.
    reversible, chart, dtype
        Arguments of :func:`vpintegrator.models.build`.
    form
        Form that the maps keep, ``symplectic`` or ``volume``; None for the one that suits the
        system.
    """

    arguments: Mapping[str, Any] = field(default_factory=dict)
    reversible: bool | None = None
    chart: bool | None = None
    dtype: str = "float64"
    form: str | None = None

    def chart_of(self, data: TrainingData) -> bool | None:
        """Return whether models work in the system's chart; None where the system decides.

        The volume of the states themselves is kept without a chart in which the form is symplectic.
        """
        if self.chart is None and self.form == "volume" and "symplectic" in forms(data):
            return False
        return data.chart if self.chart is None else self.chart

    def build(
        self,
        data: TrainingData,
        name: str,
        seed: int,
        arguments: Mapping[str, Any] = {},
    ) -> Model:
        """Return an untrained model of an architecture, or InputError with the reason why not.

        Arguments of the kind count first. A reversible composition whose halves are solved for
        needs states in the middle of a step; where these are not known the model has none.
        """

        def built(reversible: bool | None) -> Model:
            return build(
                data.system,
                name,
                {**arguments, **self.arguments},
                reversible=reversible,
                chart=self.chart_of(data),
                seed=seed,
                dtype=self.dtype,
            )

        model = built(self.reversible)
        halves = model.linear_in_parameters and isinstance(model.core, Reversible)
        if halves and self.reversible is None and not data.knows_half_steps:
            return built(False)
        return model

    def refusal(
        self, data: TrainingData, name: str, arguments: Mapping[str, Any] = {}
    ) -> str | None:
        """Return the reason why there is no model of an architecture, or None."""
        try:
            self.build(data, name, 0, arguments)
        except InputError as error:
            return str(error)
        return None


class Sizes:
    """Errors of models from small to large, and whether a larger one is of use.

    Attributes
    ----------
    error
        Least error so far.
    stalled
        Number of models in a row that have not halved it.
    """

    def __init__(self) -> None:
        self.error = math.inf
        self.stalled = 0

    def end(
        self, error: float, patience: int, target: float, rounding: float = TOLERANCES.rounding
    ) -> bool:
        """Note the error of a larger model; return whether no further one is of use."""
        self.stalled = 0 if error < self.error / 2 else self.stalled + 1
        self.error = min(self.error, error)
        return self.error < rounding or self.stalled >= patience or self.error <= target


def count(model: Model) -> int:
    """Return the number of parameters that are trained."""
    return sum(p.numel() for p in model.parameters() if p.requires_grad)


def least(fits: Sequence[Fit]) -> float:
    """Return the least error of maps that keep the structure."""
    whole = [fit.error for fit in fits if fit.structured and not fit.segment]
    return min(whole, default=math.inf)


def least_explicit(fits: Sequence[Fit]) -> float:
    """Return the least error of explicit maps that keep the structure."""
    return least([fit for fit in fits if fit.explicit])


def claims_structure(data: TrainingData) -> bool:
    """Whether equations are known, or measured states claim what their map preserves."""
    system = data.system
    claimed = system.is_canonical or system.divergence_free or not system.may_preserve_volume
    return claimed or not system.is_measured or data.dataset.is_family or data.dataset.dim < 2


def forms(data: TrainingData) -> tuple[str, ...]:
    """Return the forms that the map may preserve: symplectic, volume; the error decides.

    A map that is symplectic in a chart may preserve the volume of the states themselves.
    """
    if claims_structure(data):
        system = data.system
        name = suited(system, {"functions": "polynomial"}, data.chart)
        form = {"sp": ("symplectic",), "vp": ("volume",)}.get(name[:2], ())
        is_in_chart = "symplectic" in form and not system.is_canonical
        return (*form, "volume") if is_in_chart and system.divergence_free else form
    # in two dimensions the symplectic form is the area
    even = data.dataset.dim > 2 and data.dataset.dim % 2 == 0
    return ("symplectic", "volume") if even else ("volume",)
