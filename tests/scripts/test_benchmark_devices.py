"""The benchmark of devices, small and on the CPU; what it measures is for a GPU."""

import json

import numpy as np
import pytest
import torch
from click.testing import CliRunner

from tests.compiled.gpu.host import HostKernels
from vpintegrator.compiled.gpu.kernels import BLOCK


@pytest.fixture
def script(script, monkeypatch):
    """Without what takes half a minute."""
    monkeypatch.setattr(torch, "compile", lambda model, **options: model)
    return script


@pytest.fixture
def without_jax(monkeypatch, script):
    machine = script("devices_machine")
    monkeypatch.setattr(machine, "find_spec", lambda name: None)


def invoke(script, *arguments):
    return CliRunner().invoke(script("devices").main, ["--quick", *arguments])


def test_the_tables_and_what_is_there_already(script, compiler, without_jax, tmp_path, monkeypatch):
    of_rollouts = script("devices_rollouts")
    networks = of_rollouts.NETWORKS
    monkeypatch.setattr(of_rollouts, "CALLS", 5)
    monkeypatch.setattr(script("devices"), "NETWORKS", {"published": networks["published"]})
    arguments = ["--device", "cpu", "--folder", str(tmp_path), "--markdown"]
    result = invoke(script, *arguments)
    assert result.exit_code == 0, result.output
    found = json.loads((tmp_path / "rollout-published-float64-16-cpu.json").read_text())
    assert set(found["times"]) == {"ours", "eager", "torch.compile"}
    assert max(found["errors"].values()) < 1e-14
    assert found["device"] is None and found["roofline"] > 0  # no clock but that of the CPU
    steps = json.loads((tmp_path / "newton-published-vpt-float64-32-cpu.json").read_text())
    assert set(steps["times"]) == {"ours", "eager", "torch.compile"}
    assert steps["errors"]["ours"] < 1e-12
    titles = [line for line in result.stdout.splitlines() if line.startswith("**")]
    assert len(titles) == 4 and "**A step of Adam**" in titles
    assert "16 float64: jax.lax.scan is left out: it is not installed" in result.stdout

    devices = script("devices")
    monkeypatch.setattr(devices.Rollouts, "measure", None)  # nothing is measured again
    monkeypatch.setattr(devices.NewtonSteps, "measure", None)
    again = invoke(script, *arguments)
    assert again.exit_code == 0, again.output
    assert again.stdout == result.stdout


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_kernel_that_shows_the_peak(script, compiler, dtype):
    kernels = HostKernels(script("devices_machine").multiply_adds(dtype))
    kernels.load()
    numbers = torch.full((BLOCK,), 0.5, dtype=dtype)
    kernels.launch("multiply_add", BLOCK, numbers, 100)
    torch.testing.assert_close(numbers, torch.full_like(numbers, 0.5))


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_without_a_gpu(script):
    result = invoke(script)
    assert result.exit_code == 2
    assert result.output.startswith("Error: --device cuda: PyTorch finds no GPU on this machine")
    assert len(result.output.splitlines()) == 1


@pytest.mark.parametrize("device", ["gpu", "meta"])
def test_other_devices(script, device):
    result = invoke(script, "--device", device)
    assert result.exit_code == 2 and f"--device: '{device}' is n" in result.output


def test_what_differs_or_fails_is_left_out(script):
    module = script("devices_rollouts")
    device = script("devices_machine").Device("cpu")
    case = module.Rollouts(device, module.NETWORKS["polynomials"], torch.float64, 4)
    expected = case._expected

    def fails():
        raise RuntimeError("no memory\nat all")

    case.add("right", lambda: (lambda: expected, np.asarray), 5)
    case.add("wrong", lambda: (lambda: 1.001 * expected, np.asarray), 5)
    case.add("broken", fails, 5)
    assert list(case.candidates) == ["right"]
    assert case.left_out["broken"] == "no memory"
    assert "differ from PyTorch's on the CPU by 1.0e-03" in case.left_out["wrong"]


@pytest.mark.parametrize("name", ["published", "polynomials", "ring"])
def test_all_is_the_same_in_jax(script, name):
    pytest.importorskip("jax", reason="jax is in the extra bench")
    module = script("devices_rollouts")
    device = script("devices_machine").Device("cpu")
    case = module.Rollouts(device, module.NETWORKS[name], torch.float64, 3)
    for peer, scan in case.network.in_jax(case._model).items():
        case.add(peer, lambda scan=scan: case._in_jax(scan), 5)
    assert not case.left_out and max(case.errors.values()) < 1e-12
