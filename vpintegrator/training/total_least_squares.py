"""Fits of generating functions to all known orbits of few data, of which none are held out.

Noise has the same standard deviation at all times, for each component its own. The true first
states are unknown and are eliminated; orbits of one step are pairs with noise on both states.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch

from vpintegrator.models import Integrator
from vpintegrator.training.few_data import FOLDS
from vpintegrator.training.orbits import DAMPING, EPOCHS, SETTLED, Segments
from vpintegrator.training.posterior import is_estimated, posterior_of_orbits, regularise
from vpintegrator.training.training_data import TrainingData

_LEFT_OUT_STEPS = 2  # iterations from the fit to all orbits to that without a fold


class TotalFit(NamedTuple):
    """Distances of observations from fitted orbits, root mean squares.

    Attributes
    ----------
    before, after
        In units of the noise, before and after the fit; the prior of the coefficients counts as
        further observations.
    left_out
        In units of the spread, of orbits of five folds from fits to the others; nan for pairs.
    """

    before: float
    after: float
    left_out: float


def fit_total(model: Integrator, data: TrainingData, length: int = 1) -> TotalFit | None:
    """Fit a solved generating function to all known orbits, in place.

    Parameters
    ----------
    model
        Solved for by pairs.
    data
        Few data.
    length
        Steps of each orbit.

    Returns
    -------
    TotalFit or None
        None where the map overflows or comes no nearer; the model is unchanged then.
    """
    parts = sorted({max(length // 4, 1), max(length // 2, 1), length})
    estimated = is_estimated(model, data)
    segments = Segments.known(model, data, parts[-1])
    solved = theta = segments.parameters.read().double()
    for part in parts:
        segments = Segments.known(model, data, part)
        theta = _mode(model, segments, theta, estimated)
    distances = list[float]()
    for each in (solved, theta):
        segments.settled(each)
        distances.append(segments.distance(segments.cost(each, segments.first)))
    if not distances[1] < distances[0]:
        return None
    segments.parameters.write(theta.to(model.scale))
    model.posterior = posterior_of_orbits(model, segments, theta) if estimated else None
    model.metadata["orbits"] = f"fitted to {segments.count} segments of {length} steps"
    left_out = _left_out(model, segments, theta) if length > 1 else np.nan
    return TotalFit(distances[0], distances[1], left_out)


def _mode(
    model: Integrator, segments: Segments, theta: torch.Tensor, estimated: bool
) -> torch.Tensor:
    """Return the coefficients of the greatest posterior density."""
    damping = DAMPING
    for _ in range(EPOCHS):
        if estimated:
            regularise(model, segments, theta)
        cost = segments.cost(theta, segments.first)
        theta, least, damping = segments.step(theta, cost, damping)
        if not cost - least > SETTLED * cost:
            break
    return theta


def _left_out(model: Integrator, segments: Segments, theta: torch.Tensor) -> float:
    """Return the distance of orbits in units of the spread from fits to the other folds."""
    seen, squares = segments.seen.numpy(), 0.0
    for fold in np.array_split(np.arange(segments.count), FOLDS):
        others = Segments(model, np.delete(seen, fold, 0), segments.unit)
        others.noise, others.prior = segments.noise, segments.prior
        found, damping = theta, DAMPING
        others.settled(found)
        for _ in range(_LEFT_OUT_STEPS):
            cost = others.cost(found, others.first)
            found, _, damping = others.step(found, cost, damping)
        left = Segments(model, seen[fold], segments.unit)
        squares += left.settled(found)
    return segments.distance(squares)
