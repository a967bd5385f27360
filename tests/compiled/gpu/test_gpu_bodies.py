"""Loops over clusters for GPUs, played by the CPU: the numbers of its own kernels."""

import functools
import itertools

import numpy as np
import pytest
import torch

from tests.compiled.gpu.conftest import host_kernels
from tests.compiled.test_bodies import CASES, COUNT, build, loops_for_few_clusters, made, states
from vpintegrator import compiled
from vpintegrator.compiled.gpu import bodies as gpu_bodies
from vpintegrator.compiled.gpu import kernels as gpu_kernels
from vpintegrator.compiled.gpu import residual as gpu_residual
from vpintegrator.compiled.gpu.bodies import BodyKernels, bodies_of
from vpintegrator.compiled.gpu.kernels import HostKernels
from vpintegrator.compiled.gpu.model import GpuModel
from vpintegrator.compiled.gpu.residual import GpuResidual
from vpintegrator.native import NotCompilable
from vpintegrator.native.nvrtc import find_nvrtc
from vpintegrator.training.residuals import ParameterVector

_ = loops_for_few_clusters


@functools.cache
def played(name):
    """The kernels of a case with its constants, and the model."""
    model = build(name)
    source, loops = bodies_of(model, derivatives=True)
    kernels = host_kernels(model.scale.device, source)
    kernels.load()
    played = BodyKernels(loops, kernels, model.scale)
    constants = model.scale.new_zeros(max(source.constants, 1))
    played.compute_constants(torch.from_numpy(loops.values), constants)
    return model, played, constants


def last(tensor):
    """Trajectories last."""
    return tensor.movedim(0, -1).contiguous()


@pytest.mark.parametrize("by_blocks", [False, True])
@pytest.mark.parametrize("name", CASES)
def test_rollouts_are_those_of_the_cpu(name, by_blocks):
    model, played_, constants = played(name)
    first = states(model)
    expected, ends = compiled.CompiledModel(model).advance(first.numpy(), 3)
    windows = last(first[:, 0])
    found = played_.rollout(windows, constants, 3, by_blocks).permute(2, 0, 1)
    np.testing.assert_allclose(found, expected, rtol=1e-13, atol=1e-13)
    np.testing.assert_allclose(windows.mT, ends[:, 0], rtol=1e-13, atol=1e-13)


@pytest.mark.parametrize("horizon", [1, 2])
@pytest.mark.parametrize("name", ["chain", "pairs in space"])
def test_derivatives_are_those_of_the_cpu(name, horizon):
    model, played_, constants = played(name)
    machine = made(name)[1]
    x, y, vector = states(model), states(model, length=horizon), ParameterVector(model).read()
    arrays = vector.numpy(), x.numpy(), y.numpy()
    slopes, residuals = machine.jacobian(*arrays)
    weights = torch.from_numpy(machine.weights)
    predicted = played_.rollout(last(x[:, 0]), constants, horizon, False)
    difference = (predicted - last(y)) * weights[:, None]
    np.testing.assert_allclose(difference.flatten(0, 1), residuals, rtol=1e-13, atol=1e-13)
    seeds = (difference * weights[:, None]).contiguous()
    half = played_.gradient(predicted, seeds, constants)
    expected = machine.gradient(*arrays)[1]
    np.testing.assert_allclose(half, expected, rtol=1e-13, atol=1e-13 * np.abs(expected).max())
    edges = (0, 3, horizon * model.dim)
    rows = [slice(*ends) for ends in itertools.pairwise(edges)]
    parts = [played_.jacobian(predicted, weights, constants, part) for part in rows]
    size = np.abs(slopes).max()
    np.testing.assert_allclose(torch.cat(parts, 1), slopes, rtol=1e-13, atol=1e-13 * size)


@pytest.mark.parametrize("name", ["chain", "pairs in space"])
def test_models_of_bodies(on_host, name):
    model, first = build(name), states(build(name))
    machine = GpuModel(model)  # compared with PyTorch
    assert "rollout_by_blocks" in machine.source.kernels
    found, ends = machine.advance(first, 3)
    expected, last_ = compiled.CompiledModel(model).advance(first.numpy(), 3)
    np.testing.assert_allclose(found, expected, rtol=1e-13, atol=1e-13)
    np.testing.assert_allclose(ends, last_, rtol=1e-13, atol=1e-13)
    assert machine.advance(first[:0], 2)[0].shape == (0, 2, model.dim)
    assert machine.advance(first, 0)[0].shape == (COUNT, 0, model.dim)


