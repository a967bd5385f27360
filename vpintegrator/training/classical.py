"""Explicit classical methods with substeps, as candidates for the cheapest map below an error."""

from __future__ import annotations

import math
from contextlib import suppress
from typing import NamedTuple

from vpintegrator.arguments import positive
from vpintegrator.data import Dataset
from vpintegrator.errors import InputError
from vpintegrator.models import Integrator
from vpintegrator.models.classical_integrator import MOST_SUBSTEPS
from vpintegrator.models.untrained import build
from vpintegrator.nn.classical_steps import Substeps
from vpintegrator.training.residuals import relative_error
from vpintegrator.training.training_data import TrainingData

EXPLICIT = ("strang-splitting", "rk4", "blanes-moan-4", "blanes-moan-6", "dormand-prince-8")
_ROUNDED = 1e-10  # error below which rounding can be the larger part


class ClassicalCandidate(NamedTuple):
    """A classical method with the fewest substeps that reach an error.

    Attributes
    ----------
    model
        The method as a model, which knows the dataset's system and step.
    error
        Root mean square error one step ahead on the validation group, relative to the spread.
    """

    model: Integrator
    error: float


def cheapest_classical(dataset: TrainingData | Dataset, target: float) -> list[ClassicalCandidate]:
    """Return each explicit method with the fewest substeps whose error is at most ``target``.

    Parameters
    ----------
    dataset
        Dataset of a known system.
    target
        Largest error one step ahead that is allowed.

    Returns
    -------
    list of ClassicalCandidate
        Empty for families, for maps and where no equations are known; without methods that do not
        apply, or that need more than 1,024 substeps.

    Raises
    ------
    TimeIsUp
        At the deadline.

    Examples
    --------
    >>> dataset = vp.generate("pendulum", "pendulum.h5", count=40, steps=20, overwrite=True)
    >>> vp.training.cheapest_classical(dataset, 1e-8)[-1].model.description
    'dormand-prince-8'
    """
    data, target = TrainingData.of(dataset), positive("target", target)
    system = data.dataset.system
    if system.is_measured or system.is_discrete or system.family is not None:
        return []
    found = []
    for method in EXPLICIT:
        with suppress(InputError):  # it does not apply
            model = build(system, "classical", method=method)
            data.normalise(model)
            if (fewest := _fewest(model, data, target)) is not None:
                substeps, error = fewest
                model = build(system, "classical", method=method, substeps=substeps)
                data.normalise(model)
                data.describe(model)
                found.append(ClassicalCandidate(model, error))
    return found


def _fewest(model: Integrator, data: TrainingData, target: float) -> tuple[int, float] | None:
    """Return the least number of substeps and their error; None where there is none."""
    inputs, targets = data.held_out(model)
    most, core = MOST_SUBSTEPS, model.core
    assert isinstance(core, Substeps)
    low, high, substeps, last, reached = 0, most + 1, 1, math.inf, math.inf
    while high - low > 1:
        core.repeats = substeps
        core.set_step(data.dataset.step)
        error = relative_error(model, inputs, targets, scale=data.error_scale)
        if error <= target:
            high, reached = substeps, error
        else:
            low = substeps
        if high > most and error < _ROUNDED and last < 2 * error:
            return None  # smaller steps only add rounding errors
        last, substeps = error, (low + high) // 2 if high <= most else min(2 * low, most)
    return (high, reached) if high <= most else None
