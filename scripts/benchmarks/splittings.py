"""Learned splittings of several numbers of stages, beside classical methods of the same step.

    python scripts/benchmarks/splittings.py --folder measured --markdown

For each case: the seconds of the training, the error one step ahead on the test group, relative to
the spread of the components that move, and the cost of a step for 1,000 trajectories as machine
code. Classical methods are measured in the same run. What is measured is kept in the folder and
not measured again.
"""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import click
from harness import benchmark, duration, machine, print_table, write_result

# isort: split

import vpintegrator as vp
from vpintegrator.models.untrained import build
from vpintegrator.training import kinds_of
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
WITH_COMMUTATORS = (5, 12)
PEERS = ("blanes-moan-4", "blanes-moan-6", "gauss-legendre-4", "gauss-legendre-6")


def measure(name: str, folder: Path, seconds: float) -> dict[str, Any]:
    """Every number of stages for a system."""
    own, path = SYSTEMS / f"{name}.toml", folder / f"{name}.h5"
    if not path.exists():
        vp.generate(own if own.exists() else name, path)
    data = TrainingData(vp.open_dataset(path))

    rows: list[dict[str, Any]] = []
    trials = [(stages, False) for stages in STAGES]
    largest = build(data.dataset.system, "split", stages=1, commutators=True)
    if largest.core.commutators.numel():
        trials += [(stages, True) for stages in WITH_COMMUTATORS]
    table = None
    for stages, commutators in trials:
        start = time.perf_counter()
        options = {"stages": stages} | ({"commutators": True} if commutators else {})
        found = vp.fit(data.dataset, kinds_of("split", options), seconds=None)
        spent = time.perf_counter() - start
        table = vp.one_step(found.model, data.dataset, seconds=seconds)
        (own,) = table.models
        rows.append(
            {
                "stages": stages,
                "commutators": commutators,
                "coefficients": found.history.parameters,
                "seconds": spent,
                "error": own.error,
                "cost": own.cost,
            }
        )
    assert table is not None
    peers = {each.name: [each.error, each.cost] for each in table.methods}
    entry = {"system": name, "entry": "splittings", "rows": rows, "peers": peers}
    return entry | {"machine": machine()}


def report(results: list[dict[str, Any]]) -> None:
    """The table."""
    columns = ["case", "stages", "commutators", "coefficients", "seconds", "error", "step"]
    columns += [f"{name}, step" for name in PEERS]
    rows = []
    for result in results:
        for n, row in enumerate(result["rows"]):
            peers = [result["peers"].get(name) if n == 0 else None for name in PEERS]
            rows.append(
                [
                    result["system"] if n == 0 else "",
                    row["stages"],
                    "yes" if row["commutators"] else "-",
                    row["coefficients"],
                    f"{row['seconds']:.1f}",
                    f"{row['error']:.1e}",
                    duration(row["cost"]),
                    *("-" if p is None else f"{p[0]:.1e}, {duration(p[1])}" for p in peers),
                ]
            )
    notes = ["error: one step ahead, on the test group, relative to the spread"]
    notes += sorted({result["machine"] for result in results})
    print_table("Learned splittings", columns, rows, notes)


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
