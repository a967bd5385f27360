"""Larger models begin as the map of the smaller one."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import vpintegrator as vp
from tests.models.cases import ALL, POLYNOMIAL
from tests.nn.laws import SIGN_FLIPS, assert_close, randomise, sample
from vpintegrator import models, nn
from vpintegrator.models.growth import attention, layers, refine


def built(name, arguments, seed=0, scale=0.05):
    torch.manual_seed(seed)
    model = randomise(models.ARCHITECTURES[name](**arguments), scale, seed)
    model.set_normalisation(torch.zeros(model.dim), 1 + torch.rand(model.dim))
    return model, sample(5, model.window, model.dim, seed=seed)


@settings(max_examples=12, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    window=st.sampled_from([1, 3]),
    symmetric=st.booleans(),
    shears=st.sampled_from([{}, {"sweep": "symmetric"}, {"bases": 2, "sweep": "symmetric"}]),
    more=st.tuples(st.integers(0, 2), st.integers(0, 4)),
)
def test_a_grown_model_is_the_same_map(seed, window, symmetric, shears, more):
    rhos = SIGN_FLIPS[: 1 if "bases" in shears else 2] if symmetric else ()
    sizes = {"dim": 3, "depth": 2, "functions": "polynomial", "degree": 4, **shears}
    name, windows = ("vpff", {}) if window == 1 else ("vpt", {"window": window})
    model, z = built(name, sizes | windows | {"reversing_symmetries": rhos}, seed)
    larger = vp.prolong(model, depth=2 + more[0], degree=4 + more[1])
    torch.testing.assert_close(larger(z), model(z), rtol=1e-12, atol=1e-12)
    assert larger.arguments | {"depth": 2, "degree": 4} == model.arguments
    counts = [sum(p.numel() for p in each.parameters()) for each in (model, larger)]
    assert counts[0] <= counts[1]


@pytest.mark.parametrize(
    ("name", "arguments", "sizes"),
    [
        ("vpff", POLYNOMIAL | {"split": "halves", "periodic": [(0, 6.0)]}, {"degree": 5}),
        ("vpt", {}, {}),
        ("spff", POLYNOMIAL | ALL, {"degree": 5}),
        ("spt", POLYNOMIAL | ALL, {"degree": 5}),
        ("spff", POLYNOMIAL | {"dim": 5, "explicit_time": True}, {"degree": 5}),
    ],
)
def test_angles_neurons_and_symplectic_models_grow_too(name, arguments, sizes):
    model, z = built(name, {"dim": 4, "depth": 1} | arguments)
    model.set_advance(0.1)
    larger = vp.prolong(model, depth=3, **sizes)
    assert_close(larger(z), model(z), 1e-13)
    assert larger.structure == model.structure


@pytest.mark.parametrize("depth", [3, 4, 6, 7])
@pytest.mark.parametrize("name", ["vpff", "vpt", "spff"])
def test_layers_sampled_anew_are_the_same_flow(name, depth):
    """To first order the sum of the coefficients is the generator: maps differ by second order."""
    defects, moved = [], []
    for size in (1e-3, 1e-4):
        model, z = built(name, POLYNOMIAL | {"dim": 4, "depth": 3}, depth, size)
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
    layer, z = randomise(layer.double(), 0.0, 0), sample(5, 3, 4)
    assert layer.identity_at_zero and torch.equal(layer(z), z)
