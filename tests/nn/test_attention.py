"""Values and gradients of attention against formulas, written out, and against torch."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.nn.laws import assert_close, determinant_error, randomise, sample
from vpintegrator import nn
from vpintegrator.errors import InputError

EXAMPLES = {
    "skew attention": lambda d, T: nn.VolumePreservingAttention(d),
    "scaled attention": lambda d, T: nn.VolumePreservingAttention(d, scale=d**-0.5),
    "arbitrary attention": lambda d, T: nn.VolumePreservingAttention(d, "arbitrary"),
    "attention of own scores": lambda d, T: nn.Attention(Distances()),
    "coupled attention": lambda d, T: nn.CoupledAttention(d, T),
    "rotations by heads": lambda d, T: nn.MultiHeadVolumePreservingAttention(d, max(1, d // 2)),
    "rotations by unequal heads": lambda d, T: nn.MultiHeadVolumePreservingAttention(
        d + 2, [d, 2], scale=0.7
    ),
    "attention coupling": lambda d, T: nn.AttentionCoupling(d, T, width=4, heads=2),
    "symplectic attention": lambda d, T: nn.SymplecticAttention(d + d % 2),
    "symplectic composition": lambda d, T: nn.Composition(
        nn.SymplecticAttention(d + d % 2), nn.HenonMap(nn.NeuronPotential((d + 1) // 2, 3))
    ),
    "time mixing": lambda d, T: nn.TimeMixing(T),
    "time mixing with shears": lambda d, T: nn.TimeMixing(T, shears=True),
    "multiplicative attention": lambda d, T: nn.MultiplicativeAttention(d),
    "additive attention": lambda d, T: nn.AdditiveAttention(d, 3),
    "standard attention": lambda d, T: nn.MultiHeadAttention(d, 2),
    "attention on Stiefel matrices": lambda d, T: nn.MultiHeadAttention(d, 2, stiefel=True),
    "encoder": lambda d, T: nn.EncoderBlock(d, 2),
    "encoder on Stiefel matrices": lambda d, T: nn.EncoderBlock(d, 2, stiefel=True, norm="batch"),
    "pointwise": lambda d, T: nn.PointwiseFeedForward(d),
    "residual": lambda d, T: nn.ResidualLayer(d),
    "affine": lambda d, T: nn.AffineMap(d),
    "polynomial": lambda d, T: nn.PolynomialLayer(d, 3),
    "polynomial of windows": lambda d, T: nn.PolynomialLayer(d, 2, window=T),
    "leapfrog": lambda d, T: nn.LeapfrogLayer(d, 2, window=T),
}
SIZES = st.tuples(st.integers(2, 6), st.integers(2, 8))
DOUBLE = torch.float64


def rotation(S):
    """(I - C) (I + C)^-1 for C with the entries of S below its diagonal, and their negatives."""
    n = len(S)
    C = torch.zeros(n, n)
    for i in range(n):
        for j in range(i):
            C = C + S[i, j] * (torch.eye(n)[i, :, None] * torch.eye(n)[j])
    one = torch.eye(n)
    return (one - C + C.mT) @ torch.linalg.inv(one + C - C.mT)


def parts(layer):
    """Projections of queries, keys and values of multihead attention, by name."""
    return [("query", layer.scores.query), ("key", layer.scores.key), ("value", layer.value)]


def softmax(S):
    return S.exp() / S.exp().sum(0)


def triangle(entries, n):
    """The strictly lower matrix of entries, row by row."""
    rows, columns = torch.tril_indices(n, n, -1)
    return torch.zeros(n, n).index_put((rows, columns), entries)


def skew(entries, n):
    """The skew matrix of entries below the diagonal, row by row."""
    A = triangle(entries, n)
    return A - A.mT


def blocks(Z, change):
    """Components of Z (dim, time) by turns, each by a function of the others, and itself."""
    for k in range(len(Z)):
        rest = [i for i in range(len(Z)) if i != k]
        Z = torch.cat([Z[:k], change(k, Z[rest], Z[k : k + 1]), Z[k + 1 :]])
    return Z


def heads(layer, Z, s):
    q, k, v = (part.weight for part in (layer.scores.query, layer.scores.key, layer.value))
    each = zip(q, k, v, strict=True)
    return torch.cat([V @ Z @ softmax(s * (K @ Z).mT @ (Q @ Z)) for Q, K, V in each])


def additive(layer, Z, normaliser, activation=torch.tanh):
    a = layer.scores
    score = [[a.vector @ activation(a.query @ q + a.key @ k) for q in Z.mT] for k in Z.mT]
    return Z @ normaliser(torch.stack([torch.stack(row) for row in score]))


def coupled(layer, Z):
    def change(k, rest, own):
        A = layer.scores[k].entries.view(2, 2)
        B = skew(layer.constants[k], Z.shape[1])
        return own @ rotation(rest.mT @ A @ rest + B)

    return blocks(Z, change)


def shifted(layer, Z):
    def change(k, rest, own):
        g = layer.functions[k]
        h = g.embedding.mT @ rest + g.positions.mT
        u = h + heads(g.attention, h, 2**-0.5)
        return own + g.outer_weight.mT @ torch.tanh(g.inner_weight.mT @ u + g.inner_bias[:, None])

    return blocks(Z, change)


def rotated(layer, Z, widths, scale=1.0):
    """Heads of so many rows of Y = Q Z, one above the other, and Q of a Cayley transform."""
    n, one = len(Z), torch.eye(len(Z))
    K = skew(layer.frame.entries, n)
    Q = torch.linalg.solve(one + K, one - K)
    Y = (Q @ Z).split(widths)
    each = zip(Y, layer.scores, widths, strict=True)
    turned = [y @ rotation(scale * y.mT @ skew(a.entries, n) @ y) for y, a, n in each]
    return Q.mT @ torch.cat(turned)


def symplectic(layer, Z):
    (q, Q), (p, P) = Z[:2], Z[2:]
    areas = torch.outer(q, p) - torch.outer(p, q), torch.outer(Q, P) - torch.outer(P, Q)
    once = [
        torch.stack([x, y]) @ rotation(a * S)
        for x, y, a, S in zip((q, Q), (p, P), layer.each, areas, strict=True)
    ]
    Z = torch.stack([once[0][0], once[1][0], once[0][1], once[1][1]])
    S = Z.mT @ nn.canonical_form(4) @ Z
    return Z @ rotation(layer.common * S)


def pointwise(layer, Z):
    hidden = torch.relu(layer.inner.weight @ Z + layer.inner.bias[:, None])
    return layer.outer.weight @ hidden + layer.outer.bias[:, None]


# layers, and maps of Z (dim, time): Z becomes Z times the weights, keys by rows
FORMULAS = {
    "skew": (
        lambda: nn.VolumePreservingAttention(3),
        lambda a, Z: Z @ rotation(Z.mT @ skew(a.scores.entries, 3) @ Z),
    ),
    "published": (
        lambda: nn.VolumePreservingAttention(3, "arbitrary", scale=3**-0.5),
        lambda a, Z: Z @ rotation(Z.mT @ a.scores.entries.view(3, 3) @ Z / 3**0.5),
    ),
    "multiplicative": (
        lambda: nn.MultiplicativeAttention(3, residual=True),
        lambda a, Z: Z + Z @ softmax(Z.mT @ a.scores.entries.view(3, 3) @ Z),
    ),
    "multiplicative, rotations": (
        lambda: nn.MultiplicativeAttention(3, normaliser="cayley"),
        lambda a, Z: Z @ rotation(Z.mT @ a.scores.entries.view(3, 3) @ Z),
    ),
    "additive": (lambda: nn.AdditiveAttention(3, 5), lambda a, Z: additive(a, Z, softmax)),
    "additive, rotations": (
        lambda: nn.AdditiveAttention(3, 2, normaliser="cayley", residual=True),
        lambda a, Z: Z + additive(a, Z, rotation),
    ),
    "additive, of sines": (
        lambda: nn.AdditiveAttention(3, 5, activation="sin"),
        lambda a, Z: additive(a, Z, softmax, torch.sin),
    ),
    "multiplicative, sigmoids": (
        lambda: nn.MultiplicativeAttention(3, normaliser=torch.sigmoid),
        lambda a, Z: Z @ (1 / (1 + torch.exp(-Z.mT @ a.scores.entries.view(3, 3) @ Z))),
    ),
    "general, scaled": (
        lambda: nn.GeneralMultiHeadAttention(3, 2, key_width=2, bias=False, scale=0.3),
        lambda a, Z: a.output.weight @ heads(a, Z, 0.3),
    ),
    "multihead": (lambda: nn.MultiHeadAttention(4, 2), lambda a, Z: heads(a, Z, 2**-0.5)),
    "multihead, scaled": (
        lambda: nn.MultiHeadAttention(3, 1, residual=True, scale=0.3),
        lambda a, Z: Z + heads(a, Z, 0.3),
    ),
    "coupled": (lambda: nn.CoupledAttention(3, 4), coupled),
    "coupling": (lambda: nn.AttentionCoupling(3, 4, width=4, heads=2), shifted),
    "heads": (
        lambda: nn.MultiHeadVolumePreservingAttention(4),
        lambda a, Z: rotated(a, Z, [2, 2]),
    ),
    "heads of unequal widths": (
        lambda: nn.MultiHeadVolumePreservingAttention(7, [2, 5], scale=0.3),
        lambda a, Z: rotated(a, Z, [2, 5], 0.3),
    ),
    "symplectic": (lambda: nn.SymplecticAttention(4), symplectic),
    "time mixing": (lambda: nn.TimeMixing(4), lambda a, Z: Z @ rotation(skew(a.entries, 4))),
    "time mixing with shears": (
        lambda: nn.TimeMixing(4, shears=True),
        lambda a, Z: (
            Z
            @ (torch.eye(4) + triangle(a.shear_entries[1], 4))
            @ (torch.eye(4) + triangle(a.shear_entries[0], 4).mT)
            @ rotation(skew(a.entries, 4))
        ),
    ),
    "pointwise": (lambda: nn.PointwiseFeedForward(3), pointwise),
    "residual": (
        lambda: nn.ResidualLayer(3),
        lambda a, Z: Z + torch.tanh(a.linear.weight @ Z + a.linear.bias[:, None]),
    ),
}


@pytest.mark.parametrize("name", FORMULAS)
def test_values_and_gradients(name):
    make, formula = FORMULAS[name]
    layer = randomise(make(), 0.7, 1)
    X = sample(4, getattr(layer, "dim", 3), seed=2).requires_grad_()
    inputs, weights = [X, *layer.parameters()], sample(*X.shape, seed=3)
    found, expected = layer(X), formula(layer, X.mT).mT
    assert_close(found, expected, 1e-14 * (1 + float(expected.detach().abs().max())))
    gradients = (torch.autograd.grad((weights * Y).sum(), inputs) for Y in (found, expected))
    for own, other in zip(*gradients, strict=True):
        assert_close(own, other, 1e-12)


class Distances(torch.nn.Module):
    """Scores of one's own: squared distances, with a parameter."""

    def __init__(self):
        super().__init__()
        self.rate = torch.nn.Parameter(torch.tensor(0.3))

    def forward(self, query, key):
        return self.rate * (key.unsqueeze(-2) - query.unsqueeze(-3)).square().sum(-1)


