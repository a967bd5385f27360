"""Every system of the catalogue: what vp-train makes by default, and classical methods.

    python scripts/benchmarks/catalogue.py --folder measured --figure catalogue.png
    python scripts/benchmarks/catalogue.py --folder measured --outside --entries default

With ``--outside`` the systems are the flows in ``scripts/benchmarks/systems``. Data are those of
``vp-gen SYSTEM``, networks those of ``vp-train`` with the options of an entry: none, or a window of
three states, for which the model is chosen as without; others only where ``--entries`` names them.
All run 300 steps beside classical methods at the same step. Seconds are of processor time, so that
a busy machine measures the same. The folder gets a file of results for each system and entry; what
is there is not done again, so that an interrupted measurement goes on, and entries can be added.
"""

from __future__ import annotations

import json
import math
import multiprocessing
import shlex
import time
from pathlib import Path
from typing import Any

import catalogue_figure
import click
from harness import duration, machine, print_table, write_result

# isort: split

import numpy as np

import vpintegrator as vp
from vpintegrator.cli import train
from vpintegrator.cli.common import SETTINGS, plain_errors
from vpintegrator.errors import InputError
from vpintegrator.maps import METHODS

ENTRIES = {
    "default": "",
    "windowed": "--window 3",
    "vpff": "--model vpff --functions neurons",
    "polynomial": "--model vpff --functions polynomial --degree 6",
    "vpt-3-3": "--model vpt --functions neurons --window 3 --prediction-window 3",
    "vpt-3-1": "--model vpt --functions neurons --window 3 --prediction-window 1",
    "vpt-2-1": "--model vpt --functions neurons --window 2 --prediction-window 1",
}
SCORED = ("default", "windowed")  # where no other entries are asked for
# of these two whichever the system allows: both are explicit, of order 2 and keep volume
EXPLICIT = ("stoermer-verlet", "strang-splitting")
OTHERS = ("rk4", "gauss-legendre-4", "gauss-legendre-6", "blanes-moan-4", "blanes-moan-6")
STEPS, TRAJECTORIES, TANGENT_STEPS = 300, 12, 100
SYSTEMS = Path(__file__).parent / "systems"
_PATIENCE = 600.0  # seconds for a system's data and rollouts


def outside() -> list[str]:
    """Names of the flows outside the catalogue."""
    files = sorted(SYSTEMS.glob("*.toml"))
    return [path.stem for path in files if not vp.load_system(path).is_discrete]


def applicable(system: vp.System) -> list[str]:
    """Those of the classical methods that the system allows."""
    found = []
    for name in (*EXPLICIT, *OTHERS):
        try:
            METHODS[name].check(system)
            found.append(name)
        except InputError:
            continue
    return [name for name in found if name != EXPLICIT[1] or EXPLICIT[0] not in found]


def measure(name: str, entries: list[str], seconds: float, folder: Path) -> None:
    """Train the entries on a system, let them run together, and write what was found."""
    # of this process, which does nothing else
    time.perf_counter = time.process_time
    own = SYSTEMS / f"{name}.toml"
    data = vp.generate(own if own.exists() else name, folder / f"{name}.h5", overwrite=True)
    models, results = {}, dict[str, dict[str, Any]]()
    for entry in entries:
        path = folder / f"{name}-{entry}.safetensors"
        arguments = [str(data.path), "-o", str(path), "--seconds", str(seconds)]
        arguments += ["--overwrite", "--no-verdict"]
        results[entry] = {"system": name, "entry": entry, "options": ENTRIES[entry]}
        results[entry] |= {"seconds": seconds, "machine": machine()}
        start = time.process_time()
        try:
            train.main([*arguments, "--quiet", *shlex.split(ENTRIES[entry])], standalone_mode=False)
        except click.ClickException as error:
            results[entry]["failure"] = error.format_message()
            continue
        models[entry] = vp.load(path)
        results[entry]["training seconds"] = time.process_time() - start
        history = json.loads(models[entry].metadata["training"])
        results[entry] |= {
            "model": models[entry].name,
            "arguments": {k: v for k, v in models[entry].arguments.items() if "symmetr" not in k},
            "training": {k: v for k, v in history.items() if not isinstance(v, list)},
        }
    rows = {}
    try:
        report = vp.compare(
            models,
            applicable(data.system),
            steps=STEPS,
            trajectories=TRAJECTORIES,
            tangent_steps=TANGENT_STEPS,
        )
        rows = {run: numbers(report, run) for run in report.runs}
    except InputError as error:
        for entry in models:
            results[entry]["failure"] = str(error)
    for entry, result in results.items():
        if "failure" not in result:
            result["rollout"] = {run: rows[run] for run in rows if run == entry or run in METHODS}
        write_result(folder, result)


