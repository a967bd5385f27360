"""Several processes do what one does, to rounding."""

import os
import subprocess
import sys

import pytest
import torch

from vpintegrator.models import load

from .conftest import weights


@pytest.mark.parametrize("compiled", ["no", "yes"])
@pytest.mark.parametrize("optimizer", ["levenberg-marquardt", "gauss-newton", "adam", "l-bfgs"])
def test_two_processes_equal_one(body, tmp_path, optimizer, compiled):
    if (optimizer, compiled) in (("gauss-newton", "yes"), ("l-bfgs", "yes")):
        pytest.skip("Gauss-Newton is not compiled, and L-BFGS as Adam is")
    arguments = ["-m", "vpintegrator.cli.train", body.path, "--model", "vpff", "--width", "4"]
    arguments += ["--depth", "1", "--epochs", "3", "--optimizer", optimizer, "--batch", "101"]
    arguments += ["--compiled", compiled]
    two = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    found = []
    for name, start in (("one", []), ("two", two)):
        path = tmp_path / f"{name}.safetensors"
        command = [sys.executable, *start, *arguments, "-o", path]
        result = subprocess.run(
            [str(part) for part in command],
            env={**os.environ, "OMP_NUM_THREADS": "1", "VPINTEGRATOR_CACHE": str(tmp_path)},
            capture_output=True,
            text=True,
            timeout=120,
        )
        assert result.returncode == 0, result.stderr
        assert result.stdout.count("relative error one window ahead") == 1
        found.append(weights(load(path)))
    # conjugate gradients lose digits from one direction to the next
    digits = 1e-4 if optimizer == "gauss-newton" else 1e-7
    torch.testing.assert_close(found[1], found[0], rtol=digits, atol=digits / 100)
