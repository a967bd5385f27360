"""Larger models begin as the map of the smaller one."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import vpintegrator as vp
from vpintegrator import models, nn
from vpintegrator.models.growth import attention, layers, refine

FLIPS = [[[-1.0, 0, 0], [0, 1, 0], [0, 0, 1]], [[1.0, 0, 0], [0, -1, 0], [0, 0, 1]]]


def randomised(model, scale=0.05):
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(scale * torch.randn_like(parameter))
    model.set_normalisation(torch.zeros(model.dim), 1 + torch.rand(model.dim))
    return model


@settings(max_examples=12, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    window=st.sampled_from([1, 3]),
    symmetric=st.booleans(),
    shears=st.sampled_from([{}, {"sweep": "symmetric"}, {"bases": 2, "sweep": "symmetric"}]),
    more=st.tuples(st.integers(0, 2), st.integers(0, 4)),
)
def test_a_grown_model_is_the_same_map(seed, window, symmetric, shears, more):
    torch.manual_seed(seed)
    name, windows = ("vpff", {}) if window == 1 else ("vpt", {"window": window})
    model = models.ARCHITECTURES[name](
        dim=3,
        **windows,
        depth=2,
        functions="polynomial",
        degree=4,
        reversing_symmetries=FLIPS[: 1 if "bases" in shears else 2] if symmetric else (),
        **shears,
    )
    randomised(model)
    larger = vp.prolong(model, depth=2 + more[0], degree=4 + more[1])
    z = torch.randn(5, window, 3, dtype=torch.float64)
    torch.testing.assert_close(larger(z), model(z), rtol=1e-12, atol=1e-12)
    assert larger.arguments | {"depth": 2, "degree": 4} == model.arguments
    if any(more):
        assert sum(p.numel() for p in larger.parameters()) >= sum(
            p.numel() for p in model.parameters()
        )


@pytest.mark.parametrize("depth", [3, 4, 6, 7])
@pytest.mark.parametrize("name", ["vpff", "vpt", "spff"])
def test_layers_sampled_anew_are_the_same_flow(name, depth):
    """To first order the sum of the coefficients is the generator: maps differ by second order."""
    torch.manual_seed(depth)
    given = {"dim": 4, "depth": 3, "functions": "polynomial", "degree": 3}
    model = models.ARCHITECTURES[name](**given)
    defects, moved = [], []
    z = torch.randn(5, model.window, 4, dtype=torch.float64)
    for size in (1e-3, 1e-4):
        torch.manual_seed(0)
        randomised(model, size)
        for parameter in (p for layer in attention(model) for p in layer.parameters()):
            parameter.data.zero_()
        deeper = refine(model, depth)
        defects.append((deeper(z) - model(z)).abs().max().item())
        moved.append((model(z) - z).abs().max().item())
        total = [sum(p.sum() for p in layers(each).parameters()) for each in (model, deeper)]
        torch.testing.assert_close(*total)
    assert len(layers(deeper)) * 3 == len(layers(model)) * depth
    if depth == 3:
        assert max(defects) < 1e-15
    else:
        assert defects[1] < 0.02 * defects[0] < 0.02 * moved[0]


def test_angles_and_pairs_of_components_grow_too():
    torch.manual_seed(1)
    model = models.VolumePreservingFeedForward(
        dim=4, functions="polynomial", degree=3, split="halves", periodic=[(0, 6.0)], depth=1
    )
    randomised(model)
    z = torch.randn(5, 1, 4, dtype=torch.float64)
    torch.testing.assert_close(vp.prolong(model, degree=5, depth=2)(z), model(z))


def test_networks_of_neurons_grow_by_layers():
    torch.manual_seed(2)
    model = randomised(models.VolumePreservingTransformer(dim=3, depth=1))
    z = torch.randn(5, 3, 3, dtype=torch.float64)
    torch.testing.assert_close(vp.prolong(model, depth=3)(z), model(z))


@pytest.mark.parametrize(
    "layer",
    [
        nn.VolumePreservingAttention(4),
        nn.VolumePreservingAttention(4, "arbitrary"),
        nn.CoupledAttention(4, 3),
        nn.TimeMixing(3),
        nn.SymplecticAttention(4),
        nn.AttentionCoupling(4, 3),
    ],
    ids=lambda layer: type(layer).__name__,
)
def test_layers_that_say_so_are_the_identity_at_zero(layer):
    layer = layer.double()
    assert layer.identity_at_zero
    z = torch.randn(5, 3, 4, dtype=torch.float64)
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.zero_()
    assert torch.equal(layer(z), z)
