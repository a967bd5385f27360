"""Several processes do what one does, to rounding."""

import os
import subprocess
import sys

import pytest
import torch

from vpintegrator.models import load

from . import all_cases


@pytest.fixture(scope="module")
def trained(body, tmp_path_factory):
    """Folders of weights, by one process and by two, and what the two said."""
    one, two = (tmp_path_factory.mktemp(name) for name in ("one", "two"))
    all_cases.train_all(body.path, one)
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    result = subprocess.run(
        [*command, "--nproc-per-node", "2", all_cases.__file__, str(body.path), str(two)],
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=180,
    )
    assert result.returncode == 0, result.stderr
    return one, two, result.stdout


@pytest.mark.parametrize(("optimizer", "compiled"), sorted(all_cases.CASES))
def test_two_processes_equal_one(trained, optimizer, compiled):
    one, two = (torch.load(all_cases.path(folder, optimizer, compiled)) for folder in trained[:2])
    # conjugate gradients lose digits from one direction to the next
    digits = 1e-4 if optimizer == "gauss-newton" else 1e-7
    torch.testing.assert_close(two, one, rtol=digits, atol=digits / 100)


def test_the_command_speaks_once(trained):
    _, two, said = trained
    assert said.count("relative error one window ahead") == 1
    assert load(two / "model.safetensors").name == "vpff"
