"""The benchmark of devices on a GPU, or a pretended one with kernels played by the CPU."""

import importlib
from pathlib import Path

import pytest
import torch

from tests.compiled.gpu.conftest import host_kernels
from vpintegrator.compiled.gpu import kernels

SCRIPTS = Path(__file__).parents[2] / "scripts" / "benchmarks"


@pytest.fixture
def script(monkeypatch, is_pretended, device):
    """Modules of the benchmark; nothing is measured, and Inductor is left out."""
    monkeypatch.syspath_prepend(SCRIPTS)
    if is_pretended:
        monkeypatch.setattr(kernels, "kernels_for", host_kernels)
    module = importlib.import_module("devices_machine")
    for name, found in {
        "seconds": lambda self, call: 1.0,
        "peaks": lambda self, dtype: {"a guess": 1e12},
        "bandwidth": lambda self: 1e12,
        "room": 1 << 20,
    }.items():
        monkeypatch.setattr(module.Device, name, found)
    # both before anything is changed: one takes names of the other
    parts = [importlib.import_module(name) for name in ("devices_rollouts", "devices_training")]
    for part in parts:
        monkeypatch.setattr(part, "INDUCTOR", {})
        monkeypatch.setattr(part, "time_together", lambda runs, _: dict.fromkeys(runs, 1.0))
    monkeypatch.setattr(importlib.import_module("devices_rollouts"), "CALLS", 5)
    return importlib.import_module


@pytest.mark.parametrize("name", ["polynomials", "ring"])
def test_rollouts(script, name):
    module, there = script("devices_rollouts"), script("devices_machine").Device("cuda")
    found = module.Rollouts(there, module.NETWORKS[name], torch.float64, 70).measure(0.0)
    assert {"ours", "eager"} <= set(found["times"]), found["left_out"]
    assert max(found["errors"].values()) < 1e-12
    assert found["roofline"] > 0 and found["device"] == 1.0 / found["calls"]


@pytest.mark.parametrize("kind", ["FirstOrderSteps", "NewtonSteps"])
def test_steps(script, kind):
    module, there = script("devices_training"), script("devices_machine").Device("cuda")
    found = getattr(module, kind)(there, "vpff", torch.float64, 40).measure(0.0)
    assert {"ours", "eager"} <= set(found["times"]), found["left_out"]
    assert found["errors"]["ours"] < 1e-12 and found["roofline"] > 0
