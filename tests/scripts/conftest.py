"""Benchmarks as modules, for tests."""

import importlib
from pathlib import Path

import pytest
from click.testing import CliRunner

import vpintegrator as vp
from vpintegrator.compiled import CompiledModel, NotCompilable

BENCHMARKS = Path(__file__).parents[2] / "scripts" / "benchmarks"


def run(module, *arguments, code=0):
    """Output of a benchmark that ends with an exit code."""
    result = CliRunner().invoke(module.main, [*arguments])
    assert result.exit_code == code, result.output
    return result.output


@pytest.fixture
def script(monkeypatch):
    """A benchmark as a module; it does not bind the process of the tests to a core."""
    monkeypatch.syspath_prepend(BENCHMARKS)
    harness = importlib.import_module("harness")
    monkeypatch.setattr(harness, "use_threads", lambda threads: None)
    # not measured: it takes seconds
    monkeypatch.setattr(harness, "peak", lambda dtype: 1e11)
    monkeypatch.setattr(harness, "bandwidth", lambda: 1e10)
    return importlib.import_module


@pytest.fixture
def compiler():
    try:
        CompiledModel(vp.models.VolumePreservingFeedForward(dim=2))
    except NotCompilable as reason:
        pytest.skip(str(reason))
