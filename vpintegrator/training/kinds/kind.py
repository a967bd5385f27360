"""A kind of map that ``vp.fit`` tries: what it needs, its sizes, and how one is trained."""

from __future__ import annotations

import math
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple

from vpintegrator.errors import InputError
from vpintegrator.models import Model
from vpintegrator.models.building import build, suited
from vpintegrator.training.linear import LinearFit
from vpintegrator.training.regression import solve
from vpintegrator.training.results import Fit, History, Show
from vpintegrator.training.train import train
from vpintegrator.training.training_data import TrainingData

ROUNDING = 1e-14  # error below which no further map can be better
EXACT = 1e-12  # error that no further functions need to improve: that of data at usual tolerances
_KEYWORDS = ("reversible", "chart", "dtype")  # of ``build`` itself, among the options
GOOD = 1e-9  # error above which couplings are worth the rest of the budget


@dataclass(frozen=True)
class Budget:
    """Limits of a fit, beside its seconds, which the deadline holds.

    Attributes
    ----------
    epochs
        Iterations of all trainings of a kind together; None for the number that the kind has.
    target
        Error at which a training ends.
    seconds
        Time of the whole fit, by which networks are sized; None for no limit.
    seed
        Seed of weights and of the choice of windows.
    show
        Called after each iteration of a training.
    cheapest
        Whether the cheapest step below the target is wanted, and each kind is tried.
    """

    epochs: int | None = None
    target: float | None = None
    seconds: float | None = None
    seed: int = 0
    show: Show | None = None
    cheapest: bool = False


class Trial(NamedTuple):
    """An untrained or growing model, and how long it is trained.

    Attributes
    ----------
    model
        The model, which is trained in place.
    size
        Its size in words: "degree 8, 240 coefficients".
    epochs, patience
        Iterations of this training, and those without progress after which it ends.
    training
        Further arguments of ``vp.train``.

    Examples
    --------
    >>> from vpintegrator.training import Trial
    >>> Trial(vp.models.ResidualNetwork(dim=2, width=4), "width 4", epochs=20).epochs
    20
    """

    model: Model
    size: str
    epochs: int | None = None
    patience: int | None = None
    training: Mapping[str, Any] = {}


