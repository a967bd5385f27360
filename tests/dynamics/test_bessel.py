"""Bessel functions in system files, against mpmath."""

import mpmath
import numpy as np
import pytest
import scipy.special
import torch
from hypothesis import given
from hypothesis import strategies as st

import vpintegrator as vp
from vpintegrator.dynamics.expressions import FUNCTIONS, bessel
from vpintegrator.dynamics.typeset import equations_latex, equations_unicode
from vpintegrator.errors import InputError

ARRAYS = {name: FUNCTIONS[name].numpy for name in bessel.ORDERS}
TENSORS = {name: FUNCTIONS[name].torch(torch) for name in bessel.ORDERS}
POINTS = [0.0, 1e-9, 0.3, 1.0, 2.0, 2.5, 8.9, 9.1, 30.0, -0.7, -3.0, -20.0]


def expected(name, x, derivative=0):
    order = bessel.ORDERS[name]
    return float(mpmath.besselj(order, x, derivative=derivative))


def oscillator(function):
    return vp.load_system(f'state = ["q", "p"]\nhamiltonian = "p**2/2 - {function}"\n')


WAVE = oscillator("j0(2*q)")


@pytest.mark.parametrize("name", bessel.ORDERS)
def test_values_of_arrays_and_tensors(name):
    values = [expected(name, x) for x in POINTS]
    assert ARRAYS[name](np.array(POINTS)) == pytest.approx(values, rel=1e-13, abs=1e-15)
    found = TENSORS[name](torch.tensor(POINTS, dtype=torch.float64))
    assert found.numpy() == pytest.approx(values, rel=1e-13, abs=1e-15)


@pytest.mark.parametrize("name", bessel.ORDERS)
def test_derivatives_in_formulas(name):
    system = vp.load_system(f'state = ["x"]\n[vector_field]\nx = "{name}(x)"\n')
    points = POINTS if name != "j9" else POINTS[2:]
    states = np.array(points)[:, None]
    slopes = [expected(name, x, 1) for x in points]
    assert system.jacobian(states).ravel() == pytest.approx(slopes, rel=1e-11, abs=1e-14)
    by_step = ARRAYS[name](np.array(points) + 1e-30j).imag / 1e-30
    assert by_step == pytest.approx(slopes, rel=1e-11, abs=1e-14)


@pytest.mark.parametrize("name", ["j0", "j1", "j2", "j7"])
def test_gradients_of_tensors(name):
    x = torch.tensor([0.0, 0.4, -2.0, 5.0], dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(TENSORS[name], x, check_forward_ad=True)
    assert torch.autograd.gradgradcheck(TENSORS[name], x)
    slopes = torch.func.vmap(torch.func.grad(TENSORS[name]))(x.detach())
    assert slopes.numpy() == pytest.approx([expected(name, v, 1) for v in x.tolist()], abs=1e-14)


@given(st.floats(-40, 40))
def test_a_hamiltonian_of_a_wave(q):
    found = WAVE.jacobian(np.array([q, 0.5]))
    assert found[1, 0] == pytest.approx(4 * expected("j0", 2 * q, 2), rel=1e-12, abs=1e-13)
    tensor = WAVE.vector_field(torch.tensor([q, 0.5], dtype=torch.float64))
    assert float(tensor[1]) == pytest.approx(-2 * expected("j1", 2 * q), rel=1e-12, abs=1e-14)


@pytest.mark.parametrize("method", ["rk4", "implicit-midpoint", "stoermer-verlet"])
def test_machine_code_takes_the_same_steps(method):
    states = np.random.default_rng(0).normal(size=(3, 2))
    compiled, plain = (
        vp.integrate(WAVE, method, states, 0.05, 40, compiled=c) for c in (True, False)
    )
    np.testing.assert_allclose(compiled, plain, rtol=1e-12, atol=1e-13)


def test_generated_data_conserve_the_energy(tmp_path):
    system = vp.load_system(
        'state = ["q", "p"]\nhamiltonian = "p**2/2 - j0(q) + erf(q)/9"\n'
        '[initial_conditions]\ndistribution = "uniform"\nlow = -1\nhigh = 1\n'
    )
    data = vp.generate(system, tmp_path / "wave.h5", count=4, steps=10, step=0.2)
    energy = system.invariants["energy"](data.states("train"))
    assert np.abs(energy - energy[:, :1]).max() < 1e-10


@pytest.mark.parametrize(
    "force",
    [
        lambda q: -scipy.special.j1(q) + scipy.special.jv(3, q),
        lambda q: -torch.special.bessel_j1(q) + torch.special.bessel_j0(q) * 0,
        lambda q: -scipy.special.j1(np.array([2.0, 1.0]) * q)[1] + scipy.special.j0(0.0) - 1,
    ],
)
def test_functions_in_python_are_recorded(force):
    system = vp.System.from_function(lambda t, y: [y[1], force(y[0])], dim=2)
    assert system.has_formulas
    states = np.random.default_rng(0).normal(size=(5, 2))
    in_torch = "torch" in force.__code__.co_names
    found = [float(force(torch.tensor(q) if in_torch else q)) for q in states[:, 0]]
    np.testing.assert_allclose(system.vector_field(states)[:, 1], found, rtol=1e-11)


def test_the_errors_of_pytorch_are_no_reason_to_call_a_function():
    def field(t, y):
        return torch.stack([y[..., 1], -torch.special.bessel_j1(y[..., 0])], -1)

    system = vp.System.from_function(field, dim=2, sample=(-9.0, 9.0))
    assert system.has_formulas
    slope = system.jacobian(np.array([3.0, 1.0]))[1, 0]
    assert slope == pytest.approx(-expected("j1", 3.0, 1), rel=1e-13)


def test_they_are_typeset():
    assert r"J_{0}\left(2 q\right)" in "".join(equations_latex(WAVE))
    assert "besselj" in equations_unicode(WAVE, 100)


def test_parameters_and_actions_may_be_called_as_before():
    system = vp.load_system(
        'state = ["a", "j1"]\nparameters = { j0 = 2 }\nhamiltonian = "j0*j1**2/2 + j2(a)"\n'
    )
    assert system.vector_field([0.0, 3.0]) == pytest.approx([6.0, 0.0])
    with pytest.raises(InputError, match="'j1' is not a function"):
        vp.load_system('state = ["a", "j1"]\nhamiltonian = "j1(a)"\n')
    with pytest.raises(InputError, match="unknown function 'j10'"):
        oscillator("j10(q)")
    with pytest.raises(InputError, match="'j0' takes one argument"):
        oscillator("j0(0, q)")
