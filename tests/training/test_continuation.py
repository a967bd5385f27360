"""Maps that are far from the identity."""

import math

import torch

import vpintegrator as vp
from vpintegrator import models
from vpintegrator.data.pairs import HeldPairs
from vpintegrator.models.growth import rest_attention
from vpintegrator.training.continuation import FAR, continued
from vpintegrator.training.training_data import TrainingData


def untrained(data):
    torch.manual_seed(0)
    symmetries = data.system.reversing_symmetries
    options = {"functions": "polynomial", "degree": 4, "split": "halves"}
    return models.VolumePreservingFeedForward(
        dim=2, depth=3, reversing_symmetries=symmetries, periodic=data.system.periods, **options
    )


def test_continuation_learns_a_map_that_turns_by_half_a_turn_and_more(tmp_path):
    data = vp.generate("pendulum", tmp_path / "a.h5", count=120, steps=3, step=4.0)
    options = {"epochs": 40, "compiled": False, "progress": False}
    model = untrained(data)
    training_data = TrainingData(data)
    training_data.normalise(model)
    continued(model, training_data.pairs(model))
    found = vp.train(model, data, **options).best_validation_error
    assert found < FAR


def test_a_linear_rotation_is_continued_to_rounding():
    torch.manual_seed(0)
    angle = 2.5
    rotation = torch.tensor(
        [[math.cos(angle), math.sin(angle)], [-math.sin(angle), math.cos(angle)]]
    ).double()
    z = torch.randn(200, 1, 2, dtype=torch.float64)
    model = models.VolumePreservingFeedForward(dim=2, functions="polynomial", degree=1, depth=2)
    continued(model, HeldPairs.of_tensors(z, z @ rotation.mT))
    torch.testing.assert_close(model(z), z @ rotation.mT, rtol=1e-6, atol=1e-6)


def test_windows_of_several_states_are_continued_as_single_ones(tmp_path):
    data = vp.generate("pendulum", tmp_path / "a.h5", count=40, steps=4, step=2.0)
    torch.manual_seed(0)
    model = models.VolumePreservingMultiheadTransformer(
        dim=2, window=3, depth=2, functions="polynomial", degree=2
    )
    rest_attention(model)
    training_data = TrainingData(data)
    training_data.normalise(model)
    inputs, targets = training_data.held_out(model)
    before = (model(inputs)[:, -1] - targets[:, -1]).norm()
    continued(model, training_data.pairs(model))
    assert (model(inputs)[:, -1] - targets[:, -1]).norm() < before