def numbers(report: Any, run: str) -> dict[str, float]:
    """What the table says of a method."""
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
    """What the classical methods of a result did, of the two explicit ones under one name."""
    runs = {run: row for run, row in result["rollout"].items() if run != result["entry"]}
    return {("explicit" if run in EXPLICIT else run): row for run, row in runs.items()}


def report_all(results: list[dict[str, Any]]) -> None:
    """The table of all errors and costs, divided by those of classical methods, too."""
    header = ["system", "entry", "model", "seconds", "error", "RMSE", "worst", "invariants"]
    header += ["volume", "step"]
    titles = {"explicit": "/ Verlet or Strang", "rk4": "/ RK4"}
    titles |= {"gauss-legendre-4": "/ Gauss 4", "gauss-legendre-6": "/ Gauss 6"}
    titles |= {"blanes-moan-4": "/ Blanes-Moan 4", "blanes-moan-6": "/ Blanes-Moan 6"}
    rows, notes = [], []
    for r in results:
        if "failure" in r:
            notes.append(f"{r['system']}, {r['entry']}: {r['failure']}")
            continue
        own, others = r["rollout"][r["entry"]], peers(r)
        keys = ("RMSE", "worst", "invariants", "phase-space volume")
        cells = [f"{v:.1e}" for v in [r["training"]["test_error"], *(own[key] for key in keys)]]
        ratios = [
            f"{own['RMSE'] / others[name]['RMSE']:.2g}" if name in others else "-"
            for name in titles
        ]
        cost = duration(own["seconds per step"])
        spent = f"{r['training seconds']:.0f}" if "training seconds" in r else "-"
        rows.append([r["system"], r["entry"], r.get("model", "-"), spent, *cells, cost, *ratios])
    seconds = sorted({r["seconds"] for r in results})
    words = " or ".join(f"{value:g}" for value in seconds)
    notes.insert(0, "error: relative, of the new states one window ahead, test group; RMSE: median")
    title = f"{STEPS} steps of {TRAJECTORIES} orbits, {words} s of training each; RMSE by peers"
    print_table(title, header + list(titles.values()), rows, notes)


def report_counts(results: list[dict[str, Any]], systems: list[str], entries: list[str]) -> None:
    """On how many systems an entry errs less than classical methods, and where it failed.

    That is where nothing was trained or most orbits diverged.
    """
    for entry in entries:
        found = {r["system"]: r for r in results if r["entry"] == entry}
        below, failed = dict.fromkeys(("rk4", "gauss-legendre-4", "all"), 0), []
        for system, r in found.items():
            own = r["rollout"][entry] if "failure" not in r else {}
            if not own or own["diverged"] > TRAJECTORIES / 2 or not math.isfinite(own["RMSE"]):
                failed.append(system)
                continue
            others = {name: finite(row["RMSE"]) for name, row in peers(r).items()}
            for name in ("rk4", "gauss-legendre-4"):
                below[name] += own["RMSE"] < others[name]
            below["all"] += all(own["RMSE"] < error for error in others.values())
        missing = [system for system in systems if system not in found]
        click.echo(
            f"{entry}: below RK4 on {below['rk4']} of {len(systems)}, below Gauss-Legendre 4 on "
            f"{below['gauss-legendre-4']}, below all on {below['all']}; "
            f"failed: {', '.join(failed) or 'none'}"
            + (f"; not measured: {', '.join(missing)}" if missing else "")
        )


def report_losses(results: list[dict[str, Any]]) -> None:
    """Each model that errs more than a classical method, and by how much."""
    for r in results:
        if "failure" in r:
            continue
        own = finite(r["rollout"][r["entry"]]["RMSE"])
        for name, row in peers(r).items():
            if own > finite(row["RMSE"]):
                times = own / row["RMSE"]
                click.echo(f"{r['system']}, {r['entry']}: {times:.2g} times the RMSE of {name}")


