"""Frozen attention in training, and when it is unfrozen."""

import numpy as np
import pytest
import torch

import vpintegrator as vp
from vpintegrator import models
from vpintegrator.models.growth import attention, freeze_attention, layers
from vpintegrator.training.attention import orbit_error, with_trained_attention
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


def test_attention_is_unfrozen_if_orbits_are_the_better_for_it(body, frozen):
    with torch.no_grad():
        for parameter in frozen.parameters():
            if parameter.requires_grad:
                parameter.zero_()
    before = orbit_error(frozen, body)

    def learn(model):
        assert all(p.requires_grad for p in model.parameters())
        vp.train(model, body, epochs=20, progress=False, compiled=False)

    trained = with_trained_attention(frozen, body, learn)
    assert orbit_error(trained, body) < before / 1.5
    assert "attention is trained, too" in trained.choices[-1]
    assert orbit_error(frozen, body) == before
    assert with_trained_attention(frozen, body, lambda model: None) is None
    assert with_trained_attention(trained, body, learn) is None  # it is not frozen
    assert not any(p.requires_grad for layer in attention(frozen) for p in layer.parameters())


def test_the_error_of_orbits(body, frozen):
    states = body.states("validation")
    rolled = vp.rollout(frozen, states[:, :2], states.shape[1] - 1, compiled=False)
    difference = (rolled - states)[:, 2:] / frozen.scale.numpy()
    expected = np.median(np.sqrt((difference**2).mean((1, 2))))
    assert orbit_error(frozen, body) == pytest.approx(expected)
