"""Explicit classical methods with substeps: what any trained map has to be cheaper than."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

from vpintegrator.compiled.one_step import fewest_substeps
from vpintegrator.models import Model
from vpintegrator.models.known_equations import MOST_SUBSTEPS
from vpintegrator.nn.exact_flows import Substeps
from vpintegrator.training.kinds.kind import ROUNDING, Budget, Kind, Trial
from vpintegrator.training.results import Fit, History
from vpintegrator.training.training_data import TrainingData


@dataclass(frozen=True)
class ClassicalMethods(Kind):
    """Each method with the fewest substeps whose error one step ahead is at most the target.

    ``vp.fit(..., prefer="cost")`` tries them beside the kinds that it is given.

    Attributes
    ----------
    methods
        Names of explicit methods.
    """

    methods: Sequence[str] = (
        *("strang-splitting", "rk4", "blanes-moan-4", "blanes-moan-6", "dormand-prince-8"),
    )
    name: ClassVar[str] = "classical methods"
    structured: ClassVar[bool] = False

    def admits(self, data: TrainingData) -> str | None:
        """Return the reason why no classical method steps these data, or None."""
        system = data.system
        if system.is_measured or system.is_discrete or data.dataset.is_family:
            return "no equations of one step and one set of parameters are known"
        return None

    def is_needed(self, data: TrainingData, fits: Sequence[Fit]) -> bool:
        """Whether it is asked for: always."""
        return True

    def models(self, data: TrainingData, fits: Sequence[Fit], budget: Budget) -> Iterator[Trial]:
        """Yield each method that applies and reaches the target."""
        for method in self.methods:
            model = self.built(data, "classical", budget.seed, {"method": method})
            if isinstance(model, str):  # it does not apply
                continue
            data.normalise(model)
            error, target = partial(_error, model, data), budget.target or ROUNDING
            substeps = fewest_substeps(error, target, MOST_SUBSTEPS)[0]
            if substeps is None:
                continue
            arguments = {"method": method, "substeps": substeps}
            model = self.build(data, "classical", budget.seed, arguments)
            data.normalise(model)
            yield Trial(model, f"{method}, {substeps} substeps")

    def train(self, trial: Trial, data: TrainingData, budget: Budget) -> Fit:
        """Judge the method, which has nothing to train."""
        start = time.perf_counter()
        error, deviation = data.held_out_error(trial.model)
        history = History("none", budget.seed, 0, stopped_by="solved")
        history.add(time.perf_counter() - start, error, error)
        return self.fit_of(trial, history, error, deviation)


def _error(model: Model, data: TrainingData, substeps: int) -> float:
    """Return the error of a method with substeps."""
    assert isinstance(model.core, Substeps)
    model.core.repeats = substeps
    model.core.set_step(data.dataset.step)
    return data.held_out_error(model)[0]
