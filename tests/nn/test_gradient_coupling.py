"""Shears by gradients of potentials: gradients, equivariance, what does not fit."""

import numpy as np
import pytest
import torch

from tests.nn.laws import assert_close, randomise, sample
from vpintegrator.errors import InputError
from vpintegrator.nn.attention_coupling import SymplecticAttention
from vpintegrator.nn.basis import HARMONICS, POLYNOMIALS, RADIUS, SECULAR
from vpintegrator.nn.basis_layers import BasisPotential
from vpintegrator.nn.composition import Reversible
from vpintegrator.nn.gradient_coupling import (
    ComponentPotential,
    GradientCoupling,
    HenonMap,
    LocallySymplecticShear,
    NeuronPotential,
    QuadraticPotential,
)
from vpintegrator.nn.symmetry import canonical_blocks, generated_group


def coupling(kind, dim, *arguments, **options):
    """Twice the same potential, with weights of its own."""
    return GradientCoupling(*(kind((dim + 1) // 2, *arguments, **options) for _ in range(2)))


EXAMPLES = {
    "neurons": lambda d, T: coupling(NeuronPotential, d, 5),
    "polynomial potentials": lambda d, T: coupling(BasisPotential, d, 3),
    "potentials of angles": lambda d, T: GradientCoupling(
        BasisPotential((d + 1) // 2, 3), BasisPotential((d + 1) // 2, 3, periodic=[0])
    ),
    "linear modules": lambda d, T: coupling(QuadraticPotential, d),
    "activation modules": lambda d, T: coupling(ComponentPotential, d),
    "locally symplectic": lambda d, T: LocallySymplecticShear(NeuronPotential(d - 1, 5), 1, 0),
    "henon": lambda d, T: HenonMap(NeuronPotential((d + 1) // 2, 5)),
    "reversible gradients": lambda d, T: Reversible(
        coupling(NeuronPotential, d, 3), np.diag([1.0] * ((d + 1) // 2) + [-1.0] * ((d + 1) // 2))
    ),
}
EXCHANGE = [[0, 1, 0, 0], [1, 0, 0, 0], [0, 0, 0, 1], [0, 0, 1, 0]]
MINUS = (-torch.eye(4)).tolist()
TURN = [[0, -1, 0, 0], [1, 0, 0, 0], [0, 0, 0, -1], [0, 0, 1, 0]]


@pytest.mark.parametrize("family", [POLYNOMIALS, HARMONICS, SECULAR], ids=lambda f: f.name)
@pytest.mark.parametrize("degree", [0, 1, 2, 7])
def test_derivatives_are_those_of_automatic_differentiation(family, degree):
    x = torch.linspace(-2, 3, 11, dtype=torch.float64)
    found = family.jet(x, degree, 2)
    assert len(found[0]) == len(family.orders(degree))
    for k in (0, 1):
        for n, slope in enumerate(found[k + 1]):

            def function(y, k=k, n=n):
                return family.jet(y, degree, k)[k][n]

            _, by_torch = torch.func.jvp(function, (x,), (torch.ones_like(x),))
            assert_close(slope, by_torch, 1e-12)
        by_matrix = family.derivative(degree) @ torch.stack(found[k])
        assert_close(by_matrix, torch.stack(found[k + 1]), 1e-12)


def test_the_gradient_of_neurons_is_that_of_their_potential():
    V = randomise(NeuronPotential(3, 5, activation="sin"), 0.5, 1)

    def value(x):  # minus the cosine is an antiderivative of the sine
        return (-torch.cos(x @ V.inner_weight + V.inner_bias) * V.outer_weight).sum()

    x = sample(3)
    assert_close(V.gradient(x), torch.func.grad(value)(x), 1e-14)


def test_the_gradient_of_a_potential_with_formulas_is_that_of_its_value():
    """One term each: c u, u the formula in its units, and the chain rule by hand."""
    V = BasisPotential(2, 1, expressions=["exp(2*z[1])"])
    V.formulas.set_units(torch.tensor([0.0, 0.5]), torch.tensor([1.0, 0.25]))
    V.coefficients.data = V.terms.chosen[:, 2].double()  # of u alone
    x = sample(5, 2)
    scale = RADIUS * V.formulas.scale
    slope = 2 * 0.25 * torch.exp(2 * (0.25 * x[:, 1] + 0.5)) / scale
    assert_close(V.gradient(x), torch.stack([torch.zeros(5), slope], -1), 1e-14)


@pytest.mark.parametrize("generators", [[EXCHANGE], [MINUS], [TURN], [TURN, EXCHANGE]])
@pytest.mark.parametrize("kind", [NeuronPotential, BasisPotential])
def test_the_map_commutes_with_symmetries(kind, generators):
    group = generated_group(generators, 4)
    of_positions, of_momenta = canonical_blocks(group)
    layer = GradientCoupling(kind(2, 4, group=of_momenta), kind(2, 4, group=of_positions))
    randomise(layer, 0.5, 2)
    z = sample(6, 4)
    for S in group:
        assert_close(layer(z @ S.mT), layer(z) @ S.mT, 1e-13)
    if kind is BasisPotential:
        assert layer.kinetic.coefficients.numel() < BasisPotential(2, 4).coefficients.numel()


def test_symmetries_that_are_not_symplectic_are_refused():
    for generator in ([[1, 0], [0, -1]], [[0, 1], [-1, 0]]):
        with pytest.raises(InputError, match=r"do not keep the symplectic form|mix positions and"):
            canonical_blocks(generated_group([generator], 2))
    with pytest.raises(InputError, match="even number"):
        SymplecticAttention(3)
    with pytest.raises(InputError, match="two of the same size"):
        GradientCoupling(QuadraticPotential(2), QuadraticPotential(3))


def test_a_larger_potential_takes_a_smaller_one():
    group = generated_group([EXCHANGE], 4)[:, :2, :2]
    small = randomise(BasisPotential(2, 3, group=group), 0.5, 3)
    large = BasisPotential(2, 6, group=group)
    large.prolong(small)
    x = sample(5, 2)
    assert_close(large.gradient(x), small.gradient(x), 1e-14)
