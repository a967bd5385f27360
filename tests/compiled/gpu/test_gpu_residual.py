"""Residuals and derivatives by kernels for GPUs, played by the CPU, beside the CPU's own code."""

import functools

import numpy as np
import pytest
import torch

from vpintegrator.compiled import CompiledResidual, NotCompilable, NotWorthIt
from vpintegrator.compiled.gpu import kernels, residual, source

from ..conftest import MODELS, build
from ..test_compiled_residual import problem
from . import host
from .conftest import host_kernels
from .test_gpu_models import near

COUNT = 70  # a block and a part of one


def machines(name, chained=True, dtype=torch.float64):
    """The same residuals by kernels and by the CPU's code."""
    model = build(name, dtype)
    weights = (1 / model.scale).numpy()
    made = (
        cls(model, weights, chained=chained) for cls in (residual.GpuResidual, CompiledResidual)
    )
    return model, *made


def check(model, found, expected, horizon, digits, count=COUNT):
    case = problem(model, horizon, count)
    arrays = [tensor.numpy() for tensor in case]
    slopes, r = expected.jacobian(*arrays)
    for a, b in zip(found.jacobian(*case), (slopes, r), strict=True):
        near(a, b, digits)
    squares, gradient = found.gradient(*case)
    true_squares, true_gradient = expected.gradient(*arrays)
    np.testing.assert_allclose(squares, true_squares, rtol=digits)
    np.testing.assert_allclose(found.sums(*case), true_squares, rtol=digits)
    # what is added up may cancel
    size = digits * np.tensordot(np.abs(slopes), np.abs(r), 2).max()
    np.testing.assert_allclose(gradient, true_gradient, rtol=0, atol=size)
    matrix, half = found.normal_equations(*case)
    np.testing.assert_allclose(half, true_gradient, rtol=0, atol=size)
    near(matrix, expected.normal_equations(*arrays)[0].whole(), 3 * digits)


@pytest.mark.parametrize("name", MODELS)
def test_derivatives_are_those_of_the_cpu(on_host, name):
    model, found, expected = machines(name)
    for horizon in (1, 3):
        check(model, found, expected, horizon, 1e-13)


@pytest.mark.parametrize("name", ["vpff", "transformer"])
def test_one_prediction_alone(on_host, name):
    check(*machines(name, chained=False), 1, 1e-13)


def test_single_precision(on_host):
    check(*machines("vpff", dtype=torch.float32), 2, 2e-5)


@functools.cache
def small():
    """Residuals whose kernels the tests that follow share."""
    model = build("resnet")
    weights = (1 / model.scale).numpy()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kernels, "kernels_for", host_kernels)
        found = residual.GpuResidual(model, weights, chained=True)
    return model, found, CompiledResidual(model, weights, chained=True)


@pytest.mark.parametrize("count", [1, 200])
@pytest.mark.parametrize("horizon", [1, 2])
def test_parts_of_windows_and_rows(monkeypatch, horizon, count):
    """Few threads for many windows, rows among threads, and a block at a time."""
    monkeypatch.setattr(residual, "_THREADS", 64)
    monkeypatch.setattr(residual, "_JACOBIAN_BYTES", 1 << 14)
    check(*small(), horizon, 1e-13, count)
    monkeypatch.setattr(residual, "_JACOBIAN_BYTES", 1)  # row by row
    monkeypatch.setattr(residual, "_WANTED", 1)
    check(*small(), horizon, 1e-13, min(count, 3))


def test_large_programs(on_host, monkeypatch):
    """Their parts stay apart."""
    monkeypatch.setattr(source, "_INLINE", 0)
    check(*machines("resnet"), 2, 1e-13)


@pytest.mark.parametrize("count", [1, 200])
def test_warps_add_up(on_host, monkeypatch, count):
    """With threads of a block at the same time, 32 of them a warp that shares memory."""
    expected = small()[2]  # made before anything is changed
    text = host.host_text
    monkeypatch.setattr(host, "host_text", lambda written: "#define WARPS\n" + text(written))
    monkeypatch.setattr(host.HostKernels, "warp", 32)
    monkeypatch.setattr(residual, "_THREADS", 128)
    model = build("resnet")
    weights = (1 / model.scale).numpy()
    found = residual.GpuResidual(model, weights, chained=True)
    check(model, found, expected, 2, 1e-13, count)


def test_no_windows():
    """A process of several may have none."""
    model, machine, _ = small()
    vector, x, y = problem(model, 2)
    squares, gradient = machine.gradient(vector, x[:0], y[:0])
    assert not squares.any()
    assert gradient.shape == vector.shape
    assert not gradient.any()
    assert not machine.sums(vector, x[:0], y[:0]).any()
    assert not machine.normal_equations(vector, x[:0], y[:0])[0].any()
    assert machine.jacobian(vector, x[:0], y[:0])[0].shape == (len(vector), 4, 0)


def test_arrays_for_arrays():
    model, machine, _ = small()
    case = problem(model, 1)
    arrays = [tensor.numpy() for tensor in case]
    for function in (machine.gradient, machine.jacobian):
        for given, array in zip(function(*case), function(*arrays), strict=True):
            assert isinstance(given, torch.Tensor)
            assert isinstance(array, np.ndarray)
            np.testing.assert_array_equal(array, given)
    assert isinstance(machine.sums(*arrays), np.ndarray)


def test_a_broken_window_is_seen():
    model, machine, _ = small()
    vector, x, y = problem(model, 1)
    x[4] = torch.nan
    squares, gradient = machine.gradient(vector, x, y)
    assert squares.isnan().all()
    assert gradient.isnan().any()
    jacobian, _ = machine.jacobian(vector, x, y)
    assert jacobian[..., 4].isnan().any()
    assert np.isfinite(np.delete(jacobian.numpy(), 4, axis=-1)).all()


def test_the_same_numbers_again():
    model, machine, _ = small()
    case = problem(model, 2, 130)
    for a, b in zip(machine.gradient(*case), machine.gradient(*case), strict=True):
        np.testing.assert_array_equal(a, b)


def test_what_is_not_worth_it(on_host):
    model = build("resnet")
    weights = (1 / model.scale).numpy()
    small()
    residual.GpuResidual(model, weights, chained=True, worth=lambda seconds, cached: cached)
    with pytest.raises(NotWorthIt, match="compiling takes about"):
        residual.GpuResidual(model, weights, worth=lambda seconds, cached: cached)


def test_other_numbers_than_those_of_pytorch_are_refused(on_host, monkeypatch):
    """Machine code that is wrong is not used."""
    text = host.host_text
    right, other = "return y[i] - t", "return 1 + y[i] - t"
    monkeypatch.setattr(host, "host_text", lambda written: text(written).replace(right, other))
    model = build("resnet")
    with pytest.raises(NotCompilable, match="other numbers than PyTorch"):
        residual.GpuResidual(model, (1 / model.scale).numpy())
