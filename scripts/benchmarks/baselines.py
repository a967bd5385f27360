"""The default of vp-train beside baselines of the literature, on simulated measurements.

    python scripts/benchmarks/baselines.py        # --only pendulum,damped --seconds 60

All data have fixed seeds. Each case is stored as measured states whose equations are not known, and
trained by ``vp-train DATA.h5 --baselines`` with no other option.
"""

from __future__ import annotations

import math
import tempfile
from collections.abc import Callable
from pathlib import Path

import click
import numpy as np
from harness import benchmark, print_table
from scipy.integrate import solve_ivp

import vpintegrator as vp
from vpintegrator.baselines import BaselineTable
from vpintegrator.cli.train import main as train
from vpintegrator.data import Dataset
from vpintegrator.plotting.tables import duration

STEP, STEPS, COUNT = 0.2, 20, 60
PAIRS, ENERGY, TESTED = 300, 0.1, 0.1


def pendulum(path: Path, friction: float = 0.0, noise: float = 0.0) -> Dataset:
    """Import trajectories of a pendulum with friction and noise."""
    rng = np.random.default_rng(0)
    first = rng.uniform(-1.5, 1.5, (2, COUNT))
    states = solve_ivp(
        lambda t, z: np.concatenate([z[COUNT:], -np.sin(z[:COUNT]) - friction * z[COUNT:]]),
        (0, STEP * STEPS),
        first.ravel(),
        method="DOP853",
        t_eval=STEP * np.arange(STEPS + 1),
        rtol=1e-12,
        atol=1e-13,
    ).y
    states = states.reshape(2, COUNT, -1).transpose(1, 2, 0)
    states = states + noise * rng.normal(size=states.shape)
    structure = None if friction else "symplectic"
    return vp.import_dataset(states, path, step=STEP, structure=structure, overwrite=True)


def henon_heiles(path: Path) -> Dataset:
    """Import pairs (y, py) of the section x = 0, px > 0 of Hénon and Heiles."""
    rng, before, after = np.random.default_rng(0), [], []

    def field(t: float, z: np.ndarray) -> list[float]:
        x, y, px, py = z
        return [px, py, -x - 2 * x * y, -y - x * x + y * y]

    def crossing(t: float, z: np.ndarray) -> float:
        return float(z[0]) if t > 0.1 else 1.0

    crossing.terminal, crossing.direction = True, 1.0  # type: ignore[attr-defined]
    while len(before) < PAIRS:
        y, py = rng.uniform(-0.25, 0.25, 2)
        square = 2 * ENERGY - py**2 - y**2 + 2 * y**3 / 3
        if square < 1e-3:
            continue
        options = {"method": "DOP853", "rtol": 1e-11, "atol": 1e-12}
        start = [0.0, y, math.sqrt(square), py]
        found = solve_ivp(field, (0, 30), start, events=crossing, **options)
        if len(found.y_events[0]):
            before.append([y, py])
            after.append(found.y_events[0][0][[1, 3]])
    fractions = [1 - 2 * TESTED, TESTED, TESTED]
    return vp.import_pairs(
        np.array(before),
        np.array(after),
        path,
        structure="symplectic",
        fractions=fractions,
        overwrite=True,
    )


CASES: dict[str, tuple[str, Callable[[Path], Dataset]]] = {
    "pendulum": ("pendulum", pendulum),
    "noise": ("pendulum, noise 1e-3", lambda path: pendulum(path, noise=1e-3)),
    "section": (f"Hénon–Heiles section, {PAIRS} pairs", henon_heiles),
    "damped": (
        "pendulum, friction 0.1, noise 1e-4",
        lambda path: pendulum(path, friction=0.1, noise=1e-4),
    ),
}


@benchmark(seconds=60.0)
@click.option("--only", default=",".join(CASES), show_default=True, metavar="NAME,...")
def main(seconds: float, threads: int, quick: bool, only: str) -> None:
    """Print a table for each case; ``--seconds`` are those of the model."""
    for name in only.split(","):
        title, make = CASES[name]
        with tempfile.TemporaryDirectory() as folder:
            data, path = Path(folder) / "data.h5", Path(folder) / "model.safetensors"
            make(data)
            limit = "4" if quick else f"{seconds:g}"
            arguments = [str(data), "-o", str(path), "--baselines", "--seconds", limit, "--quiet"]
            train(arguments, standalone_mode=False)
            metadata = vp.load(path).metadata
        found = BaselineTable.from_text(metadata["baselines"], "the model")
        rows = [
            [
                row.name,
                *(f"{error:.1e}" for error in (row.error, row.rollout)),
                row.structure,
                f"{row.seconds:.1f}",
                duration(row.cost) if math.isfinite(row.cost) else "-",
            ]
            if not row.reason
            else [row.name, row.reason, "", "", "", ""]
            for row in found.rows
        ]
        columns = ["", "one step", "rollout", "keeps", "training, s", "cost of a step"]
        print_table(title, columns, rows, [f"relative errors, {found.judged_by}"])


if __name__ == "__main__":
    main()
