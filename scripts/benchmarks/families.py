"""Families: one network for every step and parameter, beside RK4 and strupnet.

    python scripts/benchmarks/families.py --folder states
    python scripts/benchmarks/families.py --folder known --equations

Each part is measured by itself and leaves a file in the folder; what is there is not done again.
Networks are those of ``vp-train`` with nothing but the budget, in processor time, so that a busy
machine measures the same.
"""

from __future__ import annotations

import itertools
import json
import warnings
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import click
from accuracy import VolNet
from harness import machine, print_table, processor_seconds

# isort: split

import numpy as np
import torch

import vpintegrator as vp
from vpintegrator.cli import train
from vpintegrator.cli.command import PlainCommand
from vpintegrator.errors import InputError
from vpintegrator.models import Model

Ranges = dict[str, tuple[float, float]]
BODY: Ranges = {"I1": (1.6, 2.4), "I2": (0.8, 1.2), "I3": (0.8 * 2 / 3, 1.2 * 2 / 3)}
LEAST = 1e-3  # the smallest step, beside zero: a step of data is positive
STATES, TIME, ORBITS = 200, 120.0, 8
_SMALL = 20.0  # seconds for a few parameters


class Training(NamedTuple):
    """Seconds of processor time of a training, and whether it may use the equations."""

    seconds: float
    equations: bool


def trained(data: vp.data.Dataset, folder: Path, seconds: float, equations: bool) -> Model:
    """What vp-train makes of a dataset."""
    path = folder / f"{data.path.stem}.safetensors"
    arguments = [str(data.path), "-o", str(path), "--seconds", str(seconds), "--overwrite"]
    arguments += ["--equations"] * equations
    with processor_seconds():
        train.main([*arguments, "--quiet"], standalone_mode=False)
    return vp.load(path)


def one_step_errors(
    model: Model, system: vp.System, steps: list[float], box: Ranges
) -> dict[str, float]:
    """Largest relative error one step ahead over the corners of the box, by the step."""
    z = system.sample_initial(STATES, np.random.default_rng(1))
    found = {}
    for step in steps:
        errors = [0.0]
        for corner in itertools.product(*box.values()):
            values = dict(zip(box, corner, strict=True))
            own = vp.load_system(system.name, **values)
            exact = vp.solve(own, z, np.array([0, step]), rtol=1e-13, atol=1e-14)[:, 1]
            new = model.map(z[:, None], {"step": step} | values)[:, 0]
            errors.append(float(np.linalg.norm(new - exact) / np.linalg.norm(exact)))
        found[f"{step:g}"] = max(errors)
    return found


def structure(model: Model, system: vp.System, box: Ranges, largest: float) -> dict[str, float]:
    """Largest |det - 1|, |Phi_-h Phi_h - 1| and |Phi_0 - 1| over random steps and parameters."""
    generator = np.random.default_rng(2)
    z = torch.from_numpy(system.sample_initial(STATES, generator)).unsqueeze(1)
    values = {name: generator.uniform(low, high, STATES) for name, (low, high) in box.items()}
    step = generator.uniform(-largest, largest, STATES)
    assert model.family is not None
    there, back, none = (model.family.values({"step": h} | values) for h in (step, -step, 0 * step))
    with torch.no_grad():
        turned = (model(model(z, there), back) - z).abs().max()
        rest = (model(z, none) - z).abs().max()
    D = torch.from_numpy(model.derivative(z.numpy(), there))
    found = {"det": (torch.linalg.det(D) - 1).abs().max(), "back": turned, "zero": rest}
    return {name: float(value) for name, value in found.items()}


def long_errors(model: Model, steps: list[float]) -> dict[str, Any]:
    """Median root mean square errors to t = 120 of the model and RK4, by the step."""
    found: dict[str, Any] = {}
    for step in steps:
        report = vp.compare(model.at(step=step), "rk4", time=TIME, trajectories=ORBITS)
        for row in report.table():
            found.setdefault(row["method"], {})[f"{step:g}"] = float(row["median RMSE"])
    return found


def family(
    name: str,
    ranges: Ranges,
    folder: Path,
    training: Training,
    count: int,
    steps: list[float],
) -> dict[str, Any]:
    """A family of the catalogue: errors one step ahead and to t = 120, and what it keeps."""
    box = {key: bounds for key, bounds in ranges.items() if key != "step"}
    data = vp.generate(
        name, folder / f"{name}-family.h5", count=count, steps=1, vary=ranges, overwrite=True
    )
    model = trained(data, folder, *training)
    history = model.record.history
    return {
        "parameters": history.parameters,
        "test error": history.test_error,
        "one step": one_step_errors(model, data.system, steps, box),
        "RMSE": long_errors(model, steps),
        **structure(model, data.system, box, ranges["step"][1]),
    }


def with_coefficients(data: vp.data.Dataset, path: Path) -> vp.data.Dataset:
    """The states of a dataset with the coefficients of each trajectory as further components."""
    assert data.family is not None
    parts = []
    for group in ("train", "validation", "test"):
        states, k = data.states(group), data.family.components(data.conditions(group))
        beside = np.broadcast_to(k[:, None], (*states.shape[:2], k.shape[1]))
        parts.append(np.concatenate([states, beside], -1))
    shares = [len(part) for part in parts]
    whole = sum(shares)
    fractions = (shares[0] / whole, shares[1] / whole, shares[2] / whole)
    return vp.import_dataset(
        np.concatenate(parts), path, step=1.0, fractions=fractions, overwrite=True
    )


