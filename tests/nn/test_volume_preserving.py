"""Every layer that says it preserves volume: determinant, inverse, symmetry, derivatives."""

import inspect

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.nn.laws import (
    SIGN_FLIPS,
    assert_close,
    determinant_error,
    randomise,
    sample,
)
from vpintegrator import nn
from vpintegrator.errors import InputError
from vpintegrator.nn.exact_flows import field_parts
from vpintegrator.nn.split import as_blocks


def dense(inputs, outputs):
    return torch.nn.Sequential(
        torch.nn.Linear(inputs, 8),
        torch.nn.Tanh(),
        torch.nn.Linear(8, outputs),
    )


def shears(dim, window):
    return nn.Coupling(dim, [dense(dim - 1, 1) for _ in range(dim)])


def potential(dim):
    return nn.NeuronPotential((dim + 1) // 2, 5)


# an example or more of every layer, of states of that many components or one more


def wide(size):
    """With a wide box, so that maps exist whatever the weights."""
    function = nn.GeneratingFunction(size, 3)
    function.adapt(torch.tensor([[-30.0], [30.0]]).double().expand(2, size))
    return function


LAYERS = {
    "skew attention": lambda d, T: nn.VolumePreservingAttention(d),
    "scaled attention": lambda d, T: nn.VolumePreservingAttention(d, scale=d**-0.5),
    "coupled attention": lambda d, T: nn.CoupledAttention(d, T),
    "additive coupling": lambda d, T: nn.AdditiveCoupling(d, 5),
    "coupling in two blocks": lambda d, T: nn.AdditiveCoupling(d, 5, split=[range(1), range(1, d)]),
    "coupling of any functions": shears,
    "attention coupling": lambda d, T: nn.AttentionCoupling(d, T, width=4, heads=2),
    "polynomials": lambda d, T: nn.BasisCoupling(d, 2),
    "generating functions": lambda d, T: nn.VolumePreservingGeneratingFunction(
        [wide(d) for _ in range(d - 1)]
    ),
    "generating function of two components": lambda d, T: nn.SymplecticGeneratingFunction(
        wide(2 * (d // 2))
    ),
    "polynomials to and fro": lambda d, T: nn.BasisCoupling(
        d, 2, sweep=[*range(d), *range(d)[::-1]]
    ),
    "splitting": lambda d, T: nn.LearnedSplitting(
        field_parts(tuple(f"sin(z[{(i + 1) % d}])/10" for i in range(d))), d, 2
    ),
    "rotated": lambda d, T: nn.Rotated(nn.AdditiveCoupling(d, 5), nn.spread_rotation(1, d)),
    "gradient coupling": lambda d, T: nn.GradientCoupling(potential(d), potential(d)),
    "henon": lambda d, T: nn.HenonMap(potential(d)),
    "symplectic attention": lambda d, T: nn.SymplecticAttention(d + d % 2),
    "composition": lambda d, T: nn.Composition(nn.TimeMixing(T), nn.AdditiveCoupling(d, 5)),
    "reversible": lambda d, T: nn.Reversible(nn.AdditiveCoupling(d, 5), np.eye(d)),
    "lower": lambda d, T: nn.TriangularLayer(d, "lower", initial_scale=1e-2),
    "upper, linear": lambda d, T: nn.TriangularLayer(
        d, "upper", activation="identity", initial_scale=1e-2
    ),
    "triangular feed-forward": lambda d, T: nn.TriangularFeedForward(
        d, blocks=1, initial_scale=1e-2
    ),
    "time mixing": lambda d, T: nn.TimeMixing(T),
}
SIZES = st.tuples(st.integers(2, 6), st.integers(2, 8))


def test_every_layer_that_preserves_volume_has_an_example():
    exported = (getattr(nn, name) for name in nn.__all__)
    claimed = {kind for kind in exported if getattr(kind, "volume_preserving", False)}
    assert claimed - {type(make(3, 3)) for make in LAYERS.values()} == set(), "add it to LAYERS"


@pytest.mark.parametrize("name", LAYERS)
@given(SIZES, st.integers(0, 10**6), st.sampled_from([None, 0.3, 1.0]))
def test_volume_and_inverse(name, sizes, seed, scale):
    dim, window = sizes
    torch.manual_seed(seed)
    layer = LAYERS[name](dim, window)
    if scale is not None:
        if isinstance(layer, nn.BasisCoupling):  # all terms together of the size of the states
            scale /= layer.coefficients.numel() ** 0.5
        randomise(layer, scale, seed)
    assert layer.volume_preserving
    X = sample(window, getattr(layer, "dim", dim), seed=seed)
    assert determinant_error(layer, X) <= 1e-9
    Y = layer(X)
    # rounding is judged against the size that intermediate states reach
    size = max(1.0, float(Y.detach().abs().max()))
    assert_close(layer.inverse(Y), X, 1e-10 * size)
    assert_close(layer(layer.inverse(X)), X, 1e-9)


@given(SIZES, st.integers(0, 10**6))
def test_correlations_are_invariant_under_skew_attention(sizes, seed):
    dim, window = sizes
    layer = randomise(nn.VolumePreservingAttention(dim), 1.0, seed)
    X = sample(2, window, dim, seed=seed)
    C = layer.correlations(X)
    assert_close(layer(X), nn.cayley(C).mT @ X, 1e-11)  # by elimination where windows are long
    assert_close(layer.correlations(layer(X)), C, 1e-11)


def test_arbitrary_weighting_does_not_preserve_volume():
    errors = []
    for seed in range(20):
        layer = randomise(nn.VolumePreservingAttention(3, "arbitrary", scale=3**-0.5), 1.0, seed)
        assert not layer.volume_preserving
        errors.append(determinant_error(layer, sample(3, 3, seed=seed)))
    assert sorted(errors)[10] > 0.1  # in the middle of the samples, and not by rounding
    with pytest.raises(InputError, match="no explicit inverse"):
        layer.inverse(sample(3, 3))
    composed = nn.Composition(layer, nn.AdditiveCoupling(3))
    assert not composed.volume_preserving


def test_one_transform_of_a_sum_does_not_preserve_volume():
    """Why TimeMixing is a layer of its own."""
    A, B = nn.skew_matrix(sample(3, seed=1), 3), nn.skew_matrix(sample(3, seed=2), 3)

    def layer(X):
        return nn.cayley(X @ A @ X.mT + B).mT @ X

    assert determinant_error(layer, sample(3, 3, seed=3)) > 1e-2


def test_published_attention_formula():
    """Z -> Z cayley(C), C_ij = z_i^T A z_j / sqrt(d) for i > j, one entry at a time."""
    d, T = 3, 4
    layer = randomise(nn.VolumePreservingAttention(d, "arbitrary", scale=d**-0.5), 1.0, 5)
    Z = sample(d, T, seed=5)
    A = layer.scores.entries.view(d, d)
    C = torch.zeros(T, T, dtype=Z.dtype)
    for i in range(T):
        for j in range(i):
            C[i, j] = Z[:, i] @ A @ Z[:, j] / d**0.5
            C[j, i] = -C[i, j]
    one = torch.eye(T, dtype=Z.dtype)
    assert_close(layer(Z.mT), (Z @ (one - C) @ torch.linalg.inv(one + C)).mT, 1e-13)


def test_coupling_formula():
    layer = randomise(nn.AdditiveCoupling(3, 4), 1.0, 2)
    z = sample(3, seed=1)
    W, b, a = layer.inner_weight.view(3, 2, 4), layer.inner_bias, layer.outer_weight
    expected = z.clone()
    for k, rest in enumerate([[1, 2], [0, 2], [0, 1]]):
        expected[k] = expected[k] + a[k] @ torch.tanh(expected[rest] @ W[k] + b[k])
    assert_close(layer(z), expected, 1e-14)


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
        d,
        [dense(d - len(block), len(block)) for block in as_blocks(rhos, d)],
        split=rhos,
        **k,
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
    if (name, system) == ("skew attention", "flips"):
        with pytest.raises(InputError, match="CoupledAttention"):
            make(split, dim, 3, symmetries=group)
        return
    if (name, system) == ("triangular", "hamiltonian"):
        with pytest.raises(InputError, match="diagonal"):
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


@given(SIZES, st.integers(0, 10**6))
def test_reversible(sizes, seed):
    dim, window = sizes
    psi = nn.Composition(
        nn.VolumePreservingAttention(dim), nn.AdditiveCoupling(dim, 4), nn.TimeMixing(window)
    )
    randomise(psi, 0.5, seed)
    signs = 1 - 2 * torch.randint(0, 2, (dim,), generator=torch.Generator().manual_seed(seed))
    phi = nn.Reversible(psi, torch.diag(signs.double()))
    assert phi.volume_preserving
    X = sample(window, dim, seed=seed)
    R = phi.reflection
    assert_close(R(R(X)), X, 0)
    assert_close(R(phi(R(phi(X)))), X)
    assert_close(phi.inverse(phi(X)), X)
    assert determinant_error(phi, X) <= 1e-9


def test_reversible_needs_an_inverse_and_an_involution():
    with pytest.raises(InputError, match="explicitly invertible"):
        nn.Reversible(nn.VolumePreservingAttention(3, "arbitrary"), SIGN_FLIPS[0])
    with pytest.raises(InputError, match="its own inverse"):
        nn.Reversible(nn.AdditiveCoupling(2), [[0.0, -1.0], [1.0, 0.0]])


def test_reversible_states_without_time():
    phi = nn.Reversible(nn.AdditiveCoupling(3), SIGN_FLIPS[1], time_reversal=False)
    z = sample(7, 3)
    R = phi.reflection
    assert_close(R(phi(R(phi(z)))), z)


@pytest.mark.parametrize("name", LAYERS)
def test_functional_jacobians(name):
    """What Levenberg-Marquardt does: residual Jacobians of a batch with respect to weights."""
    layer = LAYERS[name](3, 4)
    parameters = {key: value.detach() for key, value in layer.named_parameters()}
    X = sample(5, 4, getattr(layer, "dim", 3))

    def output(parameters, x):
        return torch.func.functional_call(layer, parameters, (x,))

    reverse = torch.func.vmap(torch.func.jacrev(output), (None, 0))(parameters, X)
    forward = torch.func.vmap(torch.func.jacfwd(output), (None, 0))(parameters, X)
    for key, value in parameters.items():
        assert reverse[key].shape == (*X.shape, *value.shape)
        assert_close(reverse[key], forward[key], 1e-12)
    # and the map is the same one window at a time
    assert_close(torch.func.vmap(layer)(X), layer(X), 1e-13)


@pytest.mark.parametrize("name", LAYERS)
def test_starts_near_the_identity_in_any_dtype(name):
    torch.manual_seed(0)
    layer = LAYERS[name](3, 4)
    X = sample(2, 4, getattr(layer, "dim", 3), scale=0.5)
    if "initial_scale" in inspect.signature(type(layer)).parameters:
        assert (layer(X) - X).abs().max() < 0.2
    layer = layer.float()
    assert layer(X.float()).dtype == torch.float32
