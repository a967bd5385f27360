"""When a context helps: models of one step, of windows, and in context, after equal seconds.

    python scripts/benchmarks/in_context.py --seconds 60 --folder measured --figure in-context.png

Each task has 769 training trajectories of 20 steps. Models see four states and predict the next
one; those of one step see the last. None is told any parameter. Errors are root mean squares over
154 test trajectories, relative to the spread of the states, of states without noise; states that a
map has no image of are left out, and counted. Contexts of irregular times are for models that read
times; the one-step model sees the last state. The folder keeps what is measured; what is there is
not measured again.
"""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import click
from harness import benchmark, machine, print_table

# isort: split

import numpy as np
import torch
from matplotlib.figure import Figure

import vpintegrator as vp
from vpintegrator.data import Dataset
from vpintegrator.errors import InputError
from vpintegrator.models import Integrator
from vpintegrator.plotting.style import PAPER
from vpintegrator.training import Budget, find_in_context, train
from vpintegrator.training.search.sizes import widest
from vpintegrator.training.training_data import TrainingData

WINDOW = 4
STEPS, TESTED = 20, 154
WELL = """
title = "Double well"
state = ["q", "p"]
hamiltonian = "p**2/(2*m) + a*(q**2 - 1)**2"
[parameters]
a = 1.0
m = 1.0
[[reversing_symmetry]]
p = "-p"
[[reversing_symmetry]]
q = "-q"
[initial_conditions]
distribution = "uniform"
low = [-1.4, -1.0]
high = [1.4, 1.0]
[defaults]
step = 0.1
"""
BODY = {"I1": (1.6, 2.4), "I2": (0.8, 1.2), "I3": (0.5333, 0.8)}
NOISE = 1e-3
TASKS: dict[str, dict[str, Any]] = {
    "rigid body": {"system": "rigid-body", "step": 0.2},
    "rigid body, unknown moments": {"system": "rigid-body", "step": 0.2, "vary": BODY},
    "the same with noise 1e-3": {"system": "rigid-body", "step": 0.2, "vary": BODY, "noise": NOISE},
    "double well, unknown depth and mass": {
        "system": WELL,
        "step": 0.1,
        "vary": {"a": (0.7, 1.3), "m": (0.7, 1.3)},
    },
    "Kepler, unknown mass": {"system": "kepler", "step": 0.1, "vary": {"k": (0.7, 1.3)}},
    "oscillators, one of two seen": {
        "system": "coupled-oscillators",
        "step": 0.4,
        "seen": (0, 2),
    },
    "pendulum, angle alone": {"system": "pendulum", "step": 0.2, "seen": (0,)},
    "rigid body, unknown moments, irregular times": {
        "system": "rigid-body",
        "step": 0.2,
        "vary": BODY,
        "times": (0, 2, 3, 6),  # steps; the next state is the one after
    },
}
READ_TIMES = ("one step", "ict")
MODELS = ("one step", "vpt", "spt", "vpmt", "transformer", "ict")


def made(name: str, folder: Path, count: int) -> tuple[Dataset, np.ndarray]:
    """The dataset of a task, and its test trajectories without noise."""
    task = TASKS[name]
    given = {n: task[n] for n in ("step", "vary") if n in task}
    source = task["system"]
    if source == WELL:
        source = folder / "well.toml"
        source.write_text(WELL, encoding="utf-8")
    path = folder / f"{name.replace(' ', '-').replace(',', '')}.h5"
    options = {"count": count, "steps": STEPS, "overwrite": True, **given}
    data = vp.generate(source, path, **options)
    clean = data.states("test")
    if "noise" in task:
        data = vp.generate(source, path, observation=_observed(task["noise"]), **options)
    if seen := task.get("seen"):
        groups = [data.states(group) for group in ("train", "validation", "test")]
        states = np.concatenate(groups)[..., list(seen)]
        clean = groups[-1][..., list(seen)]
        sizes = np.array([len(group) for group in groups])
        data = vp.import_dataset(
            states,
            path,
            step=task["step"],
            fractions=list(sizes / sizes.sum()),
            seed=0,
            overwrite=True,
        )
        clean = data.states("test")
    return data, clean


def _observed(noise: float) -> dict[str, Any]:
    return {"noise": noise, "groups": ["train", "validation", "test"]}


def trained(model: str, data: Dataset, seconds: float) -> Integrator | None:
    """A model after so many seconds; None where the task has none of this kind."""
    known, system, budget = TrainingData(data), data.system, Budget(seconds=seconds)
    canonical = system.is_canonical

    def make(arguments: dict[str, Any]) -> Integrator:
        return vp.models.build(system, model, window=WINDOW, chart=False, **arguments)

    if model == "one step":
        arguments = {"functions": "polynomial", "degree": 6, "depth": 4}
        network = vp.models.build(system, "spff" if canonical else "vpff", chart=False, **arguments)
        train(network, known, seconds=seconds, progress=False)
        return network
    if model == "ict":
        return find_in_context(data, budget, window=WINDOW, known=False).model
    if model == "spt" and not canonical:
        return None
    if model == "transformer":
        arguments = {"width": widest(lambda more: make(more), data.dim, seconds)}
    else:
        arguments = {"width": 8, "depth": 2}
    network = make(arguments)
    train(network, known, seconds=seconds, progress=False)
    return network