def strupnet(folder: Path, training: Training) -> dict[str, Any]:
    """The rigid body of every step to 0.4 by our default and by VolNet, on the same pairs."""
    if find_spec("strupnet") is None:
        raise InputError("strupnet is not installed: pip install vpintegrator[bench]")
    ranges = {"step": (LEAST, 0.4)}
    data = vp.generate(
        "rigid-body", folder / "every-step.h5", count=4000, steps=1, vary=ranges, overwrite=True
    )
    ours = trained(data, folder, *training).record.history.test_error
    found: dict[str, Any] = {"ours": ours}
    extended = with_coefficients(data, folder / "with-steps.h5")
    sizes: dict[str, dict[str, int]] = {
        "R": {"layers": 12, "width": 8},
        "P": {"layers": 8, "max_degree": 6},
    }
    for method, options in sizes.items():
        torch.manual_seed(0)
        net = VolNet(None, method, **options)
        rate = {"R": 0.3, "P": 0.03}[method]
        with processor_seconds():
            history = vp.train(
                net,
                extended,
                optimizer="adam",
                learning_rate=rate,
                seconds=training.seconds,
                normalise=False,
                progress=False,
            )
        found[f"VolNet {method}"] = history.test_error
    return found


def _library(z: np.ndarray) -> np.ndarray:
    """Functions (state, function) that the equations of a pendulum are looked for among."""
    q, p = z.T
    powers = [q**a * p**b for a in range(4) for b in range(4 - a)]
    waves = [np.sin(q), np.cos(q), p * np.sin(q), p * np.cos(q), np.sin(2 * q), np.cos(2 * q)]
    return np.stack([*powers, *waves], 1)


def _thresholded(A: np.ndarray, b: np.ndarray, threshold: float) -> np.ndarray:
    """Brunton, Proctor and Kutz, PNAS 113 (2016) 3932-3937."""
    kept, found = np.ones(A.shape[1], bool), np.zeros(A.shape[1])
    for _ in range(20):
        found = np.zeros(A.shape[1])
        found[kept] = np.linalg.lstsq(A[:, kept], b, rcond=None)[0]
        if (kept == (np.abs(found) > threshold)).all():
            break
        kept = np.abs(found) > threshold
    return found


PARTS: dict[str, Callable[[Path, Training], dict[str, Any]]] = {
    "rigid-body": lambda folder, training: family(
        "rigid-body", {"step": (LEAST, 0.4)} | BODY, folder, training, 6000, [0.1, 0.2, 0.4]
    ),
    "henon-heiles": lambda folder, training: family(
        "henon-heiles", {"step": (LEAST, 0.2)}, folder, training, 4000, [0.05, 0.1, 0.2]
    ),
    "double-pendulum": lambda folder, training: family(
        "double-pendulum", {"step": (LEAST, 0.2)}, folder, training, 8000, [0.05, 0.1, 0.2]
    ),
    "strupnet": strupnet,
}


def report(found: dict[str, Any]) -> None:
    """Print a part."""
    title = f"{found['part']}, {found['seconds']:g} s of training each, {found['knowledge']}"
    head = ("part", "seconds", "knowledge", "machine")
    values = {k: v for k, v in found.items() if k not in head}
    rows = []
    for name, value in values.items():
        if isinstance(value, dict):
            inner = (
                f"{key}: {', '.join(f'{k} {v:.1e}' for k, v in part.items())}"
                if isinstance(part, dict)
                else f"{key}: {part:.1e}"
                for key, part in value.items()
            )
            rows.append([name, "; ".join(inner)])
        else:
            rows.append([name, f"{value:,}" if isinstance(value, int) else f"{value:.1e}"])
    print_table(title, ["", "measured"], rows, [found["machine"]])


@click.command(cls=PlainCommand)
@click.option("--folder", type=click.Path(path_type=Path), required=True, help="For results.")
@click.option("--seconds", type=float, default=200.0, show_default=True, help="Of each training.")
@click.option("--equations", is_flag=True, help="Let training use the equations, too.")
@click.option("--only", metavar="NAME,...", help=f"Some of: {', '.join(PARTS)}.")
def main(folder: Path, seconds: float, equations: bool, only: str | None) -> None:
    """Measure how accurate families are, and what they keep."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in [part.strip() for part in (only or ",".join(PARTS)).split(",")]:
        if name not in PARTS:
            raise InputError(f"--only: '{name}' is none of {', '.join(PARTS)}")
        path = folder / f"{name}.json"
        if not path.exists():
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                found = PARTS[name](folder, Training(seconds, equations))
            found = {
                "part": name,
                "seconds": seconds,
                "knowledge": "with the equations" if equations else "from states",
                "machine": machine(),
            } | found
            path.write_text(json.dumps(found, indent=1))
        report(json.loads(path.read_text()))


if __name__ == "__main__":
    main()