def report_entries(results: list[dict[str, Any]]) -> None:
    """Which entry wins how often, of the systems on which all of them were trained."""
    errors = dict[str, dict[str, float]]()
    for r in results:
        if "failure" not in r:
            error = finite(r["rollout"][r["entry"]]["RMSE"])
            errors.setdefault(r["system"], {})[r["entry"]] = error
    entries = list(dict.fromkeys(entry for found in errors.values() for entry in found))
    whole = {s: found for s, found in errors.items() if len(found) == len(entries) > 1}
    lines = []
    for entry in entries if whole else []:
        relative = np.array([found[entry] / min(found.values()) for found in whole.values()])
        middle = math.exp(np.log(relative).mean()) if np.isfinite(relative).all() else math.inf
        lines.append([entry, (relative == 1).sum(), f"{np.median(relative):.3g}", f"{middle:.3g}"])
    if lines:
        columns = ["entry", "least RMSE", "RMSE / least, median", "geometric mean"]
        print_table(f"Entries on {len(whole)} systems", columns, lines, [machine()])


def draw(results: list[dict[str, Any]], path: Path) -> None:
    """The figure, of all runs of every system."""
    runs = dict[str, dict[str, Any]]()
    for r in results:
        if "failure" not in r:
            runs.setdefault(r["system"], {}).update(r["rollout"])
    catalogue_figure.draw(runs, path)


@click.command(context_settings=SETTINGS)
@click.option("--systems", metavar="NAME,...", help="Some of vp-gen --list.  [default: all]")
@click.option(
    "--outside", "outside_catalogue", is_flag=True, help="Flows outside the catalogue instead."
)
@click.option(
    "--entries",
    metavar="NAME,...",
    default=",".join(SCORED),
    show_default=True,
    help=f"Some of: {', '.join(ENTRIES)}.",
)
@click.option(
    "--seconds",
    type=float,
    default=150.0,
    show_default=True,
    help="For each network, of processor time.",
)
@click.option("--folder", type=click.Path(file_okay=False, path_type=Path), required=True)
@click.option(
    "--figure",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Draw errors and costs into this file: .png, .pdf or .svg.",
)
@click.option("--markdown", is_flag=True, help="Print tables as Markdown.")
@plain_errors
def main(
    systems: str | None,
    outside_catalogue: bool,
    entries: str,
    seconds: float,
    folder: Path,
    figure: Path | None,
    markdown: bool,
) -> None:
    """Train each entry on every system, and compare their rollouts with classical methods."""
    chosen = []
    known_systems = outside() if outside_catalogue else vp.list_systems()
    for option, given, known in (
        ("--systems", systems, known_systems),
        ("--entries", entries, list(ENTRIES)),
    ):
        names = known if given is None else [name.strip() for name in given.split(",")]
        for name in names:
            if name not in known:
                raise InputError(f"{option}: '{name}' is none of {', '.join(known)}")
        chosen.append(names)
    folder.mkdir(parents=True, exist_ok=True)
    for number, system in enumerate(chosen[0], 1):
        missing = [e for e in chosen[1] if not (folder / f"{system}-{e}.json").exists()]
        if not missing:
            continue
        # in a process of its own, so that a system which hangs holds nothing up
        arguments = (system, missing, seconds, folder)
        process = multiprocessing.get_context("spawn").Process(target=measure, args=arguments)
        begin = time.perf_counter()
        process.start()
        process.join(4 * len(missing) * seconds + _PATIENCE)
        late = process.is_alive()
        process.kill()
        process.join()
        spent = f"{time.perf_counter() - begin:.0f} s"
        if late or process.exitcode:
            spent = "left out, " + ("it takes too long" if late else "it failed as said above")
        click.echo(f"{number} of {len(chosen[0])}: {system}: {spent}", err=True)
    files = [folder / f"{s}-{e}.json" for s in chosen[0] for e in chosen[1]]
    results = [json.loads(path.read_text("utf-8")) for path in files if path.exists()]
    report_all(results)
    report_entries(results)
    report_losses(results)
    report_counts(results, *chosen)
    if figure is not None:
        draw(results, figure)


if __name__ == "__main__":
    main()
