"""Couplings, transformers and plain networks on several systems, after equal processor time.

    python scripts/benchmarks/networks.py --folder measured
    python scripts/benchmarks/networks.py --folder known --equations --entries vpff,spff

Data are those of ``vp-gen SYSTEM``, models those of ``vp-train --model NAME --search``, learned
from the states, or with ``--equations`` with functions of the system. Classical methods run beside
them at the same step. What is measured is kept in the folder, a file for each system and entry, and
is not done again: an interrupted measurement goes on.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click
import symplectic
from harness import (
    benchmark,
    in_a_process,
    machine,
    names,
    print_table,
    processor_seconds,
    write_result,
)

# isort: split


import vpintegrator as vp
from vpintegrator.errors import InputError

SYSTEMS = (
    *("rigid-body", "pendulum", "coupled-oscillators", "henon-heiles", "kepler"),
    *("double-pendulum", "lotka-volterra-2d", "tokamak"),
)
CLASSICAL = ("implicit-midpoint", "rk4")
ENTRIES = ("vpff", "spff", "vpt", "vpmt", "spt", "transformer", "resnet")
NOTES = [
    "for each system: relative error one step ahead, of states of the test group; RMSE, median of "
    f"{symplectic.TRAJECTORIES} orbits over {symplectic.STEPS} steps",
    "-: the model does not suit the system, or its search ends without one",
]


def measure(system: str, entry: str, seconds: float, folder: Path, equations: bool) -> None:
    """Train an entry on a system, let it run, and write the results."""
    path = folder / f"{system}.h5"
    data = vp.open_dataset(path) if path.exists() else vp.generate(system, path)
    result: dict[str, Any] = {"system": system, "entry": entry, "seconds": seconds}
    result |= {"equations": equations, "machine": machine()}
    options = symplectic.rollout_options()
    if entry in CLASSICAL:
        step: Any = vp.classical(entry, data.system, data.step)
        report = vp.compare(None, entry, system=data.system, step=data.step, **options)
    else:
        kind = vp.training.search(entry)
        try:
            with processor_seconds():
                fit = vp.fit(data, [kind], equations=equations, seconds=seconds, progress=False)
        except InputError as error:
            write_result(folder, result | {"failure": str(error)})
            return
        step = fit.model
        vp.save(step, folder / f"{system}-{entry}.safetensors", overwrite=True)
        result["size"] = fit.size
        report = vp.compare({entry: step}, [], system=data.system, **options)
    result |= symplectic.numbers(report) | {"error": symplectic.one_step_error(step, data)}
    write_result(folder, result)


def report(results: list[dict[str, Any]]) -> None:
    """Print error and RMSE, a row for each entry, a column for each system."""
    systems = list(dict.fromkeys(each["system"] for each in results))
    measured = {(each["entry"], each["system"]): each for each in results}
    rows = [
        [entry, *(symplectic.cell(measured.get((entry, system))) for system in systems)]
        for entry in dict.fromkeys(each["entry"] for each in results)
    ]
    seconds = " or ".join(f"{value:g}" for value in sorted({each["seconds"] for each in results}))
    knowledge = {each["equations"]: None for each in results}
    words = " and ".join("with the equations" if k else "from states" for k in knowledge)
    sizes = [f"{r['entry']}, {r['system']}: {r['size']}" for r in results if r.get("size")]
    title = f"{seconds} s of processor time each, {words}"
    machines = sorted({each["machine"] for each in results})
    print_table(title, ["", *systems], rows, [*NOTES, *sizes, *machines])


@benchmark(seconds=10.0)
@click.option("--systems", metavar="NAME,...", help=f"Some of: {', '.join(SYSTEMS)}.")
@click.option("--entries", metavar="NAME,...", help=f"Some of: {', '.join(ENTRIES)}.")
@click.option("--equations", is_flag=True, help="Let training use the equations, too.")
@click.option("--folder", type=click.Path(file_okay=False, path_type=Path), required=True)
def main(
    seconds: float,
    threads: int,
    quick: bool,
    systems: str | None,
    entries: str | None,
    equations: bool,
    folder: Path,
) -> None:
    """Train models for the same processor time on each system, and let them run."""
    chosen = names("--systems", systems, SYSTEMS)
    models = names("--entries", entries, ENTRIES)
    if quick:
        seconds = 1.0
        chosen = chosen[:1]
        models = models[:2]
    folder.mkdir(parents=True, exist_ok=True)
    pairs = [(system, entry) for system in chosen for entry in (*CLASSICAL, *models)]
    files = {pair: folder / f"{pair[0]}-{pair[1]}.json" for pair in pairs}
    missing = [pair for pair in pairs if not files[pair].exists()]
    for number, (system, entry) in enumerate(missing, 1):
        reason = in_a_process(measure, system, entry, seconds, folder, equations)
        note = f"left out, {reason}" if reason else symplectic.error_of(files[system, entry])
        click.echo(f"{number} of {len(missing)}: {system}, {entry}: {note}", err=True)
    report([json.loads(path.read_text("utf-8")) for path in files.values() if path.exists()])


if __name__ == "__main__":
    main()
