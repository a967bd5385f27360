"""Kernels for GPUs, played by the CPU."""

from dataclasses import replace

import pytest

from vpintegrator.compiled.gpu import kernels

from .host import HostKernels

_QUICK = '#pragma GCC optimize("O0")\n'  # a third of the compiler's time, and the same numbers


def host_kernels(device, source, *worth):
    return HostKernels(replace(source, text=_QUICK + source.text), *worth)


@pytest.fixture
def on_host(monkeypatch):
    """What is for GPUs is compiled for the CPU, whatever device a model is on."""
    monkeypatch.setattr(kernels, "kernels_for", host_kernels)
