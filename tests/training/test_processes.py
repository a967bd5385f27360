"""Several processes do what one does, to rounding."""

import os
import signal
import socket
import subprocess
import sys

import pytest
import torch

from vpintegrator.models import load

from . import all_cases


def trained_by_two(dataset, folder, *device):
    """Train in two processes; what they said."""
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    script = [all_cases.__file__, str(dataset), str(folder), *device]
    result = subprocess.run(
        [*launcher, "--nproc-per-node", "2", *script],
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=180,
    )
    assert result.returncode == 0, result.stderr
    return result.stdout


def assert_same_cases(two, one, optimizer, compiled):
    """The weights in a folder are those in another."""
    two, one = (torch.load(all_cases.path(folder, optimizer, compiled)) for folder in (two, one))
    # conjugate gradients lose digits from one direction to the next
    digits = 1e-7
    torch.testing.assert_close(two, one, rtol=digits, atol=digits / 100)


@pytest.fixture(scope="module")
def trained(body, tmp_path_factory):
    """Folders of weights, by one process and by two, and what the two said."""
    one, two = (tmp_path_factory.mktemp(name) for name in ("one", "two"))
    all_cases.train_all(body.path, one)
    return one, two, trained_by_two(body.path, two)


@pytest.mark.thorough
@pytest.mark.parametrize(("optimizer", "compiled"), sorted(all_cases.CASES))
def test_two_processes_equal_one(trained, optimizer, compiled):
    assert_same_cases(trained[1], trained[0], optimizer, compiled)


def test_the_command_speaks_once(trained):
    _, two, said = trained
    assert said.count("relative error one window ahead") == 1
    assert load(two / "model.safetensors").name == "vpff"


FAILING = """
import os
from vpintegrator.cli.train import main
from vpintegrator.training.optimizers.first_order import FirstOrder

original, done = FirstOrder.epoch, []

def epoch(self, progress):
    done.append(progress)
    if len(done) == 3 and os.environ["RANK"] == "1":
        os.kill(os.getpid(), int(os.environ["SIGNAL"]))
    return original(self, progress)

FirstOrder.epoch = epoch
main()
"""


@pytest.mark.thorough
@pytest.mark.parametrize(
    "number", [signal.SIGKILL, pytest.param(signal.SIGTERM, marks=pytest.mark.slow)]
)
def test_without_one_process_the_other_ends_and_keeps_the_model(body, tmp_path, number):
    """At once if it is killed; together, at the end of an epoch, if it is told to end."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free.getsockname()[1])}
    options = "--model vpff --width 2 --depth 1 --optimizer adam --epochs 6 -o a.safetensors"
    both = [
        subprocess.Popen(
            [sys.executable, "-c", FAILING, str(body.path), *options.split()],
            cwd=tmp_path,
            env=os.environ
            | address
            | {"RANK": rank, "WORLD_SIZE": "2", "OMP_NUM_THREADS": "1", "SIGNAL": str(int(number))},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in "01"
    ]
    said, errors = zip(*(process.communicate(timeout=180) for process in both), strict=True)
    lost = number == signal.SIGKILL
    assert [process.returncode for process in both] == ([1, -number] if lost else [0, 0])
    assert "the best model so far is kept" in said[0]
    assert (
        "Error: another process of this training is gone; --resume goes on" in errors[0]
    ) == lost
    assert "Traceback" not in errors[0] + errors[1]
    assert load(tmp_path / "a.safetensors").metadata["training"]
    assert (tmp_path / "a.safetensors.checkpoint").exists()