@pytest.mark.parametrize("normaliser", ["softmax", "cayley"])
def test_scores_of_ones_own(normaliser):
    layer = nn.Attention(Distances(), normaliser, value=torch.nn.Linear(3, 2))
    X = sample(4, 3)
    S = 0.3 * torch.stack([torch.stack([(k - q).square().sum() for q in X]) for k in X])
    weights = softmax(S) if normaliser == "softmax" else rotation(S)
    assert_close(layer(X), weights.mT @ layer.value(X), 1e-13)
    assert_close(layer.attention_weights(X), weights.mT, 1e-13)
    assert len(list(layer.parameters())) == 3 and not layer.volume_preserving


class Powers(torch.nn.Module):
    """A normaliser of one's own: powers of scores, over their sum."""

    def __init__(self):
        super().__init__()
        self.exponent = torch.nn.Parameter(torch.tensor(2.0))

    def forward(self, S):
        powers = S.abs() ** self.exponent
        return powers / powers.sum(-2, keepdim=True)


def test_a_normaliser_of_ones_own():
    layer = nn.Attention(nn.BilinearScores(3, "skew", initial_scale=1.0), Powers())
    X = sample(2, 4, 3)
    S = X @ layer.scores.matrix() @ X.mT
    weights = S.square() / S.square().sum(-2, keepdim=True)
    assert_close(layer.attention_weights(X), weights.mT, 1e-14)
    assert_close(layer(X), weights.mT @ X, 1e-14)
    assert len(list(layer.parameters())) == 2 and not layer.volume_preserving
    with pytest.raises(InputError, match="no explicit inverse"):
        layer.inverse(X)
    for wrong in (3, "sigmoid"):
        with pytest.raises(InputError, match="normaliser"):
            nn.Attention(nn.BilinearScores(3), wrong)


