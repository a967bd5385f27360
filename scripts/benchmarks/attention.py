"""Windows of states: models with attention beside the same couplings without it.

    python scripts/benchmarks/attention.py --folder measured
    python scripts/benchmarks/attention.py --folder measured --long

The data are rigid bodies whose states are complete, far apart, noisy, at unknown steps, or without
a component. Each model is that of ``vp-train`` with nothing but the budget, in processor time, so
that a busy machine measures the same. A model that is in the folder is not trained again.

With ``--long`` models of complete states predict whole windows, or one state at a time, and run for
100,000 steps: default sizes, and with ``--grow`` sizes that are searched. In full it takes eight
core-hours:

    python scripts/benchmarks/attention.py --folder measured --long --seconds 60 --seeds 5
    python scripts/benchmarks/attention.py --folder measured --long --grow --seconds 60 --seeds 5

With ``--invariants`` models of one new state are projected to keep what stays along the orbits.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import click
from harness import machine, print_table
from long_windows import SYSTEMS, Row, compare_windows
from long_windows import trained as train

# isort: split

import numpy as np

import vpintegrator as vp
from vpintegrator.cli.command import PlainCommand
from vpintegrator.training import TrainingOptions

STEP, WINDOW, AHEAD = 0.2, 3, 20


class Case(NamedTuple):
    """States (trajectory, time, dim) as a model sees them, and the true ones."""

    seen: np.ndarray
    true: np.ndarray


def bodies(count: int, seed: int, step: float = STEP) -> np.ndarray:
    """Return states of rigid bodies (trajectory, time, 3)."""
    system = vp.load_system("rigid-body")
    initial = system.sample_initial(count, np.random.default_rng(seed))
    return vp.solve(system, initial, step * np.arange(WINDOW + AHEAD))


def complete(count: int, seed: int) -> Case:
    """Return complete states."""
    states = bodies(count, seed)
    return Case(states, states)


def far_apart(count: int, seed: int) -> Case:
    """Return states ten steps apart."""
    states = bodies(count, seed, 10 * STEP)
    return Case(states, states)


def noisy(count: int, seed: int) -> Case:
    """Return states with noise of 1e-3, on inputs and targets."""
    states = bodies(count, seed)
    noise = np.random.default_rng(seed + 1).normal(size=states.shape)
    return Case(states + 1e-3 * noise, states)


def unknown_step(count: int, seed: int) -> Case:
    """Return states at steps that differ by up to a half between trajectories.

    A body that turns s times as fast takes the time t / s.
    """
    system, random = vp.load_system("rigid-body"), np.random.default_rng(seed)
    faster = random.uniform(0.5, 1.5, (count, 1))
    initial = system.sample_initial(count, random)
    states = vp.solve(system, faster * initial, STEP * np.arange(WINDOW + AHEAD))
    states = states / faster[..., None]
    return Case(states, states)


def unseen(count: int, seed: int) -> Case:
    """Return two of three components."""
    states = bodies(count, seed)[..., :2]
    return Case(states, states)


CASES: dict[str, Callable[[int, int], Case]] = {
    "complete": complete,
    "ten times the step": far_apart,
    "noise of 1e-3": noisy,
    "unknown step": unknown_step,
    "a component unseen": unseen,
}
MODELS = {"vpff": 1, "vpt": WINDOW, "vpmt": WINDOW, "transformer": WINDOW}


def trained(data: Path, name: str, seconds: float, seed: int, path: Path) -> vp.models.Model:
    """Return the model of a seed and of sizes that are searched, from the folder if it is there."""
    row = Row(name, MODELS[name], MODELS[name])
    return train(data, row, path, seconds=seconds, seed=seed, grows=name != "transformer")


def errors(model: vp.models.Model, case: Case) -> tuple[float, float]:
    """Return the error of the first prediction, and the median one after all, over the spread."""
    windows = case.seen[:, WINDOW - model.window : WINDOW]
    steps = model.window - 1 + AHEAD  # those of the window count
    states = vp.rollout(model, windows, steps, compiled=False)[:, model.window :]
    wrong = np.linalg.norm(states - case.true[:, WINDOW:], axis=-1)  # (trajectory, step)
    wrong[np.isnan(wrong)] = np.inf
    spread = np.sqrt(case.true.var((0, 1)).sum())
    return float(np.sqrt((wrong[:, 0] ** 2).mean()) / spread), float(
        np.median(wrong[:, -1]) / spread
    )


@click.command(cls=PlainCommand)
@click.option("--folder", type=click.Path(path_type=Path), default=Path("attention"))
@click.option("--seconds", default=20.0, show_default=True, help="Of each training.")
@click.option("--seeds", default=3, show_default=True)
@click.option("--count", default=400, show_default=True, help="Training trajectories.")
@click.option("--case", "names", multiple=True, help="Only these.")
@click.option("--model", "models", multiple=True, help="Only these.")
@click.option("--long", is_flag=True, help="Complete states, for 100,000 steps.")
@click.option("--grow", is_flag=True, help="With --long: search the sizes, as vp-train --search.")
@click.option("--invariants", is_flag=True, help="With --long: keep those that orbits show.")
@click.option("--system", "systems", multiple=True, help="With --long: only these.")
@click.option("--window", "windows", multiple=True, type=int, help="With --long: only these.")
@click.option("--horizon", default=1, show_default=True, help="With --long: calls in a training.")
def main(
    folder: Path,
    seconds: float,
    seeds: int,
    count: int,
    names: tuple[str, ...],
    models: tuple[str, ...],
    long: bool,
    grow: bool,
    invariants: bool,
    systems: tuple[str, ...],
    windows: tuple[int, ...],
    horizon: int,
) -> None:
    """Measure what attention over windows gains, by median, least and largest error of seeds."""
    folder.mkdir(parents=True, exist_ok=True)
    if long:
        compare_windows(
            folder,
            systems or [*SYSTEMS],
            models,
            windows,
            seconds=seconds,
            seeds=seeds,
            grows=grow,
            training=TrainingOptions(horizon=horizon),
            invariants=invariants,
        )
        return
    rows = []
    for name in names or CASES:
        label = name.replace(" ", "-")
        data, test = folder / f"{label}.h5", CASES[name](200, 1)
        if not data.exists():
            states = CASES[name](count, 0).seen
            vp.import_dataset(states, data, step=STEP, structure="volume")
        for model in models or MODELS:
            found = [
                errors(
                    trained(
                        data, model, seconds, seed, folder / f"{label}-{model}-{seed}.safetensors"
                    ),
                    test,
                )
                for seed in range(seeds)
            ]
            middle, least, most = np.median(found, 0), np.min(found, 0), np.max(found, 0)
            cells = [f"{middle[k]:.1e} ({least[k]:.1e} to {most[k]:.1e})" for k in (0, 1)]
            rows.append([name, model, *cells])
            print(*rows[-1], flush=True)
    header = ["states", "model", "next state", f"after {AHEAD} steps"]
    print_table(f"Median of {seeds} seeds, {seconds:g} s each, {machine()}", header, rows)


if __name__ == "__main__":
    main()
