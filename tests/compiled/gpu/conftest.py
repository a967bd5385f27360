"""Kernels for GPUs, played by the CPU."""

import pytest

from vpintegrator.compiled.gpu import kernels


@pytest.fixture
def on_host(monkeypatch):
    """Machine code for GPUs is compiled for the CPU, and models there are as if on a GPU."""
    monkeypatch.setattr(
        kernels,
        "kernels_for",
        lambda device, source, *worth: kernels.HostKernels(source, *worth),
    )
