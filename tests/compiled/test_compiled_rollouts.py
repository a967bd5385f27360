"""Long compiled rollouts: states come to their places, and threads change nothing."""

import numpy as np
import pytest
import torch

import vpintegrator as vp
from vpintegrator.compiled import CompiledModel
from vpintegrator.compiled import model as compiled_model
from vpintegrator.runtime.threads import torch_threads

# in calls of one state of two float64 the states of 65 calls are gathered
CALLS = 150


@pytest.fixture(scope="module")
def model():
    torch.manual_seed(3)
    return vp.models.VolumePreservingTransformer(
        dim=2, window=2, prediction_window=1, depth=1, width=2
    )


def first_windows(count):
    return np.random.default_rng(0).normal(size=(count, 2, 2))


def eager(model, windows, calls):
    states = torch.from_numpy(windows)
    with torch.inference_mode():
        for _ in range(calls):
            new = model.predict(states[:, -2:])
            states = torch.cat([states, new], dim=1)
    return states[:, 2:].numpy()


@pytest.mark.parametrize("trajectories", [1, 2, 16, 35])
@pytest.mark.parametrize("calls", [1, 64, 65, 66, CALLS])
def test_every_state_comes_to_its_place(model, trajectories, calls):
    windows = first_windows(trajectories)
    states, last = CompiledModel(model, trajectories).predict(windows, calls)
    expected = eager(model, windows, calls)
    np.testing.assert_allclose(states, expected, rtol=0, atol=1e-12)
    whole = np.concatenate([windows, states], axis=1)
    np.testing.assert_array_equal(last, whole[:, -2:])


@pytest.mark.parametrize("trajectories", [3, 40, 100])
def test_threads_change_nothing(model, monkeypatch, trajectories):
    windows, machine = first_windows(trajectories), CompiledModel(model)
    with torch_threads(1):
        alone = machine.predict(windows, CALLS)
    monkeypatch.setattr(compiled_model, "_THREAD", 1)  # few numbers are worth a thread here
    with torch_threads(3):
        shared = machine.predict(windows, CALLS)
    for expected, found in zip(alone, shared, strict=True):
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("edges", [[1], [7, 8, 16], [17, 33], list(range(1, 35))])
def test_the_cut_of_the_batch_changes_nothing(model, edges):
    windows, machine = first_windows(35), CompiledModel(model)
    whole = machine.predict(windows, CALLS)
    parts = [machine.predict(part, CALLS) for part in np.split(windows, edges)]
    for k in range(2):
        np.testing.assert_array_equal(np.concatenate([part[k] for part in parts]), whole[k])


def test_a_rollout_is_the_same_in_parts(model):
    """Progress makes parts of other lengths."""
    windows = first_windows(4)
    whole = vp.rollout(model, windows, 333, compiled=True)
    seen = []
    parts = vp.rollout(
        model, windows, 333, compiled=True, progress=lambda name, done, total: seen.append(done)
    )
    assert len(seen) > 100 and seen[-1] == 333
    np.testing.assert_array_equal(parts, whole)
