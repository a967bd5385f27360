"""Feng and Shang's splitting: volume of any divergence-free field, antiderivatives."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.rollout.systems import BLOW_UP, MIXED, initial, system
from vpintegrator.dynamics import load_system
from vpintegrator.errors import InputError
from vpintegrator.rollout.classical import METHODS

FENG_SHANG = METHODS["feng-shang"]


def field(*rates):
    names = ["x", "y", "z", "w"][: len(rates)]
    lines = "\n".join(f'{name} = "{rate}"' for name, rate in zip(names, rates, strict=True))
    return load_system(f"state = {names}\n[vector_field]\n{lines}")


@given(h=st.floats(-0.8, 0.8), seed=st.integers(0, 10**6))
def test_volume_is_exact_at_any_step(h, seed):
    s, z = system("self-dependent"), initial("self-dependent", 4, seed)
    assert np.abs(np.linalg.det(FENG_SHANG.derivative(s, z, h)) - 1).max() < 1e-13


@pytest.mark.parametrize(
    "rates",
    [
        ("x/(1 + y**2)", "sin(z)", "-z/(1 + y**2)"),  # an arc tangent
        ("sin(x)*exp(-y**2)", "z", "-z*cos(x)*exp(-y**2)"),  # an error function
        ("sin(x)*sigmoid(y)", "z/2", "-z*cos(x)*sigmoid(y)"),
        ("x*sqrt(1 + y**2)", "0", "-z*sqrt(1 + y**2)"),
        ("x/y", "z/10", "-z/y"),  # a logarithm, on either side of 0
        ("x*y", "-y**2 + w", "z*w + y*z", "-w**2/2 + x"),
        ("x*y*z*w", "z", "w", "-y*z*w**2/2"),
    ],
)
def test_antiderivatives(rates):
    s = field(*rates)
    z = np.random.default_rng(0).uniform(0.3, 1.2, (20, s.dim))
    z[:, 1::2] *= -1
    FENG_SHANG.check(s)
    h = 0.05
    assert np.abs(np.linalg.det(FENG_SHANG.derivative(s, z, h)) - 1).max() < 1e-13
    back = FENG_SHANG.step(s, FENG_SHANG.step(s, z, h), -h)
    assert np.abs(back - z).max() < 1e-14
    # consistent: the planes together are the field
    small = 1e-5
    slope = (FENG_SHANG.step(s, z, small) - FENG_SHANG.step(s, z, -small)) / (2 * small)
    assert np.allclose(slope, s.vector_field(z), atol=1e-8)


def test_in_the_plane_it_is_implicit_midpoint():
    s, z = system("pendulum"), initial("pendulum")
    midpoint = METHODS["implicit-midpoint"].step(s, z, 0.4)
    assert np.allclose(FENG_SHANG.step(s, z, 0.4), midpoint, rtol=0, atol=1e-15)


def test_on_a_separable_hamiltonian_it_is_strang_splitting():
    s, z = system("coupled-oscillators"), initial("coupled-oscillators")
    strang = METHODS["strang-splitting"].step(s, z, 0.4)
    assert np.allclose(FENG_SHANG.step(s, z, 0.4), strang, rtol=0, atol=1e-15)


def test_it_takes_a_hamiltonian_that_is_not_separable():
    s = load_system(MIXED)
    z = np.random.default_rng(0).normal(size=(5, 2)) / 2
    assert np.abs(np.linalg.det(FENG_SHANG.derivative(s, z, 0.3)) - 1).max() < 1e-14


def test_an_equation_without_a_solution_is_nan_for_that_trajectory_alone():
    # m = x + h/4 m^2 has no real solution for h x > 1, as the plane of x and y comes with h/2
    s = field("x**2", "-2*x*y", "1")
    z = np.array([[2.5, 1.0, 1.0], [0.1, 0.2, 0.3]])
    result = FENG_SHANG.step(s, z, 0.5)
    assert np.isnan(result[0]).any()
    assert np.array_equal(result[1:], FENG_SHANG.step(s, z[1:], 0.5))


@pytest.mark.parametrize(
    ("s", "message"),
    [
        (load_system(BLOW_UP), "needs a divergence-free field"),
        (field("1"), "two components or more"),
        (
            field("x*exp(sin(y))", "0", "-z*exp(sin(y))"),
            "no antiderivative over y in closed form for the field in the plane of x and y",
        ),
    ],
)
def test_why_it_does_not_apply(s, message):
    for _ in range(2):
        with pytest.raises(InputError, match=message + r".*; take another method, such as"):
            FENG_SHANG.check(s)


@pytest.mark.parametrize("name", ["tokamak", "point-vortices", "three-body", "heavy-top"])
def test_systems_that_need_no_sympy(name, monkeypatch):
    monkeypatch.setattr("subprocess.run", None)
    s = load_system(name)
    FENG_SHANG.check(s)
    z = s.sample_initial(2, np.random.default_rng(0))
    h = s.defaults["step"] / 10
    assert np.abs(np.linalg.det(FENG_SHANG.derivative(s, z, h)) - 1).max() < 1e-9


def test_an_integral_without_end_is_given_up(monkeypatch):
    monkeypatch.setattr("vpintegrator.rollout.classical.feng_shang._SECONDS", 0.1)
    with pytest.raises(InputError, match=r"does not apply .* within 0.1 s; take another method"):
        FENG_SHANG.check(load_system("double-pendulum"))
