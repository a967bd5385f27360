"""Attention on windows of incomplete states, beside regression and a network of the same windows.

    python scripts/benchmarks/incomplete_windows.py --folder measured
    python scripts/benchmarks/incomplete_windows.py --folder measured --cases noise --windows 8

Each model reads 2, 4, 8 or 16 observations and gives the next one. All have the same states and the
same seconds of processor time. Errors and lost orbits are those of ``positions.py``. Each seed of a
model has a file in the folder, so that a run goes on where it was stopped. In full, with five
seeds and 60 s, the command takes nine hours of one core.
"""

from __future__ import annotations

import json
import math
from pathlib import Path
from statistics import median
from typing import Any

import click
from harness import benchmark, machine, names, print_table, processor_time, write_result
from plain_learners import mlp
from positions import AHEAD, CASES, Case, Judge, fit, positions, ridge

# isort: split

import vpintegrator as vp

LONG: dict[str, Any] = {"count": 572, "steps": 22}  # orbits that hold windows of 16 states
DATA = {
    "unseen": CASES["rigid-body-unseen"],
    "step": CASES["hidden-step"],
    "noise": positions("henon-heiles", "q", noise=1e-4, **LONG),
    "many": positions("toda", "q", **LONG),
}
WORDS = {
    "unseen": "body, z3 unseen",
    "step": "body, hidden step",
    "noise": "Hénon–Heiles, noise",
    "many": "Toda, 8 positions",
}
ATTENTION = ("vpt", "vpmt", "transformer")
CONTROLS = ("ridge", "MLP")
WINDOWS = (2, 4, 8, 16)
TERMS = 1_000  # of a regression, most
LOST = 1_000  # steps after which lost orbits are counted


def learned(
    model: str, window: int, data: vp.data.Dataset, seconds: float, seed: int
) -> tuple[Any, int, str]:
    """Return a map of windows, its window, and its size in words."""
    train = data.states("train")
    if model == "ridge":
        return ridge(train, data.states("validation"), seconds, (window,), TERMS)
    if model == "MLP":  # takes half of the seconds that it is given
        step, words = mlp(train, 2 * seconds, window=window, seed=seed)
        return step, window, words
    arguments = {"window": window, "prediction_window": 1}
    return fit(data, vp.training.search(model, arguments), seconds, seed=seed)[:3]


def measure(
    name: str, model: str, window: int, seed: int, folder: Path, seconds: float, quick: bool
) -> dict[str, Any]:
    """Train a model, and judge it."""
    case: Case = DATA[name]
    data = case.data(folder / f"{name}.h5", False, quick)
    fresh = case.data(folder / f"{name}-fresh.h5", True, quick)
    judge = Judge(data.states("train"), fresh.states("train"), data.system.periods, LOST)
    start = processor_time()
    step, window, words = learned(model, window, data, seconds, seed)
    used = processor_time() - start
    return {
        "system": name,
        "entry": f"{model}-{window}-{seed}",
        "model": model,
        "window": window,
        "words": words,
        "processor seconds": used,
        "machine": machine(),
        **judge.errors(step, window),
    }


def cell(results: list[dict[str, Any]]) -> str:
    """Return medians over seeds: errors one step and twenty steps ahead, and orbits lost."""
    if not results:
        return "-"
    one, after = (median(r[key] for r in results) for key in ("one", f"after {AHEAD[0]}"))
    far = f"{after:.1e}" if math.isfinite(after) else "lost"
    return f"{one:.1e}/{far}/{median(r['lost'] for r in results):g}"


@benchmark(seconds=60.0)
@click.option("--folder", type=click.Path(file_okay=False, path_type=Path), required=True)
@click.option("--cases", metavar="NAME,...", help=f"Some of {', '.join(DATA)}.")
@click.option("--models", metavar="NAME,...", help=f"Some of {', '.join(ATTENTION + CONTROLS)}.")
@click.option("--windows", metavar="NUMBER,...", default="2,4,8,16", show_default=True)
@click.option("--seeds", type=click.IntRange(min=1), default=5, show_default=True)
def main(
    folder: Path,
    cases: str | None,
    models: str | None,
    windows: str,
    seeds: int,
    seconds: float,
    threads: int,
    quick: bool,
) -> None:
    """Measure every model at every window; what is in the folder is not measured again."""
    folder.mkdir(parents=True, exist_ok=True)
    cases_asked = names("--cases", cases, tuple(DATA))
    wanted = names("--models", models, (*ATTENTION, *CONTROLS))
    sizes = [int(each) for each in names("--windows", windows, tuple(map(str, WINDOWS)))]
    found: dict[tuple[str, str, int], list[dict[str, Any]]] = {}
    for seed in range(seeds):
        for name in cases_asked:
            for window in sizes:
                for model in wanted:
                    path = folder / f"{name}-{model}-{window}-{seed}.json"
                    if not path.exists():
                        click.echo(path.stem, err=True)
                        result = measure(name, model, window, seed, folder, seconds, quick)
                        write_result(folder, result)
                    result = json.loads(path.read_text("utf-8"))
                    found.setdefault((name, model, window), []).append(result)
    for name in cases_asked:
        rows = [
            [str(window), *(cell(found.get((name, model, window), [])) for model in wanted)]
            for window in sizes
        ]
        print_table(WORDS[name], ["window", *wanted], rows, [])
    machines = {r["machine"].partition(" (load")[0] for each in found.values() for r in each}
    click.echo("\n".join(sorted(machines)))


if __name__ == "__main__":
    main()
