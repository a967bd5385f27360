"""Maps over a turn, a period or a long step: error against cost, of learned ones and of solvers.

    python scripts/benchmarks/maps.py --cpu-time --folder measured --figure maps.png

A model is trained on each system by ``vp-train``, learned from the states, or with ``--equations``
made from the equations, with no other option but the seconds, unless the folder holds
NAME.safetensors. Then it, heyoka's Taylor method, this package's classical methods as machine code
and SciPy's DOP853 move the same states by the same number of turns and give those after each:
tolerances and steps are swept, all take turns in one process on one core, and what it takes to
compile does not count. The error is relative, of one turn, over states that the model has not seen,
for all alike; what a peer takes for the error of the model is read off its curve, on logarithmic
scales. The folder gets a file for each system; what is there is not measured again.

Classical methods find no crossings of a section. Beside return maps by section they, and heyoka in
batches, solve the flow for the mean time of a return, which is less work; the table has them in
brackets, and the last column without them.
"""

from __future__ import annotations

import json
import math
import time
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import click
import maps_figure
from harness import (
    benchmark,
    duration,
    machine,
    print_table,
    processor_seconds,
    ratio,
    time_together,
)
from maps_cases import CASES, Case, Turn
from maps_peers import Run, classical, scipy_solver, taylor, taylor_to_section

# isort: split

import numpy as np

import vpintegrator as vp
from vpintegrator.cli import train
from vpintegrator.compiled import CompiledMethod, CompiledModel
from vpintegrator.data import Recipe
from vpintegrator.errors import InputError
from vpintegrator.maps import METHODS
from vpintegrator.models import Model
from vpintegrator.storage.files import replacing

TOLERANCES = (1e-3, 1e-4, 1e-5, 1e-6, 1e-7, 1e-8, 1e-9, 1e-10)  # of heyoka and our own pair
SCIPY = (1e-5, 1e-7, 1e-9)
CLASSICAL = ("rk4", "dormand-prince-8", "blanes-moan-4", "blanes-moan-6")
STEPS = (8, 16, 32, 64, 128, 256)  # of a turn, by these
TRAJECTORIES, TURNS, FEW = 2048, 20, 2
SOME = 512  # that NumPy takes long enough for
ALONE = "{}, flow"  # what does less than a return map
LEARNED = "learned"


@dataclass
class Candidate:
    """A setting of a method: its function, its states, and the right ones after a turn."""

    method: str
    setting: str
    run: Run
    initial: np.ndarray
    turns: int
    exact: np.ndarray

    def once(self) -> np.ndarray:
        return self.run(self.initial)

    def error(self) -> float:
        states = self.once()[: len(self.exact), 0]
        exact = self.exact[: len(states)]
        states = states[:, : exact.shape[1]]
        return float(np.linalg.norm(states - exact) / np.linalg.norm(exact))


def solvers(case: Case, turn: Turn) -> list[Candidate]:
    """All that is measured beside the model."""
    found = []
    alone = ALONE if turn.by_section else "{}"

    def add(method: str, setting: str, run: Run, turns: int, of_flow: bool = True) -> None:
        states = (turn.begin, turn.end) if of_flow else (turn.initial, turn.exact)
        found.append(Candidate(method, setting, run, states[0], turns, states[1]))

    for tolerance in TOLERANCES if find_spec("heyoka") else ():
        run = taylor(turn.flow, tolerance, turn.time, case.turns)
        add(alone.format("heyoka"), f"{tolerance:g}", run, case.turns)
        if turn.by_section:
            kept = [turn.flow.components.index(name) for name in turn.learned.components]
            run = taylor_to_section(turn.flow, tolerance, kept, turn.time, FEW)
            add("heyoka", f"{tolerance:g}", run, FEW)
            found[-1].exact = turn.exact
    for tolerance in SCIPY:
        run = scipy_solver(turn.learned, tolerance, turn.time, 1)
        add("DOP853", f"{tolerance:g}", run, 1, of_flow=turn.learned is turn.flow)
        found[-1].initial = found[-1].initial[:SOME]
    for name in CLASSICAL:
        try:
            METHODS[name].check(turn.flow)
        except InputError:
            continue
        method = CompiledMethod(METHODS[name], turn.flow, turn.begin, turn.time / STEPS[-1])
        for steps in STEPS:
            run = classical(method, steps, turn.time, FEW)
            add(alone.format(name), str(steps), run, FEW)
    return found


