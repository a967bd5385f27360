"""Kills commands at random moments, goes on with them, and compares with runs left in peace.

    python scripts/faults.py train --kills 100 --seed 0
    python scripts/faults.py all --kills 30 --keep failures/

A run is a command in an empty folder, killed up to three times by SIGKILL or SIGTERM and started
again with --resume, until it is let end. Meanwhile every output must be whole or absent, what was
recorded must still be there after the next kill, and no process may end in a traceback. In the end
the result must be that of a run left in peace, and the folder must hold no more than it does then.

Another command is one more entry of ``COMMANDS``.
"""

# ruff: noqa: E402
from __future__ import annotations

import os

for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_name, "1")

import hashlib
import importlib
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from filecmp import cmp
from pathlib import Path
from random import Random

import click
import numpy as np

from vpintegrator.cli.common import SETTINGS, console, plain_errors, progress_bar

KILLS_A_RUN = 3
PATIENCE = 600  # seconds after which a process counts as hanging
LOG = "log.txt"
# what a process that was told to end may say: done, interrupted, or killed before it could answer
_ENDS = (0, 130, -signal.SIGTERM, -signal.SIGKILL)


@dataclass(frozen=True)
class Command:
    """A command on a case of a few seconds.

    Attributes
    ----------
    module
        Where its ``main`` is.
    arguments
        As on the command line; ``INPUTS`` stands for the folder that ``prepare`` fills.
    prepare
        Makes the inputs in a folder, once, and imports what the command needs.
    outputs
        Names of the files that a finished run leaves.
    digest
        What must be equal, given the folder of a run; raises if an output is there and not whole.
        None while there is no output.
    recorded
        How far a run has come according to what lies in its folder, 0 where nothing does.
    again
        What is given besides to go on.
    """

    module: str
    arguments: str
    prepare: Callable[[Path], None]
    outputs: tuple[str, ...]
    digest: Callable[[Path], str | None]
    recorded: Callable[[Path], float]
    again: tuple[str, ...] = ("--resume",)


def _body(folder: Path) -> None:
    import vpintegrator.training  # noqa: F401
    from vpintegrator.data import generate

    generate("rigid-body", folder / "body.h5", count=60, steps=6)


def _model_digest(folder: Path) -> str | None:
    """Hash of the weights; the rest of a model file holds times."""
    from vpintegrator.models import load

    path = folder / "model.safetensors"
    if not path.exists():
        return None
    digest = hashlib.sha256()
    for name, tensor in sorted(load(path).state_dict().items()):
        digest.update(name.encode() + tensor.numpy().tobytes())
    return digest.hexdigest()


def _model(folder: Path) -> None:
    """A model hardly trained, and all that a rollout imports."""
    import torch

    import vpintegrator as vp
    import vpintegrator.plotting
    from vpintegrator.rollout import measure, reference

    torch.manual_seed(0)
    model = vp.models.VolumePreservingTransformer(dim=3, window=3, depth=1, width=4)
    system = vp.load_system("rigid-body")
    model.metadata = {"step": "0.2", "system": system.text, "system_name": system.name}
    vp.save(model, folder / "model.safetensors")
    # far more often than for users, whose rollouts take longer
    measure.RECORD_SECONDS = reference.RECORD_SECONDS = 0.02


def _rollout_digest(folder: Path) -> str | None:
    """Of everything but the time that steps took."""
    import vpintegrator as vp

    path = folder / "rollout.h5"
    if not path.exists():
        return None
    report = vp.open_rollout(path)
    digest = hashlib.sha256(repr(report.table()[0].keys()).encode())
    for array in (report.times, report.reference, report.reference_error):
        digest.update(array.tobytes())
    for run in report.runs.values():
        section = run.section.points if run.section else np.empty(0)
        volumes = [volume.log_determinant for volume in run.volume.values()]
        drifts = [error.drift.slope for error in run.invariants.values()]
        changes = [error.error for error in run.invariants.values()]
        arrays = [run.states, run.error, run.root_mean_square_error, section]
        for array in (*arrays, *volumes, *drifts, *changes):
            digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()


def _steps_recorded(folder: Path) -> float:
    path = folder / "rollout.h5.checkpoint" / "progress.npz"
    if not path.exists():
        return 0.0
    with np.load(path) as progress:
        return float(sum(progress[name] for name in progress.files if name.endswith("done")))


def _report(folder: Path) -> None:
    """A rollout to draw, and all that drawing imports."""
    import vpintegrator as vp
    from vpintegrator.plotting import draw

    report = vp.compare(None, ["rk4"], system="pendulum", steps=50, trajectories=2)
    report.save(folder / "rollout.h5")
    draw(report, folder / "figures")