@given(st.integers(1, 4), st.integers(1, 3), st.integers(1, 6), st.integers(0, 10**6))
def test_general_attention_equals_torch(heads, width, length, seed):
    """Self-attention and cross-attention, with and without biases."""
    dim = heads * width
    torch.manual_seed(seed)
    bias = bool(seed % 2)
    theirs = torch.nn.MultiheadAttention(
        dim, heads, bias=bias, kdim=dim + 1, vdim=dim + 2, batch_first=True, dtype=DOUBLE
    )
    randomise(theirs, 1.0, seed)
    ours = nn.GeneralMultiHeadAttention(
        dim, heads, key_dim=dim + 1, value_dim=dim + 2, key_width=width, bias=bias
    )
    with torch.no_grad():
        for index, (name, heads_of) in enumerate(parts(ours)):
            heads_of.weight.flatten(0, 1).copy_(getattr(theirs, f"{name[0]}_proj_weight"))
            if bias:
                heads_of.bias.copy_(theirs.in_proj_bias.chunk(3)[index])
        ours.output.weight.copy_(theirs.out_proj.weight)
        if bias:
            ours.output.bias.copy_(theirs.out_proj.bias)
    query = sample(2, 3, dim, seed=seed)
    key, value = sample(2, length, dim + 1, seed=1), sample(2, length, dim + 2, seed=2)
    output, weights = theirs(query, key, value, average_attn_weights=False)
    assert_close(ours(query, key, value), output, 1e-12)
    assert_close(ours.attention_weights(query, key, value), weights, 1e-12)


