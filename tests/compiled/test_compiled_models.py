"""Compiled models against PyTorch: equal to rounding, every architecture, in both formats."""

import numpy as np
import pytest
import torch

import vpintegrator as vp
from vpintegrator import compiled
from vpintegrator.compiled import CompiledModel, NotWorthIt
from vpintegrator.errors import InputError

from .conftest import MODELS, build, windows


@pytest.mark.parametrize("count", [1, 11])
@pytest.mark.parametrize("name", MODELS)
def test_equal_to_rounding(name, count):
    model = build(name)
    machine = CompiledModel(model, count)
    first = windows(model, count)
    states, last = machine.predict(first.numpy(), 2)
    window = first
    with torch.no_grad():
        for call in range(2):
            new = model.predict(window)
            part = slice(call * new.shape[1], (call + 1) * new.shape[1])
            np.testing.assert_allclose(states[:, part], new, rtol=1e-11, atol=1e-12)
            window = torch.cat([window, new], dim=1)[:, -model.window :]
    np.testing.assert_allclose(last, window, rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize("count", [1, 11])
@pytest.mark.parametrize("name", ["vpff", "vpt", "transformer"])
def test_single_precision(name, count):
    model = build(name, torch.float32)
    first = windows(model, count)
    states, _ = CompiledModel(model, count).predict(first.numpy(), 1)
    assert states.dtype == np.float32
    with torch.no_grad():
        np.testing.assert_allclose(states, model.predict(first), rtol=1e-4, atol=2e-5)


def test_trajectories_are_independent():
    model = build("vpff")
    machine, first = CompiledModel(model, 9), windows(model, 9).numpy()
    whole = machine.predict(first, 50)[0]
    np.testing.assert_array_equal(machine.predict(first[4:5], 50)[0], whole[4:5])
    first[2] = np.nan
    broken = machine.predict(first, 50)[0]
    assert np.isnan(broken[2]).all()
    np.testing.assert_array_equal(np.delete(broken, 2, 0), np.delete(whole, 2, 0))


def test_without_a_compiler(monkeypatch):
    monkeypatch.setenv("CXX", "no-such-compiler")
    model = build("resnet")
    first = windows(model, 2)
    with pytest.raises(InputError, match="no-such-compiler in CXX was not found"):
        vp.rollout(model, first, 10, compiled=True)
    with pytest.warns(UserWarning, match="runs in PyTorch, not compiled"):
        states = vp.rollout(model, first[:1], 5000)
    assert states.shape == (1, 5001, 2)


@pytest.mark.parametrize("count", [1, 11])
def test_many_sources_make_one_library(monkeypatch, count):
    """Long models are compiled in pieces, side by side."""
    monkeypatch.setattr(compiled.source, "_UNIT", 20_000)
    model = build("published")
    machine, first = CompiledModel(model, count), windows(model, count)
    assert len(machine.source.units) > 1
    states, _ = machine.predict(first.numpy(), 1)
    with torch.no_grad():
        np.testing.assert_allclose(states, model.predict(first), rtol=1e-11, atol=1e-12)


def test_a_limit_of_operations():
    model = build("vpff")
    with pytest.raises(NotWorthIt, match="operations, more than 10") as refused:
        CompiledModel(model, most=10)
    size = int(str(refused.value).split()[3])
    assert CompiledModel(model, most=size).dim == model.dim
    with pytest.raises(NotWorthIt):
        CompiledModel(model, most=size - 1)
