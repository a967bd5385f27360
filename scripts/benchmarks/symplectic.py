"""Symplectic networks as published, trained as published and by us, beside ours.

    python scripts/benchmarks/symplectic.py --folder measured

Data are those of ``vp-gen SYSTEM``, networks those of ``vp-train`` with the options of an entry,
all after the same seconds. With a folder, what is measured is kept there, a file for each system
and entry, and is not done again: an interrupted measurement goes on.
"""

from __future__ import annotations

import json
import math
import re
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

import click
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

import numpy as np

import vpintegrator as vp
from vpintegrator.errors import InputError

SYSTEMS = ("pendulum", "coupled-oscillators", "henon-heiles", "kepler", "toda")
CLASSICAL = ("stoermer-verlet", "gauss-legendre-4")
STEPS, TRAJECTORIES, WINDOWS = 300, 12, 4000


class Sizes(NamedTuple):
    """Of SympNets: layers and their width, or linear modules of sublayers, as their code has it."""

    layers: int
    width: int
    la_layers: int
    sublayers: int


def sizes(dim: int) -> Sizes:
    """Those of their authors' pendulum, or else of their double pendulum.

    Not those of their three bodies: 20 layers get through few epochs in seconds.
    """
    return Sizes(5, 30, 3, 2) if dim <= 2 else Sizes(8, 50, 8, 5)