@dataclass(frozen=True)
class Kind(ABC):
    """A kind of map.

    Attributes
    ----------
    options
        Arguments of every model of the kind, and ``reversible``, ``chart`` and ``dtype`` of
        :func:`vpintegrator.models.build`.
    training
        Arguments of :func:`vpintegrator.train` that every training has.
    name
        Name of the kind in lists: "generating functions".
    explicit
        Whether a step is a formula, and costs less than that of an implicit map.
    structured
        Whether the models keep the structure that the system has.
    iterative
        Whether training goes on as long as there is time.
    """

    options: Mapping[str, Any] = field(default_factory=dict)
    training: Mapping[str, Any] = field(default_factory=dict)
    name: ClassVar[str]
    explicit: ClassVar[bool] = True
    structured: ClassVar[bool] = True
    iterative: ClassVar[bool] = False

    def admits(self, data: TrainingData) -> str | None:
        """Return the reason why these data have no such model, or None."""
        return None

    def is_needed(self, data: TrainingData, fits: Sequence[Fit]) -> bool:
        """Whether a model of this kind can still be chosen, if there are other kinds, too."""
        return least_explicit(fits) > ROUNDING

    @abstractmethod
    def models(self, data: TrainingData, fits: Sequence[Fit], budget: Budget) -> Iterator[Trial]:
        """Yield models from small to large.

        Parameters
        ----------
        data
            Training data.
        fits
            What was trained so far; the last one is that of the last trial.
        budget
            Limits of the fit.
        """

    def train(self, trial: Trial, data: TrainingData, budget: Budget) -> Fit:
        """Train a model, and estimate its error by the windows that are held out."""
        history = train(
            trial.model,
            data,
            epochs=trial.epochs,
            target=budget.target,
            seed=budget.seed,
            progress=budget.show or False,
            judged=False,
            **{"patience": trial.patience, **self.training, **trial.training},
        )
        return self.fit_of(trial, history, *data.held_out_error(trial.model))

    def fit_of(
        self, trial: Trial, history: History, error: float, deviation: float, by: str = "held out"
    ) -> Fit:
        """Return the record of a trained model."""
        if not math.isfinite(error):
            error, deviation = math.inf, 0.0
        structured = self.structured or trial.model.measure_preserving
        judged = (error, deviation, by, history.used, self.explicit, structured)
        return Fit(trial.model, self.name, trial.size, *judged, history, history.stopped_by)

    def solved(
        self, trial: Trial, result: LinearFit, data: TrainingData, budget: Budget, start: float
    ) -> Fit:
        """Return the record of a linear solve; few data are judged by pairs that are left out."""
        history = History("linear", budget.seed, result.coefficients, stopped_by="solved")
        history.windows = result.pairs
        seconds = time.perf_counter() - start
        if not data.is_few:
            error, deviation = data.held_out_error(trial.model)
            by = "held out"
        else:
            by = "left out" if data.known_pairs.are_single else "blocks"
            error = result.typical if by == "left out" else result.error
            # linear equations may promise more than the map keeps, and implicit ones may not solve
            error = max(error, data.known_error(trial.model))
            deviation = error * result.deviation / 2
        history.add(seconds, result.error, error)
        return self.fit_of(trial, history, error, deviation, by)

    def build(
        self, data: TrainingData, name: str, seed: int, arguments: Mapping[str, Any] = {}
    ) -> Model:
        """Return an untrained model of an architecture, or InputError with the reason why not."""
        options = {"chart": data.chart, **self.options, **arguments}
        keywords = {key: options.pop(key) for key in _KEYWORDS if key in options}
        return build(data.system, name, options, seed=seed, **keywords)

    def built(
        self, data: TrainingData, name: str, seed: int, arguments: Mapping[str, Any] = {}
    ) -> Model | str:
        """Return the model of ``build``, or the reason why there is none."""
        try:
            return self.build(data, name, seed, arguments)
        except InputError as error:
            return str(error)


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
        self.error, self.stalled = math.inf, 0

    def end(
        self, error: float, patience: int, target: float | None, rounding: float = ROUNDING
    ) -> bool:
        """Note the error of a larger model; return whether no further one is of use."""
        self.stalled = 0 if error < self.error / 2 else self.stalled + 1
        self.error = min(self.error, error)
        return self.error < rounding or self.stalled >= patience or self.error <= (target or 0.0)


class SolvedKind(Kind):
    """A kind of map whose coefficients one linear solve gives."""

    def train(self, trial: Trial, data: TrainingData, budget: Budget) -> Fit:
        """Solve for the coefficients."""
        start = time.perf_counter()
        data.normalise(trial.model)
        result = solve(trial.model, data, budget.seed, **trial.training)
        return self.solved(trial, result, data, budget, start)


def count(model: Model) -> int:
    """Return the number of parameters that are trained."""
    return sum(p.numel() for p in model.parameters() if p.requires_grad)


def least(fits: Sequence[Fit]) -> float:
    """Return the least error of models that keep the structure."""
    return min((fit.error for fit in fits if fit.structured), default=math.inf)


def least_explicit(fits: Sequence[Fit]) -> float:
    """Return the least error of explicit maps that keep the structure."""
    return least([fit for fit in fits if fit.explicit])


def claims_structure(data: TrainingData) -> bool:
    """Whether equations are known, or measured states claim what their map preserves."""
    system = data.system
    claimed = system.is_canonical or system.divergence_free or not system.may_preserve_volume
    return claimed or not system.is_measured or data.dataset.is_family or data.dataset.dim < 2


def forms(data: TrainingData) -> tuple[str, ...]:
    """Return the forms that the map may preserve: symplectic, volume; the error decides."""
    if claims_structure(data):
        name = suited(data.system, {"functions": "polynomial"}, data.chart)
        return {"sp": ("symplectic",), "vp": ("volume",)}.get(name[:2], ())
    # in two dimensions the symplectic form is the area
    even = data.dataset.dim > 2 and data.dataset.dim % 2 == 0
    return ("symplectic", "volume") if even else ("volume",)