def trained(name: str, case: Case, seconds: float, folder: Path, equations: bool) -> Model:
    """The model in the folder, or one that is trained now."""
    path = folder / f"{name}.safetensors"
    if not path.exists():
        sizes = {"train": case.train, "validation": case.train // 10, "test": case.train // 10}
        step = case.turn or 1.0
        recipe = Recipe(Turn(case, 1).learned, step=step, steps=1, trajectories=sizes)
        data = vp.generate(recipe, folder / f"{name}.h5", overwrite=True)
        arguments = [str(data.path), "-o", str(path), "--seconds", str(seconds), "--quiet"]
        arguments += ["--equations"] * equations
        if case.options:  # sizes are those of a model
            arguments += ["--model", vp.models.suited(data.system), "--search", *case.options]
        with processor_seconds():
            train.main([*arguments, "--overwrite"], standalone_mode=False)
    return vp.load(path)


def measure(case: Case, model: Model, seconds: float, quick: bool) -> dict[str, Any]:
    """Errors and costs of a turn, of the model and of all others."""
    turn = Turn(case, 16 if quick else case.trajectories)
    several = np.resize(turn.initial, (TRAJECTORIES, model.dim))
    compiled = CompiledModel(model, len(several))

    def run(states: np.ndarray) -> np.ndarray:
        return compiled.predict(states[:, None], TURNS)[0]

    own = Candidate(LEARNED, model.name, run, several, TURNS, turn.exact)
    candidates = [own, *solvers(case, turn)]
    spent = time_together({str(i): c.once for i, c in enumerate(candidates)}, seconds)
    rows = []
    for i, candidate in enumerate(candidates):
        cost = spent[str(i)] / (len(candidate.initial) * candidate.turns)
        row = {"method": candidate.method, "setting": candidate.setting}
        rows.append(row | {"error": candidate.error(), "seconds": cost})
    parameters = sum(p.numel() for p in model.parameters())
    found = {"turn": turn.time, "dim": model.dim, "parameters": parameters}
    return {**found, "rows": rows, "machine": machine()}


def cost_at(rows: list[dict[str, Any]], error: float) -> float:
    """What a method takes for an error, from its curve; infinite where it does not get there."""
    points = sorted((r["error"], r["seconds"]) for r in rows if 0 < r["error"] < math.inf)
    if not points or points[0][0] > error:
        return math.inf
    # a setting with a smaller error that costs less makes the one before it useless
    best = np.minimum.accumulate([cost for _, cost in points])
    errors = np.log([e for e, _ in points])
    return float(np.exp(np.interp(math.log(error), errors, np.log(best))))


def report(results: list[dict[str, Any]]) -> None:
    """The table: the model, and what the others take for its error."""
    rows = [row for result in results for row in result["rows"]]
    names = dict.fromkeys(row["method"].partition(",")[0] for row in rows)
    methods = [name for name in names if name != LEARNED]
    shown = [name for name in methods if name not in ("rk4", "blanes-moan-4")]
    lines = []
    for r in results:
        own = r["rows"][0]
        costs = {
            name: cost_at([row for row in r["rows"] if row["method"] == name], own["error"])
            for name in [*methods, *map(ALONE.format, methods)]
        }
        best = min(costs[name] for name in methods)
        cells = []
        for name in shown:
            whole, flow = costs[name], costs[ALONE.format(name)]
            known = [duration(whole)] if whole < math.inf else []
            cells.append(" ".join(known + [f"({duration(flow)})"] * (flow < math.inf)) or "-")
        own_cells = [f"{r['turn']:.3g}", r["parameters"]]
        own_cells += [f"{own['error']:.1e}", duration(own["seconds"])]
        fastest = ratio(best, own["seconds"]) if best < math.inf else "-"
        lines.append([r["case"], *own_cells, *cells, fastest])
    columns = ["system", "turn", "parameters", "error", LEARNED, *shown, "best / learned"]
    notes = [
        "what each takes for a turn of one trajectory at the error of the learned map; in "
        "brackets the flow for the time of a mean return, without its crossing; the last column "
        "counts rk4 and blanes-moan-4 too",
        *sorted({r["machine"] for r in results}),
    ]
    print_table("Maps of a turn", columns, lines, notes)


@benchmark(seconds=20.0)
@click.option("--systems", metavar="NAME;...", help=f"Some of: {'; '.join(CASES)}.")
@click.option(
    "--train-seconds", default=90.0, show_default=True, help="For each model, of the processor."
)
@click.option("--equations", is_flag=True, help="Let training use the equations, too.")
@click.option("--folder", type=click.Path(file_okay=False, path_type=Path), required=True)
@click.option(
    "--figure",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Draw errors against costs into this file: .png, .pdf or .svg.",
)
def main(
    seconds: float,
    threads: int,
    quick: bool,
    systems: str | None,
    train_seconds: float,
    equations: bool,
    folder: Path,
    figure: Path | None,
) -> None:
    """Train a map of a turn on each system, and compare its error and cost with those of others."""
    names = list(CASES) if systems is None else [name.strip() for name in systems.split(";")]
    if unknown := [name for name in names if name not in CASES]:
        raise InputError(f"--systems: '{unknown[0]}' is none of {'; '.join(CASES)}")
    folder.mkdir(parents=True, exist_ok=True)
    results = []
    for name in names:
        path = folder / f"{name}.json"
        if not path.exists():
            begin = time.perf_counter()
            budget = 1.0 if quick else train_seconds
            model = trained(name, CASES[name], budget, folder, equations)
            result = {"case": name}
            result |= measure(CASES[name], model, 0.0 if quick else seconds, quick)
            with replacing(path, True) as temporary:
                temporary.write_text(json.dumps(result, indent=1), encoding="utf-8")
            click.echo(f"{name}: {time.perf_counter() - begin:.0f} s", err=True)
        results.append(json.loads(path.read_text("utf-8")))
    report(results)
    if figure is not None:
        maps_figure.draw(results, figure)


if __name__ == "__main__":
    main()
