"""Residuals, gradients and Jacobians in machine code against torch.func, every architecture."""

import functools

import numpy as np
import pytest
import torch

from vpintegrator.compiled import CompiledResidual, NotWorthIt, SymmetricMatrix
from vpintegrator.data.pairs import Pair
from vpintegrator.training.residuals import Objective, ParameterVector

from .conftest import MODELS, build, windows

COUNT = 21  # not a multiple of any number of lanes


@functools.cache
def made(name, chained=True, dtype=torch.float64):
    """A model and its residuals, compiled."""
    model = build(name, dtype)
    return model, CompiledResidual(model, (1 / model.scale).numpy(), chained=chained)


def problem(model, horizon, count=COUNT):
    """Parameters, windows and targets."""
    generator = torch.Generator().manual_seed(2)
    shape = (count, horizon * model.prediction_window, model.dim)
    targets = torch.randn(shape, generator=generator, dtype=model.scale.dtype)
    return ParameterVector(model).read(), windows(model, count), targets


def oracle(model, horizon, vector, x, y):
    """Residuals (component, pair) and Jacobian (parameter, component, pair) by torch.func."""
    objective, parameters = Objective(horizon=horizon), ParameterVector(model)

    def residual(v):
        difference = objective.difference(model, Pair(x, y), parameters.named(v))
        found = objective.weighted(model, difference).flatten(1).mT
        return found, found

    jacobian, found = torch.func.jacrev(residual, has_aux=True)(vector)
    return found.detach().numpy(), jacobian.permute(2, 0, 1).detach().numpy()


CASES = [(name, horizon, True, torch.float64, 1e-11) for name in MODELS for horizon in (1, 3)]
CASES += [(name, 1, False, torch.float64, 1e-11) for name in ("vpff", "published", "activations")]
CASES += [(name, 2, True, torch.float32, 3e-4) for name in ("vpff", "published", "transformer")]


@pytest.mark.parametrize(("name", "horizon", "chained", "dtype", "digits"), CASES)
def test_every_model(name, horizon, chained, dtype, digits):
    model, machine = made(name, chained, dtype)
    case = problem(model, horizon)
    expected, slopes = oracle(model, horizon, *case)
    arrays = [tensor.numpy() for tensor in case]
    size = np.abs(slopes).max()
    jacobian, residual = machine.jacobian(*arrays)
    assert jacobian.dtype == arrays[0].dtype
    np.testing.assert_allclose(residual, expected, rtol=digits, atol=digits)
    np.testing.assert_allclose(jacobian, slopes, rtol=digits, atol=digits * size)
    half = np.tensordot(slopes, expected, 2)
    scale = np.abs(half).max()
    squares, gradient = machine.gradient(*arrays)
    np.testing.assert_allclose(gradient, half, rtol=digits, atol=10 * digits * scale)
    plain = (expected.reshape(-1, model.dim, COUNT) * model.scale.numpy()[:, None]) ** 2
    np.testing.assert_allclose(squares, [(expected**2).sum(), plain.sum()], rtol=10 * digits)
    np.testing.assert_array_equal(machine.sums(*arrays), squares)
    matrix = SymmetricMatrix(len(slopes), machine.dtype)
    again = np.zeros(len(slopes), machine.dtype)
    for block in machine.jacobians(*arrays):
        matrix.add(*block, again)
    rows = slopes.reshape(len(slopes), -1)
    normal = rows @ rows.T
    np.testing.assert_allclose(matrix.whole(), normal, rtol=digits, atol=10 * digits * normal.max())
    np.testing.assert_allclose(again, half, rtol=digits, atol=10 * digits * scale)


def test_kinks_at_zero_follow_pytorch():
    """Inner weights zero: every argument of relu and softplus is zero."""
    model, machine = made("activations")
    vector, x, y = problem(model, 1)
    for name, part in ParameterVector(model).named(vector).items():
        if ".linear." in name:
            part.zero_()
    _, slopes = oracle(model, 1, vector, x, y)
    jacobian, _ = machine.jacobian(vector.numpy(), x.numpy(), y.numpy())
    np.testing.assert_allclose(jacobian, slopes, atol=1e-14)


