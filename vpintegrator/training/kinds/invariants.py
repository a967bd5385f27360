"""The best map without structure, held on the invariants that its data show."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar

from vpintegrator.models import Model
from vpintegrator.training.invariants import find_invariants
from vpintegrator.training.kinds.kind import Kind
from vpintegrator.training.results import TOLERANCES, Fit, best
from vpintegrator.training.trainer import Trainer
from vpintegrator.training.training_data import TrainingData


class KeptInvariants(Kind):
    """A map without structure that is projected to keep what stays along the orbits of the data.

    It takes the best map without structure of the other kinds.

    Examples
    --------
    >>> body = vp.generate("rigid-body", "body.h5", count=100, steps=20, overwrite=True)
    >>> kinds = [vp.training.PolynomialRegression({"degree": 4}), vp.training.KeptInvariants()]
    >>> fit = vp.fit(body.states("train"), kinds, step=body.step)
    >>> fit.model.remark
    'keeps 2 invariants found in the data'
    """

    name: ClassVar[str] = "kept invariants"
    structured: ClassVar[bool] = False
    follows: ClassVar[bool] = True

    def admits(self, data: TrainingData) -> str | None:
        """Return the reason why these data have no such map, or None."""
        if data.dataset.is_family:
            return "invariants of a family depend on its parameters"
        return None

    def is_needed(self, data: TrainingData, fits: Sequence[Fit]) -> bool:
        """Whether the best map keeps no structure, or loses orbits, and is not exact."""
        if not _projectable(fits):
            return False
        choice = best(fits)
        is_lost = choice.orbits is not None and choice.orbits.lost > 0
        plain = not (choice.structured or choice.keeps_invariants)
        return is_lost or (plain and choice.error > TOLERANCES.exact)

    def search(self, data: TrainingData, train: Trainer, fits: Sequence[Fit]) -> None:
        """Find the invariants of the best map without structure, and let a copy of it keep them."""
        choice = best(_projectable(fits))
        invariants = find_invariants(choice.model, data, choice.error)
        if invariants is None:
            return
        model = copy.deepcopy(choice.model)
        history = copy.deepcopy(choice.history)
        model.record = replace(model.record, history=history)
        model.keep(invariants)
        if choice.judged_by == "held out":
            error, deviation = data.held_out_error(model)
        else:  # left-out pairs were judged before
            error = max(choice.error, data.known_error(model))
            deviation = choice.deviation
        size = f"{choice.size}, {invariants.words}"
        train.record(model, size, error, deviation, history, choice.judged_by)


def _projectable(fits: Sequence[Fit]) -> list[Fit]:
    """Return the fits of models without structure that have one new state to project."""
    return [
        fit
        for fit in fits
        if isinstance(fit.model, Model)
        and not (fit.structured or fit.segment or fit.keeps_invariants)
        and fit.model.prediction_window == 1
        and fit.model.moving == fit.model.dim
    ]
