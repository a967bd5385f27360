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


@pytest.mark.parametrize(
    ("trajectories", "steps", "is_compiled"),
    [(1000, 1000, True), (1, 5100, True), (1, 4000, False), (100_000, 5, False), (8, 300, False)],
)
def test_states_are_counted_when_a_rollout_is_compiled(
    trajectories, steps, is_compiled, monkeypatch
):
    asked = []

    def machine_code(map, states, compiled):
        asked.append(compiled)
        return vp.Map.from_function(lambda z: z, step=0.1, dim=2)  # at once

    monkeypatch.setattr("vpintegrator.rollout.iteration.machine_code", machine_code)
    model = vp.models.VolumePreservingFeedForward(dim=2)
    vp.rollout(model, np.zeros((trajectories, 2)), steps)
    vp.rollout(model, np.zeros((trajectories, 2)), 3, compiled=True)
    assert asked == [None if is_compiled else False, True]
