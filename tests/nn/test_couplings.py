"""Couplings, triangular and reversible layers: their formulas, and symmetries of them all."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.nn.laws import SIGN_FLIPS, assert_close, determinant_error, randomise, sample
from vpintegrator import nn
from vpintegrator.errors import InputError
from vpintegrator.nn.split import as_blocks, parse_split


def dense(inputs, outputs):
    return torch.nn.Sequential(
        torch.nn.Linear(inputs, 8), torch.nn.Tanh(), torch.nn.Linear(8, outputs)
    )


def divisor(window):
    """The least number of states, but one, that make up a window together."""
    return next(count for count in range(2, window + 1) if window % count == 0)


EXAMPLES = {
    "additive coupling": lambda d, T: nn.AdditiveCoupling(d, 5),
    "coupling in two blocks": lambda d, T: nn.AdditiveCoupling(d, 5, split=[range(1), range(1, d)]),
    "coupling of any functions": lambda d, T: nn.Coupling(d, [dense(d - 1, 1) for _ in range(d)]),
    "rotated": lambda d, T: nn.Rotated(nn.AdditiveCoupling(d, 5), nn.spread_rotation(1, d)),
    "lifted": lambda d, T: nn.Lifted(nn.AdditiveCoupling(divisor(T) * d, 5), divisor(T)),
    "composition": lambda d, T: nn.Composition(nn.TimeMixing(T), nn.AdditiveCoupling(d, 5)),
    "symmetric composition": lambda d, T: nn.SymmetricComposition(
        nn.AdditiveCoupling(d, 5), nn.AdditiveCoupling(d, 4)
    ),
    "reversible": lambda d, T: nn.Reversible(
        nn.AdditiveCoupling(d, 5), np.diag([*[1.0] * (d - 1), -1.0])
    ),
    "lower": lambda d, T: nn.TriangularLayer(d, "lower", initial_scale=1e-2),
    "upper, linear": lambda d, T: nn.TriangularLayer(
        d, "upper", activation="identity", initial_scale=1e-2
    ),
    "triangular feed-forward": lambda d, T: nn.TriangularFeedForward(
        d, blocks=1, initial_scale=1e-2
    ),
}
SIZES = st.tuples(st.integers(2, 6), st.integers(2, 8))


def test_coupling_formula():
    layer = randomise(nn.AdditiveCoupling(3, 4), 1.0, 2)
    z = sample(3, seed=1)
    W, b, a = layer.inner_weight.view(3, 2, 4), layer.inner_bias, layer.outer_weight
    expected = z.clone()
    for k, rest in enumerate([[1, 2], [0, 2], [0, 1]]):
        expected[k] = expected[k] + a[k] @ torch.tanh(expected[rest] @ W[k] + b[k])
    assert_close(layer(z), expected, 1e-14)


def test_a_lift_is_a_permutation_of_the_numbers_of_a_window():
    """And a layer of rows of two states: written out by slices."""
    layer = randomise(nn.Lifted(nn.VolumePreservingAttention(4), 2), 0.7, 1)
    X = sample(6, 2)
    rows = torch.cat([X[::2], X[1::2]], 1)
    A = layer.layer.scores.matrix()
    C, one = rows @ A @ rows.mT, torch.eye(3)
    turned = torch.linalg.inv(one - C) @ (one + C) @ rows
    expected = torch.stack([turned[:, :2], turned[:, 2:]], 1).flatten(0, 1)
    assert_close(layer(X), expected, 1e-14)
    assert layer.identity_at_zero and layer.volume_preserving
    arbitrary = nn.Lifted(nn.VolumePreservingAttention(4, "arbitrary"), 2)
    assert not arbitrary.volume_preserving and arbitrary.dim == 2
    with pytest.raises(InputError, match="window = 5 must be divisible by lift = 2"):
        layer(sample(5, 2))


def test_appended_constants_that_are_dropped_do_not_keep_volume():
    """Why a lift stacks states: the larger map keeps volume, and its part for states does not."""
    layer = randomise(nn.VolumePreservingAttention(3), 1.0, 2)
    X = sample(4, 3)
    assert determinant_error(layer, X) < 1e-12

    def dropped(states):
        return layer(torch.cat([states, torch.ones(4, 1)], 1))[:, :2]

    assert determinant_error(dropped, X[:, :2]) > 0.05


PERMUTING = [[0, 1, 0, 0], [1, 0, 0, 0], [0, 0, 0, -1], [0, 0, -1, 0]]
MOMENTA = torch.diag(torch.tensor([1.0, 1, -1, -1])).tolist()

EQUIVARIANT = {
    "skew attention": lambda rhos, d, T, **k: nn.VolumePreservingAttention(d, **k),
    "arbitrary attention": lambda rhos, d, T, **k: nn.VolumePreservingAttention(
        d, "arbitrary", **k
    ),
    "coupled attention": lambda rhos, d, T, **k: nn.CoupledAttention(d, T, split=rhos, **k),
    "additive coupling": lambda rhos, d, T, **k: nn.AdditiveCoupling(d, 5, split=rhos, **k),
    "attention coupling": lambda rhos, d, T, **k: nn.AttentionCoupling(
        d, T, width=4, heads=2, split=rhos, **k
    ),
    "any coupling": lambda rhos, d, T, **k: nn.Coupling(
        d, [dense(d - len(block), len(block)) for block in as_blocks(rhos, d)], split=rhos, **k
    ),
    "triangular": lambda rhos, d, T, **k: nn.TriangularFeedForward(d, blocks=1, **k),
}


@pytest.mark.parametrize("name", EQUIVARIANT)
@pytest.mark.parametrize("system", ["flips", "hamiltonian"])
def test_symmetries(name, system):
    """f(S x) = S f(x) for every S, and the volume is kept."""
    if system == "flips":
        dim, rhos, split = 3, SIGN_FLIPS, "coordinates"
    else:
        dim, rhos, split = 4, [MOMENTA, PERMUTING], "halves"
    group = nn.symmetry_group(rhos, dim)
    assert len(group) == (4 if system == "flips" else 2)
    make = EQUIVARIANT[name]
    if (name, system) in (("skew attention", "flips"), ("triangular", "hamiltonian")):
        with pytest.raises(InputError, match=r"CoupledAttention|diagonal"):
            make(split, dim, 3, symmetries=group)
        return
    layer = randomise(make(split, dim, 3, symmetries=group), 1.0, 3)
    X = sample(5, 3, dim, seed=1)
    for S in group:
        assert_close(layer(X @ S.mT), layer(X) @ S.mT, 1e-11)
    assert not torch.allclose(layer(X), X, atol=1e-2)
    if name != "arbitrary attention":
        assert determinant_error(layer, X[0]) <= 1e-9
        assert_close(layer.inverse(layer(X)), X, 1e-9)


@given(SIZES, st.integers(0, 10**6), st.booleans())
def test_reversible(sizes, seed, time_reversal):
    dim, window = sizes
    psi = nn.Composition(
        nn.VolumePreservingAttention(dim), nn.AdditiveCoupling(dim, 4), nn.TimeMixing(window)
    )
    randomise(psi, 0.5, seed)
    signs = 1 - 2 * torch.randint(0, 2, (dim,), generator=torch.Generator().manual_seed(seed))
    phi = nn.Reversible(psi, torch.diag(signs.double()), time_reversal=time_reversal)
    X = sample(window, dim, seed=seed)
    R = phi.reflection
    assert_close(R(R(X)), X, 0)
    assert_close(R(phi(R(phi(X)))), X)


def test_reversible_needs_an_inverse_and_an_involution():
    with pytest.raises(InputError, match="explicitly invertible"):
        nn.Reversible(nn.VolumePreservingAttention(3, "arbitrary"), SIGN_FLIPS[0])
    with pytest.raises(InputError, match="its own inverse"):
        nn.Reversible(nn.AdditiveCoupling(2), [[0.0, -1.0], [1.0, 0.0]])


@pytest.mark.parametrize(
    ("text", "blocks"),
    [
        ("coordinates", [[0], [1], [2], [3]]),
        ("halves", [[0, 1], [2, 3]]),
        ("0,1|2|3", [[0, 1], [2], [3]]),
        (" 3, 0 | 1-2 ", [[3, 0], [1, 2]]),
    ],
)
def test_blocks_written_as_text(text, blocks):
    assert as_blocks(parse_split(text), 4) == blocks
