"""Additive Hamiltonians: gradients of sums of parts, columns, the method, what is kept."""

import pytest
import torch

import vpintegrator as vp
from tests.nn.laws import assert_close, jacobian, randomise, sample
from vpintegrator.dynamics.compositions import FACTORS
from vpintegrator.nn import (
    AdditiveFlows,
    AdditiveHamiltonian,
    MagneticMotion,
    PartSum,
    canonical_form,
)

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


def wide(sums, layer):
    """The layer with functions of a range so wide that states stay in it whatever the weights."""
    for part in sums:
        part.scale.fill_(40.0)
    return layer


def flows(substeps=1, **options):
    """Forms of both kinds: a wave, a coupling, an amplitude, a distance of two, one in momenta."""
    single = [[[[0, 1.0], [3, 0.5]]], [[[1, -1.0], [0, 1.0]]]]
    double = [
        [[[0, 1.0]], [[2, 1.0]]],
        [[[0, 1.0], [1, -1.0]], [[2, 1.0], [3, -1.0]]],
        [[[2, 1.0]], [[3, 2.0]]],
    ]
    sums = [PartSum(4, single, 3), PartSum(4, double, 3, "square")]
    made = AdditiveFlows(sums, substeps=substeps, **options)
    made.set_step(0.05)
    return wide(made.sums, made)


def charge():
    momenta = PartSum(2, [[[[0, 1.0]]], [[[1, 1.0]]]], 2)
    field = [PartSum(2, [[[[0, 1.0], [1, 0.5]]]], 3), PartSum(2, DISC, 2, "square")]
    made = MagneticMotion([PartSum(2, chain(4), 3)], [momenta], field, substeps=2)
    made.set_step(0.05)
    return wide([*made.positions, *made.turning], made)


DISC = [[[[0, 1.0]], [[1, 1.0]]]]

EXAMPLES = {
    "magnetic motion": lambda d, T: charge(),
    "additive flows": lambda d, T: flows(),
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


def test_flows_are_those_of_the_sum_of_the_parts():
    """Short steps converge to J times the gradient, with the order of the method."""
    made = randomise(flows(), 0.4, 3)
    made.adapt(sample(50, 4))
    J = canonical_form(4)
    x = 0.5 * sample(5, 4)
    made.set_step(1e-5)
    gradient = sum(part(x) for part in made.sums)
    assert_close((made(x) - x).detach() / 1e-5, (gradient @ J.mT).detach(), 1e-4)
    errors = []
    for step in (0.2, 0.1):
        made.set_step(step / 16)
        exact = x
        for _ in range(16):
            exact = made(exact)
        made.set_step(step)
        errors.append(float((made(x) - exact).detach().abs().max()))
    assert errors[1] < errors[0] / 50


def test_an_amplitude_turns_at_its_own_rate():
    """f(q^2 + p^2) is a turn by an angle that depends on the amplitude; the step is exact."""
    part = PartSum(2, [[[[0, 1.0]], [[1, 1.0]]]], 2, "square")
    with torch.no_grad():
        part.coefficients.copy_(torch.tensor([[0.3, 0.8]]))
    made = AdditiveFlows([part])
    made.set_step(0.7)
    z = sample(6, 2)
    angle = 0.7 * (0.3 + 0.8 * z.square().sum(-1))
    inside = z.square().sum(-1) < 1.25
    q, p = z.unbind(-1)
    turned = [q * angle.cos() + p * angle.sin(), p * angle.cos() - q * angle.sin()]
    assert bool(inside.any())
    assert_close(made(z).detach()[inside], torch.stack(turned, -1)[inside], 1e-13)


def test_commuting_parts_flow_together():
    vortices = [[[[i, 1.0], [j, -1.0]], [[4 + i, 1.0], [4 + j, -1.0]]] for i, j in PAIRS]
    made = AdditiveFlows([PartSum(8, vortices, 2, "square")])
    assert [len(places) for _, places, _ in made._groups] == [2, 2, 2]


PAIRS = [(0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3)]


def test_three_forms_of_a_part_must_commute():
    space = [[[[0, 1.0]], [[1, 1.0]], [[2, 1.0]]]]
    assert AdditiveFlows([PartSum(6, space, 2, "square")]).dim == 6
    with pytest.raises(vp.InputError, match="must commute"):
        AdditiveFlows([PartSum(4, space, 2, "square")])
    with pytest.raises(vp.InputError, match="equally many components"):
        AdditiveFlows([PartSum(6, space, 2, "square"), PartSum(4, SPRINGS, 2)])


def test_a_charge_moves_by_forces_and_field():
    """The rate of short steps, equations for the coefficients, and the order of the method."""
    made = randomise(charge(), 0.4, 8)
    x = 0.5 * sample(6, 4, seed=1)
    made.adapt(2 * sample(50, 4))
    made.set_step(1e-5)
    q, v = x[:, :2], x[:, 2:]
    force = -sum(part(q) for part in made.positions)
    field = sum(part.slopes(part.values(q)).sum(-1) for part in made.turning)[:, None]
    turned = torch.stack([v[:, 1], -v[:, 0]], 1)
    rates = torch.cat([made.momenta[0](v), force + field * turned], 1).detach()
    assert_close((made(x) - x).detach() / 1e-5, rates, 1e-4)
    forces, drifts = made.equations
    for equations, expected in ((forces, -rates[:, 2:]), (drifts, rates[:, :2])):
        c = torch.cat([part.coefficients.detach().flatten() for part in equations.sums])
        assert_close(equations.columns(x) @ c, expected, 1e-12)
    errors = []
    for step in (0.4, 0.2):
        made.set_step(step / 16)
        exact = x
        for _ in range(16):
            exact = made(exact)
        made.set_step(step)
        errors.append(float((made(x) - exact).detach().abs().max()))
    assert errors[1] < errors[0] / 50


def test_velocities_are_turned_in_the_plane_alone():
    with pytest.raises(vp.InputError, match="two positions"):
        MagneticMotion([PartSum(3, SPRINGS, 2)], [PartSum(3, SPRINGS, 2)], [PartSum(3, SPRINGS, 2)])
