"""Rollouts by kernels for GPUs, played by the CPU: the same numbers as the CPU's own code gives."""

import numpy as np
import pytest
import torch

from vpintegrator.compiled import NotCompilable, compile_model
from vpintegrator.compiled.gpu.kernels import kernels_for
from vpintegrator.compiled.gpu.model import GpuModel
from vpintegrator.models import VolumePreservingFeedForward
from vpintegrator.rollout.neural import LearnedCursor

from ...nn.laws import randomise
from ..conftest import MODELS, build, windows

CALLS = 3


def near(found, expected, digits):
    """Equal but for rounding of the largest numbers."""
    size = np.abs(expected).max()
    np.testing.assert_allclose(found, expected, rtol=0, atol=digits * size)


@pytest.mark.parametrize("name", MODELS)
def test_rollouts_are_those_of_the_cpu(on_host, name):
    model = build(name)
    first = windows(model, 70)  # a block and a part of one
    machine = GpuModel(model)
    states, last = machine.advance(first, CALLS)
    expected, after = compile_model(model).advance(first.numpy(), CALLS)
    assert states.shape == expected.shape
    near(states, expected, 1e-13)
    near(last, after, 1e-13)
    assert not np.shares_memory(last.numpy(), first.numpy())
    arrays = machine.advance(first.numpy(), CALLS)
    assert all(isinstance(array, np.ndarray) for array in arrays)
    np.testing.assert_array_equal(arrays[0], states)


@pytest.mark.parametrize("name", ["vpff", "vpt"])
def test_single_precision(on_host, name):
    model = build(name, torch.float32)
    first = windows(model, 3)
    states, _ = GpuModel(model).advance(first, 1)
    assert states.dtype == torch.float32
    near(states, compile_model(model).advance(first.numpy(), 1)[0], 2e-6)


def test_one_trajectory_none_and_no_calls(on_host):
    model = build("vpff")
    machine, first = GpuModel(model), windows(model, 2)
    whole, _ = machine.advance(first, 2)
    np.testing.assert_array_equal(machine.advance(first[1:], 2)[0], whole[1:])
    assert machine.advance(first[:0], 2)[0].shape == (0, 2, 3)
    states, last = machine.advance(first, 0)
    assert states.shape == (2, 0, 3)
    np.testing.assert_array_equal(last, first)


def test_other_devices_have_no_machine_code():
    with pytest.raises(NotCompilable, match="no machine code for devices of the kind meta"):
        kernels_for(torch.device("meta"), None)


@pytest.mark.parametrize("name", ["polynomials", "vpt"])
def test_what_diverges_is_nan_from_there_on(on_host, name):
    """As rollouts in PyTorch mark it, over several calls and windows that are not finite."""
    if name == "polynomials":
        torch.manual_seed(0)
        model = VolumePreservingFeedForward(dim=3, functions="polynomial", degree=4, depth=1)
        randomise(model, 0.3, 1)
    else:
        model = build(name)
    first = windows(model, 6)
    first[0] *= 0.01
    first[1:4] *= torch.tensor([10.0, 1e3, 1e200])[:, None, None].double()
    first[4, 0, 0] = torch.nan
    first[5, -1, 1] = torch.inf
    machine, plain = (
        LearnedCursor(model, first, compiled=GpuModel(model)),
        LearnedCursor(model, first),
    )
    assert machine.compiled.marks_divergence
    size = model.prediction_window
    for count in (2 * size, 3 * size, size):
        found, expected = machine.advance(count), plain.advance(count)
        lost = ~np.isfinite(expected).all(-1)
        np.testing.assert_array_equal(np.isnan(found).all(-1), lost)
        np.testing.assert_array_equal(np.isfinite(found).all(-1), ~lost)
    assert lost[4:].all()
    assert not lost[0].any()
    if name == "polynomials":
        assert lost[3].all()
