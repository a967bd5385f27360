"""Where there is no C++ compiler everything runs in PyTorch, and one line says so."""

import os
import subprocess
import sys

import pytest

import vpintegrator as vp


@pytest.fixture
def command(tmp_path):
    """Run a command in an empty folder, where PATH leads to no compiler."""
    empty = tmp_path / "bin"
    empty.mkdir()
    environment = {key: value for key, value in os.environ.items() if key not in ("CXX", "CC")}
    environment |= {"PATH": str(empty), "VPINTEGRATOR_CACHE": str(tmp_path / "cache")}

    def run(name, *arguments):
        return subprocess.run(
            [sys.executable, "-m", f"vpintegrator.cli.{name}", *arguments],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
        )

    return run


@pytest.mark.thorough
def test_training_and_rollout_go_on_in_pytorch(tmp_path, command):
    vp.generate("rigid-body", tmp_path / "body.h5", count=20, steps=6)
    # compiling would pay for so many epochs, but the target is met in the first
    budget, sizes = ("--epochs", "400", "--target", "0.9"), ("--width", "4", "--depth", "1")
    options = ("--model", "vpt", "-o", "vpt.safetensors", *budget, *sizes)
    trained = command("train", "body.h5", *options)
    rolled = command("rollout", "vpt.safetensors", "--against", "rk4", "--steps", "9", "-o", "r.h5")
    for done, verb in ((trained, "trains"), (rolled, "runs")):
        assert done.returncode == 0, done.stderr
        # beside lines of progress, and doubts about a model that is hardly trained
        (line,) = (line for line in done.stderr.splitlines() if "not compiled" in line)
        assert line.startswith(f"Warning: vpt {verb} in PyTorch, not compiled: no C++ compiler")
    assert "  not compiled: no C++ compiler" in trained.stdout
    assert list(vp.open_rollout(tmp_path / "r.h5").runs) == ["vpt", "rk4"]
