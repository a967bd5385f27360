"""Gauss-Legendre methods: quadratic invariants, closed forms, Newton's method at its limits."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.rollout.systems import BLOW_UP, initial, system
from vpintegrator.compiled import integrate
from vpintegrator.dynamics import load_system
from vpintegrator.maps import METHODS

GAUSS = ("implicit-midpoint", "gauss-legendre-2", "gauss-legendre-4", "gauss-legendre-6")


@pytest.mark.parametrize("name", GAUSS)
def test_quadratic_invariants_are_kept_to_rounding(name):
    s, z = system("rigid-body"), initial("rigid-body", 8)
    states = integrate(s, name, z, 0.2, 3000)
    for invariant in s.invariants.values():
        values = invariant(states)
        assert np.abs(values / values[:, :1] - 1).max() < 5e-15


def test_implicit_midpoint_is_the_first_gauss_method():
    s, z = system("pendulum"), initial("pendulum")
    a = integrate(s, "implicit-midpoint", z, 0.1, 20)
    assert np.array_equal(a, integrate(s, "gauss-legendre-2", z, 0.1, 20))


@given(
    h=st.floats(0.01, 1.5),
    seed=st.integers(0, 10**6),
    which=st.sampled_from(["rigid-body", "coupled-oscillators", "abc-flow", "self-dependent"]),
)
def test_the_midpoint_equation_is_solved_to_rounding(h, seed, which):
    s, z = system(which), initial(which, 3, seed)
    method = METHODS["implicit-midpoint"]
    new = method.step(s, z, h)
    solved = np.isfinite(new).all(axis=1)
    assert h > 0.5 or solved.all()
    z, new = z[solved], new[solved]
    assert np.abs(new - z - h * s.vector_field((z + new) / 2)).max(initial=0) < 2e-15


@given(h=st.floats(0.05, 1.0), seed=st.integers(0, 10**6))
def test_determinant_of_implicit_midpoint_on_the_rigid_body(h, seed):
    s, z = system("rigid-body"), initial("rigid-body", 3, seed)
    method = METHODS["implicit-midpoint"]
    jacobian = s.jacobian((z + method.step(s, z, h)) / 2)
    identity = np.eye(3)
    closed = np.linalg.det(identity + h / 2 * jacobian) / np.linalg.det(identity - h / 2 * jacobian)
    assert np.allclose(np.linalg.det(method.derivative(s, z, h)), closed, rtol=1e-13)


def test_a_stiff_linear_system_takes_any_step():
    s = load_system('state = ["x", "y"]\n[vector_field]\nx = "-1e6*x + y"\ny = "-y"')
    states = integrate(s, "gauss-legendre-4", [[1.0, 1.0]], 1.0, 5)
    # the stability function (1 + z/2 + z^2/12)/(1 - z/2 + z^2/12) at z = -1
    assert states[0, :, 1] == pytest.approx((7 / 19) ** np.arange(6), rel=1e-12)


@pytest.mark.parametrize(
    ("name", "which", "step"),
    [("gauss-legendre-4", "forced", 0.9), ("gauss-legendre-6", "kepler", 0.6)],
)
def test_large_steps_renew_the_newton_matrix_of_some_trajectories(name, which, step):
    s, z = system(which), initial(which, 83)
    assert np.isfinite(METHODS[name].step(s, z, step)).all()


def test_newton_without_a_solution_is_nan():
    # y = z + h/2 y^2 has no real solution for h z > 1/2
    states = integrate(load_system(BLOW_UP), "implicit-midpoint", [[6.0, 1.0], [1.0, 1.0]], 0.1, 3)
    assert np.isnan(states[0, 1:]).all()
    assert np.isfinite(states[1]).all()


@pytest.mark.parametrize("copies", [1, 2, 3, 4])
def test_singular_newton_matrix_is_nan_for_that_trajectory_alone(copies):
    # 1 - h/2 f' = 0 exactly at the first guess of the first state
    names = [f"x{i}" for i in range(copies)]
    field = "\n".join(f'{name} = "{name}**2 - 1"' for name in names)
    s = load_system(f"state = {names}\n[vector_field]\n{field}")
    states = integrate(s, "implicit-midpoint", [[1.0] * copies, [0.0] * copies], 1.0, 2)
    assert np.isfinite(states[1]).all()
    alone = integrate(s, "implicit-midpoint", [[0.0] * copies], 1.0, 2)
    assert np.array_equal(states[1], alone[0])
