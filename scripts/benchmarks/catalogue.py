"""Every system of the catalogue: what vp-train makes of it, and classical methods.

    python scripts/benchmarks/catalogue.py --folder states
    python scripts/benchmarks/catalogue.py --folder equations --equations --figure catalogue.png
    python scripts/benchmarks/catalogue.py --folder states --outside

With ``--outside`` the systems are the flows in ``scripts/benchmarks/systems``. Data are those of
``vp-gen SYSTEM``, models those of ``vp-train``, learned from the states, or with ``--equations``
made from the equations. The budget of a training is processor time. Each model runs 300 steps
beside classical methods at the same step, and is compared with them at equal error one step ahead;
maps by formula have no classical methods, and are learned from states only. The folder gets the
data, the model and a file of results of each system. Files that are there are not made again, so
that an interrupted measurement goes on.
"""

from __future__ import annotations

import json
import math
import time
from pathlib import Path
from typing import Any

import catalogue_figure
import click
from harness import (
    duration,
    in_a_process,
    machine,
    print_table,
    processor_seconds,
    write_result,
)

# isort: split

import vpintegrator as vp
from vpintegrator.cli.command import PlainCommand
from vpintegrator.errors import InputError
from vpintegrator.measure.rows import ALIKE, OneStepTable, two_digits
from vpintegrator.measure.steps import applicable_methods

EXPLICIT = ("stoermer-verlet", "strang-splitting")  # whichever the system allows
TITLES = {
    "explicit": "/ Verlet or Strang",
    "rk4": "/ RK4",
    "gauss-legendre-4": "/ Gauss 4",
    "gauss-legendre-6": "/ Gauss 6",
    "blanes-moan-4": "/ Blanes-Moan 4",
    "blanes-moan-6": "/ Blanes-Moan 6",
    "dormand-prince-8": "/ Dormand-Prince 8",
}
COSTS = ("step", "cheapest with this error", "at times the cost")
COLUMNS = ("gauss-legendre-6", "blanes-moan-6", "dormand-prince-8")
OWN = "default"  # name of the model among the runs
SYSTEMS = Path(__file__).parent / "systems"


def outside() -> list[str]:
    """Names of the flows outside the catalogue."""
    files = sorted(SYSTEMS.glob("*.toml"))
    return [path.stem for path in files if not vp.load_system(path).is_discrete]


def inside(equations: bool) -> list[str]:
    """Names of the systems of the catalogue; with equations of the flows."""
    names = vp.list_systems()
    return [name for name in names if not (equations and vp.load_system(name).is_discrete)]


def measure(name: str, seconds: float, folder: Path, equations: bool, costs: bool) -> None:
    """Train the default on a system, let it run beside classical methods, and write the results."""
    path, model_path = folder / f"{name}.h5", folder / f"{name}-{OWN}.safetensors"
    own = SYSTEMS / f"{name}.toml"
    if model_path.exists():
        data, model = vp.open_dataset(path), vp.load(model_path)
    else:
        data = vp.generate(own if own.exists() else name, path, overwrite=True)
        with processor_seconds():
            model = vp.fit(data, equations=equations, seconds=seconds, progress=False).model
        vp.save(model, model_path, overwrite=True)
    methods = [] if data.system.is_discrete else [*applicable_methods(data.system)]
    if EXPLICIT[0] in methods and EXPLICIT[1] in methods:  # of the two one is enough
        methods.remove(EXPLICIT[1])
    if not costs:
        methods = [method for method in methods if method in COLUMNS]
    result = {"system": name, "model": model.name, "seconds": seconds, "machine": machine()}
    try:
        tangent = 100 if costs else 0
        report = vp.compare(
            {OWN: model},
            methods,
            steps=300,
            trajectories=12,
            tangent_steps=tangent,
            compiled=costs,
        )
        rollout = {run: numbers(report, run) for run in report.runs}
        with processor_seconds():
            methods_of_step = None if costs else ()
            limit = 120 if costs else 0
            table = vp.one_step({OWN: model}, data, methods=methods_of_step, seconds=limit)
        result |= {"rollout": rollout, "one_step": json.loads(table.text)}
    except InputError as error:
        result["failure"] = str(error)
    write_result(folder, result | {"entry": OWN})


def numbers(report: Any, run: str) -> dict[str, float]:
    """Numbers of the table for a method."""
    s = report.summary(run)
    return {
        "RMSE": s.error,
        "worst": s.worst_error,
        "invariants": max(s.invariants.values(), default=math.nan),
        "phase-space volume": s.volume.get("phase-space", math.nan),
        "seconds per step": s.seconds_per_step,
        "diverged": s.diverged,
    }


def finite(error: float) -> float:
    """An error that is no number, of orbits that left, is larger than all others."""
    return error if math.isfinite(error) else math.inf


def peers(result: dict[str, Any]) -> dict[str, dict[str, float]]:
    """Runs of the classical methods of a result, of the two explicit ones under one name."""
    runs = {run: row for run, row in result["rollout"].items() if run != OWN}
    return {("explicit" if run in EXPLICIT else run): row for run, row in runs.items()}


