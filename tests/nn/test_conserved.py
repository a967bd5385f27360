"""Layers of states (z, k) whose last components are constants of motion, and layers at given k."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.nn.laws import (
    assert_close,
    determinant_error,
    randomise,
    sample,
    symplecticity_defect,
)
from vpintegrator import nn
from vpintegrator.errors import InputError
from vpintegrator.nn.canonical import canonical_blocks_beside
from vpintegrator.nn.formulas import with_values

FORMULAS = {"expressions": ["sigmoid(z[0] - z[4])", "sin(z[5])", "z[1]*z[4]"]}
FLIPS = [torch.diag(torch.tensor([1.0, -1, -1, -1, -1, 1])).tolist()]
# (q, p) -> (q, -p), and back in time: the form turns its sign, and so do potentials
TURNED = torch.diag(torch.tensor([1.0, 1, -1, -1, -1, 1])).tolist()
EXCHANGE = [*torch.eye(6)[[1, 0, 3, 2, 5, 4]].tolist()]
SIGNED = canonical_blocks_beside(nn.generated_group([TURNED], 6), 2)[::-1]
N, M = 4, 2  # components that move, and that stay


def gradients(kind, *arguments, **options):
    """A coupling of n degrees of freedom by twice the same potential."""
    return nn.GradientCoupling(*(kind(*arguments, **options) for _ in range(2)))


def reversible(signs):
    psi = nn.Composition(*(nn.BasisCoupling(N + M, 2, sweep=[0, 1, 2, 3]) for _ in range(2)))
    return nn.Reversible(psi, np.diag(signs))


LAYERS = {
    "polynomials": lambda: nn.BasisCoupling(6, 3, sweep=[0, 1, 2, 3, 2]),
    "polynomials of angles": lambda: nn.BasisCoupling(6, 3, sweep=[0, 1], periodic=[2]),
    "polynomials in blocks": lambda: nn.BasisCoupling(
        6, 3, split=[[0, 1], [2, 3], [4], [5]], sweep=[0, 1, 0]
    ),
    "scaling": lambda: nn.BasisCoupling(6, 3, sweep=[0, 1, 2, 3], scaling=[5]),
    "symmetric polynomials": lambda: nn.BasisCoupling(
        6, 3, sweep=[0, 1, 2, 3], scaling=[4], symmetries=FLIPS
    ),
    "polynomials of formulas": lambda: nn.BasisCoupling(6, 2, sweep=[0, 1, 2], **FORMULAS),
    "rotated polynomials": lambda: nn.Rotated(
        nn.BasisCoupling(6, 2, sweep=[0, 1, 2, 3]), nn.spread_rotation(1, 6, [0, 1, 2, 3])
    ),
    "gradients of polynomials": lambda: gradients(nn.BasisPotential, 2, 3, conserved=2),
    "gradients of polynomials of formulas": lambda: gradients(
        nn.BasisPotential,
        2,
        3,
        conserved=2,
        components=[0, 1, 4, 5],
        expressions=["sin(z[0]*z[5])"],
    ),
    "gradients of neurons": lambda: gradients(nn.NeuronPotential, 2, 5, conserved=2),
    "gradients of symmetric neurons": lambda: nn.GradientCoupling(
        *(nn.NeuronPotential(2, 5, conserved=2, group=group) for group in SIGNED)
    ),
    "gradients of symmetric polynomials": lambda: nn.GradientCoupling(
        *(nn.BasisPotential(2, 3, conserved=2, group=group) for group in SIGNED)
    ),
    "neurons": lambda: nn.AdditiveCoupling(6, 5, conserved=2),
    "neurons, rates": lambda: nn.AdditiveCoupling(6, 5, conserved=2, scaling=[5]),
    "symmetric neurons, rates": lambda: nn.AdditiveCoupling(
        6, 5, conserved=2, scaling=[4], symmetries=[TURNED]
    ),
    "gradients of neurons, rates": lambda: nn.GradientCoupling(
        *(nn.NeuronPotential(2, 5, conserved=2, scaling=[2], group=group) for group in SIGNED)
    ),
    "neurons in blocks": lambda: nn.AdditiveCoupling(6, 5, split="halves", conserved=2),
    "symmetric neurons": lambda: nn.AdditiveCoupling(6, 5, conserved=2, symmetries=FLIPS),
    "symmetric neurons, mixed": lambda: nn.AdditiveCoupling(
        6, 5, split="halves", conserved=2, symmetries=[EXCHANGE, TURNED]
    ),
    "composition": lambda: nn.Composition(
        nn.BasisCoupling(6, 2, sweep=[0, 1]), nn.AdditiveCoupling(6, 3, conserved=2)
    ),
    "reversible": lambda: reversible([1.0, 1, -1, -1, 1, 1]),
    "reversible in rates": lambda: reversible([1.0, 1, 1, 1, -1, -1]),
    "reversible in states and rates": lambda: reversible([1.0, 1, -1, -1, -1, 1]),
}


def made(name, seed):
    torch.manual_seed(seed)
    layer = LAYERS[name]()
    for part in layer.modules():
        if hasattr(part, "set_units"):
            part.set_units(0.1 * torch.arange(6.0), 1 + 0.1 * torch.arange(6.0))
    return randomise(layer, 0.1, seed)


@pytest.mark.parametrize("name", LAYERS)
@settings(max_examples=15)
@given(st.integers(0, 10**6), st.floats(-1.5, 1.5), st.floats(-1.5, 1.5))
def test_what_is_conserved_stays_and_can_be_multiplied_out(name, seed, first, second):
    layer = made(name, seed)
    k = torch.tensor([first, second], dtype=torch.float64)
    z = sample(3, N, seed=seed)
    x = torch.cat([z, k.expand(3, M)], -1)
    y = layer(x)
    assert torch.equal(y[:, N:], x[:, N:])  # bit by bit
    size = max(1.0, float(y.detach().abs().max()))
    assert_close(layer.inverse(y), x, 1e-10 * size)
    if getattr(layer, "symplectic", False):
        assert (
            symplecticity_defect(lambda z: layer(torch.cat([z, x[:, N:]], -1))[:, :N], z) <= 1e-12
        )
    assert layer.volume_preserving
    assert determinant_error(layer, x) <= 1e-9 * size
    plain = layer.at(k)
    assert_close(plain(z), y[:, :N], 1e-12 * size)
    assert_close(plain.inverse(plain(z)), z, 1e-10 * size)
    assert plain.volume_preserving
    assert getattr(plain, "symplectic", False) == getattr(layer, "symplectic", False)


@pytest.mark.parametrize("name", LAYERS)
def test_in_single_precision(name):
    layer = made(name, 1).float()
    z, k = sample(3, N).float(), torch.tensor([0.3, -0.7]).float()
    y = layer(torch.cat([z, k.expand(3, M)], -1))
    assert y.dtype == layer.at(k)(z).dtype == torch.float32
    assert_close(layer.at(k)(z), y[:, :N], 1e-4)


def test_terms_of_the_same_function_become_one():
    layer = nn.BasisCoupling(5, 4, sweep=[0, 1, 2])
    count = nn.BasisCoupling(3, 4).coefficients.numel()
    k = torch.tensor([0.3, -0.7])
    assert layer.at(k).coefficients.numel() == count < layer.coefficients.numel() / 4
    V = nn.BasisPotential(2, 4, conserved=2)
    assert V.at(k).coefficients.numel() == nn.BasisPotential(2, 4).coefficients.numel()
    # a layer of the same sizes can take them, as a model of one step does
    whole = nn.BasisCoupling(3, 4)
    whole.prolong(randomise(layer, 0.1, 1).at(k))
    assert_close(whole(sample(5, 3)), layer.at(k)(sample(5, 3)), 1e-13)


def test_rates_are_zero_bit_by_bit_in_plain_layers_too():
    layer = randomise(nn.BasisCoupling(6, 3, sweep=[0, 1, 2, 3], scaling=[4, 5]), 0.3, 1)
    z = sample(5, N)
    assert torch.equal(layer.at(torch.zeros(2))(z), z)


@pytest.mark.parametrize("name", [name for name in LAYERS if "scaling" in name])
def test_where_rates_are_zero_nothing_moves(name):
    if name.startswith("reversible"):
        return  # psi R psi^-1 R has none
    layer, x = made(name, 1), sample(3, N + M)
    x[:, N:] = 0
    assert torch.equal(layer(x), x) and torch.equal(layer.inverse(x), x)
    assert_close(layer.at(torch.zeros(M))(x[:, :N]), x[:, :N], 1e-14)


def test_formulas_with_values():
    assert with_values("z[0]*exp(z[ 12 ])", {12: -0.5}) == "z[0]*exp((-0.5))"


@pytest.mark.thorough
@given(st.integers(0, 10**6))
def test_a_reversing_symmetry_of_rates_makes_inverses(seed):
    """Phi at -k is the inverse of Phi at k, and at k = 0 the identity."""
    layer = made("reversible in rates", seed)
    z, k = sample(5, N, seed=seed), sample(M, seed=seed + 1)
    assert_close(layer.at(-k)(layer.at(k)(z)), z, 1e-10)
    assert_close(layer.at(0 * k)(z), z, 1e-11)


@pytest.mark.parametrize("name", ["neurons", "polynomials"])
def test_potentials_turn_their_sign_with_the_form(name):
    layer = made(f"gradients of symmetric {name}", 1)
    S = torch.tensor(TURNED).double()
    x = sample(5, N + M)
    assert_close(layer(x @ S.mT), layer(x) @ S.mT, 1e-13)
    assert (layer(x) - x).abs().max() > 1e-3


def test_symmetries_beside_what_is_conserved():
    mixing = torch.eye(3).double()
    mixing[0, 2] = 1
    with pytest.raises(InputError, match="mix what is conserved with states"):
        canonical_blocks_beside(mixing[None], 1)
    with pytest.raises(InputError, match="do not keep the symplectic form"):
        canonical_blocks_beside(torch.diag(torch.tensor([1.0, -1, 1, 1, 1])).double()[None], 1)
    with pytest.raises(InputError, match="mix positions and momenta"):
        canonical_blocks_beside(torch.tensor([[[0.0, 1, 0], [1, 0, 0], [0, 0, 1]]]).double(), 1)