def next_error(
    model: Integrator, data: Dataset, clean: np.ndarray, times: tuple[int, ...] | None = None
) -> float:
    """Error of the states after windows that end at the fourth state of test trajectories.

    Or of those a step after contexts at these ``times``, in steps.
    """
    states = torch.from_numpy(data.states("test", slice(TESTED)))
    with torch.no_grad():
        places = [*(times or range(WINDOW))][-model.window :]
        window = states[:, places]
        if hasattr(model, "stepper"):
            seconds = None if times is None else data.step * np.array(places)
            x = model.begin(window, seconds, noise=_noise(data))
            found = model.stepper(x)[:, 0, : data.dim]
        else:
            found = model.predict(window)[:, 0]
    true = torch.from_numpy(clean[:TESTED, places[-1] + 1])
    spread = torch.from_numpy(clean).flatten(0, 1).std(0).square().sum().sqrt()
    squares = (found - true).square().sum(-1)
    known = squares.isfinite()
    if bool(known.logical_not().any()):
        click.echo(f"{int((~known).sum())} of {len(known)} states have no image", err=True)
    return float(squares[known].mean().sqrt() / spread)


def _noise(data: Dataset) -> Any:
    return None if data.noise is None or not np.any(data.noise) else torch.as_tensor(data.noise)


def measured(
    name: str, models: tuple[str, ...], folder: Path, seconds: float, quick: bool
) -> dict[str, Any]:
    """Errors of the models of a task, those in the folder taken from there."""
    path = folder / f"{name.replace(' ', '-').replace(',', '')}.json"
    result: dict[str, Any] = {"name": name, "seconds": seconds, "errors": {}, "machine": machine()}
    if path.exists():
        result = json.loads(path.read_text(encoding="utf-8"))
    data, clean = made(name, folder, 60 if quick else 1000)
    for model in models:
        if model in result["errors"] or ("times" in TASKS[name] and model not in READ_TIMES):
            continue
        start, error = time.perf_counter(), None
        try:
            network = trained(model, data, seconds)
            if network is not None:
                error = next_error(network, data, clean, TASKS[name].get("times"))
        except InputError as reason:
            click.echo(f"{name}, {model}: {reason}", err=True)
        result["errors"][model] = error
        click.echo(f"{name}, {model}: {error} after {time.perf_counter() - start:.0f} s", err=True)
        if not quick:
            path.write_text(json.dumps(result), encoding="utf-8")
    return result


def draw(results: list[dict[str, Any]], path: Path) -> None:
    """Errors of the models, a row for each task."""
    with PAPER.applied():
        size = (PAPER.page, PAPER.em * (3 * len(results) + 6))
        figure = Figure(figsize=size, layout="constrained")
        axes = figure.subplots()
        for number, model in enumerate(MODELS):
            pairs = [(r["errors"].get(model), row) for row, r in enumerate(results)]
            pairs = [(error, row) for error, row in pairs if error is not None]
            if pairs:
                axes.plot(*zip(*pairs, strict=True), "osD^vP"[number], label=model)
        axes.set_xscale("log")
        axes.set_yticks(range(len(results)), [result["name"] for result in results])
        axes.invert_yaxis()
        axes.set_xlabel("relative error of the next state")
        figure.legend(loc="outside upper center", ncols=len(MODELS))
        figure.savefig(path)


@benchmark(seconds=60.0)
@click.option("--folder", type=click.Path(path_type=Path), default="measured", show_default=True)
@click.option("--tasks", help="Some of the tasks, by numbers from 1 with commas between.")
@click.option("--models", default=",".join(MODELS), show_default=True)
@click.option("--figure", type=click.Path(path_type=Path), help="File of a figure.")
def main(
    seconds: float,
    threads: int,
    quick: bool,
    folder: Path,
    tasks: str | None,
    models: str,
    figure: Path | None,
) -> None:
    """Compare models with and without a context, after equal seconds of training."""
    folder.mkdir(parents=True, exist_ok=True)
    chosen = tuple(name.strip() for name in models.split(","))
    if wrong := [name for name in chosen if name not in MODELS]:
        raise InputError(f"--models: there is no {wrong[0]}; there are {', '.join(MODELS)}")
    names = list(TASKS)
    if tasks:
        names = [names[int(number) - 1] for number in tasks.split(",")]
    seconds = 2.0 if quick else seconds
    results = [measured(name, chosen, folder, seconds, quick) for name in names]
    rows = [
        [r["name"], *("-" if (e := r["errors"].get(m)) is None else f"{e:.1e}" for m in chosen)]
        for r in results
    ]
    print_table(f"Error of the next state after {seconds:g} s of training", ["", *chosen], rows)
    if figure is not None:
        draw(results, figure)


if __name__ == "__main__":
    main()