def test_encoder_block_equals_torch():
    theirs = torch.nn.TransformerEncoderLayer(
        6, 2, dim_feedforward=24, dropout=0.0, batch_first=True, dtype=DOUBLE
    )
    randomise(theirs, 0.5, 3)
    ours = nn.EncoderBlock(6, 2)
    with torch.no_grad():
        for index, (_, own) in enumerate(parts(ours.attention)):
            own.weight.flatten(0, 1).copy_(theirs.self_attn.in_proj_weight.chunk(3)[index])
            own.bias.copy_(theirs.self_attn.in_proj_bias.chunk(3)[index])
    for mine, other in (
        (ours.attention.output, theirs.self_attn.out_proj),
        (ours.feed_forward.inner, theirs.linear1),
        (ours.feed_forward.outer, theirs.linear2),
        (ours.attention_norm.norm, theirs.norm1),
        (ours.feed_forward_norm.norm, theirs.norm2),
    ):
        mine.load_state_dict(other.state_dict())
    X = sample(3, 5, 6)
    assert_close(ours(X), theirs(X), 1e-12)


@pytest.mark.parametrize("norm", ["layer", "batch", "none"])
@pytest.mark.parametrize("stiefel", [False, True])
def test_encoder_norms(norm, stiefel):
    output = nn.EncoderBlock(4, 2, norm=norm, stiefel=stiefel)(sample(3, 5, 4))
    assert output.shape == (3, 5, 4)
    if norm == "batch":
        assert_close(output.mean((0, 1)), torch.zeros(4, dtype=DOUBLE), 1e-10)


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
    assert not nn.Composition(layer, nn.AdditiveCoupling(3)).volume_preserving


