"""Attention at rest in training, and what wakes it."""

import copy

import numpy as np
import pytest
import torch

import vpintegrator as vp
from vpintegrator import models
from vpintegrator.models.growth import attention, layers, rest_attention
from vpintegrator.training.attention import awakened, orbit_error
from vpintegrator.training.training_data import TrainingData


@pytest.fixture
def resting(body):
    torch.manual_seed(0)
    model = models.VolumePreservingTransformer(
        dim=3, window=2, functions="polynomial", degree=2, depth=1, split="coordinates"
    )
    TrainingData(body).normalise(model)
    rest_attention(model)
    return model


def test_with_attention_at_rest_the_training_is_that_of_single_states(body, resting):
    torch.manual_seed(0)
    single = models.VolumePreservingFeedForward(dim=3, functions="polynomial", degree=2, depth=1)
    layers(single)[0].load_state_dict(layers(resting)[1].state_dict())
    errors = [
        vp.train(model, body, epochs=5, progress=False, compiled=False).validation_error
        for model in (resting, single)
    ]
    assert errors[0] == errors[1]
    for name, weight in layers(single)[0].state_dict().items():
        assert torch.equal(weight, layers(resting)[1].state_dict()[name])


def test_a_training_at_rest_is_resumed(body, resting, tmp_path):
    checkpoint = tmp_path / "training.checkpoint"
    options = {"checkpoint": checkpoint, "progress": False, "compiled": False, "restarts": 1}

    def interrupt(history):
        if history.epochs == 3:
            raise KeyboardInterrupt

    whole, begun = copy.deepcopy(resting), copy.deepcopy(resting)
    vp.train(whole, body, epochs=6, progress=False, compiled=False)
    vp.train(begun, body, epochs=6, **(options | {"progress": interrupt}))
    vp.train(resting, body, epochs=6, resume=True, **options)
    for one, other in zip(whole.parameters(), resting.parameters(), strict=True):
        assert torch.equal(one, other)


def test_attention_wakes_if_orbits_are_the_better_for_it(body, resting):
    with torch.no_grad():
        for parameter in resting.parameters():
            if parameter.requires_grad:
                parameter.zero_()
    before = orbit_error(resting, body)

    def learn(model):
        assert all(p.requires_grad for p in model.parameters())
        vp.train(model, body, epochs=20, progress=False, compiled=False)

    awake = awakened(resting, body, learn)
    assert orbit_error(awake, body) < before / 1.5
    assert "attention is trained, too" in awake.choices[-1]
    assert orbit_error(resting, body) == before
    assert awakened(resting, body, lambda model: None) is None
    assert awakened(awake, body, learn) is None  # it does not rest
    assert not any(p.requires_grad for layer in attention(resting) for p in layer.parameters())


def test_the_error_of_orbits(body, resting):
    states = body.states("validation")
    rolled = vp.rollout(resting, states[:, :2], states.shape[1] - 1, compiled=False)
    difference = (rolled - states)[:, 2:] / resting.scale.numpy()
    expected = np.median(np.sqrt((difference**2).mean((1, 2))))
    assert orbit_error(resting, body) == pytest.approx(expected)
