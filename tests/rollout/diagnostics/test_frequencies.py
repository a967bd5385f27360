"""Frequency analysis against sums of cosines, and the pendulum's elliptic integral."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import ellipk

import vpintegrator as vp
from vpintegrator.errors import InputError
from vpintegrator.rollout import frequencies


@given(seed=st.integers(0, 10**6), count=st.integers(1, 4))
def test_sums_of_cosines(seed, count):
    random = np.random.default_rng(seed)
    step, size = 0.1, 1500
    times = step * np.arange(size)
    apart = 5 * 2 * np.pi / times[-1]
    omega = np.cumsum(random.uniform(apart, 4 / count, count))
    amplitude = np.sort(10.0 ** random.uniform(-3, 0, count))[::-1]
    phase = random.uniform(-np.pi, np.pi, count)
    random.shuffle(omega)
    states = 0.3 + (amplitude * np.cos(np.outer(times, omega) + phase)).sum(axis=1)
    found = frequencies(states[None, :, None], step, count)
    np.testing.assert_allclose(found.mean, 0.3, atol=1e-11)
    np.testing.assert_allclose(found.amplitude[0, 0], amplitude, atol=1e-10)
    np.testing.assert_allclose(found.frequency[0, 0], omega, atol=1e-10)
    np.testing.assert_allclose(np.cos(found.phase[0, 0] - phase), 1.0, atol=1e-10)


@pytest.mark.parametrize("angle", [0.5, 1.5, 2.5])
def test_the_frequency_of_the_pendulum(angle):
    pendulum = vp.load_system("pendulum", g=1.0)
    states = vp.solve(pendulum, np.array([[angle, 0.0]]), 0.1 * np.arange(4000), rtol=2.3e-14)
    found = frequencies(states, 0.1, 6)
    expected = math.pi / (2 * ellipk(math.sin(angle / 2) ** 2))
    assert found.frequency[0, :, 0] == pytest.approx(expected, abs=1e-11)
    harmonics = np.sort(found.frequency[0, 0]) / expected
    np.testing.assert_allclose(harmonics[:3], [1, 3, 5], atol=1e-7)


def test_constant_components_have_no_lines():
    found = frequencies(np.full((1, 100, 1), 2.0), 0.1, 2)
    assert found.mean == 2.0
    assert np.abs(found.amplitude).max() < 1e-14


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"trajectories": np.ones((3, 4))}, "trajectory, time, dim"),
        ({"trajectories": np.ones((1, 20, 1)), "count": 2}, "need 32 times or more, not 20"),
        ({"step": math.inf}, "step = inf must be a finite number"),
    ],
)
def test_wrong_arguments(change, message):
    arguments = {"trajectories": np.ones((1, 50, 1)), "step": 0.1, "count": 1} | change
    with pytest.raises(InputError, match=message):
        frequencies(**arguments)
