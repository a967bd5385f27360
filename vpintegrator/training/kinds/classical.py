"""Explicit classical methods with substeps, beside which a trained map must cost less."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

from vpintegrator.errors import InputError
from vpintegrator.maps import ClassicalMap, find_method
from vpintegrator.measure.steps import fewest_substeps
from vpintegrator.training.kinds.kind import Kind
from vpintegrator.training.results import TOLERANCES, Fit
from vpintegrator.training.trainer import Trainer
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

    def search(self, data: TrainingData, train: Trainer, fits: Sequence[Fit]) -> None:
        """Judge each method that applies and reaches the target."""
        target = train.budget.target or TOLERANCES.rounding
        for name in self.methods:
            with suppress(InputError):  # a method may not apply
                map = ClassicalMap(find_method(name), data.system, data.step)
                substeps, _ = fewest_substeps(partial(_error, map, data), target)
                if substeps is not None:
                    train.judge(map.at_step(map.step, substeps), f"{name}, {substeps} substeps")


def _error(map: ClassicalMap, data: TrainingData, substeps: int) -> float:
    """Return the error of a method with substeps."""
    return data.held_out_error(map.at_step(map.step, substeps))[0]
