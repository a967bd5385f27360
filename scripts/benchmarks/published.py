"""Tasks of the literature: published numbers, the networks of the field, and maps from states.

    python scripts/benchmarks/published.py --folder measured
    python scripts/benchmarks/published.py --folder measured --quick

The mass-spring and the pendulum of Hamiltonian networks are repeated by their published protocol:
vector fields as data, noise on the states, Adam. On the other tasks networks learn trajectories of
the catalogue, all for the same processor time, beside the best map that ``vp.fit`` finds from
states alone. What is measured is kept in the folder, a file for each task, entry and seed: an
interrupted measurement goes on.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import click
import symplectic
from harness import benchmark, machine, names, print_table, processor_seconds, write_result

# isort: split

import numpy as np
import torch
from scipy.integrate import solve_ivp

import vpintegrator as vp
from vpintegrator.errors import InputError
from vpintegrator.models import HamiltonianNetwork, NeuralODE

# --- vector fields as data: arXiv 1906.01563, section 3 and table 1 -------------------------------

ITERATIONS = 2000  # of Adam, with the rate 1e-3 and weight decay 1e-4
WIDTH = 200
NOISE = 0.1  # standard deviation on states
SAMPLES = 50  # trajectories, half of them for tests


class Field(NamedTuple):
    """A system of the protocol, and its published errors."""

    slopes: Callable[[np.ndarray], np.ndarray]  # of states (2, ...)
    radii: tuple[float, float]
    points: int  # of a trajectory of 3 units of time
    published: dict[str, tuple[float, float]]  # mean square error of training and test


FIELDS = {
    "spring": Field(
        lambda z: np.stack([2 * z[1], -2 * z[0]]),
        (0.1, 1.0),
        30,
        {"mlp": (37e-3, 37e-3), "hnn": (37e-3, 36e-3)},
    ),
    "pendulum": Field(
        lambda z: np.stack([2 * z[1], -3 * np.sin(z[0])]),
        (1.3, 2.3),
        45,
        {"mlp": (33e-3, 35e-3), "hnn": (33e-3, 36e-3)},
    ),
}


def field_data(task: str, seed: int) -> list[torch.Tensor]:
    """Return states with noise and their exact rates, of training and of test trajectories."""
    generator = np.random.default_rng(seed)
    field = FIELDS[task]
    times = np.linspace(0, 3, field.points)
    states = []
    rates = []
    for _ in range(SAMPLES):
        first = generator.uniform(-1, 1, 2)
        first *= generator.uniform(*field.radii) / np.linalg.norm(first)
        found = solve_ivp(
            lambda _, z: field.slopes(z), (0, 3), first, t_eval=times, rtol=1e-10, atol=1e-12
        )
        states.append(found.y + NOISE * generator.standard_normal(found.y.shape))
        rates.append(field.slopes(found.y))
    half = SAMPLES // 2
    parts = [part for own in (states, rates) for part in (own[:half], own[half:])]
    return [torch.tensor(np.concatenate(part, 1).T, dtype=torch.float32) for part in parts]


def learn_field(task: str, entry: str, seed: int) -> dict[str, float]:
    """Return errors of a vector field that was learned by the published protocol."""
    before, before_test, rates, rates_test = field_data(task, seed)
    torch.manual_seed(seed)
    kind = HamiltonianNetwork if entry == "hnn" else NeuralODE
    model = kind(2, width=WIDTH, depth=2, dtype="float32")
    for name, weight in model.named_parameters():
        if name.endswith("weight"):
            torch.nn.init.orthogonal_(weight)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, weight_decay=1e-4)
    for _ in range(ITERATIONS):
        optimizer.zero_grad()
        (model.field(before) - rates).square().mean().backward()
        optimizer.step()
    with torch.no_grad():
        pairs = ((before, rates), (before_test, rates_test))
        errors = [float((model.field(z) - dz).square().mean()) for z, dz in pairs]
    return {"training": errors[0], "error": errors[1]}


# --- trajectories ---------------------------------------------------------------------------------

# the tasks of Hamiltonian networks and GHNN in the catalogue, and that of arXiv 2312.11166
SYSTEMS = {
    "kepler": "two bodies",
    "three-body": "three bodies",
    "henon-heiles": "Henon-Heiles",
    "double-pendulum": "double pendulum",
    "forced-pendulum": "perturbed pendulum",
    "charged-particle": "charged particle",
    "rigid-body": "rigid body",
}
OURS = "ours"
NETWORKS = ("hnn", "ghnn", "sympnet-g", "sympnet-la", "henonnet", "locsympnet")
NETWORKS += ("lnn", "neural-ode", "lstm", "gru", "vpt")
PUBLISHED = {("rigid-body", "vpt"): 1.7e-3, ("rigid-body", "feed-forward"): 7.4e-4}
NOTES = [
    "spring, pendulum: mean square error of the vector field, arXiv 1906.01563, table 1, which has "
    "37e-3 and 36e-3 for HNN in training and test on the spring, 33e-3 and 36e-3 on the pendulum",
    "others: relative error one step ahead on test states, then the RMSE over "
    f"{symplectic.STEPS} steps, medians over the seeds; published: one step of the published "
    "weights of arXiv 2312.11166",
    "ours: the best map that vp.fit finds from states alone, of all kinds",
    "lnn takes momenta for velocities, which they are not on the double pendulum",
    "-: the network is not for such states, or was not measured; papers whose steps and initial "
    "states differ have no number here",
]


def learn_trajectories(
    system: str, entry: str, seed: int, seconds: float, folder: Path
) -> dict[str, Any]:
    """Return errors of a map that was learned from trajectories in so much processor time."""
    path = folder / f"{system}.h5"
    data = vp.open_dataset(path) if path.exists() else vp.generate(system, path)
    kinds = vp.training.KINDS if entry == OURS else [vp.training.Network(architecture=entry)]
    try:
        with processor_seconds():
            fit = vp.fit(data, kinds, seconds=seconds, seed=seed, progress=False)
    except InputError as error:
        return {"failure": str(error)}
    options = symplectic.rollout_options()
    report = vp.compare({"map": fit.model}, [], system=data.system, **options)
    return {
        "error": symplectic.one_step_error(fit.model, data),
        "RMSE": symplectic.numbers(report)["RMSE"],
        "size": fit.size,
        "kind": fit.kind,
    }


def measure(task: str, entry: str, seconds: float, folder: Path, seed: int) -> None:
    """Measure one entry on one task, and write the result."""
    result: dict[str, Any] = {"system": task, "entry": f"{entry}-{seed}", "seed": seed}
    result |= {"seconds": seconds, "machine": machine(), "task": task, "name": entry}
    if task in FIELDS:
        result |= learn_field(task, entry, seed)
    else:
        result |= learn_trajectories(task, entry, seed, seconds, folder)
    write_result(folder, result)


def cell(results: list[dict[str, Any]]) -> str:
    """Return the errors of an entry on a task, over the seeds."""
    errors = [each["error"] for each in results if "error" in each]
    if not errors:
        return "-"
    text = f"{median(errors):.1e}"
    rmse = [each["RMSE"] for each in results if math.isfinite(each.get("RMSE", math.nan))]
    return f"{text}, {median(rmse):.1e}" if rmse else text


def report(results: list[dict[str, Any]]) -> None:
    """Print a row for each task, a column for each entry."""
    entries = [*dict.fromkeys(each["name"] for each in results)]
    rows = []
    for task in dict.fromkeys(each["task"] for each in results):
        if task in FIELDS:
            published = ", ".join(
                f"{name} {test:.1e}" for name, (_, test) in FIELDS[task].published.items()
            )
        else:
            known = [(name, size) for (own, name), size in PUBLISHED.items() if own == task]
            published = ", ".join(f"{name} {size:.1e}" for name, size in known) or "-"
        own = [each for each in results if each["task"] == task]
        cells = [cell([each for each in own if each["name"] == entry]) for entry in entries]
        rows.append([SYSTEMS.get(task, f"{task} (field)"), published, *cells])
    seconds = max(each["seconds"] for each in results)
    seeds = len({each["seed"] for each in results})
    title = f"{seconds:g} s of processor time each, {seeds} seed{'s' * (seeds > 1)}"
    machines = sorted({re.sub(r" \(load [\d.]+\)", "", each["machine"]) for each in results})
    print_table(title, ["", "published", *entries], rows, [*NOTES, *machines])


@benchmark(seconds=60.0)
@click.option("--seeds", type=click.IntRange(min=1), default=5, show_default=True)
@click.option("--tasks", metavar="NAME,...", help=f"Some of: {', '.join((*FIELDS, *SYSTEMS))}.")
@click.option("--networks", metavar="NAME,...", help=f"Some of: {', '.join((*NETWORKS, OURS))}.")
@click.option("--folder", type=click.Path(file_okay=False, path_type=Path), required=True)
def main(
    seconds: float,
    threads: int,
    quick: bool,
    seeds: int,
    tasks: str | None,
    networks: str | None,
    folder: Path,
) -> None:
    """Repeat tasks of the literature: six hours in full, ten minutes with --quick."""
    chosen = names("--tasks", tasks, (*FIELDS, *SYSTEMS))
    if quick:
        seconds = min(seconds, 5.0)
        seeds = 1
        networks = networks or f"hnn,sympnet-g,gru,{OURS}"
    entries = names("--networks", networks, (*NETWORKS, OURS))
    folder.mkdir(parents=True, exist_ok=True)
    places = [
        (task, entry, seed)
        for seed in range(seeds)  # an interrupted measurement has a whole table
        for task in chosen
        for entry in (("mlp", "hnn") if task in FIELDS else entries)
    ]
    files = {place: folder / f"{place[0]}-{place[1]}-{place[2]}.json" for place in places}
    missing = [place for place in places if not files[place].exists()]
    for number, (task, entry, seed) in enumerate(missing, 1):
        left_out = symplectic.in_a_process(measure, task, entry, seconds, folder, seed)
        found = {} if left_out else json.loads(files[task, entry, seed].read_text("utf-8"))
        note = left_out or found.get("error", "no such map")
        click.echo(f"{number} of {len(missing)}: {task}, {entry}, seed {seed}: {note}", err=True)
    report([json.loads(path.read_text("utf-8")) for path in files.values() if path.exists()])


if __name__ == "__main__":
    main()
