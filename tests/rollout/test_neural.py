"""Iterating learned maps."""

import numpy as np
import pytest
import torch

import vpintegrator as vp
from vpintegrator.errors import InputError
from vpintegrator.models import VolumePreservingFeedForward, VolumePreservingTransformer
from vpintegrator.rollout import rollout


class Counter(vp.Map):
    """Goes on counting: each new state is one more than the one before."""

    name, dim = "counter", 2

    def __init__(self, window, prediction_window, factor=0.0):
        self.window, self.prediction_window, self.factor = window, prediction_window, factor

    def map(self, windows):
        return windows + self.prediction_window + self.factor * windows**2


@pytest.mark.parametrize("window", [1, 2, 3, 5])
@pytest.mark.parametrize("new", [1, 2, 3, 5])
@pytest.mark.parametrize("steps", [0, 1, 2, 7, 20])
def test_every_window_and_prediction_window(window, new, steps):
    if new > window:
        return
    first = np.arange(window, dtype=float)[None, :, None] + np.array([[[0.0, 100.0]]])
    states = rollout(Counter(window, new), first, steps)
    assert np.array_equal(states[0, :, 0], np.arange(steps + 1))
    assert np.array_equal(states[0, :, 1], 100 + np.arange(steps + 1))


def test_one_step_model_against_a_loop():
    torch.manual_seed(0)
    model = VolumePreservingFeedForward(dim=3, initial_scale=0.3)
    z = torch.randn(4, 3, dtype=torch.float64)
    states = rollout(model, z, 10)
    assert isinstance(states, torch.Tensor)
    assert not states.requires_grad
    expected = [z]
    with torch.no_grad():
        for _ in range(10):
            expected.append(model(expected[-1][:, None])[:, 0])
    assert torch.equal(states, torch.stack(expected, 1))
    assert torch.equal(states, rollout(model, z[:, None], 10))
    assert np.array_equal(states.numpy(), rollout(model, z.numpy(), 10))
    assert model.training


def test_divergence_is_nan_from_there_on():
    first = np.array([[[1.0, 1.0]], [[-30.0, -30.0]]])
    with np.errstate(all="ignore"):
        states = rollout(Counter(1, 1, factor=1.0), first, 50)
    bad = np.isnan(states).all(axis=-1)
    assert bad[0, -1]
    assert not np.isinf(states).any()
    assert (np.diff(bad.astype(int), axis=1) >= 0).all()


@pytest.mark.parametrize("shape", [(3,), (4, 3), (4, 2, 3), (4, 3, 2), (0, 3, 3)])
def test_wrong_shapes(shape):
    model = VolumePreservingTransformer(dim=3, window=3)
    with pytest.raises(InputError, match="windows of shape"):
        rollout(model, np.ones(shape), 5)
