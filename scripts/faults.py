"""Kill commands at random moments, run them again, and compare with runs left in peace.

    python scripts/faults.py all --kills 10
    python scripts/faults.py gen --kills 100 --seed 1

A run is a command in an empty folder. It is killed by SIGKILL or SIGTERM, and then run to its end.
After the kill every output is whole or absent, and no process ends in a traceback. In the end the
outputs are those of a run left in peace, and the folder holds nothing else but hidden temporary
files. Another command is one more entry of ``COMMANDS``.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from random import Random

os.environ["OMP_NUM_THREADS"] = "1"  # before torch is imported

import click
import numpy as np

import vpintegrator as vp

PATIENCE = 600  # seconds after which a process counts as hanging
_ENDS = (0, 130, -signal.SIGTERM, -signal.SIGKILL)


@dataclass(frozen=True)
class Command:
    """A command of some seconds.

    Attributes
    ----------
    arguments
        Command line; ``INPUTS`` stands for the folder of the inputs.
    output
        The file that it writes.
    read
        Function of the output that returns what is equal in each run; it raises if the file is not
        whole.
    again
        Option of the runs after the first.
    """

    arguments: str
    output: str
    read: Callable[[Path], bytes]
    again: str = "--overwrite"


def _dataset(path: Path) -> bytes:
    return vp.open_dataset(path).states("train").tobytes()


def _model(path: Path) -> bytes:
    return b"".join(tensor.numpy().tobytes() for tensor in vp.load(path).state_dict().values())


def _rollout(path: Path) -> bytes:
    report = vp.open_rollout(path)
    return b"".join(np.ascontiguousarray(run.states).tobytes() for run in report.runs.values())


COMMANDS = {
    "gen": Command(
        "vp-gen rigid-body --method LSODA --count 600 --steps 8 -o body.h5",
        *("body.h5", _dataset, "--resume"),
    ),
    "train": Command(
        "vp-train INPUTS/body.h5 --model vpff --width 4 --depth 1 --epochs 60 -o model.safetensors",
        *("model.safetensors", _model),
    ),
    "rollout": Command(
        "vp-rollout --system rigid-body --against rk4,gauss-legendre-4 --steps 1500 -o rollout.h5",
        *("rollout.h5", _rollout),
    ),
    "plot": Command(
        "vp-plot INPUTS/rollout.h5 -o figures --format png",
        *("figures/captions.md", Path.read_bytes),
    ),
}


def start(command: Command, inputs: Path, folder: Path, *extra: str) -> subprocess.Popen[str]:
    """Start a command in a folder."""
    name, *arguments = command.arguments.replace("INPUTS", str(inputs)).split()
    call = [str(Path(sys.executable).parent / name), *arguments, *extra]
    pipe = subprocess.PIPE
    return subprocess.Popen(call, cwd=folder, stdout=pipe, stderr=subprocess.STDOUT, text=True)


def files(folder: Path) -> list[str]:
    found = (path.relative_to(folder) for path in folder.rglob("*"))
    return sorted(str(path) for path in found if not any(part[0] == "." for part in path.parts))


def check(process: subprocess.Popen[str]) -> None:
    """Wait for a process; refuse a traceback, and an exit code that says neither."""
    said, _ = process.communicate(timeout=PATIENCE)
    if "Traceback" in said or process.returncode not in _ENDS:
        raise click.ClickException(f"exit code {process.returncode}:\n{said}")


def kill_once(command: Command, inputs: Path, folder: Path, random: Random, seconds: float) -> None:
    """Kill a run, check what it leaves, and run it to its end."""
    process = start(command, inputs, folder)
    time.sleep(random.uniform(0, seconds))
    process.send_signal(random.choice((signal.SIGKILL, signal.SIGTERM)))
    check(process)
    output = folder / command.output
    if output.exists():
        command.read(output)  # raises if it is not whole
    final = start(command, inputs, folder, command.again)
    check(final)
    if final.returncode:
        raise click.ClickException(f"the run after a kill ends with {final.returncode}")


@click.command()
@click.argument("names", nargs=-1, required=True, metavar=f"all|{'|'.join(COMMANDS)}...")
@click.option("--kills", default=10, show_default=True, help="Of each command.")
@click.option("--seed", default=0, show_default=True)
def main(names: tuple[str, ...], kills: int, seed: int) -> None:
    """Kill commands at random moments; fail if an output is lost, half or different."""
    with tempfile.TemporaryDirectory() as place:
        inputs = Path(place, "inputs")
        inputs.mkdir()
        vp.generate("rigid-body", inputs / "body.h5", count=60, steps=6)
        vp.compare(None, ["rk4"], system="pendulum", steps=50).save(inputs / "rollout.h5")
        for name in COMMANDS if "all" in names else names:
            command, random = COMMANDS[name], Random(f"{name} {seed}")
            whole = Path(place, name)
            whole.mkdir()
            begin = time.monotonic()
            check(start(command, inputs, whole))
            seconds = time.monotonic() - begin
            expected = command.read(whole / command.output)
            for number in range(kills):
                folder = Path(place, f"{name}-{number}")
                folder.mkdir()
                kill_once(command, inputs, folder, random, seconds)
                if command.read(folder / command.output) != expected:
                    raise click.ClickException(f"{name}, kill {number}: the output differs")
                if files(folder) != files(whole):
                    raise click.ClickException(f"{name}, kill {number}: left {files(folder)}")
            click.echo(f"{name}: {kills} kills, all outputs whole and equal")


if __name__ == "__main__":
    main()