@pytest.mark.parametrize(
    ("dim", "heads", "widths"),
    [(4, 2, [2, 2]), (5, 2, [3, 2]), (7, 3, [3, 2, 2]), (2, 1, [2]), (6, (4, 2), [4, 2])],
)
def test_heads_divide_the_components(dim, heads, widths):
    """The frame is the identity at first, and the layer is where all weights are zero."""
    layer = nn.MultiHeadVolumePreservingAttention(dim, heads)
    assert layer.widths == widths
    assert sorted(i for own in layer.components for i in own) == list(range(dim))
    assert_close(layer.orthogonal(), torch.eye(dim), 0)
    X = sample(3, 5, dim)
    weights = layer.attention_weights(X)
    assert weights.shape == (3, len(widths), 5, 5)
    for k, own in enumerate(layer.components):
        assert_close(weights[:, k] @ X[..., own], layer(X)[..., own], 1e-14)
    randomise(layer, 0.0, 0)
    assert torch.equal(layer(X), X) and torch.equal(layer.inverse(X), X)


@pytest.mark.parametrize(
    ("dim", "heads", "message"),
    [
        (3, 2, "heads = 2: a head .* at least 2 components, .*; 3 components allow at most 1"),
        (5, [4, 1], r"heads = \[4, 1\]: a head .* at most 2"),
        (5, [2, 2], "hold 4 components together, but a state has 5"),
        (4, 0, "heads = 0 must be a whole number"),
        (4, [2.0, 2.0], "heads must be an integer"),
        (1, 1, "dim = 1 must be a whole number, at least 2"),
    ],
)
def test_heads_without_weights_are_refused(dim, heads, message):
    with pytest.raises(InputError, match=message):
        nn.MultiHeadVolumePreservingAttention(dim, heads)


def test_heads_hold_components_that_symmetries_treat_alike():
    """Each head then has a weighting that survives, and the layer commutes with the group."""
    flips = torch.diag(torch.tensor([1.0, -1, 1, -1]))
    layer = nn.MultiHeadVolumePreservingAttention(4, 2, symmetries=[flips])
    assert layer.components == [[0, 2], [1, 3]]
    randomise(layer, 0.8, 1)
    X = sample(3, 5, 4)
    assert_close(layer(X @ flips.mT), layer(X) @ flips.mT, 1e-13)
    assert (layer.orthogonal() - torch.eye(4)).abs().max() > 0.1
    turns = torch.block_diag(*[torch.tensor([[0.0, -1], [1, 0]])] * 2)
    layer = randomise(nn.MultiHeadVolumePreservingAttention(4, 2, symmetries=[turns]), 0.8, 1)
    assert_close(layer(X @ turns.mT), layer(X) @ turns.mT, 1e-13)
    exchange = torch.eye(4)[[1, 0, 3, 2]]
    with pytest.raises(InputError, match="no skew weighting"):
        nn.MultiHeadVolumePreservingAttention(4, 2, symmetries=[exchange])


def test_shears_of_time_steps_extrapolate():
    """From (q_1, q_2) to (q_2, 2 q_2 - q_1), which keeps volume and no lengths."""
    layer = nn.TimeMixing(2, shears=True)
    with torch.no_grad():
        layer.entries.fill_(-1.0)  # a quarter turn
        layer.shear_entries.copy_(torch.tensor([[0.0], [-2.0]]))
    q = sample(2, 3)
    assert_close(layer(q), torch.stack([q[1], 2 * q[1] - q[0]]), 1e-14)
    assert_close(layer.inverse(layer(q)), q, 1e-14)
