"""Windows whose states are mapped one by one."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import vpintegrator as vp
from vpintegrator import models
from vpintegrator.models.growth import attention, freeze_attention, unfreeze_attention
from vpintegrator.models.one_step import one_step, simplified, without_attention
from vpintegrator.nn.attention_weights import attention_layers

FLIP = [[[1, 0, 0, 0], [0, 1, 0, 0], [0, 0, -1, 0], [0, 0, 0, -1]]]
MODELS = {
    "vpt": {"functions": "polynomial", "degree": 2, "reversing_symmetries": FLIP},
    "vpt, coupled": {"weighting": "coupled", "time_mixing": True},
    "vpmt": {"prediction_window": 1},
    "spt": {"functions": "polynomial", "degree": 3, "periodic": [(0, 6.0)]},
    "spt, reversible": {"reversing_symmetries": FLIP},
}


def frozen(name, seed=0, window=3):
    torch.manual_seed(seed)
    architecture = models.ARCHITECTURES[name.partition(",")[0]]
    model = architecture(dim=4, window=window, **MODELS[name])
    model.set_normalisation(0.1 * torch.randn(4), (0.3 * torch.randn(4)).exp())
    freeze_attention(model)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.requires_grad:
                parameter.copy_(0.02 * torch.randn(parameter.shape, dtype=parameter.dtype))
    return model


@pytest.mark.parametrize("name", MODELS)
@given(seed=st.integers(0, 10**6), window=st.integers(2, 4))
@settings(max_examples=5, deadline=None)
def test_each_state_is_mapped_alone(name, seed, window):
    model = frozen(name, seed, window)
    alone = one_step(model, fixed=True)
    windows = 0.3 * torch.randn(5, window, 4, dtype=torch.float64)
    each = alone(windows.unsqueeze(-2)).squeeze(-2)
    torch.testing.assert_close(model(windows), each, rtol=1e-13, atol=1e-13)
    torch.testing.assert_close(model.inverse(model(windows)), windows)
    for law in ("volume_preserving", "symplectic", "invertible", "dim"):
        assert getattr(alone, law) == getattr(model, law)

    # windows that the map makes stay such: nothing drifts off their surface
    states = [windows[:, :1]]
    for _ in range(window):
        states.append(alone(states[-1]))
    before, after = (torch.cat(part, 1) for part in (states[:-1], states[1:]))
    torch.testing.assert_close(model(before), after, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("name", MODELS)
def test_unfrozen_attention_is_the_identity_and_learns(name):
    model = frozen(name)
    windows = 0.3 * torch.randn(5, 3, 4, dtype=torch.float64)
    before = model(windows)
    unfreeze_attention(model)
    after = model(windows)
    torch.testing.assert_close(after, before, rtol=0, atol=1e-15)
    after.square().sum().backward()
    for layer in attention(model):
        assert all(p.requires_grad for p in layer.parameters())
        assert any(p.grad is not None and p.grad.any() for p in layer.parameters())


@pytest.mark.parametrize("name", MODELS)
def test_attention_at_the_identity_is_known_from_the_weights(name, tmp_path):
    torch.manual_seed(0)
    drawn = models.ARCHITECTURES[name.partition(",")[0]](dim=4, window=3, **MODELS[name])
    assert drawn.attention_at_identity == ""
    model = frozen(name)
    acting, count = model.acting_attention
    assert acting == 0 < count == drawn.acting_attention[0]
    assert model.attention_at_identity == "attention at the identity"
    vp.save(model, tmp_path / "a.safetensors")
    loaded = models.load(tmp_path / "a.safetensors")
    assert loaded.attention_at_identity == "attention at the identity"
    unfreeze_attention(model)  # the same map: weights inside of couplings are drawn anew
    assert model.attention_at_identity == "attention at the identity"
    outer = [p for layer in attention(model) for p in layer.parameters() if not p.any()]
    with torch.no_grad():
        outer[0].add_(1e-300)
    assert model.acting_attention == (1, count)
    assert (
        model.attention_at_identity == f"attention at the identity in {count - 1} of {count} layers"
    )


@pytest.mark.parametrize("kind", ["multihead", "general"])
def test_softmax_attention_at_the_identity(kind):
    model = models.StandardTransformer(dim=4, window=3, depth=2, attention=kind)
    assert model.attention_at_identity == ""
    with torch.no_grad():
        for layer in attention_layers(model):
            for weight in layer.value.parameters() if kind == "general" else [layer.value]:
                weight.zero_()
            if kind == "general":
                layer.output.requires_grad_(False).weight.zero_()
                layer.output.bias.zero_()
    assert model.attention_at_identity == "attention at the identity"
    X = torch.randn(2, 3, 8, dtype=torch.float64)
    assert all(torch.equal(layer(X), X) for layer in attention_layers(model))
    assert models.VolumePreservingFeedForward(dim=4).acting_attention == (0, 0)
    assert models.VolumePreservingFeedForward(dim=4).attention_at_identity == ""


def test_it_shares_its_weights():
    model = frozen("spt")
    alone = one_step(model)
    assert {id(p) for p in alone.parameters()} < {id(p) for p in model.parameters()}
    assert alone.scale is model.scale
    with torch.no_grad():
        next(alone.parameters()).add_(1.0)
    z = torch.randn(1, 3, 4, dtype=torch.float64)
    torch.testing.assert_close(model(z)[:, -1:], alone(z[:, -1:]))
    assert (model.window, alone.window) == (3, 1)


def test_attention_at_work_is_no_map_of_single_states():
    model = frozen("vpt")
    assert one_step(model, fixed=True) is not None
    for layer in attention(model):
        layer.requires_grad_(True)
    assert one_step(model) is not None
    assert one_step(model, fixed=True) is None
    next(next(attention(model)).parameters()).data.add_(0.1)
    assert one_step(model) is None
    assert one_step(models.VolumePreservingFeedForward(dim=4)) is None
    assert one_step(models.StandardTransformer(dim=4, window=3, prediction_window=1)) is None
    several = models.VolumePreservingTransformer(dim=4, window=3, prediction_window=2)
    freeze_attention(several)
    assert one_step(several) is None
    states = torch.rand(5, 3, 4, dtype=torch.float64)
    moving = without_attention(several)
    assert (moving.window, moving.prediction_window) == (3, 2)
    assert torch.equal(moving(states), several(states))
    assert len(list(moving.parameters())) < len(list(several.parameters()))
    assert simplified(several).core is not several.core


@pytest.mark.parametrize("name", ["vpt", "spt"])
def test_rollouts_are_those_of_single_states(name):
    model = frozen(name)
    windows = 0.1 * torch.randn(6, 3, 4, dtype=torch.float64).numpy()
    found = vp.rollout(model, windows, 8, compiled=False)
    alone = vp.rollout(one_step(model), windows[:, -1:], 6, compiled=False)
    torch.testing.assert_close(torch.from_numpy(found[:, 2:]), torch.from_numpy(alone))
