"""Gauss-Legendre methods: quadratic invariants, closed forms, Newton's method at its limits."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.rollout.systems import initial, system
from vpintegrator.compiled import integrate
from vpintegrator.dynamics import load_system
from vpintegrator.maps import METHODS

GAUSS = ("implicit-midpoint", "gauss-legendre-2", "gauss-legendre-4", "gauss-legendre-6")


@pytest.mark.parametrize("name", GAUSS)
@pytest.mark.parametrize(("compiled", "steps"), [(False, 3000), (True, 100_000)])
def test_quadratic_invariants_are_kept_to_rounding(name, compiled, steps):
    s, z = system("rigid-body"), initial("rigid-body", 32)
    states = integrate(s, name, z, 0.2, steps, compiled=compiled)
    for invariant in s.invariants.values():
        drift = invariant(states[:, ::100]) / invariant(z)[:, None] - 1
        assert np.abs(drift).max() < (3e-14 if compiled else 5e-15)
        assert abs(drift[:, -1].mean()) < 4e-15


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
