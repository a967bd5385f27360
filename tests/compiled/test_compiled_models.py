"""Compiled models against PyTorch: every architecture, in both formats, whatever the batch."""

import numpy as np
import pytest
import torch

import vpintegrator as vp
from vpintegrator import compiled
from vpintegrator.compiled import CompiledModel, NotWorthIt
from vpintegrator.compiled import model as compiled_model
from vpintegrator.errors import InputError
from vpintegrator.runtime.threads import torch_threads

from .conftest import MODELS, assert_same_map, build, windows

# in calls of one state of two float64 the states of 65 calls are gathered
CALLS = 150


@pytest.mark.parametrize("count", [1, 11])
@pytest.mark.parametrize("name", MODELS)
def test_equal_to_rounding(name, count):
    model = build(name)
    assert_same_map(CompiledModel(model, count), model, windows(model, count), 2)


@pytest.mark.parametrize("count", [1, 11])
@pytest.mark.parametrize("name", ["vpff", "vpt", "transformer"])
def test_single_precision(name, count):
    model = build(name, torch.float32)
    assert_same_map(CompiledModel(model, count), model, windows(model, count), rounding=5e-5)


@pytest.mark.parametrize("count", [1, 11])
def test_many_sources_make_one_library(monkeypatch, count):
    """Long models are compiled in pieces, side by side."""
    monkeypatch.setattr(compiled.source, "_UNIT", 20_000)
    model = build("published")
    machine = CompiledModel(model, count)
    assert len(machine.source.units) > 1
    assert_same_map(machine, model, windows(model, count))


@pytest.fixture(scope="module")
def model():
    torch.manual_seed(3)
    return vp.models.VolumePreservingTransformer(
        dim=2, window=2, prediction_window=1, depth=1, width=2
    )


@pytest.mark.parametrize("trajectories", [1, 2, 16, 35])
@pytest.mark.parametrize("calls", [1, 64, 65, 66, CALLS])
def test_every_state_comes_to_its_place(model, trajectories, calls):
    assert_same_map(CompiledModel(model, trajectories), model, windows(model, trajectories), calls)


@pytest.mark.parametrize("trajectories", [3, 40, 100])
def test_threads_change_nothing(model, monkeypatch, trajectories):
    first, machine = windows(model, trajectories).numpy(), CompiledModel(model)
    with torch_threads(1):
        alone = machine.predict(first, CALLS)
    monkeypatch.setattr(compiled_model, "_THREAD", 1)  # few numbers are worth a thread here
    with torch_threads(3):
        shared = machine.predict(first, CALLS)
    for expected, found in zip(alone, shared, strict=True):
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("edges", [[1], [7, 8, 16], [17, 33], list(range(1, 35))])
def test_the_cut_of_the_batch_changes_nothing(model, edges):
    first, machine = windows(model, 35).numpy(), CompiledModel(model)
    whole = machine.predict(first, CALLS)
    parts = [machine.predict(part, CALLS) for part in np.split(first, edges)]
    for k in range(2):
        np.testing.assert_array_equal(np.concatenate([part[k] for part in parts]), whole[k])
    first[2] = np.nan
    broken = machine.predict(first, CALLS)[0]
    assert np.isnan(broken[2]).all()
    np.testing.assert_array_equal(np.delete(broken, 2, 0), np.delete(whole[0], 2, 0))


def test_a_rollout_is_the_same_in_parts(model):
    """Progress makes parts of other lengths."""
    first, seen = windows(model, 4).numpy(), []
    whole = vp.rollout(model, first, 333, compiled=True)
    parts = vp.rollout(
        model, first, 333, compiled=True, progress=lambda name, done, total: seen.append(done)
    )
    assert len(seen) > 100 and seen[-1] == 333
    np.testing.assert_array_equal(parts, whole)


def test_without_a_compiler(monkeypatch):
    monkeypatch.setenv("CXX", "no-such-compiler")
    model = build("resnet")
    first = windows(model, 2)
    with pytest.raises(InputError, match="no-such-compiler in CXX was not found"):
        vp.rollout(model, first, 10, compiled=True)
    with pytest.warns(UserWarning, match="runs in PyTorch, not compiled"):
        states = vp.rollout(model, first[:1], 5000)
    assert states.shape == (1, 5001, 2)


def test_a_limit_of_operations():
    model = build("vpff")
    with pytest.raises(NotWorthIt, match="operations, more than 10") as refused:
        CompiledModel(model, most=10)
    size = int(str(refused.value).split()[3])
    assert CompiledModel(model, most=size).dim == model.dim
    with pytest.raises(NotWorthIt):
        CompiledModel(model, most=size - 1)
