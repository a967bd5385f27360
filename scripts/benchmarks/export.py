"""Exported C beside the library's own machine code and PyTorch.

    python scripts/benchmarks/export.py --network network.safetensors

Of two maps of the rigid body: couplings of polynomials, trained for ten seconds unless the file
holds one, and the published transformer with small random weights (see rollout.py). A time is that
of one step of one trajectory with all states written, in rollouts; one of the transformer gives
three states. C is compiled by ``cc`` with the flags that head the columns.
"""

from __future__ import annotations

import ctypes
import functools
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import click
from harness import benchmark, duration, machine, print_table, ratio, time_together
from rigid_body import network_options, trained
from rollout import first_windows, iterate, published

# isort: split

import numpy as np
import torch

import vpintegrator as vp
from vpintegrator.compiled import CompiledModel
from vpintegrator.errors import InputError
from vpintegrator.models import Model

FLAGS = ("-O2", "-O2 -march=native", "-O3 -march=native")
STEPS, EAGER, CHECKED = 20_000, 50, 20  # steps, of which a call takes one
Rollout = Callable[[np.ndarray, int], np.ndarray]


def in_c(source: Path, flags: str, model: Model) -> Rollout:
    """Rollouts by an exported file."""
    library = source.with_name(f"{source.stem}{flags.replace(' ', '')}.so")
    command = ["cc", *flags.split(), "-shared", "-fPIC", source, "-lm", "-o", library]
    subprocess.run(command, check=True)
    functions = ctypes.CDLL(str(library))
    functions.vp_rollout.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_long]

    def run(windows: np.ndarray, steps: int) -> np.ndarray:
        windows = windows.copy()
        states = np.empty((len(windows), steps * model.prediction_window, model.dim))
        functions.vp_rollout(windows.ctypes.data, states.ctypes.data, steps)
        return states

    return run


def exported(model: Model, folder: Path) -> dict[str, Rollout]:
    """Rollouts by each of the files that are made of a model."""
    source = vp.export(model, folder / "step.c", verify=False).path
    return {flags: in_c(source, flags, model) for flags in FLAGS}


def measured(
    model: Model, files: Mapping[str, Rollout], steps: int, seconds: float
) -> tuple[dict[str, float], float]:
    """Seconds of a step by each, the library first, and how far C is from PyTorch."""
    machine_code = CompiledModel(model, 1)
    several: dict[str, Rollout] = {
        "library": lambda X, count: machine_code.predict(X, count)[0],
        **files,
        "eager": lambda X, count: np.asarray(iterate(model, torch.from_numpy(X), count)),
    }
    windows = first_windows(1, torch.float64)[:, -model.window :].numpy()
    counts = {name: min(steps, EAGER) if name == "eager" else steps for name in several}
    timed = {name: functools.partial(run, windows, counts[name]) for name, run in several.items()}
    spent = time_together(timed, seconds)
    checked = min(steps, CHECKED)
    expected = several["eager"](windows, checked)
    errors = {
        name: float(np.abs(run(windows, checked) - expected).max()) for name, run in several.items()
    }
    if max(errors.values()) > 1e-12:
        raise click.ClickException(f"results differ from PyTorch's: {errors}")
    each = {name: spent[name] / counts[name] for name in several}
    return each, max(errors[flags] for flags in FLAGS)


@benchmark(seconds=6.0)
@network_options(train_seconds=10.0)
def main(
    seconds: float, threads: int, quick: bool, network: Path | None, train_seconds: float
) -> None:
    """Compare the cost of a step of exported files with that of the library's machine code."""
    if shutil.which("cc") is None:
        raise InputError("there is no C compiler cc; install one")
    if quick:
        seconds, train_seconds = 0.0, 1.0
    sizes: dict[str, Any] = {"functions": "polynomial", "depth": 2, "degree": 6}
    models = {
        "polynomials": trained(network, train_seconds, **sizes),
        "transformer": published(torch.float64),
    }
    rows, notes = [], []
    for name, model in models.items():
        with tempfile.TemporaryDirectory() as folder:
            files = exported(model, Path(folder))
            spent, error = measured(model, files, 5 if quick else STEPS, seconds)
            ours = spent.pop("library")
            cells = (f"{duration(time)} ({ratio(time, ours)})" for time in spent.values())
            rows.append([name, duration(ours), *cells])
            notes.append(f"{name}: C differs from PyTorch by {error:.0e}")
    columns = ["network", "library", *(f"cc {flags}" for flags in FLAGS), "eager"]
    title = "Rigid body, a step of one trajectory, and how many times that of the library it is"
    print_table(title, columns, rows, [*notes, machine()])


if __name__ == "__main__":
    main()