def _figures_digest(folder: Path) -> str | None:
    """Of the figures that are there, each of which must be whole."""
    import matplotlib.image

    digest = hashlib.sha256()
    for path in sorted((folder / "figures").glob("[!.]*")):
        if path.suffix == ".png":
            digest.update(matplotlib.image.imread(path).tobytes())
        elif path.suffix == ".pdf":
            if not path.read_bytes().rstrip().endswith(b"%%EOF"):
                raise ValueError(f"{path.name} is not whole")
            digest.update(path.read_bytes())
        else:
            digest.update(path.read_text(encoding="utf-8").encode())
        digest.update(path.name.encode())
    return digest.hexdigest()


def _dataset_digest(folder: Path) -> str | None:
    """Hash of all states, read again, and of what is said of them."""
    from vpintegrator.data import open_dataset
    from vpintegrator.data.dataset_file import fingerprint

    path = folder / "body.h5"
    if not path.exists():
        return None
    dataset = open_dataset(path)
    digest = fingerprint({name: dataset.states(name) for name in dataset.shapes}, dataset.step)
    assert digest == dataset.fingerprint, "the states are not those of the fingerprint"
    return f"{digest} {dataset.accuracy} {dataset.recipe}"


def _shards_recorded(folder: Path) -> float:
    return float(len(list((folder / "body.h5.shards").glob("*.h5"))))


_SHARDS = "rigid-body --method LSODA --count 600 --steps 8 --rtol 1e-8 --atol 1e-8 -o body.h5"

COMMANDS = {
    "gen": Command(
        module="vpintegrator.cli.gen",
        arguments=_SHARDS,
        prepare=_body,
        outputs=("body.h5",),
        digest=_dataset_digest,
        recorded=_shards_recorded,
    ),
    "gen-workers": Command(
        module="vpintegrator.cli.gen",
        arguments=f"{_SHARDS} --workers 2 --no-single-file",
        prepare=_body,
        outputs=("body.h5",),
        digest=_dataset_digest,
        recorded=_shards_recorded,
    ),
    "gen-small": Command(
        module="vpintegrator.cli.gen",
        arguments="rigid-body --count 400 --steps 60 -o body.h5",
        prepare=_body,
        outputs=("body.h5",),
        digest=_dataset_digest,
        recorded=lambda folder: 0.0,
    ),
    "train": Command(
        module="vpintegrator.cli.train",
        arguments=(
            "INPUTS/body.h5 --model vpff --width 4 --depth 1 --optimizer adam --batch 40 --noise "
            "1e-4 --epochs 160 -o model.safetensors"
        ),
        prepare=_body,
        outputs=("model.safetensors",),
        digest=_model_digest,
        recorded=lambda folder: 0.0,
        again=(),
    ),
    "rollout": Command(
        module="vpintegrator.cli.rollout",
        arguments=(
            "INPUTS/model.safetensors --against rk4,gauss-legendre-4 --steps 1500 --trajectories 4 "
            "--section z1=0 --compiled no -o rollout.h5"
        ),
        prepare=_model,
        outputs=("rollout.h5",),
        digest=_rollout_digest,
        recorded=_steps_recorded,
    ),
    "plot": Command(
        module="vpintegrator.cli.plot",
        arguments="INPUTS/rollout.h5 -o figures --format png --format pdf",
        prepare=_report,
        outputs=("figures/overview.png", "figures/captions.md"),
        digest=_figures_digest,
        recorded=lambda folder: 0.0,
        again=("--overwrite",),
    ),
}