def report(results: list[dict[str, Any]]) -> None:
    """Print error and cost of a step, RMSE over 300 steps, and how many classical methods win."""
    flows = [r for r in results if peers(r)]
    verdicts = dict.fromkeys(("cheaper", "about the same", "dearer", "not compared"), 0)
    rows = []
    for r in results:
        costs, verdict = cost_cells(r)
        verdicts[verdict] += bool(peers(r))
        rows.append([r["system"], r["model"], *costs, *error_cells(r)])
    header = ["system", "model", "error", *COSTS]
    header += ["RMSE", "invariants", *(TITLES[name] for name in COLUMNS)]
    notes = ["error: of a step, relative to the spread; step: of one of 1,000 states"]
    notes += ["RMSE: over 300 steps, median of 12 orbits, and divided by that of methods"]
    title = "Equal error and equal steps"
    if all(row[3] == "-" for row in rows):
        title = "Equal steps"
        header = [name for name in header if name not in COSTS]
        rows = [[*row[:3], *row[3 + len(COSTS) :]] for row in rows]
    print_table(title, header, rows, notes)
    click.echo("; ".join(f"{verdict} on {count}" for verdict, count in verdicts.items()))
    everyone = {name: [r for r in results if name in peers(r)] for name in TITLES}
    for name, title in TITLES.items():
        below = [r for r in everyone[name] if is_below(r, [name])]
        if everyone[name]:
            click.echo(f"RMSE {title}: below 1 on {len(below)} of {len(everyone[name])}")
    below = [r for r in flows if is_below(r, [*peers(r)])]
    click.echo(f"RMSE below that of each method on {len(below)} of {len(flows)}")


def error_cells(result: dict[str, Any]) -> list[str]:
    """Errors over 300 steps, also divided by those of classical methods."""
    own, others = result["rollout"][OWN], peers(result)
    ratios = [
        f"{own['RMSE'] / others[name]['RMSE']:.2g}" if name in others else "-" for name in COLUMNS
    ]
    return [*(f"{own[key]:.1e}" for key in ("RMSE", "invariants")), *ratios]


def is_below(result: dict[str, Any], methods: list[str]) -> bool:
    """Whether the RMSE of the model is below those of some methods."""
    errors = (finite(peers(result)[name]["RMSE"]) for name in methods)
    return finite(result["rollout"][OWN]["RMSE"]) < min(errors)


def cost_cells(result: dict[str, Any]) -> tuple[list[str], str]:
    """Error and cost of a step, the cheapest classical method with this error, and a verdict."""
    table = OneStepTable.from_text(json.dumps(result["one_step"]), result["system"])
    own = table.row(OWN)
    rival, ratio = own.cheapest_rival, own.relative_cost
    reached = any(each.substeps for each in own.rivals)
    verdict = "not compared" if own.note or not own.rivals else "cheaper"
    if rival is not None and ratio < ALIKE:
        verdict = "dearer" if ratio <= 1 / ALIKE else "about the same"
    elif rival is None and reached:
        verdict = "not compared"
    words = rival.words if rival else "none" if own.rivals and not reached else "-"
    cost = duration(own.cost) if math.isfinite(own.cost) else "-"
    cells = [f"{own.error:.1e}", cost, words, two_digits(ratio) if rival else "-"]
    return cells, verdict


@click.command(cls=PlainCommand)
@click.option("--systems", metavar="NAME,...", help="Some of vp-show systems.  [default: all]")
@click.option(
    "--outside", "outside_catalogue", is_flag=True, help="Flows outside the catalogue instead."
)
@click.option("--equations", is_flag=True, help="Let training use the equations, too.")
@click.option(
    "--errors-only",
    is_flag=True,
    help="Measure errors beside methods of high order, no costs and no volume.",
)
@click.option(
    "--seconds",
    type=float,
    default=20.0,
    show_default=True,
    help="Processor time of each training, at most.",
)
@click.option("--folder", type=click.Path(file_okay=False, path_type=Path), required=True)
@click.option(
    "--figure",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Draw errors and costs into this file: .png, .pdf or .svg.",
)
@click.option("--markdown", is_flag=True, help="Print tables as Markdown.")
def main(
    systems: str | None,
    outside_catalogue: bool,
    equations: bool,
    errors_only: bool,
    seconds: float,
    folder: Path,
    figure: Path | None,
    markdown: bool,
) -> None:
    """Train the default on every system, and compare it with classical methods."""
    known = outside() if outside_catalogue else inside(equations)
    chosen = known if systems is None else [name.strip() for name in systems.split(",")]
    for name in chosen:
        if name not in known:
            raise InputError(f"--systems: '{name}' is none of {', '.join(known)}")
    folder.mkdir(parents=True, exist_ok=True)
    files = [folder / f"{name}-{OWN}.json" for name in chosen]
    for number, (name, path) in enumerate(zip(chosen, files, strict=True), 1):
        if path.exists():
            continue
        begin = time.perf_counter()
        reason = in_a_process(measure, name, seconds, folder, equations, not errors_only)
        spent = f"left out, {reason}" if reason else f"{time.perf_counter() - begin:.0f} s"
        click.echo(f"{number} of {len(chosen)}: {name}: {spent}", err=True)
    found = [json.loads(path.read_text("utf-8")) for path in files if path.exists()]
    results = [result for result in found if "failure" not in result]
    report(results)
    for result in found:
        if "failure" in result:
            click.echo(f"{result['system']}: {result['failure']}")
    missing = [name for name, path in zip(chosen, files, strict=True) if not path.exists()]
    click.echo(f"not measured: {', '.join(missing) or 'none'}")
    if figure is not None:
        catalogue_figure.draw({r["system"]: r["rollout"] for r in results}, figure)


if __name__ == "__main__":
    main()
