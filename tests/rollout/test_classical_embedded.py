"""Dormand and Prince's pair as machine code: tolerances, explicit time, batches, breakdowns."""

import numpy as np
import pytest

from tests.rollout.systems import BLOW_UP, DOMAIN, initial, system
from vpintegrator.dynamics import load_system, solve
from vpintegrator.errors import InputError
from vpintegrator.native import NotCompilable
from vpintegrator.rollout import applicable_methods, find_method
from vpintegrator.rollout.classical import (
    METHODS,
    embedded,
    explicit,
    integrate,
    machine,
    step_source,
)

NAME = "dormand-prince-853"


@pytest.mark.thorough
@pytest.mark.parametrize("which", ["rigid-body", "kepler", "forced", "forced-self-dependent"])
def test_the_error_is_of_the_size_of_the_tolerance(which):
    s, z = system(which), initial(which, 45)
    exact = solve(s, z, np.array([0.0, 2.5, 5.0]), rtol=2.3e-14, atol=1e-15)
    for name, least, most in ((NAME, 1e-11, 1e-7), (f"{NAME}-1e-5", 1e-7, 1e-3)):
        error = np.abs(integrate(s, name, z, 2.5, 2) - exact).max()
        assert least < error < most
    error = np.abs(integrate(s, f"{NAME}-1e-13", z, 0.1, 50)[:, ::25] - exact).max()
    assert error < 1e-10


def test_the_estimates_are_of_their_orders():
    # on y' = 1, 2 t, 3 t^2, ...: y(1) = 1 by the method, and estimates are zero up to their orders
    matrix = np.zeros((12, 12))
    for i, row in enumerate(explicit.DORMAND_PRINCE_8.stages, start=1):
        matrix[i, :i] = row
    nodes = matrix.sum(axis=1)
    for weights, order in zip(explicit.ESTIMATES, (5, 3), strict=True):
        moments = [np.dot(weights, nodes**k) for k in range(order + 1)]
        assert np.allclose(moments[:order], 0, atol=1e-14)
        assert abs(moments[order]) > 1e-6


def test_steps_are_as_many_as_scipy_needs():
    # a single trajectory, whose steps SciPy chooses by the same rule
    import scipy.integrate

    s, z = system("kepler"), initial("kepler", 1)
    solution = scipy.integrate.solve_ivp(
        lambda _, y: s.vector_field(y), (0, 20), z[0], "DOP853", rtol=1e-8, atol=1e-8
    )
    exact = solve(s, z, np.array([0.0, 20.0]), rtol=2.3e-14, atol=1e-15)[0, -1]
    ours = np.abs(integrate(s, f"{NAME}-1e-8", z, 20.0, 1)[0, -1] - exact).max()
    assert ours < 10 * np.abs(solution.y[:, -1] - exact).max()


def test_each_by_itself_whatever_the_batch_the_parts_and_a_snapshot(monkeypatch):
    s, method = system("forced"), METHODS[NAME]
    z = initial("forced", 83)
    whole = method.start(s, z, 0.7).advance(23)
    assert np.array_equal(method.start(s, z[12:14], 0.7).advance(23), whole[12:14])
    cursor = method.start(s, z, 0.7)
    parts = [cursor.advance(k) for k in (1, 12)]
    cursor = method.resume(s, cursor.snapshot(), 0.7)
    parts += [cursor.advance(k) for k in (0, 10)]
    assert np.array_equal(np.concatenate(parts, axis=1), whole)
    assert np.allclose(whole[..., -1], z[:, None, -1] + np.arange(1, 24) * 0.7, rtol=1e-15)
    monkeypatch.setattr(machine, "usable_threads", lambda: 3)
    monkeypatch.setattr(embedded, "_THREAD", 1)
    assert np.array_equal(method.start(s, z, 0.7).advance(23), whole)
    back = integrate(s, f"{NAME}-1e-13", whole[:, -1], -0.7, 23)[:, -1]
    assert np.allclose(back, z, rtol=0, atol=1e-5)


def test_long_formulas_are_divided(monkeypatch):
    monkeypatch.setattr(step_source, "_SHORT", 0)
    s = load_system("toda", n=12)
    z = s.sample_initial(37, np.random.default_rng(0))
    exact = solve(s, z, np.array([0.0, 1.0]), rtol=1e-12, atol=1e-12)
    assert np.allclose(integrate(s, NAME, z, 1.0, 1), exact, rtol=0, atol=1e-7)


def test_a_breakdown_is_nan_and_leaves_the_others_alone():
    s = load_system(BLOW_UP)
    z = np.array([[1.0, 1.0], [-1.0, 1.0], [0.1, 0.5], [2.0, 0.5], [-0.3, 0.2]])
    states = integrate(s, NAME, z, 0.1, 20)
    bad = np.isnan(states).any(axis=-1)
    assert (bad == np.isnan(states).all(axis=-1)).all()
    assert bad.sum(axis=1).tolist() == pytest.approx([11, 0, 0, 16, 0], abs=1)
    t = 0.1 * np.arange(21)
    for row in (1, 2, 4):
        assert np.allclose(states[row, :, 0], z[row, 0] / (1 - z[row, 0] * t), rtol=1e-8)
    cursor = METHODS[NAME].start(s, z, 0.1)
    cursor.advance(15)
    rest = METHODS[NAME].resume(s, cursor.snapshot(), 0.1).advance(5)
    assert np.array_equal(rest, states[:, 16:], equal_nan=True)
    states = integrate(load_system(DOMAIN), NAME, [[0.0, 0.55], [0.0, 100.0]], 0.1, 20)
    assert np.isnan(states[0, -1]).all()
    assert np.isfinite(states[1]).all()


def test_what_is_refused(monkeypatch):
    with pytest.raises(InputError, match="tolerance 2 must be at least 1e-15 and below 1"):
        find_method(f"{NAME}-2")
    s = system("pendulum")
    monkeypatch.setenv("CXX", "/nowhere/c++")
    with pytest.raises(InputError, match="machine code only, and the compiler /nowhere"):
        integrate(s, NAME, initial("pendulum"), 0.1, 1)
    assert "machine code only" in applicable_methods(s)[1][NAME]


def test_other_numbers_than_those_of_numpy_are_refused(monkeypatch):
    def wrong(*arguments):
        source = step_source.write_step_source(*arguments)
        source.weights[50] *= 1 + 1e-6  # b_1
        return source

    monkeypatch.setattr(embedded, "write_step_source", wrong)
    with pytest.raises(NotCompilable, match="other numbers than NumPy"):
        embedded._compiled(load_system("rigid-body", I1=2.7), initial("rigid-body"), 20.0)
