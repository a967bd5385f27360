"""Frozen attention in training."""

import pytest
import torch

import vpintegrator as vp
from vpintegrator import models
from vpintegrator.models.growth import attention, freeze_attention, layers, unfreeze_attention
from vpintegrator.training.training_data import TrainingData


@pytest.fixture
def frozen(body):
    torch.manual_seed(0)
    model = models.VolumePreservingTransformer(
        dim=3, window=2, functions="polynomial", degree=2, depth=1, split="coordinates"
    )
    TrainingData(body).normalise(model)
    freeze_attention(model)
    return model


def test_with_frozen_attention_the_training_is_that_of_single_states(body, frozen):
    torch.manual_seed(0)
    single = models.VolumePreservingFeedForward(dim=3, functions="polynomial", degree=2, depth=1)
    layers(single)[0].load_state_dict(layers(frozen)[1].state_dict())
    errors = [
        vp.train(model, body, epochs=5, progress=False, compiled=False).validation_error
        for model in (frozen, single)
    ]
    assert errors[0] == errors[1]
    for name, weight in layers(single)[0].state_dict().items():
        assert torch.equal(weight, layers(frozen)[1].state_dict()[name])


def test_attention_that_is_unfrozen_learns_from_the_same_map(body, frozen):
    window = torch.from_numpy(body.states("validation")[:5, :2])
    before = frozen(window)
    unfreeze_attention(frozen)
    assert torch.equal(frozen(window), before)
    vp.train(frozen, body, epochs=2, progress=False, compiled=False)
    assert any(p.any() for layer in attention(frozen) for p in layer.parameters())
