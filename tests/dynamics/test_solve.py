"""Accurate solutions: against closed forms, and the promise for every single trajectory."""

import numpy as np
import pytest
import scipy.special

from vpintegrator.dynamics import load_system, solve
from vpintegrator.errors import InputError
from vpintegrator.names import SOLVERS

BODY = load_system("rigid-body")
TIMES = 0.2 * np.arange(51)


def rigid_body_exactly(a, times):
    """The orbit from (sqrt(a), 0, sqrt(1-a)) in Jacobi's elliptic functions.

    With I = (2, 1, 2/3): z1' = z2 z3/2, z2' = -z1 z3, z3' = z1 z2/2. For z1 = A cn, z2 = -B sn,
    z3 = C dn (argument w t, parameter m): A w = B C/2, B w = A C, m C w = A B/2.
    """
    A, C, w = np.sqrt(a), np.sqrt(1 - a), np.sqrt((1 - a) / 2)
    B = A * C / w
    sn, cn, dn, _ = scipy.special.ellipj(w * times, A * B / (2 * C * w))
    return np.stack([A * cn, -B * sn, C * dn], -1)


@pytest.mark.parametrize("modulus", [0.05, 0.3, 0.45])
def test_rigid_body_against_elliptic_functions(modulus):
    exact = rigid_body_exactly(modulus, TIMES)
    found = solve(BODY, exact[:1], TIMES)
    np.testing.assert_allclose(found[0], exact, atol=1e-12)


@pytest.mark.parametrize("method", SOLVERS)
def test_every_method_solves_the_harmonic_oscillator(method):
    system = load_system("harmonic-oscillator", k=4.0)
    tolerance = 1e-10 if method in ("DOP853", "RK45", "LSODA") else 1e-7
    found = solve(system, np.array([[1.0, 0.0]]), TIMES, method, tolerance, tolerance)
    exact = np.stack([np.cos(2 * TIMES), -2 * np.sin(2 * TIMES)], -1)
    np.testing.assert_allclose(found[0], exact, atol=3e3 * tolerance)


def test_one_fast_trajectory_among_many_still_meets_the_tolerance():
    """A root mean square over the stack would let the fast one be sqrt(N) worse."""
    slow = 1e-3 * np.ones((1000, 3))
    fast = 30 * rigid_body_exactly(0.3, np.zeros(1))
    times = np.linspace(0, 2, 5)
    exact = 30 * rigid_body_exactly(0.3, 30 * times)
    alone = np.abs(solve(BODY, fast, times, rtol=1e-9, atol=1e-9)[0] - exact).max()
    together = solve(BODY, np.concatenate([slow, fast]), times, rtol=1e-9, atol=1e-9)[-1]
    assert np.abs(together - exact).max() <= max(2 * alone, 1e-7)
    assert np.abs(together - exact).max() < 1e-6


def test_a_solution_that_ends_is_reported():
    blow_up = load_system('state = ["x"]\n[vector_field]\nx = "x**2"\n')
    with pytest.raises(InputError, match=r"from \(2\) cannot be continued beyond t = 0.5"):
        solve(blow_up, np.array([[0.1], [2.0]]), TIMES)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"initial": np.zeros((2, 4))}, r"shape \(trajectory, 3\)"),
        ({"initial": np.full((2, 3), np.nan)}, "are finite"),
        ({"initial": np.ones((2, 3)) * 1j}, "array of real numbers"),
        ({"times": np.array([0.0, 1.0, 1.0])}, "must be finite and increase"),
        ({"times": [0, np.nan]}, "must be finite and increase"),
        ({"method": "DOP583"}, "did you mean 'DOP853'"),
        ({"rtol": 1e-15}, "limit of double precision"),
        ({"atol": np.inf}, "limit of double precision"),
    ],
)
def test_mistakes(arguments, message):
    values = {"initial": np.ones((2, 3)), "times": TIMES, **arguments}
    with pytest.raises(InputError, match=message):
        solve(BODY, **values)
