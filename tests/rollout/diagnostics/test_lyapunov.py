"""Lyapunov exponents in closed form and in the literature."""

import math

import numpy as np
import pytest

from tests.rollout.diagnostics.linear_models import linear_model, rotation
from tests.rollout.systems import as_map, initial, system
from vpintegrator.dynamics import load_system
from vpintegrator.rollout.diagnostics import lyapunov_exponent

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
    found = lyapunov_exponent(flow, np.array([[1.0, 0.0], [0.5, 1e-8]]), 1000)
    expected = math.log((1 + h * rate / 2) / (1 - h * rate / 2)) / h
    assert np.allclose(found.exponent, expected, rtol=1e-9)
    assert found.time == pytest.approx(0.8 * 1000 * h, rel=0.02)
    assert (found.uncertainty < 0.02).all()


@pytest.mark.parametrize("new", [1, 2])
def test_model_of_windows_of_a_saddle(new):
    h, rate = 0.2, 1 / 3
    step = np.diag([math.exp(-h * rate), math.exp(h * rate)])
    matrix = np.zeros((4, 4))
    matrix[:2, 2:] = np.linalg.matrix_power(step, new - 1) if new == 1 else step
    matrix[2:, 2:] = np.linalg.matrix_power(step, new)
    flow = as_map(linear_model(matrix, 2, h, new), load_system(SADDLE))
    found = lyapunov_exponent(flow, np.array([[1.0, 1.0]]), 1000)
    assert found.exponent[0] == pytest.approx(rate, rel=1e-9)


def test_regular_motion_has_none():
    flow = as_map("stoermer-verlet", system("pendulum"), 0.2)
    found = lyapunov_exponent(flow, initial("pendulum", 6), 5000)
    assert (np.abs(found.exponent) < 2.5 * found.uncertainty).all()
    assert (found.uncertainty < 0.01).all()
    flow = as_map(linear_model(rotation(0.3), 2, 0.3))
    assert abs(lyapunov_exponent(flow, np.ones((1, 2)), 500).exponent[0]) < 1e-4


def test_lorenz():
    # 0.9056 (Sprott, Chaos and Time-Series Analysis, 2003, table of the Lorenz attractor)
    s = load_system(LORENZ)
    start = np.random.default_rng(0).uniform(-10, 10, (24, 3)) + np.array([0, 0, 25])
    flow = as_map("rk4", s, 0.01)
    found = lyapunov_exponent(flow, next(flow.advance(start[:, None], 500))[:, -1], 12_000)
    score = (found.exponent - 0.9056) / found.uncertainty
    assert np.sqrt(np.mean(score**2)) < 1.6
    mean = found.exponent.mean()
    assert mean == pytest.approx(0.9056, abs=0.012)


@pytest.mark.thorough
def test_henon_heiles():
    # chaotic at E = 1/8 from this point: 0.044 (Benettin, Galgani, Strelcyn, Phys. Rev. A 14 (1976)
    # 2338-2345), regular at E = 1/24
    s = load_system(HENON_HEILES)
    q = np.array([[0.0, -0.25], [0.0, 0.1]])
    energy = np.array([1 / 8, 1 / 24])
    potential = q[:, 1] ** 2 / 2 - q[:, 1] ** 3 / 3
    p = np.stack([np.sqrt(2 * (energy - potential)), np.zeros(2)], axis=1)
    flow = as_map("stoermer-verlet", s, 0.1)
    found = lyapunov_exponent(flow, np.concatenate([q, p], axis=1), 60_000)
    assert 0.03 < found.exponent[0] < 0.06
    assert found.exponent[0] > 5 * found.uncertainty[0]
    assert abs(found.exponent[1]) < 2.5 * found.uncertainty[1]
    assert found.uncertainty[1] < 5e-4