class Process:
    """A command in a forked process, for which everything is imported already."""

    def __init__(self, command: Command, inputs: Path, folder: Path, *extra: str) -> None:
        self.folder = folder
        arguments = command.arguments.replace("INPUTS", str(inputs)).split()
        main = importlib.import_module(command.module).main
        sys.stdout.flush()
        sys.stderr.flush()
        self.pid = os.fork()
        if self.pid:
            return
        status = 70
        try:
            os.chdir(folder)
            log = os.open(LOG, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
            os.dup2(log, 1)
            os.dup2(log, 2)
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            main([*arguments, *extra])
        except SystemExit as ending:
            status = ending.code if isinstance(ending.code, int) else int(bool(ending.code))
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(status)

    def wait(self, seconds: float) -> int | None:
        """The exit code, or None if it has not ended by then."""
        end = time.monotonic() + seconds
        while True:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                return os.waitstatus_to_exitcode(status)
            if time.monotonic() >= end:
                return None
            time.sleep(0.002)

    def kill(self, number: signal.Signals) -> int:
        """End it by a signal, and by force where that takes too long."""
        os.kill(self.pid, number)
        status = self.wait(PATIENCE)
        if status is None:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
            raise AssertionError(f"it hangs {PATIENCE} s after {number.name}")
        return status


@dataclass(frozen=True)
class Expected:
    """What a run left in peace comes to, and the folder where it lies."""

    folder: Path
    digest: str | None
    files: list[str]
    seconds: float


def in_peace(command: Command, inputs: Path, folder: Path) -> Expected:
    """Run a command to its end."""
    folder.mkdir()
    begin = time.monotonic()
    status = Process(command, inputs, folder).wait(PATIENCE)
    seconds = time.monotonic() - begin
    if status != 0 or any(not (folder / name).exists() for name in command.outputs):
        raise SystemExit(f"a run left in peace fails ({status}):\n{_said(folder)}")
    return Expected(folder, command.digest(folder), _files(folder), seconds)


def killed(
    command: Command, inputs: Path, folder: Path, expected: Expected, random: Random, count: Counter
) -> None:
    """One run with its kills; raises AssertionError where something is not as it should be."""
    folder.mkdir()
    resume: tuple[str, ...] = ()
    before = 0.0
    for _ in range(random.randint(1, KILLS_A_RUN)):
        process = Process(command, inputs, folder, *resume)
        status = process.wait(random.uniform(0, expected.seconds))
        if status is not None:
            break
        number = random.choice((signal.SIGKILL, signal.SIGTERM))
        status = process.kill(number)
        count[number.name] += 1
        assert status in _ENDS, f"exit code {status} after {number.name}"
        assert "Traceback" not in _said(folder), "a traceback"
        digest = command.digest(folder)  # raises if an output is not whole
        recorded = command.recorded(folder)
        finished = digest == expected.digest and not recorded
        if recorded < before and not finished:
            count["lost"] += 1
            raise AssertionError(f"{before:g} was recorded, of which {recorded:g} is left")
        resume, before = command.again, recorded
        count["resumed"] += recorded > 0
        if finished:  # it was done before the signal came
            break
    else:
        status = Process(command, inputs, folder, *resume).wait(PATIENCE)
        assert status == 0, f"exit code {status} in the end"
    if command.digest(folder) != expected.digest:
        count["differing"] += 1
        pairs = {name: (expected.folder / name, folder / name) for name in expected.files}
        other = [
            name
            for name, (mine, made) in pairs.items()
            if mine.is_file() and not (made.is_file() and cmp(mine, made, shallow=False))
        ]
        raise AssertionError(
            "the result is not that of a run left in peace; files that differ, those with times in "
            f"them always: {', '.join(other) or 'none'}"
        )
    assert "Traceback" not in _said(folder), "a traceback"
    if _files(folder) != expected.files:
        count["left over"] += 1
        raise AssertionError(f"the folder holds {', '.join(_files(folder))}")


def _files(folder: Path) -> list[str]:
    names = (str(path.relative_to(folder)) for path in folder.rglob("*"))
    return sorted(name for name in names if name != LOG)


def _said(folder: Path) -> str:
    path = folder / LOG
    return path.read_text(errors="replace") if path.exists() else ""


@click.command(context_settings=SETTINGS)
@click.argument("names", nargs=-1, required=True, metavar="COMMAND...|all")
@click.option("--kills", type=click.IntRange(min=1), default=30, show_default=True)
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True)
@click.option("--keep", type=click.Path(path_type=Path), help="Folder for runs that failed.")
@plain_errors
def main(names: tuple[str, ...], kills: int, seed: int, keep: Path | None) -> None:
    """Kill commands at random moments; exit code 1 if anything is lost, half or different."""
    from rich.table import Table

    from vpintegrator.errors import InputError

    chosen = list(COMMANDS) if "all" in names else list(names)
    unknown = [name for name in chosen if name not in COMMANDS]
    if unknown:
        raise InputError(f"there is no command {unknown[0]}; there are {', '.join(COMMANDS)}")
    columns = ("runs", "SIGKILL", "SIGTERM", "resumed", "lost", "differing", "left over", "failed")
    table = Table("", *columns, padding=0)
    failures = 0
    for name in chosen:
        command, random, count = COMMANDS[name], Random(f"{name} {seed}"), Counter()
        with tempfile.TemporaryDirectory(prefix="faults-") as made, progress_bar() as bar:
            task = bar.add_task(name, total=kills)
            root = Path(made)
            (root / "inputs").mkdir()
            command.prepare(root / "inputs")
            os.environ["VPINTEGRATOR_CACHE"] = str(root / "cache")
            in_peace(command, root / "inputs", root / "first")  # fills caches, and takes longer
            expected = in_peace(command, root / "inputs", root / "second")
            while count["SIGKILL"] + count["SIGTERM"] < kills:
                folder = root / f"run-{count['runs']}"
                count["runs"] += 1
                try:
                    killed(command, root / "inputs", folder, expected, random, count)
                except Exception as error:  # an output that cannot be read is a failure too
                    count["failed"] += 1
                    console().print(f"{name}, {folder.name}: {error}", markup=False)
                    console().print(_said(folder), markup=False)
                    if keep is not None:
                        for kept in (folder, expected.folder):
                            shutil.copytree(kept, keep / name / kept.name, dirs_exist_ok=True)
                shutil.rmtree(folder)
                bar.update(task, completed=count["SIGKILL"] + count["SIGTERM"])
        failures += count["failed"]
        table.add_row(name, *(str(count[column]) for column in columns))
    console().print(table)
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