def network(entry: str, dim: int) -> dict[str, Any]:
    """Arguments of spff. A coupling here is two modules of a SympNet, one moves q and one p."""
    s = sizes(dim)
    own: dict[str, dict[str, Any]] = {
        "g-sympnet": {"activation": "sigmoid", "width": s.width, "depth": -(-s.layers // 2)},
        "la-sympnet": {
            "layer": "linear-activation",
            "activation": "sigmoid",
            "linear": s.sublayers,
            "depth": -(-s.la_layers // 2),
        },
        "henonnet": {"layer": "henon", "width": 10, "depth": 10},
    }
    name = entry.removesuffix("-adam")
    return {"functions": "neurons", "reversible": False, **own[name]} if name in own else {}


def adam(entry: str) -> dict[str, Any]:
    """Arguments of the training as published."""
    name = entry.removesuffix("-adam")
    return {"optimizer": "adam", "learning_rate": RATES[name]} if entry != name else {}


# the published ones, with Adam's learning rate
RATES = {"g-sympnet": 0.001, "la-sympnet": 0.001, "henonnet": 0.02}
ENTRIES = ("spff", "spt", *RATES, *(f"{name}-adam" for name in RATES))
NOTES = [
    "for each system: relative error one step ahead, of states of the test group; RMSE, median of "
    f"{TRAJECTORIES} orbits over {STEPS} steps",
    "form: largest entry of |D^T J D - J| in phase space, of all systems",
    "spff, spt: those of vp-train --search, from states; -adam as published, the others the same "
    "networks under Levenberg-Marquardt",
    "SympNets: modules, widths, sigmoid and Adam's rate of 0.001 of their authors' pendulum (two "
    "components) or double pendulum (more). HenonNet: ten layers of ten units, "
    "Adam's rate 0.02. The rate falls along a cosine, batches are of 1024",
]


def measure(system: str, entry: str, seconds: float, folder: Path) -> None:
    """Train an entry on a system, let it run, and write what was found."""
    path = folder / f"{system}.h5"
    data = vp.open_dataset(path) if path.exists() else vp.generate(system, path)
    found: dict[str, Any] = {"system": system, "entry": entry, "seconds": seconds}
    found["machine"] = re.sub(r" \(load [^)]*\)", "", machine())  # which is another every time
    if entry in CLASSICAL:
        flow = vp.classical(entry, data.system, data.step)
        report = vp.compare(None, entry, system=data.system, step=data.step, **rollout_options())
    else:
        found["options"] = network(entry, data.system.dim) | adam(entry)
        name = "spt" if entry == "spt" else "spff"
        sizes = network(entry, data.system.dim)
        kind: vp.training.Kind = vp.training.search(name)
        if sizes:
            reversible = sizes.pop("reversible")
            training = vp.training.TrainingOptions(**adam(entry))
            kind = vp.training.Network(sizes, reversible, architecture=name, training=training)
        try:
            with processor_seconds():
                model = vp.fit(data, [kind], seconds=seconds, progress=False).model
        except InputError as error:
            write_result(folder, found | {"failure": str(error)})
            return
        vp.save(model, folder / f"{system}-{entry}.safetensors", overwrite=True)
        history = model.record.history.summary()
        found["training"] = {k: v for k, v in history.items() if not isinstance(v, list)}
        flow = model
        report = vp.compare({entry: model}, [], system=data.system, **rollout_options())
    found |= numbers(report) | {"error": one_step_error(flow, data)}
    write_result(folder, found)


def rollout_options() -> dict[str, Any]:
    """Return the options of a comparison over a few hundred steps."""
    return {"steps": STEPS, "trajectories": TRAJECTORIES, "tangent_steps": 0}


def one_step_error(flow: Any, data: Any) -> float:
    """Relative error of the first new state after windows of the test group."""
    states = data.states("test")
    starts = np.arange(states.shape[1] - flow.window)
    windows = states[:, starts[:, None] + np.arange(flow.window + 1)]
    windows = windows.reshape(-1, flow.window + 1, flow.dim)
    windows = windows[:: -(-len(windows) // WINDOWS)]
    new = next(flow.advance(np.ascontiguousarray(windows[:, :-1]), 1))[:, 0]
    return float(np.linalg.norm(new - windows[:, -1]) / np.linalg.norm(windows[:, -1]))


def numbers(report: Any) -> dict[str, Any]:
    """What the table says of the only method."""
    (name,) = report.runs
    s = report.summary(name)
    return {
        "RMSE": s.error,
        "form": s.symplecticity,
        "on windows": s.window_symplecticity,
        "diverged": s.diverged,
    }


def tables(results: list[dict[str, Any]]) -> None:
    """One table: a row for each network, a column for each system."""
    systems = list(dict.fromkeys(found["system"] for found in results))
    measured = {(found["entry"], found["system"]): found for found in results}
    rows = []
    for entry in dict.fromkeys(found["entry"] for found in results):
        cells = [measured.get((entry, system)) for system in systems]
        forms = [cell["form"] for cell in cells if cell and "failure" not in cell]
        rows.append([entry, *map(cell, cells), _number(max(forms, default=None))])
    seconds = " or ".join(f"{value:g}" for value in sorted({r["seconds"] for r in results}))
    notes = [f"{r['entry']}, {r['system']}: {r['failure']}" for r in results if "failure" in r]
    notes += [*NOTES, *sorted({found["machine"] for found in results})]
    print_table(f"{seconds} s of training each", ["network", *systems, "form"], rows, notes)


def cell(found: dict[str, Any] | None) -> str:
    """Error of a step, RMSE of a rollout, and the number of orbits that diverged."""
    if found is None or "failure" in found:
        return "-"
    words = [_number(found["error"]), _number(found["RMSE"])]
    return ", ".join(words + [f"{found['diverged']} diverged"] * bool(found["diverged"]))


def error_of(path: Path) -> Any:
    """Return the error of a step in a file of results; empty where the search failed."""
    return json.loads(path.read_text("utf-8")).get("error", "")


def _number(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:.1e}" if math.isfinite(value) else "diverged"


@benchmark(seconds=20.0)
@click.option("--systems", metavar="NAME,...", help=f"Some of: {', '.join(SYSTEMS)}.")
@click.option("--entries", metavar="NAME,...", help=f"Some of: {', '.join(ENTRIES)}.")
@click.option(
    "--folder",
    type=click.Path(file_okay=False, path_type=Path),
    help="Where to keep what is measured, and to go on from.",
)
def main(
    seconds: float,
    threads: int,
    quick: bool,
    systems: str | None,
    entries: str | None,
    folder: Path | None,
) -> None:
    """Train symplectic networks for the same seconds, of processor time, and let them run.

    The seconds are those of each network: a quarter of an hour for all at 20.
    """
    chosen = names("--systems", systems, SYSTEMS), names("--entries", entries, ENTRIES)
    if quick:
        seconds = 1.0
        chosen = chosen[0][:1], chosen[1][:1] + chosen[1][-1:]
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary) if folder is None else folder
        folder.mkdir(parents=True, exist_ok=True)
        pairs = [(s, e) for s in chosen[0] for e in (*CLASSICAL, *chosen[1])]
        files = {pair: folder / f"{pair[0]}-{pair[1]}.json" for pair in pairs}
        missing = [pair for pair in pairs if not files[pair].exists()]
        for number, (system, entry) in enumerate(missing, 1):
            reason = in_a_process(measure, system, entry, seconds, folder)
            note = f"left out, {reason}" if reason else error_of(files[system, entry])
            click.echo(f"{number} of {len(missing)}: {system}, {entry}: {note}", err=True)
        done = [json.loads(path.read_text("utf-8")) for path in files.values() if path.exists()]
        tables(done)


if __name__ == "__main__":
    main()
