"""Learned splittings of several numbers of stages, beside classical methods of the same step.

    python scripts/benchmarks/splittings.py --folder measured --markdown

For each case: the error one step ahead on the test group, relative to the spread of the components
that move, and the cost of a step for 1,000 trajectories as machine code. Classical methods are
measured in the same run. What is measured is kept in the folder and not measured again.
"""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import click
from harness import benchmark, duration, machine, print_table, write_result

# isort: split

import vpintegrator as vp
from vpintegrator.models.building import build
from vpintegrator.training import search
from vpintegrator.training.training_data import TrainingData

SYSTEMS = Path(__file__).parent / "systems"
CASES = (
    "kepler",
    "toda",
    "dipole",
    "elastic-pendulum",
    "chirped-pendulum",
    "two-waves",
    "charged-particle",
    "rigid-body",
    "abc-flow",
    "relativistic-oscillator",
)
STAGES = (10, 20, 40)
WITH_COMMUTATORS = (12,)
PEERS = ("blanes-moan-4", "blanes-moan-6", "gauss-legendre-4", "gauss-legendre-6")


def measure(name: str, folder: Path, seconds: float) -> dict[str, Any]:
    """Every number of stages for a system."""
    own, path = SYSTEMS / f"{name}.toml", folder / f"{name}.h5"
    if not path.exists():
        vp.generate(own if own.exists() else name, path)
    data = TrainingData(vp.open_dataset(path), equations=True)

    rows: list[dict[str, Any]] = []
    trials = [(stages, False) for stages in STAGES]
    largest = build(data.dataset.system, "split", {"stages": 1, "commutators": True})
    if largest.core.commutators.numel():
        trials += [(stages, True) for stages in WITH_COMMUTATORS]
    table = None
    for stages, commutators in trials:
        options = {"stages": stages} | ({"commutators": True} if commutators else {})
        found = vp.fit(data.dataset, [search("split", options)], equations=True, seconds=math.inf)
        table = vp.one_step(found.model, data.dataset, seconds=seconds)
        (own,) = table.models
        rows.append(
            {
                "stages": stages,
                "commutators": commutators,
                "error": own.error,
                "cost": own.cost,
            }
        )
    assert table is not None
    peers = {each.name: [each.error, each.cost] for each in table.methods}
    entry = {"system": name, "entry": "splittings", "rows": rows, "peers": peers}
    return entry | {"machine": machine()}


def report(results: list[dict[str, Any]]) -> None:
    """The table: error and cost of a step, a row for each case."""
    trials = [(stages, False) for stages in STAGES] + [(n, True) for n in WITH_COMMUTATORS]
    columns = [f"{n} with commutators" if extra else f"{n} stages" for n, extra in trials]
    rows = []
    for result in results:
        found = {
            (row["stages"], row["commutators"]): (row["error"], row["cost"])
            for row in result["rows"]
        }
        cells = [found.get(trial) for trial in trials]
        cells += [result["peers"].get(name) for name in PEERS]
        words = ["-" if cell is None else f"{cell[0]:.1e}, {duration(cell[1])}" for cell in cells]
        rows.append([result["system"], *words])
    notes = ["error: one step ahead, on the test group, relative to the spread"]
    notes += sorted({result["machine"] for result in results})
    print_table("Learned splittings", ["case", *columns, *PEERS], rows, notes)


@benchmark(seconds=2.0)
@click.option("--folder", type=click.Path(file_okay=False, path_type=Path), required=True)
@click.option("--only", metavar="CASE", help="One of the cases.")
def main(seconds: float, threads: int, quick: bool, folder: Path, only: str | None) -> None:
    """Measure every case; what is in the folder is not measured again."""
    folder.mkdir(parents=True, exist_ok=True)
    if only is not None and only not in CASES:
        raise vp.InputError(f"--only: '{only}' is none of {', '.join(CASES)}")
    results = []
    for name in CASES if only is None else [only]:
        path = folder / f"{name}-splittings.json"
        if not path.exists():
            click.echo(name, err=True)
            write_result(folder, measure(name, folder, 0.1 if quick else seconds))
        results.append(json.loads(path.read_text("utf-8")))
    report(results)


if __name__ == "__main__":
    main()
