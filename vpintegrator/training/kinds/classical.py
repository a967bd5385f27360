"""Explicit classical methods with substeps: what any trained map has to be cheaper than."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

from vpintegrator.compiled.one_step import fewest_substeps
from vpintegrator.errors import InputError
from vpintegrator.models import Model
from vpintegrator.models.known_equations import MOST_SUBSTEPS
from vpintegrator.nn.exact_flows import Substeps
from vpintegrator.training.kinds.kind import ROUNDING, ModelKind
from vpintegrator.training.results import Fit
from vpintegrator.training.trainer import Trainer
from vpintegrator.training.training_data import TrainingData


@dataclass(frozen=True)
class ClassicalMethods(ModelKind):
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

    def search(self, data: TrainingData, train: Trainer, fits: Sequence[Fit]) -> None:
        """Judge each method that applies and reaches the target."""
        target = train.budget.target or ROUNDING
        for method in self.methods:
            with suppress(InputError):  # a method may not apply
                model = self.build(data, "classical", train.seed, {"method": method})
                data.normalise(model)
                substeps = fewest_substeps(partial(_error, model, data), target, MOST_SUBSTEPS)[0]
                if substeps is None:
                    continue
                arguments = {"method": method, "substeps": substeps}
                model = self.build(data, "classical", train.seed, arguments)
                data.normalise(model)
                train.judge(model, f"{method}, {substeps} substeps")


def _error(model: Model, data: TrainingData, substeps: int) -> float:
    """Return the error of a method with substeps."""
    assert isinstance(model.core, Substeps)
    model.core.repeats = substeps
    model.core.set_step(data.dataset.step)
    return data.held_out_error(model)[0]
