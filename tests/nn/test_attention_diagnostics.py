"""The weights read off an attention layer are those by which it maps its window."""

import math

import pytest
import torch

from tests.nn.laws import SIGN_FLIPS, assert_close, randomise, sample
from vpintegrator import models, nn

DOUBLE = torch.float64


@pytest.mark.parametrize(
    "layer",
    [
        nn.VolumePreservingAttention(3),
        nn.VolumePreservingAttention(2, "arbitrary"),
        nn.MultiplicativeAttention(3),
        nn.MultiplicativeAttention(3, normaliser="cayley"),
        nn.AdditiveAttention(3, 2),
        nn.AdditiveAttention(3, normaliser="cayley"),
    ],
    ids=str,
)
@pytest.mark.parametrize("window", [1, 3, 5])
def test_the_output_is_the_weights_times_the_window(layer, window):
    layer = randomise(layer.double(), 1.0, seed=window)
    X = sample(4, window, layer.dim)
    weights = layer.attention_weights(X)
    assert weights.shape == (4, window, window)
    assert_close(weights @ X, layer(X))
    identity = torch.eye(window, dtype=DOUBLE)
    if layer.normaliser == "softmax":
        assert_close(weights.sum(-1), torch.ones(4, window, dtype=DOUBLE))
    else:
        assert_close(weights @ weights.mT, identity.expand_as(weights))


def test_each_block_or_head_has_weights_of_its_own():
    X = sample(2, 4, 3)
    for layer in (nn.CoupledAttention(3, 4), nn.MultiHeadAttention(3, 3)):
        randomise(layer.double(), 1.0, seed=1)
        weights = layer.attention_weights(X)
        assert weights.shape == (2, 3, 4, 4)
        coupled = isinstance(layer, nn.CoupledAttention)
        parts = [X[..., own] for own in layer.blocks] if coupled else layer.value(X).unbind(-3)
        applied = [weights[:, k] @ part for k, part in enumerate(parts)]
        assert_close(torch.cat(applied, -1), layer(X))


def test_the_weights_of_a_model_are_those_of_its_layers_in_their_order():
    model = randomise(models.VolumePreservingTransformer(dim=3, window=4, depth=2), 0.5, seed=4)
    model.set_normalisation(torch.ones(3), torch.tensor([1.0, 2.0, 4.0]))
    window = sample(2, 4, 3)
    weights = nn.attention_weights(model, window)
    inside = (window - model.shift) / model.scale
    for place, layer in model.core.named_children():
        if f"core.{place}" in weights:
            assert_close(weights[f"core.{place}"], layer.attention_weights(inside))
        inside = layer(inside)
    assert list(weights) == ["core.0", "core.2"]
    assert not any(part._forward_pre_hooks for part in model.modules())


@pytest.mark.parametrize(
    ("model", "shapes"),
    [
        (
            models.VolumePreservingTransformer(
                dim=3, window=4, depth=1, reversing_symmetries=SIGN_FLIPS[2:]
            ),
            {"core.psi.0": (4, 4)},
        ),
        (
            models.VolumePreservingMultiheadTransformer(dim=2, window=3, depth=1, heads=2),
            {f"core.0.functions.{block}.attention": (2, 3, 3) for block in (0, 1)},
        ),
        (models.StandardTransformer(dim=4, window=3, depth=1), {"core.2": (8, 3, 3)}),
        (models.VolumePreservingFeedForward(dim=3), {}),
    ],
    ids=["reversible", "inside couplings", "softmax", "no attention"],
)
def test_attention_is_found_wherever_it_is(model, shapes):
    window = sample(model.window, model.dim)
    weights, image = nn.attention_weights(model, window), model(window)
    assert {place: tuple(matrix.shape) for place, matrix in weights.items()} == shapes
    for matrix in weights.values():
        assert not matrix.requires_grad
    assert_close(model(window), image)


def test_the_change_of_a_rotation_is_its_angle():
    """A rotation of two time steps by an angle t moves windows by 2 sin(t / 2) of their size."""
    layer = nn.CoupledAttention(2, 2)
    with torch.no_grad():
        for weight in layer.parameters():
            weight.zero_()
        layer.constants.fill_(0.5)  # the Cayley transform of b is a rotation by 2 arctan(b)
    change = nn.attention_change(layer, sample(5, 2, 2))
    angle = 2 * math.atan(0.5)
    assert change.layers == 1 and change.weights == 4
    assert change.angle == pytest.approx(angle)
    assert change.change == pytest.approx(2 * math.sin(angle / 2))
    assert math.isnan(change.entropy) and "rad" in change.words
    assert nn.attention_change(nn.AdditiveCoupling(2), sample(5, 2, 2)) is None


def test_entropy_is_that_of_equal_weights_where_scores_are_equal():
    layer, changes = nn.MultiHeadAttention(4, 2, residual=True), []
    for layer.scores.scale in (0.0, 1e3):
        changes.append(nn.attention_change(layer, sample(20, 3, 4)))
    assert changes[0].entropy == pytest.approx(1.0) and changes[1].entropy < 0.1
    assert math.isnan(changes[0].angle)