def test_other_weights_and_blocks(monkeypatch):
    """The same library serves any weights, and many windows go block by block."""
    monkeypatch.setattr("vpintegrator.compiled.residual._JACOBIAN_BYTES", 1 << 14)
    monkeypatch.setattr("vpintegrator.compiled.residual._FEWEST_ROWS", 0)
    model, machine = made("published")
    vector, x, y = problem(model, 1, 67)
    other = vector + 0.1 * torch.sin(torch.arange(len(vector)))
    _, slopes = oracle(model, 1, other, x, y)
    jacobian, _ = machine.jacobian(other.numpy(), x.numpy(), y.numpy())
    np.testing.assert_allclose(jacobian, slopes, rtol=1e-10, atol=1e-10)


def test_threads_change_nothing():
    model, machine = made("vpff")
    arrays = [tensor.numpy() for tensor in problem(model, 2, 5_000)]
    several = CompiledResidual(model, (1 / model.scale).numpy(), chained=True, threads=3)
    for name in ("gradient", "jacobian", "sums"):
        one, three = (
            np.hstack([*map(np.ravel, getattr(m, name)(*arrays))]) for m in (machine, several)
        )
        np.testing.assert_array_equal(three, one)


def test_rows_of_windows_need_not_follow_one_another():
    """Windows and their targets are often views of the same orbits."""
    model, machine = made("published")
    vector, x, y = (tensor.numpy() for tensor in problem(model, 1, 67))
    both = np.concatenate([x, y], axis=1)
    views = both[:, : x.shape[1]], both[:, x.shape[1] :]
    for name in ("gradient", "jacobian", "sums"):
        copied, viewed = (
            np.hstack([*map(np.ravel, getattr(machine, name)(vector, *arrays))])
            for arrays in ((x, y), views)
        )
        np.testing.assert_array_equal(viewed, copied)


def test_some_rows_are_read_where_they_are():
    """A batch of windows that overlap, in any order, beside copies of them."""
    model, machine = made("published", False)
    vector, states, _ = (tensor.numpy() for tensor in problem(model, 1, 90))
    states = states.reshape(-1, model.dim)
    size = model.window + model.prediction_window
    both = np.lib.stride_tricks.sliding_window_view(states, size, 0).swapaxes(1, 2)
    x, y = both[:, : model.window], both[:, model.window :]
    rows = np.random.default_rng(0).permutation(len(x))[:COUNT]
    read = machine.gradient(vector, x, y, rows)
    copied = machine.gradient(vector, x[rows].copy(), y[rows].copy())
    for one, other in zip(read, copied, strict=True):
        np.testing.assert_array_equal(one, other)


def test_weights_that_are_not_trained():
    model = build("vpff")
    frozen = next(model.parameters()).requires_grad_(False)
    machine, case = CompiledResidual(model, (1 / model.scale).numpy()), problem(model, 1)
    assert len(case[0]) == sum(p.numel() for p in model.parameters()) - frozen.numel()
    _, slopes = oracle(model, 1, *case)
    jacobian, _ = machine.jacobian(*(tensor.numpy() for tensor in case))
    np.testing.assert_allclose(jacobian, slopes, rtol=1e-10, atol=1e-10)


def test_the_cost_of_compiling_is_asked_for():
    seen = []

    def worth(seconds, cached):
        seen.append((seconds, cached))
        return cached

    model = build("resnet")
    weights = (2 / model.scale).numpy()  # weights do not enter the source
    made("resnet")
    CompiledResidual(model, weights, chained=True, worth=worth)
    wider = MODELS["triangular"]()
    with pytest.raises(NotWorthIt, match="compiling takes about"):
        CompiledResidual(wider, np.ones(4), worth=worth)
    assert [(0 < seconds < 60, cached) for seconds, cached in seen] == [(True, True), (True, False)]
