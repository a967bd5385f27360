"""Attention against other implementations and against its formulas, term by term."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.nn.laws import assert_close, randomise, sample
from vpintegrator import nn

DOUBLE = torch.float64


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
        for index, name in enumerate(("query", "key", "value")):
            getattr(ours, name).weight.copy_(getattr(theirs, f"{name[0]}_proj_weight"))
            if bias:
                getattr(ours, name).bias.copy_(theirs.in_proj_bias.chunk(3)[index])
        ours.output.weight.copy_(theirs.out_proj.weight)
        if bias:
            ours.output.bias.copy_(theirs.out_proj.bias)
    query = sample(2, 3, dim, seed=seed)
    key, value = sample(2, length, dim + 1, seed=1), sample(2, length, dim + 2, seed=2)
    assert_close(ours(query, key, value), theirs(query, key, value)[0], 1e-12)


def copy_torch_self_attention(theirs, ours):
    with torch.no_grad():
        for name, weight in zip(
            ("query", "key", "value"), theirs.in_proj_weight.chunk(3), strict=True
        ):
            getattr(ours, name).copy_(weight.view_as(getattr(ours, name)))


@pytest.mark.parametrize("heads", [1, 2, 4])
def test_subspace_attention_equals_torch(heads):
    theirs = torch.nn.MultiheadAttention(4, heads, bias=False, batch_first=True, dtype=DOUBLE)
    with torch.no_grad():
        theirs.out_proj.weight.copy_(torch.eye(4))
    ours = nn.MultiHeadAttention(4, heads)
    copy_torch_self_attention(theirs, ours)
    X = sample(3, 5, 4)
    expected = theirs(X, X, X)[0]
    assert_close(ours(X), expected, 1e-12)
    assert_close(ours(X[0]), expected[0], 1e-12)
    ours.residual = True
    assert_close(ours(X), X + expected, 1e-12)


def test_subspace_attention_formula():
    """V_i softmax(K_i^T Q_i / sqrt(d/h)) by columns, heads one above the other."""
    d, h, T = 4, 2, 5
    layer = randomise(nn.MultiHeadAttention(d, h), 1.0, 1)
    Z = sample(d, T)
    blocks = []
    for i in range(h):
        Q, K, V = layer.query[i] @ Z, layer.key[i] @ Z, layer.value[i] @ Z
        blocks.append(V @ torch.softmax(K.mT @ Q / (d / h) ** 0.5, dim=0))
    assert_close(layer(Z.mT), torch.cat(blocks).mT, 1e-13)


def test_per_head_sum_equals_stacked_projection():
    layer = nn.GeneralMultiHeadAttention(
        4, 3, key_dim=5, value_dim=2, key_width=6, value_width=7, output_dim=8
    )
    query, key, value = sample(2, 3, 4, seed=1), sample(2, 9, 5, seed=2), sample(2, 9, 2, seed=3)
    stacked = layer(query, key, value)
    assert stacked.shape == (2, 3, 8)
    c = layer.heads_of(query, key, value)
    projections = layer.output.weight.unflatten(1, (3, 7))  # (d_o, head, d_v)
    summed = sum(c[:, h] @ projections[:, h].mT for h in range(3)) + layer.output.bias
    assert_close(summed, stacked, 1e-12)
    # and each head by its formula
    q = layer.query(query).unflatten(-1, (3, 6))
    k = layer.key(key).unflatten(-1, (3, 6))
    v = layer.value(value).unflatten(-1, (3, 7))
    scores = torch.einsum("bmhe,bnhe->bhmn", q, k) / 6**0.5
    assert_close(torch.einsum("bhmn,bnhe->bhme", scores.softmax(-1), v), c, 1e-12)


def test_single_head_is_multihead_with_identity_values():
    d = 3
    multi = nn.MultiHeadAttention(d, 1)
    with torch.no_grad():
        multi.value.copy_(torch.eye(d).unsqueeze(0))
    single = nn.MultiplicativeAttention(d)
    with torch.no_grad():
        single.weight.copy_(multi.key[0].mT @ multi.query[0] / d**0.5)
    X = sample(2, 4, d)
    assert_close(single(X), multi(X), 1e-13)


def test_multiplicative_formulas():
    layer = randomise(nn.MultiplicativeAttention(3), 1.0, 1)
    Z = sample(3, 4)
    assert_close(layer(Z.mT), (Z @ torch.softmax(Z.mT @ layer.weight @ Z, dim=0)).mT, 1e-13)
    orthogonal = nn.MultiplicativeAttention(3, weights="cayley")
    published = nn.VolumePreservingAttention(3, "arbitrary")
    with torch.no_grad():
        published.weight.entries.copy_(orthogonal.weight.flatten())
    assert_close(orthogonal(Z.mT), published(Z.mT), 1e-13)
    assert not orthogonal.volume_preserving


@pytest.mark.parametrize("weights", ["softmax", "cayley"])
def test_additive_formula(weights):
    d, T = 3, 4
    layer = nn.AdditiveAttention(d, 5, weights=weights)
    X = sample(T, d)
    S = torch.zeros(T, T, dtype=DOUBLE)
    for k in range(T):
        for q in range(T):
            S[k, q] = layer.vector @ torch.tanh(layer.query @ X[q] + layer.key @ X[k])
    if weights == "softmax":
        L = torch.softmax(S, dim=0)
    else:
        L = nn.cayley(torch.tril(S, -1) - torch.tril(S, -1).mT)
    assert_close(layer(X), L.mT @ X, 1e-13)
    layer.residual = True
    assert_close(layer(X), X + L.mT @ X, 1e-13)


def test_encoder_block_equals_torch():
    theirs = torch.nn.TransformerEncoderLayer(
        6, 2, dim_feedforward=24, dropout=0.0, batch_first=True, dtype=DOUBLE
    )
    randomise(theirs, 0.5, 3)
    ours = nn.EncoderBlock(6, 2)
    with torch.no_grad():
        for index, name in enumerate(("query", "key", "value")):
            linear = getattr(ours.attention, name)
            linear.weight.copy_(theirs.self_attn.in_proj_weight.chunk(3)[index])
            linear.bias.copy_(theirs.self_attn.in_proj_bias.chunk(3)[index])
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
    block = nn.EncoderBlock(4, 2, norm=norm, stiefel=stiefel)
    output = block(sample(3, 5, 4))
    assert output.shape == (3, 5, 4)
    if norm == "batch":
        flat = output.flatten(0, 1)
        assert_close(flat.mean(0), torch.zeros(4, dtype=DOUBLE), 1e-10)


def test_pointwise_and_residual_formulas():
    z = sample(2, 5, 3)
    layer = nn.PointwiseFeedForward(3)
    assert layer.inner.out_features == 12
    hidden = torch.relu(z @ layer.inner.weight.mT + layer.inner.bias)
    assert_close(layer(z), hidden @ layer.outer.weight.mT + layer.outer.bias, 1e-13)
    residual = nn.ResidualLayer(3)
    shift = torch.tanh(z @ residual.linear.weight.mT + residual.linear.bias)
    assert_close(residual(z), z + shift, 1e-13)
