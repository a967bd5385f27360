"""Errors, invariants and volume against values known in closed form."""

import math

import numpy as np
import pytest

from tests.rollout.systems import BLOW_UP, initial, system
from vpintegrator.dynamics import load_system
from vpintegrator.rollout import (
    METHODS,
    failure_index,
    integrate,
    invariant_errors,
    root_mean_square_error,
    solve_reference,
    step_log_determinant,
    trajectory_error,
)


def test_errors_of_a_trajectory():
    reference = np.zeros((2, 3, 2))
    states = reference.copy()
    states[0, 1] = [3.0, 4.0]
    states[1, 2] = np.nan
    assert np.array_equal(trajectory_error(states, reference)[0], [0, 5, 0])
    assert np.isnan(trajectory_error(states, reference)[1, 2])
    error = root_mean_square_error(states, reference)
    assert error[0] == pytest.approx(math.sqrt(25 / 6))
    assert error[1] == math.inf
    assert np.array_equal(failure_index(states), [-1, 2])


def test_invariants_relative_and_absolute():
    s = load_system(
        'state = ["x", "y"]\n[vector_field]\nx = "y"\ny = "-x"\n'
        '[invariants]\nenergy = "x**2 + y**2"\nshifted = "x**2 + y**2 - 1"'
    )
    states = np.array([[[1.0, 0.0], [2.0, 0.0]], [[3.0, 0.0], [0.0, 1.0]]])
    errors = invariant_errors(s, states)
    assert np.allclose(errors["energy"].error, [[0, 3], [0, -8 / 9]])
    assert errors["energy"].kind == "relative"
    # the first trajectory starts where the shifted one vanishes
    assert np.allclose(errors["shifted"].error, [[0, 3], [0, -1]])
    assert errors["shifted"].kind == "mixed"
    assert np.array_equal(errors["shifted"].relative, [False, True])
    assert np.allclose(errors["shifted"].largest, [3, 1])
    assert invariant_errors(s, states[:1])["shifted"].kind == "absolute"


def test_energy_of_the_midpoint_rule_on_the_oscillator():
    states = integrate(system("harmonic-oscillator"), "implicit-midpoint", [[1.0, 0.0]], 0.3, 500)
    error = invariant_errors(system("harmonic-oscillator"), states)["energy"]
    assert error.largest.max() < 1e-15


def test_log_determinant_of_linear_maps():
    s, z, h = system("harmonic-oscillator"), initial("harmonic-oscillator", 4), 0.5

    def log_determinant(name):
        return step_log_determinant(METHODS[name], s, z, h)

    assert np.allclose(log_determinant("explicit-euler"), math.log1p(h**2), atol=1e-15)
    # det R(hA) with eigenvalues +-ih
    rk4 = abs(sum((1j * h) ** k / math.factorial(k) for k in range(5))) ** 2
    assert np.allclose(log_determinant("rk4"), math.log(rk4), atol=1e-15)
    for name in ("implicit-midpoint", "gauss-legendre-6", "stoermer-verlet"):
        assert np.abs(log_determinant(name)).max() < 1e-15


def test_log_determinant_where_there_is_none():
    s = load_system(BLOW_UP)
    states = np.array([[[1.0, 1.0], [np.nan, np.nan]], [[100.0, 1.0], [0.0, 0.0]]])
    values = step_log_determinant(METHODS["implicit-midpoint"], s, states, 0.1)
    assert values.shape == (2, 2)
    assert np.array_equal(np.isnan(values), [[False, True], [True, False]])


def test_reference_and_its_certificate():
    s, z = system("harmonic-oscillator"), initial("harmonic-oscillator", 4)
    times = np.arange(0, 100.1, 0.5)
    seen = []
    reference = solve_reference(s, z, times, progress=lambda *call: seen.append(call))
    q, p = z[:, :1], z[:, 1:]
    exact = np.stack(
        [q * np.cos(times) + p * np.sin(times), p * np.cos(times) - q * np.sin(times)], -1
    )
    error = np.abs(reference.states - exact).max(axis=(1, 2))
    assert error.max() < 1e-11
    assert (error < 2 * reference.error + 1e-14).all()
    assert reference.error.max() < 1e-9
    assert seen[-1][0] == "reference"
    assert seen[-1][1] == seen[-1][2]
