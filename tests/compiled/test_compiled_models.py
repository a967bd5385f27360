"""Compiled models against PyTorch: equal to rounding, every architecture, in both formats."""

import numpy as np
import pytest
import torch

import vpintegrator as vp
from vpintegrator import compiled, models
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


@pytest.mark.parametrize("real", [torch.float64, torch.float32])
@pytest.mark.parametrize("count", [1, 11])
@pytest.mark.parametrize("function", ["tanh", "exp", "sin", "cos", "log"])
def test_functions_to_rounding(function, count, real):
    """Against mpmath, over all magnitudes; with signs of zero, infinities and NaN."""
    import mpmath

    class Model(models.Model):
        def __init__(self):
            super().__init__(torch.nn.Identity(), 2)
            self.to(real)

        def forward(self, window):
            return getattr(torch, function)(window)

    machine = CompiledModel(Model(), count)
    generator = np.random.default_rng(0)
    sizes = np.exp(generator.uniform(-30, 4.4, size=(40 * count, 1, 2)))
    signs = 1 if function == "log" else generator.choice([-1, 1], size=sizes.shape)
    x = (sizes * signs).astype(machine.dtype)
    if function in ("sin", "cos", "log"):  # near their zeros, and far out
        x[: 5 * count : count, 0, 0] = 1.0 + 2**-20, 22.0, 355.0, 1.5707964, 1e7
    special = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1e-300, 5.0, -700.0], machine.dtype)
    results, arguments = [], []
    for start in range(0, len(x), count):
        results.append(machine.predict(x[start : start + count], 1)[0])
        arguments.append(x[start : start + count])
    result, argument = np.concatenate(results).ravel(), np.concatenate(arguments).ravel()
    exact = np.array([float(getattr(mpmath, function)(float(v))) for v in argument])
    error = np.abs(result.astype(float) / exact - 1)
    assert error.max() < 4 * np.finfo(machine.dtype).eps
    pairs = np.resize(special, (4 * count, 1, 2)).astype(machine.dtype)
    with np.errstate(all="ignore"):
        expected = getattr(np, function)(pairs.astype(float)).astype(machine.dtype)
    found = np.concatenate(
        [machine.predict(pairs[i : i + count], 1)[0] for i in range(0, len(pairs), count)]
    )
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-37)
    known = ~np.isnan(expected)
    np.testing.assert_array_equal(np.signbit(found[known]), np.signbit(expected[known]))


def test_trajectories_are_independent():
    model = build("vpff")
    machine, first = CompiledModel(model, 9), windows(model, 9).numpy()
    whole = machine.predict(first, 50)[0]
    np.testing.assert_array_equal(machine.predict(first[4:5], 50)[0], whole[4:5])
    first[2] = np.nan
    broken = machine.predict(first, 50)[0]
    assert np.isnan(broken[2]).all()
    np.testing.assert_array_equal(np.delete(broken, 2, 0), np.delete(whole, 2, 0))


@pytest.mark.thorough
@pytest.mark.parametrize("name", ["vpff", "shorter prediction"])
def test_a_rollout(name):
    model = build(name)
    first = windows(model, 3)
    eager = vp.rollout(model, first, 60, compiled=False)
    fast = vp.rollout(model, first, 60, compiled=True)
    assert fast.shape == eager.shape
    np.testing.assert_allclose(fast, eager, rtol=1e-8, atol=1e-9)
    np.testing.assert_array_equal(fast[:, : model.window], first)


def test_without_a_compiler(monkeypatch):
    monkeypatch.setenv("CXX", "no-such-compiler")
    model = build("resnet")
    first = windows(model, 2)
    with pytest.raises(InputError, match="no-such-compiler in CXX was not found"):
        vp.rollout(model, first, 10, compiled=True)
    with pytest.warns(UserWarning, match="runs in PyTorch, not compiled"):
        states = vp.rollout(model, first[:1], 5000)
    assert states.shape == (1, 5001, 2)


def of_ones_own(function):
    """A model with this function of windows (1, 2)."""

    class Own(models.Model):
        def forward(self, window):
            return function(window)

    return Own(torch.nn.Identity(), 2)


def in_place(window):
    """Views that are written to, an index, and whole numbers that are none."""
    x = window.clone()
    x[..., 0] += 2 * x[..., 1]
    x.select(-1, 1).mul_(x[..., 0])
    y = x * torch.arange(1, 3)
    y[..., torch.tensor([1, 0])] = x + y
    return y


@pytest.mark.parametrize("count", [1, 3])
def test_operations_in_place(count):
    model = of_ones_own(in_place)
    first = windows(model, count)
    states, _ = CompiledModel(model, count).predict(first.numpy(), 1)
    np.testing.assert_allclose(states, in_place(first), rtol=1e-14)


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
