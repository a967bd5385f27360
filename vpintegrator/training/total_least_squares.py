"""Total least squares of generating functions, from few pairs with noise on both states.

Noise has the same standard deviation before and after the step, for each component its own. Pairs
are orbits of one step: their true first states are unknown and are eliminated.
"""

from __future__ import annotations

import torch

from vpintegrator.models import Integrator
from vpintegrator.training.few_data import known_pairs
from vpintegrator.training.orbits import DAMPING, EPOCHS, SETTLED, Segments
from vpintegrator.training.posterior import is_estimated, posterior_of_orbits, regularise
from vpintegrator.training.training_data import TrainingData


def fit_total(model: Integrator, data: TrainingData) -> tuple[float, float] | None:
    """Fit a solved generating function to all known pairs, in place.

    Parameters
    ----------
    model
        Solved for by the pairs.
    data
        Few data of single steps.

    Returns
    -------
    tuple of float, or None
        Root mean square distance of all observations from the fitted pairs, before and after, in
        units of the noise; the prior of the coefficients counts as further observations. None where
        the map overflows or comes no nearer; the model is unchanged then.
    """
    before, after, _ = known_pairs(data)
    segments = Segments(model, torch.stack([before, after], 1).numpy())
    solved = theta = segments.parameters.read().double()
    damping, estimated = DAMPING, is_estimated(model, data)
    for _ in range(EPOCHS):
        if estimated:
            regularise(model, segments, theta)
        cost = segments.cost(theta, segments.first)
        theta, least, damping = segments.step(theta, cost, damping)
        if not cost - least > SETTLED * cost:
            break
    distances = list[float]()
    for each in (solved, theta):
        segments.settled(each)
        distances.append(segments.distance(segments.cost(each, segments.first)))
    if not distances[1] < distances[0]:
        return None
    segments.parameters.write(theta.to(model.scale))
    model.posterior = posterior_of_orbits(model, segments, theta) if estimated else None
    model.metadata["orbits"] = f"fitted to {segments.count} segments of 1 steps"
    return distances[0], distances[1]
