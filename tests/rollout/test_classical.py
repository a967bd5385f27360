"""The classical methods: order, structure, closed forms, rounding, divergence."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.rollout.systems import BLOW_UP, DOMAIN, MIXED, initial, system
from vpintegrator.dynamics import load_system, solve
from vpintegrator.errors import InputError
from vpintegrator.rollout import METHODS, find_method, integrate

SYSTEMS = ("rigid-body", "coupled-oscillators", "pendulum")


def applies(method, name):
    try:
        method.check(system(name))
    except InputError:
        return False
    return True


CASES = [(m, s) for m in METHODS for s in SYSTEMS if applies(METHODS[m], s)]
EXACT = {
    name: solve(system(name), initial(name), np.array([0.0, 1.0, 2.0]), rtol=2.3e-14, atol=1e-15)[
        :, -1
    ]
    for name in SYSTEMS
}


@pytest.mark.parametrize(("name", "which"), CASES)
def test_order_of_convergence(name, which):
    method = METHODS[name]
    coarse = {1: 256, 2: 64, 4: 32, 6: 16}[method.order]

    def error(steps):
        end = integrate(system(which), method, initial(which), 2.0 / steps, steps)[:, -1]
        # in the mean over states: a single one may pass through a zero of the leading term
        return np.sqrt(np.mean((end - EXACT[which]) ** 2))

    measured = math.log2(error(coarse) / error(2 * coarse))
    assert measured == pytest.approx(method.order, abs=0.1)


@pytest.mark.parametrize(("name", "which"), CASES)
def test_derivative_of_the_step_against_differences(name, which):
    method, s = METHODS[name], system(which)
    z, h, eps = initial(which), 0.3, 1e-4
    # fourth-order differences: error about eps^4 + rounding/eps
    columns = [
        (
            8 * (method.step(s, z + eps * e, h) - method.step(s, z - eps * e, h))
            - (method.step(s, z + 2 * eps * e, h) - method.step(s, z - 2 * eps * e, h))
        )
        / (12 * eps)
        for e in np.eye(s.dim)
    ]
    assert np.allclose(method.derivative(s, z, h), np.stack(columns, -1), atol=1e-10)


@pytest.mark.parametrize(("name", "which"), CASES)
def test_declared_structure_holds(name, which):
    method, s = METHODS[name], system(which)
    z, h = initial(which), 0.3
    derivative = method.derivative(s, z, h)
    if method.volume_preserving or (method.symplectic and s.is_hamiltonian):
        assert np.abs(np.linalg.det(derivative) - 1).max() < 1e-14
    if method.symplectic and s.is_hamiltonian:
        half = s.dim // 2
        omega = np.block(
            [[np.zeros((half, half)), np.eye(half)], [-np.eye(half), np.zeros((half, half))]]
        )
        assert np.abs(derivative.swapaxes(1, 2) @ omega @ derivative - omega).max() < 1e-14
    back = method.step(s, method.step(s, z, h), -h)
    if method.symmetric:
        assert np.abs(back - z).max() < 1e-14
    else:
        assert np.abs(back - z).max() > 1e-8  # no method hides a property it does not claim


@pytest.mark.parametrize("name", [m for m in METHODS if not METHODS[m].volume_preserving])
def test_volume_preservation_is_not_understated(name):
    s, z = system("rigid-body"), initial("rigid-body")
    assert np.abs(np.linalg.det(METHODS[name].derivative(s, z, 1.0)) - 1).max() > 1e-9


@pytest.mark.parametrize(
    "name", ["implicit-midpoint", "gauss-legendre-2", "gauss-legendre-4", "gauss-legendre-6"]
)
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


@given(h=st.floats(0.05, 1.0), seed=st.integers(0, 10**6))
def test_determinant_of_implicit_midpoint_on_the_rigid_body(h, seed):
    s, z = system("rigid-body"), initial("rigid-body", 3, seed)
    method = METHODS["implicit-midpoint"]
    jacobian = s.jacobian((z + method.step(s, z, h)) / 2)
    identity = np.eye(3)
    closed = np.linalg.det(identity + h / 2 * jacobian) / np.linalg.det(identity - h / 2 * jacobian)
    assert np.allclose(np.linalg.det(method.derivative(s, z, h)), closed, rtol=1e-13)


def test_implicit_midpoint_changes_volume_on_the_rigid_body():
    s, z = system("rigid-body"), initial("rigid-body")
    determinant = np.linalg.det(METHODS["implicit-midpoint"].derivative(s, z, 0.2))
    assert 1e-5 < np.abs(determinant - 1).max() < 1e-2


def modified_frequency(name, h):
    if name == "stoermer-verlet":
        return 2 * math.asin(h / 2) / h
    return 2 * math.atan(h / 2) / h


@pytest.mark.parametrize("name", ["stoermer-verlet", "implicit-midpoint"])
@pytest.mark.parametrize("h", [0.1, 0.5, 1.5])
def test_modified_frequency_of_the_harmonic_oscillator(name, h):
    steps = 200
    states = integrate(system("harmonic-oscillator"), name, [[1.0, 0.0]], h, steps)
    t = h * np.arange(steps + 1)
    assert np.allclose(states[0, :, 0], np.cos(modified_frequency(name, h) * t), atol=1e-12)


def test_modified_energy_of_stoermer_verlet():
    h = 0.7
    q, p = integrate(system("harmonic-oscillator"), "stoermer-verlet", [[1.0, 0.3]], h, 2000)[0].T
    energy = p**2 / 2 + (1 - h**2 / 4) * q**2 / 2
    assert np.abs(energy / energy[0] - 1).max() < 1e-14
    assert np.ptp(p**2 / 2 + q**2 / 2) > 0.01


def test_rk4_on_a_linear_system_is_its_polynomial():
    s, h = system("harmonic-oscillator"), 0.4
    generator = h * np.array([[0.0, 1.0], [-1.0, 0.0]])
    matrix = sum(np.linalg.matrix_power(generator, k) / math.factorial(k) for k in range(5))
    z = np.array([[0.3, -0.8]])
    assert np.allclose(METHODS["rk4"].step(s, z, h), z @ matrix.T, atol=1e-15)


@pytest.mark.parametrize("name", ["rk4", "implicit-midpoint", "gauss-legendre-4"])
def test_a_trajectory_does_not_depend_on_its_batch(name):
    s, z = system("rigid-body"), initial("rigid-body", 7)
    together = integrate(s, name, z, 0.5, 50)
    alone = np.concatenate([integrate(s, name, row[None], 0.5, 50) for row in z])
    assert np.abs(together - alone).max() < 1e-14


def test_step_takes_any_leading_dimensions():
    s, method = system("rigid-body"), METHODS["rk4"]
    z = initial("rigid-body", 6)
    assert np.array_equal(
        method.step(s, z.reshape(2, 3, 3), 0.1).reshape(6, 3), method.step(s, z, 0.1)
    )
    assert method.step(s, z[0], 0.1).shape == (3,)


def test_divergence_is_nan_from_there_on_and_leaves_the_others_alone():
    s = load_system(BLOW_UP)
    z = [[1.0, 1.0], [-1.0, 1.0]]
    states = integrate(s, "explicit-euler", z, 0.2, 100)
    bad = np.isnan(states).all(axis=-1)
    assert not np.isinf(states).any()
    assert bad[0].any()
    assert (np.diff(bad[0].astype(int)) >= 0).all()  # once NaN, always NaN
    assert not np.isnan(states[0]).any(axis=-1)[~bad[0]].any()
    assert np.array_equal(states[1], integrate(s, "explicit-euler", z[1:], 0.2, 100)[0])
    assert np.isnan(integrate(s, "explicit-euler", z[:1], 0.2, 100)[0, -1]).all()


def test_newton_without_a_solution_is_nan():
    # y = z + h/2 y^2 has no real solution for h z > 1/2
    states = integrate(load_system(BLOW_UP), "implicit-midpoint", [[6.0, 1.0], [1.0, 1.0]], 0.1, 3)
    assert np.isnan(states[0, 1:]).all()
    assert np.isfinite(states[1]).all()


def test_newton_finds_the_solution_that_belongs_to_the_state():
    # x = -10 + x^2/4 has the roots 2 (1 - sqrt 11), near the state, and 2 (1 + sqrt 11)
    states = integrate(load_system(BLOW_UP), "implicit-midpoint", [[-10.0, 1.0]], 0.5, 1)
    middle = (states[0, 0, 0] + states[0, 1, 0]) / 2
    assert middle == pytest.approx(2 * (1 - math.sqrt(11)), rel=1e-14)


@pytest.mark.parametrize("name", ["rk4", "implicit-midpoint"])
def test_leaving_the_domain_of_the_equations_is_nan(name):
    states = integrate(load_system(DOMAIN), name, [[0.0, 0.55], [0.0, 100.0]], 0.1, 20)
    assert np.isnan(states[0, -1]).all()
    assert np.isfinite(states[1]).all()


def test_singular_newton_matrix_is_nan_for_that_trajectory_alone():
    # 1 - h/2 f' = 0 exactly at the first guess of the first state
    s = load_system('state = ["x"]\n[vector_field]\nx = "x**2 - 1"')
    states = integrate(s, "implicit-midpoint", [[1.0], [0.0]], 1.0, 2)
    assert np.isfinite(states[1]).all()


def test_no_steps_and_progress():
    s, z = system("rigid-body"), initial("rigid-body")
    assert np.array_equal(integrate(s, "rk4", z, 0.1, 0)[:, 0], z)
    seen = []
    integrate(s, "rk4", z, 0.1, 250, progress=lambda *call: seen.append(call))
    assert seen[-1] == ("rk4", 250, 250)
    assert 100 <= len(seen) <= 130


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("implicit-midpiont", "did you mean 'implicit-midpoint'"),
        ("xyz", "there are explicit-euler"),
    ],
)
def test_unknown_method(name, message):
    with pytest.raises(InputError, match=message):
        find_method(name)


def test_stoermer_verlet_says_why_it_does_not_apply():
    with pytest.raises(InputError, match="given by a vector field"):
        integrate(system("rigid-body"), "stoermer-verlet", initial("rigid-body"), 0.1, 1)
    with pytest.raises(InputError, match="mixes positions and momenta"):
        integrate(load_system(MIXED), "stoermer-verlet", [[0.1, 0.2]], 0.1, 1)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"initial": [[1.0, 2.0]]}, r"\(trajectory, 3\)"),
        ({"initial": [1.0, 2.0, 3.0]}, r"\(trajectory, 3\)"),
        ({"initial": np.empty((0, 3))}, r"\(trajectory, 3\)"),
        ({"initial": [[1.0, 2.0, math.nan]]}, "not finite"),
        ({"initial": "abc"}, "not an array"),
        ({"step": 0.0}, "step = 0"),
        ({"step": math.inf}, "step = inf"),
        ({"steps": -1}, "steps = -1"),
        ({"steps": 2.5}, "steps = 2.5"),
    ],
)
def test_wrong_arguments(change, message):
    arguments = {"initial": initial("rigid-body"), "step": 0.1, "steps": 3} | change
    with pytest.raises(InputError, match=message):
        integrate(system("rigid-body"), "rk4", **arguments)
