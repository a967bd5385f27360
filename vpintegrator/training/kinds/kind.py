"""A kind of map that ``vp.fit`` tries: what it needs, its sizes, and how one is trained."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, NamedTuple

from vpintegrator.errors import InputError
from vpintegrator.models import Integrator
from vpintegrator.models.untrained import build
from vpintegrator.training.choice import Fit
from vpintegrator.training.history import History, Show
from vpintegrator.training.training_data import TrainingData

EXACT = 1e-12  # error that no further functions need to improve: that of data at usual tolerances
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
    seed
        Seed of weights and of the choice of windows.
    show
        Called after each iteration of a training.
    """

    epochs: int | None = None
    target: float | None = None
    seed: int = 0
    show: Show | None = None


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
    """

    model: Integrator
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
        Arguments of :func:`vpintegrator.models.build` that every model of the kind has.
    training
        Arguments of :func:`vpintegrator.train` that every training has.
    name
        Name of the kind in lists: "generating functions".
    noun
        Name of one model in sentences: "the generating function".
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
    noun: ClassVar[str]
    explicit: ClassVar[bool] = True
    structured: ClassVar[bool] = True
    iterative: ClassVar[bool] = False

    @abstractmethod
    def admits(self, data: TrainingData) -> str | None:
        """Return the reason why these data have no such model, or None."""

    def is_needed(self, data: TrainingData, fits: Sequence[Fit]) -> bool:
        """Whether a model of this kind can still be chosen beside these."""
        return True

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
        from vpintegrator.training.train import run

        history = run(
            trial.model,
            data,
            epochs=trial.epochs,
            patience=trial.patience,
            target=budget.target,
            seed=budget.seed,
            progress=budget.show,
            **{**self.training, **trial.training},
        )
        estimate = data.held_out_error(trial.model)
        return self.fit_of(trial, history, *estimate)

    def fit_of(
        self,
        trial: Trial,
        history: History,
        error: float,
        deviation: float,
        judged_by: str = "held out",
    ) -> Fit:
        """Return the record of a trained model."""
        return Fit(
            model=trial.model,
            kind=self.name,
            noun=self.noun,
            size=trial.size,
            error=error if math.isfinite(error) else math.inf,
            deviation=deviation,
            judged_by=judged_by,
            seconds=history.used,
            explicit=self.explicit,
            structured=self.structured,
            history=history,
            stopped_by=history.stopped_by,
        )

    def build(self, data: TrainingData, name: str, seed: int, **arguments: Any) -> Integrator | str:
        """Return an untrained model of an architecture, or the reason why there is none."""
        options = {**self.options, **arguments}
        try:
            model = build(data.dataset.system, name, seed=seed, **options)
        except InputError as error:
            return str(error)
        return model

    def with_options(self, **options: Any) -> Kind:
        """Return the kind with further options of its models."""
        return replace(self, options={**self.options, **options})


def count(model: Integrator) -> int:
    """Return the number of parameters that are trained."""
    return sum(p.numel() for p in model.parameters() if p.requires_grad)


def least(fits: Sequence[Fit]) -> float:
    """Return the least error of models that keep the structure."""
    return min((fit.error for fit in fits if fit.structured), default=math.inf)