@pytest.mark.parametrize("name", CASES)
def test_residuals_of_bodies(on_host, name, monkeypatch):
    model, expected = made(name)
    machine = GpuResidual(model, expected.weights, chained=True)  # compared with PyTorch
    assert "sums" not in machine.source.kernels
    x, y, vector = states(model), states(model, length=2), ParameterVector(model).read()
    arrays = vector.numpy(), x.numpy(), y.numpy()
    slopes, residuals = machine.jacobian(*arrays)
    for found, known in zip((slopes, residuals), expected.jacobian(*arrays), strict=True):
        np.testing.assert_allclose(found, known, rtol=1e-13, atol=1e-13 * np.abs(known).max())
    squares, half = machine.gradient(vector, x, y)
    known = expected.gradient(*arrays)
    np.testing.assert_allclose(squares, known[0], rtol=1e-13)
    np.testing.assert_allclose(half, known[1], rtol=1e-12, atol=1e-13 * np.abs(known[1]).max())
    np.testing.assert_array_equal(machine.sums(vector, x, y), squares)
    monkeypatch.setattr(gpu_residual, "_JACOBIAN_BYTES", 3 * machine._bodies.bytes_of_row)
    blocks = list(machine.jacobians(vector, x, y))
    assert len(blocks) > 4
    square = sum(j.mT @ j for j, _ in blocks)
    flat = slopes.reshape(len(slopes), -1)
    scale = np.abs(flat @ flat.T).max()
    np.testing.assert_allclose(square, flat @ flat.T, rtol=1e-12, atol=1e-13 * scale)


def test_parameters_that_are_not_trained(on_host):
    model = build("chain")
    for name, p in model.named_parameters():
        p.requires_grad_("bias" in name)
    machine = GpuResidual(model, np.ones(model.dim))  # compared with PyTorch
    arrays = (ParameterVector(model).read(), states(model), states(model))
    trained = sum(p.numel() for p in model.parameters() if p.requires_grad)
    assert len(machine.jacobian(*arrays)[0]) == trained
    for tensor in machine.gradient(*(a[:0] if a.ndim > 1 else a for a in arrays)):
        assert not tensor.any()


def test_threads_of_a_block_wait_for_one_another(monkeypatch):
    """All 64 of them at the same time, for more clusters than that."""
    monkeypatch.setattr(gpu_bodies, "_BLOCKS", 2)
    model = build("one step", 70)
    source, loops = bodies_of(model, derivatives=False)
    text = gpu_kernels.host_text
    monkeypatch.setattr(gpu_kernels, "host_text", lambda given: "#define WARPS\n" + text(given))
    kernels = HostKernels(source)
    kernels.load()
    sharing = BodyKernels(loops, kernels, model.scale)
    constants = model.scale.new_zeros(max(source.constants, 1))
    sharing.compute_constants(torch.from_numpy(loops.values), constants)
    first = states(model, 3)
    expected, _ = compiled.CompiledModel(model).advance(first.numpy(), 3)
    found = sharing.rollout(last(first[:, 0]), constants, 3).permute(2, 0, 1)
    np.testing.assert_allclose(found, expected, rtol=1e-13, atol=1e-13)


def test_threads_take_many_trajectories(monkeypatch):
    """However few threads there is space for."""
    model, played_, constants = played("ring")
    weights = torch.ones(model.dim, dtype=torch.float64)
    found = []
    for space in (1 << 28, 8 * 3 * model.dim):
        monkeypatch.setattr(gpu_bodies, "_SPACE", space)
        monkeypatch.setattr(gpu_bodies, "_BLOCKS", 1 + space // (1 << 14))
        for by_blocks in (False, True):
            predicted = played_.rollout(last(states(model)[:, 0]), constants, 2, by_blocks)
            gradient = played_.gradient(predicted, predicted * weights[:, None], constants)
            found.append((predicted, gradient))
    for predicted, gradient in found[1:]:
        torch.testing.assert_close(predicted, found[0][0], rtol=1e-14, atol=1e-15)
        torch.testing.assert_close(gradient, found[0][1], rtol=1e-12, atol=1e-14)


def test_the_same_bits_every_time():
    model, played_, constants = played("pairs in space")
    predicted = played_.rollout(last(states(model)[:, 0]), constants, 2, None)
    one, other = (played_.gradient(predicted, predicted, constants) for _ in range(2))
    assert torch.equal(one, other)


@pytest.mark.parametrize("few", [COUNT, 1 << 14])
def test_few_trajectories_of_many_bodies_go_by_blocks(monkeypatch, few):
    model = build("one step", 50)
    _, loops = bodies_of(model, derivatives=False)
    launched = []

    class Recording:
        def launch(self, name, threads, *_):
            launched.append(name)

    recording = BodyKernels(loops, Recording(), model.scale)
    recording.rollout(torch.zeros(model.dim, few, dtype=torch.float64), model.scale, 1, None)
    assert launched == ["rollout_by_blocks" if few == COUNT else "rollout"]


def test_two_hundred_bodies_need_no_other_kernels():
    few, many = (bodies_of(build("one step", n), derivatives=True)[0] for n in (8, 200))
    assert few.text == many.text and many.operations == 25 * few.operations


@pytest.mark.parametrize(("dtype", "architecture"), [(torch.float64, 90), (torch.float32, 80)])
@pytest.mark.parametrize("name", ["walls", "pairs of two kinds"])
def test_nvrtc_compiles_them(name, dtype, architecture):
    try:
        compiler = find_nvrtc()
    except NotCompilable as reason:
        pytest.skip(str(reason))
    source, _ = bodies_of(build(name, dtype=dtype), derivatives=True)
    binary, _ = compiler.compile(source.text, architecture)
    assert binary.startswith(b"\x7fELF")
