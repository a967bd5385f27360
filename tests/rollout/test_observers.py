"""What is seen step by step equals what follows from all states at once."""

import itertools
from copy import copy
from dataclasses import replace

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

import vpintegrator as vp
from tests.rollout.systems import ensemble_of, initial, system
from vpintegrator.dynamics.training_domain import TOLERANCE, Domain
from vpintegrator.rollout.diagnostics import root_mean_square_error
from vpintegrator.rollout.diagnostics.diagnostic import Ensemble, WindowSampler
from vpintegrator.rollout.diagnostics.invariants import Invariants
from vpintegrator.rollout.diagnostics.trajectory_error import Divergence, TrajectoryError

STEPS = 60
PENDULUM = system("pendulum")
STATES = vp.integrate(PENDULUM, "rk4", initial("pendulum", 4), 0.3, STEPS)
EXACT = vp.integrate(system("pendulum"), "gauss-legendre-6", initial("pendulum", 4), 0.3, STEPS)

parts = st.lists(st.integers(1, 25), min_size=3, max_size=12)
everys = st.integers(1, STEPS)


def stored(every):
    return np.unique(np.append(np.arange(0, STEPS + 1, every), STEPS))


RK4 = ensemble_of(None, "rk4", system=PENDULUM, initial=STATES[:, 0], step=0.3, steps=STEPS)


def ensemble(every=1, known=STEPS + 1, threshold=1.0, domain=None):
    """The trajectories of a comparison whose reference ends early."""
    reference = EXACT[:, :known].transpose(1, 0, 2)
    plan = replace(RK4.plan, stored=stored(every), reference=reference, threshold=threshold)
    map = copy(RK4.map)
    map.domain = domain
    return Ensemble("rk4", map, plan, STATES[:, :1])


def feed(make, sizes, states=STATES):
    """Feed in parts."""
    observer, start = make(), 0
    for size in [*sizes, STEPS + 1]:
        part = states[:, start : start + size]
        if not part.shape[1]:
            break
        observer.observe(start, part)
        start += size
    return observer


def largest_between(values, steps):
    """By definition: the largest since the stored time before."""
    bounds = [-1, *steps]
    return np.stack(
        [values[:, a + 1 : b + 1].max(axis=1) for a, b in itertools.pairwise(bounds)], 1
    )


@given(sizes=parts, low=st.floats(-1.5, 0), high=st.floats(0.1, 1.5))
def test_leaving_a_region(sizes, low, high):
    pendulum = system("pendulum")
    region = Domain({pendulum.components[1]: (low, high)}, {"energy": (-1.0, 0.5)})
    observer = feed(lambda: Divergence(ensemble(domain=region)), sizes)
    momentum, energy = STATES[..., 1], pendulum.invariants["energy"](STATES)
    beyond = [
        np.maximum(least - v, v - most) / (most - least)
        for v, (least, most) in ((momentum, (low, high)), (energy, (-1.0, 0.5)))
    ]
    outside = np.max(beyond, axis=0) > TOLERANCE
    index = np.where(outside.any(axis=1), outside.argmax(axis=1), -1)
    np.testing.assert_array_equal(observer.left, index)


@given(sizes=parts, every=everys, known=st.integers(1, STEPS + 1))
def test_errors(sizes, every, known):
    steps = stored(every)
    distance = np.linalg.norm(STATES - EXACT, axis=-1)[:, :known]
    threshold = np.median(distance)
    observer = feed(lambda: TrajectoryError(ensemble(every, known, threshold)), sizes)
    within = steps < known
    expected = largest_between(distance, steps[within])
    np.testing.assert_allclose(observer.largest[within].T, expected, rtol=1e-12)
    rms = np.sqrt(((STATES - EXACT)[:, :known] ** 2).mean(axis=(1, 2)))
    np.testing.assert_allclose(observer.result()["root_mean_square_error"], rms, rtol=1e-12)
    passed = distance > threshold
    index = np.where(passed.any(axis=1), passed.argmax(axis=1), -1)
    np.testing.assert_array_equal(observer.index, index)


@given(sizes=parts, every=everys)
def test_invariants(sizes, every):
    steps, energy = stored(every), system("pendulum").invariants["energy"]
    observer = feed(lambda: Invariants(ensemble(every)), sizes).result()["invariants"]["energy"]
    values = energy(STATES)
    change = (values - values[:, :1]) / np.abs(values[:, :1]).max()
    np.testing.assert_allclose(
        np.abs(observer.error), largest_between(np.abs(change), steps), rtol=1e-12
    )
    if every == 1:
        np.testing.assert_allclose(observer.error, change, rtol=1e-12)
    slopes = np.polyfit(0.3 * np.arange(STEPS + 1), change.T, 1)[0]
    np.testing.assert_allclose(observer.drift.slope, slopes, rtol=1e-9, atol=1e-15)


@given(sizes=parts, window=st.integers(1, 6))
def test_windows(sizes, window):
    ends = np.arange(window - 1, STEPS + 1, 7)
    sampler = feed(lambda: WindowSampler(ends, window, 3, 2), sizes)
    expected = np.stack([STATES[:3, end - window + 1 : end + 1] for end in ends])
    np.testing.assert_array_equal(sampler.windows, expected)


def test_diverged_states():
    states, reference = np.zeros((2, 4, 3, 2))
    states[0, 1], states[1, 2], reference[2, 1:] = [3.0, 4.0], np.nan, np.nan
    error = root_mean_square_error(states, reference)
    np.testing.assert_allclose(error, [np.sqrt(25 / 6), np.inf, np.inf, 0.0])
    divergence = Divergence(ensemble())
    divergence.observe(0, states)
    np.testing.assert_array_equal(divergence.failed, [-1, 2, -1, -1])


def test_what_is_unknown_passes_no_threshold():
    distance = np.array(
        [[0, 0.2, 0.05, 0.3], [0, 0.1, 0.1, 0.1], [0, 0, np.inf, np.inf], [0, np.nan, np.nan, 1]]
    )
    orbits, reference = ensemble(threshold=0.1), np.zeros((4, 4, 2))
    reference[1:3, 3] = np.nan
    orbits.plan = replace(orbits.plan, reference=reference)
    error = TrajectoryError(orbits)
    error.observe(0, np.stack([distance, np.zeros((4, 4))], axis=-1))
    np.testing.assert_array_equal(error.index, [1, -1, 2, 3])
