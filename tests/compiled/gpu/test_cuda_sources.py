"""NVRTC takes every kind of source, for GPUs that are common; no GPU is needed for that."""

import re

import pytest

from vpintegrator.compiled.gpu import source as writing
from vpintegrator.compiled.gpu.source import write_residual, write_rollout
from vpintegrator.compiled.powers import simplest
from vpintegrator.compiled.tracing import trace, trained_numbers
from vpintegrator.native import NotCompilable
from vpintegrator.native.nvrtc import OPTIONS, find_nvrtc

from ..conftest import build

# each with other functions or sizes; large ones take NVRTC seconds
NAMES = ("polynomials", "formulas", "resnet", "activations")


@pytest.fixture(scope="module")
def compiler():
    try:
        return find_nvrtc()
    except NotCompilable as reason:
        pytest.skip(str(reason))


def sizes(model):
    return model.window, model.prediction_window, model.dim


@pytest.mark.parametrize("real", ["double", "float"])
@pytest.mark.parametrize("name", [*NAMES, "published", "shorter prediction"])
def test_rollouts(compiler, name, real):
    model = build(name)
    source = write_rollout(simplest(model)[0], sizes(model), real)
    architecture = 80 if real == "float" else 90
    binary, said = compiler.compile(source.text, architecture, (*OPTIONS, "--ptxas-options=-v"))
    assert binary.startswith(b"\x7fELF")
    # a trajectory stays in registers
    entry = said[said.index("'rollout'") :]
    assert re.search(r"(\d+) bytes spill stores", entry)[1] == "0"


@pytest.mark.parametrize("chained", [True, False])
@pytest.mark.parametrize("name", ["polynomials", "resnet"])
def test_derivatives(compiler, name, chained):
    model, real = build(name), "double" if chained else "float"
    trained = trained_numbers(model).tolist()
    source = write_residual(trace(model), sizes(model), real, trained, chained)
    binary, _ = compiler.compile(source.text, 90 if chained else 80)
    assert all(f".text.{kernel}".encode() in binary for kernel in source.kernels)


def test_large_programs(compiler, monkeypatch):
    """Their parts stay apart, and their constants are loaded."""
    monkeypatch.setattr(writing, "_INLINE", 0)
    monkeypatch.setattr(writing, "_BANK", 0)
    model = build("resnet")
    trained = trained_numbers(model).tolist()
    source = write_residual(trace(model), sizes(model), "double", trained, True)
    assert "#define PART static __device__ __noinline__" in source.text
    assert not source.bank
    binary, _ = compiler.compile(source.text, 80)
    assert b".text.jacobian" in binary
