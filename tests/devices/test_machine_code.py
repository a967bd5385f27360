"""Machine code is for the CPU: what is said where it is asked for elsewhere."""

import pytest
import torch
from click.testing import CliRunner

import vpintegrator as vp
from tests.devices.same import assert_same
from tests.devices.test_rollout import built, windows
from vpintegrator.cli.train import main
from vpintegrator.errors import InputError


def test_a_model_on_a_gpu_runs_in_pytorch(device):
    model = built("window 1").to(device)
    initial = torch.from_numpy(windows(model)).to(device)
    found = vp.rollout.rollout(model, initial, 20)
    assert_same(vp.rollout.rollout(model, initial, 20, compiled=False), found.cpu(), device, 0)
    with pytest.raises(InputError, match="on cuda models run in PyTorch"):
        vp.rollout.rollout(model, initial, 20, compiled=True)


def test_kernels_of_earlier_versions():
    model = built("window 1")
    with pytest.raises(InputError, match="no kernels for GPUs any more"):
        vp.rollout.rollout(model, windows(model), 20, compiled="gpu")
    result = CliRunner().invoke(main, ["rigid-body.h5", "--compiled", "gpu"])
    assert result.exit_code == 2
    assert "there are no kernels for GPUs any more" in result.output
