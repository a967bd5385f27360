"""Hidden layers with gradients written out, and flows of their vector fields."""

import numpy as np
import pytest
import torch

from tests.nn.laws import assert_close, randomise, sample
from vpintegrator.errors import InputError
from vpintegrator.nn.fields import (
    EnergyNetwork,
    HamiltonianField,
    LagrangianField,
    Perceptron,
    curvature_of,
    slope_of,
)
from vpintegrator.nn.flows import RungeKuttaFlow, SplitFlow
from vpintegrator.nn.layer import ACTIVATIONS


def energies(dim, **options):
    """Kinetic and potential energy of half of the components each."""
    return [EnergyNetwork((dim + 1) // 2, 4, **options) for _ in range(2)]


EXAMPLES = {
    "perceptron": lambda d, T: Perceptron(d, 4),
    "steps of a perceptron": lambda d, T: RungeKuttaFlow(Perceptron(d, 4), "heun", 2),
    "steps of an energy": lambda d, T: RungeKuttaFlow(
        HamiltonianField(EnergyNetwork(2 * ((d + 1) // 2), 4))
    ),
    "steps of a Lagrangian": lambda d, T: RungeKuttaFlow(
        LagrangianField(EnergyNetwork(2 * ((d + 1) // 2), 4))
    ),
    "separable flow": lambda d, T: SplitFlow(*energies(d)),
    "separable flow, positions first": lambda d, T: SplitFlow(*energies(d), "yoshida-4", 2),
}


@pytest.mark.parametrize("activation", [*ACTIVATIONS, "own"])
def test_slopes_are_those_of_automatic_differentiation(activation):
    function = ACTIVATIONS.get(activation, lambda x: x.cos() ** 3)
    x = sample(50).requires_grad_()
    (slope,) = torch.autograd.grad(function(x).sum(), x)
    assert_close(slope_of(function)(x), slope, 1e-14)
    curvature = torch.func.jvp(slope_of(function), (x,), (torch.ones_like(x),))[1]
    assert_close(curvature_of(function)(x), curvature, 1e-14)


@pytest.mark.parametrize("depth", [1, 2, 3])
@pytest.mark.parametrize("activation", ["tanh", "sin", "softplus", "sigmoid", "gelu"])
def test_the_gradient_is_that_of_the_value(depth, activation):
    H = randomise(EnergyNetwork(3, 5, depth, activation=activation), 0.7, 1)
    x = sample(6, 3).requires_grad_()
    (slope,) = torch.autograd.grad(H(x).sum(), x)
    assert_close(H.gradient(x), slope, 1e-14)
    gradient, hessian = H.gradient_and_hessian(x)
    assert_close(gradient, slope, 1e-14)
    expected = torch.func.vmap(torch.func.hessian(H))(x)
    assert_close(hessian, expected, 1e-13)


def test_a_hamiltonian_field_keeps_its_energy_and_has_no_divergence():
    f = HamiltonianField(randomise(EnergyNetwork(4, 6), 0.7, 1))
    x = sample(4).requires_grad_()
    (slope,) = torch.autograd.grad(f.energy(x), x)
    assert abs(float((slope @ f(x)).detach())) < 1e-15
    assert abs(float(torch.func.jacrev(f)(x).trace().detach())) < 1e-14


def test_a_lagrangian_field_keeps_its_energy():
    f = LagrangianField(randomise(EnergyNetwork(4, 6, activation="softplus"), 0.3, 1))
    f.set_units(torch.tensor([0.3, -0.2, 0.1, 0.5]), torch.tensor([2.0, 1.0, 0.5, 3.0]))
    x = sample(4).requires_grad_()
    (slope,) = torch.autograd.grad(f.energy(x), x)
    assert abs(float((slope @ f(x)).detach())) < 1e-14


@pytest.mark.parametrize(
    ("method", "order"),
    [("explicit-euler", 1), ("heun", 2), ("rk4", 4), ("dormand-prince-8", 8)],
)
def test_steps_of_a_field_have_their_order(method, order):
    field = randomise(Perceptron(2, 4), 0.8, 1)
    z = sample(5, 2)

    def moved(substeps):
        flow = RungeKuttaFlow(field, method, substeps)
        flow.set_step(1.0)
        return flow(z).detach()

    exact = RungeKuttaFlow(field, "dormand-prince-8", 32)(z).detach()
    errors = [float((moved(n) - exact).abs().max()) for n in (2, 4)]
    assert errors[0] > 1e-10 and np.log2(errors[0] / errors[1]) > order - 0.6


@pytest.mark.parametrize(
    ("method", "order"),
    [
        ("coordinate-splitting", 1),
        ("strang-splitting", 2),
        ("stoermer-verlet", 2),
        ("yoshida-4", 4),
        ("blanes-moan-6", 6),
    ],
)
def test_steps_of_a_separable_energy_have_their_order(method, order):
    kinetic, potential = (randomise(EnergyNetwork(1, 4), 1.0, seed) for seed in (1, 2))
    z = sample(5, 2)

    def field(z):
        q, p = z.chunk(2, -1)
        return torch.cat([kinetic.gradient(p), -potential.gradient(q)], -1)

    def moved(substeps):
        flow = SplitFlow(kinetic, potential, method, substeps)
        flow.set_step(1.0)
        return flow(z).detach()

    exact = sample(5, 2)
    h = 1 / 400
    for _ in range(400):
        a = field(exact)
        b = field(exact + h / 2 * a)
        c = field(exact + h / 2 * b)
        exact = exact + h / 6 * (a + 2 * b + 2 * c + field(exact + h * c))
    errors = [float((moved(n) - exact).abs().max()) for n in (2, 4)]
    assert errors[0] > 1e-12 and np.log2(errors[0] / errors[1]) > order - 0.6


def test_energies_of_other_sizes_are_refused():
    with pytest.raises(InputError, match="functions of 1 and 2 components"):
        SplitFlow(EnergyNetwork(1), EnergyNetwork(2))
    with pytest.raises(InputError, match="method must be"):
        SplitFlow(EnergyNetwork(1), EnergyNetwork(1), "rk4")
    with pytest.raises(InputError, match="method must be"):
        RungeKuttaFlow(Perceptron(2), "stoermer-verlet")
