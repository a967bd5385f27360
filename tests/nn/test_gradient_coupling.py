"""Shears by gradients: symplectic at any weights, invertible, equivariant."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.nn.laws import assert_close, jacobian, randomise, sample
from vpintegrator.errors import InputError
from vpintegrator.nn.basis import chebyshev, chebyshev_derivatives, harmonic_derivatives, harmonics
from vpintegrator.nn.gradient_coupling import GradientCoupling, canonical_form
from vpintegrator.nn.potentials import BasisPotential, NeuronPotential
from vpintegrator.nn.symmetry import generated_group

EXCHANGE = [[0, 1, 0, 0], [1, 0, 0, 0], [0, 0, 0, 1], [0, 0, 1, 0]]
MINUS = (-torch.eye(4)).tolist()
TURN = [[0, -1, 0, 0], [1, 0, 0, 0], [0, 0, 0, -1], [0, 0, 1, 0]]
CASES = [
    {"functions": "neurons", "width": 5},
    {"functions": "polynomial", "degree": 4},
    {"functions": "polynomial", "degree": 3, "periodic": [0]},
]


@pytest.mark.parametrize(
    ("functions", "derivatives"),
    [(chebyshev, chebyshev_derivatives), (harmonics, harmonic_derivatives)],
)
def test_derivatives_are_those_of_automatic_differentiation(functions, derivatives):
    x = torch.linspace(-2, 3, 11, dtype=torch.float64)
    values = functions(x, 7)
    for n, slope in enumerate(derivatives(x, values)):
        by_torch = torch.func.jvp(lambda y, n=n: functions(y, 7)[n], (x,), (torch.ones_like(x),))
        assert_close(slope, by_torch[1], 1e-13)


@pytest.mark.parametrize(
    "potential",
    [NeuronPotential(3, 5, activation="sin"), BasisPotential(3, 4), BasisPotential(2, 3)],
)
def test_the_derivative_of_a_gradient_is_symmetric(potential):
    randomise(potential, 0.5, 1)
    D = jacobian(potential.gradient, sample(potential.size))
    assert_close(D, D.mT, 1e-13)


def test_the_gradient_of_neurons_is_that_of_their_potential():
    V = randomise(NeuronPotential(3, 5, activation="sin"), 0.5, 1)

    def value(x):  # minus the cosine is an antiderivative of the sine
        return (-torch.cos(x @ V.inner_weight + V.inner_bias) * V.outer_weight).sum()

    x = sample(3)
    assert_close(V.gradient(x), torch.func.grad(value)(x), 1e-14)


@pytest.mark.parametrize("case", CASES)
@settings(max_examples=10, deadline=None)
@given(seed=st.integers(0, 10**6))
def test_the_map_is_symplectic_at_every_step_of_a_window(case, seed):
    layer = randomise(GradientCoupling(4, **case), 0.5, seed)
    Z = sample(2, 4, seed=seed, scale=0.7)
    J = torch.block_diag(canonical_form(4), canonical_form(4))
    D = jacobian(layer, Z)
    assert_close(D.mT @ J @ D, J, 1e-12 * max(1.0, float(D.abs().max()) ** 2))
    assert_close(layer.inverse(layer(Z)), Z, 1e-11)


@pytest.mark.parametrize("generators", [[EXCHANGE], [MINUS], [TURN], [TURN, EXCHANGE]])
@pytest.mark.parametrize("functions", ["neurons", "polynomial"])
def test_the_map_commutes_with_symmetries(functions, generators):
    layer = randomise(GradientCoupling(4, functions, degree=4, symmetries=generators), 0.5, 2)
    z = sample(6, 4)
    for S in generated_group(generators, 4):
        assert_close(layer(z @ S.mT), layer(z) @ S.mT, 1e-13)
    free = GradientCoupling(4, functions, degree=4)
    if functions == "polynomial":
        assert sum(map(torch.numel, layer.parameters())) < sum(map(torch.numel, free.parameters()))


def test_symmetries_that_are_not_symplectic_are_refused():
    with pytest.raises(InputError, match="do not keep the symplectic form"):
        GradientCoupling(2, symmetries=[[[1, 0], [0, -1]]])
    with pytest.raises(InputError, match="mix positions and momenta"):
        GradientCoupling(2, symmetries=[[[0, 1], [-1, 0]]])
    with pytest.raises(InputError, match="even number"):
        GradientCoupling(3)


def test_a_larger_potential_takes_a_smaller_one():
    group = generated_group([EXCHANGE], 4)[:, :2, :2]
    small = randomise(BasisPotential(2, 3, group=group), 0.5, 3)
    large = BasisPotential(2, 6, group=group)
    large.take(small)
    x = sample(5, 2)
    assert_close(large.gradient(x), small.gradient(x), 1e-14)
