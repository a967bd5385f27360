"""Refinement of generating functions that were solved for by noisy states."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable
from dataclasses import dataclass

import torch

from vpintegrator.errors import InputError
from vpintegrator.models import Integrator
from vpintegrator.runtime.deadline import TimeIsUp, until
from vpintegrator.training.few_data import known_pairs
from vpintegrator.training.linear import SETTLED, implicit_map
from vpintegrator.training.orbits import fit_orbits, orbit_distance
from vpintegrator.training.total_least_squares import fit_total
from vpintegrator.training.training_data import TrainingData

LENGTHS = (20, 10, 5, 2, 1)  # steps of orbits, the longest that the data have
_STATES = 20_000  # states of a group; the error of their mean is a hundredth of the noise
_EXACT = 1e-9  # error below which states have no noise


@dataclass(frozen=True)
class Refinement:
    """Result of the refinement of a model by orbits.

    Attributes
    ----------
    model
        Model with the better coefficients.
    length
        Steps of each orbit.
    before, after
        Root mean square distance of validation orbits, see :class:`vpintegrator.training.OrbitFit`.
    deviation
        Relative standard error of these; 0 where the same states are fitted.
    states
        States that the distances are taken from.
    left_out
        Distance of few orbits from fits to the others, by which degrees are compared.
    """

    model: Integrator
    length: int
    before: float
    after: float
    deviation: float
    states: str = "validation orbits"
    left_out: float | None = None

    @property
    def error(self) -> float:
        """Distance by which degrees are compared."""
        return self.after if self.left_out is None else self.left_out

    @property
    def words(self) -> str:
        """Description in one line."""
        how = f"a fit to orbits of {self.length} step{'s' * (self.length > 1)}"
        if math.isinf(self.before):
            return f"not refined: {how} is not possible, or takes too long"
        if not self.after < self.before:
            return f"not refined: {how} comes no nearer to {self.states} than {self.before:.3e}"
        distance = f"{self.before:.3e} to {self.after:.3e}"
        return f"refined by {how}: distance from {self.states} {distance}"


def is_noisy(data: TrainingData, error: float) -> bool:
    """Whether states are measured, or have noise, and a map of such an error can be refined."""
    return data.dataset.is_observed and error > _EXACT


def refine(model: Integrator, data: TrainingData, seconds: float | None = None) -> Refinement:
    """Fit a generating function to orbits, in place; keep it as it was where that is no better.

    Validation orbits of 20 steps decide, or of as many as the data have: one step is as uncertain
    as the noise. Few pairs have no validation group: all of them are fitted.

    Parameters
    ----------
    model
        Solved for by pairs of states.
    data
        Training data with noise.
    seconds
        Time limit. Few pairs take some seconds at most, and stay as they were if the time is up.

    Raises
    ------
    InputError
        If no two states were observed one after another in the validation group.
    """
    if data.is_few:
        return _refined_few(model, data, math.inf if seconds is None else seconds)
    start = time.perf_counter()
    for length in LENGTHS:
        try:
            before, deviation = orbit_distance(model, data, length)
            break
        except InputError:
            if length == LENGTHS[-1]:
                raise
    weights = {name: value.clone() for name, value in model.state_dict().items()}
    metadata, posterior = dict(model.metadata), model.posterior
    left = None if seconds is None else seconds - (time.perf_counter() - start)
    fit_orbits(model, data, length, seconds=left, states=_STATES)
    after, _ = orbit_distance(model, data, length)
    if after < before:
        _settle(model, data)
    else:
        model.load_state_dict(weights)
        model.metadata, model.posterior, after = metadata, posterior, before
    return Refinement(model, length, before, after, deviation)


def are_single_pairs(data: TrainingData) -> bool:
    """Whether data are few pairs of states, each a trajectory of its own."""
    return data.is_few and known_pairs(data).are_single


def _refined_few(model: Integrator, data: TrainingData, seconds: float) -> Refinement:
    """Fit a generating function to all orbits of few data, in place."""
    weights, found = {name: value.clone() for name, value in model.state_dict().items()}, None
    for length in (1,) if are_single_pairs(data) else LENGTHS:
        try:
            with until(time.perf_counter() + seconds):
                found = fit_total(model, data, length)
            break
        except TimeIsUp:
            model.load_state_dict(weights)
            break
        except InputError:
            if length == 1:
                raise
    states = "all orbits in units of the noise"
    if found is None:
        return Refinement(model, length, math.inf, math.inf, 0.0, states)
    _settle(model, data)
    return Refinement(model, length, found.before, found.after, 0.0, states, found.left_out)


def _settle(model: Integrator, data: TrainingData) -> None:
    states = torch.from_numpy(data.some_states()[:SETTLED])
    implicit_map(model).settle(model.normalised(model.in_the_middle(states, states)))


def best_refined(
    models: Iterable[Integrator], data: TrainingData, end: float = math.inf
) -> Refinement | None:
    """Return the first of refined models of rising degree that the next one does not improve upon.

    An improvement is more than a standard error.

    Parameters
    ----------
    models
        Solved for by pairs of states.
    data
        Training data with noise.
    end
        Value of ``time.perf_counter`` after which no further one is tried.
    """
    best = None
    for model in models:
        left = end - time.perf_counter()
        if left <= 0:
            break
        found = refine(model, data, left if math.isfinite(left) else None)
        if best is not None and found.error > best.error * (1 - best.deviation):
            break
        best = found
    return best
