"""Additive Hamiltonians: gradients of sums of parts, columns, the method, what is kept."""

import pytest
import torch

import vpintegrator as vp
from tests.nn.laws import assert_close, jacobian, randomise, sample
from vpintegrator.dynamics.compositions import FACTORS
from vpintegrator.nn import AdditiveHamiltonian, PartSum

SPRINGS = [[[[0, 1.0]]], [[[0, -1.0], [1, 1.0]]], [[[1, -1.0], [2, 2.0]]]]
BODIES = [[[[0, -1.0], [2, 1.0]], [[1, -1.0], [3, 1.0]]], [[[0, 1.0]], [[1, 1.0]]]]


def chain(dim):
    n = (dim + 1) // 2
    return [[[[i, 1.0]]] for i in range(n)] + [[[[i, -1.0], [i + 1, 1.0]]] for i in range(n - 1)]


def layer(dim, **options):
    n = (dim + 1) // 2
    momenta = PartSum(n, [[[[i, 1.0]]] for i in range(n)], 2)
    made = AdditiveHamiltonian([PartSum(n, chain(dim), 3)], [momenta], **options)
    made.set_step(0.3)
    return made


def of_distances():
    momenta = PartSum(4, [[[[i, 1.0]]] for i in range(4)], 2, equal=[0, 0, 1, 1])
    potential = PartSum(4, BODIES, 3, "square", equal=[0, 0])
    made = AdditiveHamiltonian([potential, PartSum(4, SPRINGS, 2)], [momenta], substeps=2)
    made.set_step(0.1)
    return made


EXAMPLES = {
    "sum of parts": lambda d, T: PartSum(d, [[[[i, 1.0]]] for i in range(d)], 3),
    "additive Hamiltonian": lambda d, T: layer(d),
    "additive Hamiltonian of distances": lambda d, T: of_distances(),
}


@pytest.mark.parametrize("variable", ["value", "square", "distance", "logarithm", "reciprocal"])
def test_the_slopes_are_a_gradient(variable):
    """The Jacobian is symmetric, within the range of the data and beyond its reach."""
    parts = SPRINGS if variable == "value" else BODIES
    part = randomise(PartSum(4, parts, 6, variable), 0.5, 1)
    part.adapt_to(1 + sample(40, 4, scale=0.3))
    for q in (1 + sample(4, seed=3, scale=0.3), 3 + 4 * sample(4, seed=5)):
        H = jacobian(part, q)
        assert_close(H, H.mT, 1e-10 * (1 + float(H.abs().max())))


def test_functions_of_distances_turn_with_the_bodies():
    part = randomise(PartSum(4, BODIES, 5, "logarithm"), 0.5, 2)
    part.adapt_to(sample(40, 4) + torch.tensor([0.0, 0.0, 3.0, 1.0]))
    angle = torch.tensor(0.7)
    turn = torch.tensor([[angle.cos(), -angle.sin()], [angle.sin(), angle.cos()]]).double()
    both = torch.block_diag(turn, turn)
    q = sample(5, 4) + torch.tensor([0.0, 0.0, 3.0, 1.0])
    assert_close(part(q @ both.mT), part(q) @ both.mT, 1e-12)


@pytest.mark.parametrize("equal", [(), (0, 1, 0)])
@pytest.mark.parametrize("degree", [1, 2, 7])
def test_columns_are_derivatives_by_the_coefficients(degree, equal):
    part = randomise(PartSum(3, SPRINGS, degree, equal=equal), 0.5, 3)
    q = sample(20, 3)
    part.adapt_to(q)
    columns = part.columns(q)
    assert columns.shape == (20, 3, part.coefficients.numel())
    assert_close(columns @ part.coefficients.detach().flatten(), part(q).detach(), 1e-13)


def test_slopes_continue_linearly_beyond_their_reach():
    part = randomise(PartSum(1, [[[[0, 1.0]]]], 12), 0.5, 4)
    part.adapt_to(torch.linspace(-1, 1, 9).double()[:, None])
    x = torch.tensor([[2.0], [3.0], [4.0]]).double()
    first, second, third = part(x).detach()
    assert_close(third - second, second - first, 1e-9)
    edge = torch.tensor([[1.25 - 1e-9], [1.25 + 1e-9]]).double()
    assert_close(*part(edge).detach(), 1e-4)


@pytest.mark.parametrize("substeps", [1, 3])
def test_a_step_is_the_classical_method(substeps):
    """Stage by stage, of quadratic energies whose slopes are the linear functions."""
    made = layer(4, substeps=substeps)
    with torch.no_grad():
        for part in (*made.positions, *made.momenta):
            part.coefficients.zero_()
            part.coefficients[:, 1] = 1.0
    K = torch.tensor([[2.0, -1.0], [-1.0, 2.0]]).double()
    q, p = sample(2, 3, 2)
    z = torch.cat([q, p], -1)
    h = 0.3 / substeps
    factors = FACTORS["blanes-moan-6"]
    for _ in range(substeps):
        for n, factor in enumerate(factors):
            if n % 2 == 0:
                q = q + factor * h * p
                p = p - factor * h * q @ K
            else:
                p = p - factor * h * q @ K
                q = q + factor * h * p
    assert_close(made(z).detach(), torch.cat([q, p], -1), 1e-14)


def test_a_map_of_another_step_is_that_of_the_same_hamiltonian():
    made = randomise(layer(6), 0.5, 5)
    made.adapt(4 * sample(50, 6))
    z = sample(3, 6, scale=0.5)
    whole = made(z).detach()
    made.set_step(0.15)
    assert_close(made(made(z)).detach(), whole, 1e-7)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((2, [[[[2, 1.0]]]], 3), "parts must name components 0 ... 1"),
        ((4, [*SPRINGS, *BODIES], 3), "one form each, or as many as all others"),
        ((4, BODIES, 3), "variable = value is that of parts of one form"),
        ((4, SPRINGS, 3, "square"), "variable = value is that of parts of one form"),
        ((4, SPRINGS, 3, "value", [0, 2, 0]), "equal must number the function of each part"),
    ],
)
def test_wrong_parts_are_refused(arguments, words):
    with pytest.raises(vp.InputError, match=words):
        PartSum(*arguments)
