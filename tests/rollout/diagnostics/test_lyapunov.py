"""Lyapunov exponents in closed form and in the literature."""

import math

import numpy as np
import pytest

from tests.rollout.diagnostics.linear_models import linear_model, rotation
from tests.rollout.systems import as_map, initial, system
from vpintegrator.dynamics import load_system
from vpintegrator.errors import InputError
from vpintegrator.rollout.diagnostics import lyapunov_spectrum, tangent_propagation

SADDLE = 'state = ["x", "y"]\ndivergence_free = true\n[vector_field]\nx = "-x/3"\ny = "y/3"\n'

LORENZ = """
state = ["x", "y", "z"]
[vector_field]
x = "10*(y - x)"
y = "x*(28 - z) - y"
z = "x*y - 8*z/3"
"""

HENON_HEILES = """
state = { q = 2, p = 2 }
hamiltonian = "(p[0]**2 + p[1]**2 + q[0]**2 + q[1]**2)/2 + q[0]**2*q[1] - q[1]**3/3"
"""


def test_linear_saddle():
    # the vector along y is the only one that grows, and the first tangent vector has a part in it
    h, rate = 0.2, 1 / 3
    flow = as_map("implicit-midpoint", load_system(SADDLE), h)
    found = lyapunov_spectrum(flow, np.array([[1.0, 0.0], [0.5, 1e-8]]), 1000)
    expected = math.log((1 + h * rate / 2) / (1 - h * rate / 2)) / h
    assert np.allclose(found.exponent, expected, rtol=1e-9)
    assert found.time == pytest.approx(0.8 * 1000 * h, rel=0.02)
    assert (found.uncertainty < 0.02).all()


def test_regular_motion_has_none():
    flow = as_map("stoermer-verlet", system("pendulum"), 0.2)
    found = lyapunov_spectrum(flow, initial("pendulum", 6), 5000)
    assert (np.abs(found.exponent) < 2.5 * found.uncertainty).all()
    assert (found.uncertainty < 0.01).all()
    flow = as_map(linear_model(rotation(0.3), 2, 0.3))
    assert abs(lyapunov_spectrum(flow, np.ones((1, 2)), 500).exponent[0, 0]) < 1e-4


def test_spectrum_of_lorenz():
    flow = as_map("rk4", load_system(LORENZ), 0.01)
    start = next(flow.advance(np.array([[[1.0, 1.0, 20.0]]]), 500))[:, -1]
    found = lyapunov_spectrum(flow, start, 20_000, count=3)
    largest, middle, smallest = found.exponent[0]
    assert largest == pytest.approx(0.9056, abs=3 * found.uncertainty[0, 0])
    assert abs(middle) < 0.02
    # the sum is the mean contraction of the method, which is almost the same everywhere
    volume = tangent_propagation(flow, start, 20_000).log_determinant[0]
    contraction = (volume[20_000] - volume[4000]) / (16_000 * 0.01)
    assert largest + middle + smallest == pytest.approx(contraction, abs=1e-5)


def test_spectrum_of_a_map_of_windows_is_that_of_its_matrix():
    matrix = np.random.default_rng(1).normal(size=(6, 6)) / 2
    matrix[:3] = np.eye(6)[3:]  # the next window keeps its last state
    flow = as_map(linear_model(matrix, 3, 0.5, 1))
    found = lyapunov_spectrum(flow, np.ones((1, 2, 3)), 3000, count=6)
    expected = np.log(np.abs(np.linalg.eigvals(matrix))) / 0.5
    np.testing.assert_allclose(found.exponent[0], np.sort(expected)[::-1], atol=3e-3)


def test_exponents_of_a_symplectic_map_come_in_pairs():
    flow = as_map("stoermer-verlet", load_system(HENON_HEILES), 0.1)
    found = lyapunov_spectrum(flow, np.array([[0.0, -0.25, 0.42, 0.0]]), 3000, count=4)
    assert np.abs(found.exponent.sum()) < 1e-7
    assert found.exponent[0, 0] == pytest.approx(-found.exponent[0, 3], abs=1e-2)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"count": 4}, "has 3 exponents"),
        ({"states": np.ones((2, 2))}, r"neither \(n, 3\)"),
        ({"method": "rk45"}, "adaptive step size"),
    ],
)
def test_wrong_arguments(change, message):
    arguments = {"method": "rk4", "states": np.ones((1, 3)), "steps": 5, "count": 1} | change
    flow = as_map(arguments.pop("method"), load_system(LORENZ), 0.01)
    with pytest.raises(InputError, match=message):
        lyapunov_spectrum(flow, **arguments)
