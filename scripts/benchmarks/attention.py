"""Windows of states: models with attention beside the same couplings without it.

    python scripts/benchmarks/attention.py --folder measured
    python scripts/benchmarks/attention.py --folder measured --long --seconds 20 --seeds 5

The data are rigid bodies whose states are complete, far apart, noisy, at unknown steps, or without
a component. Each model is that of ``vp-train`` with nothing but the budget, in processor time, so
that a busy machine measures the same. A model that is in the folder is not trained again.

With ``--long`` models of complete states predict whole windows, or one state at a time, and run for
100,000 steps.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import click
from harness import machine, print_table, processor_seconds

# isort: split

import numpy as np

import vpintegrator as vp
from vpintegrator.cli.command import PlainCommand
from vpintegrator.rollout import diagnostics
from vpintegrator.training import Kind, Network, search

STEP, WINDOW, AHEAD = 0.2, 3, 20
STEPS, ORBITS = (1_000, 10_000, 100_000), 24  # of a long rollout
LOST = 0.1  # relative change of an invariant from which on an orbit is lost


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


def kind_of(name: str, options: dict[str, Any], grows: bool = True) -> Kind:
    """Return the search of an architecture, or its training where there are no sizes to search."""
    grows &= name not in ("transformer", "resnet")
    return search(name, options) if grows else Network(options, architecture=name)


def trained(
    data: Path,
    name: str,
    seconds: float,
    seed: int,
    path: Path,
    new: int | None = None,
    grows: bool = True,
) -> vp.models.Model:
    """Return the model of a seed, from the folder if it is there."""
    if not path.exists():
        options = {"window": MODELS[name]} if MODELS[name] > 1 else {}
        if new is not None:
            options["prediction_window"] = new
        with processor_seconds():
            result = vp.fit(data, [kind_of(name, options, grows)], seconds=seconds, seed=seed)
        vp.save(result.model, path)
    return vp.load(path)


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


class Long(NamedTuple):
    """Measurements of a long rollout, after each of the numbers of steps.

    Attributes
    ----------
    error
        Error one step ahead that the training tells.
    distance
        Median root mean square error over orbits, up to 1,000 and 10,000 steps.
    drift
        Median over orbits of the largest relative change of an invariant.
    lost
        Number of orbits with a change above ``LOST``, or not finite.
    volume
        Median and largest size of log|det| of a step of the iterated map.
    back
        Largest distance from the first window after 20 calls, and back by the reversing symmetry.
    """

    error: float
    distance: list[float]
    drift: list[float]
    lost: list[int]
    volume: tuple[float, float]
    back: float


def long_rollout(model: vp.models.Model) -> Long:
    """Return what a model does to rigid bodies in a long rollout."""
    system = vp.load_system("rigid-body")
    initial = system.sample_initial(ORBITS, np.random.default_rng(1))
    exact = vp.solve(system, initial, STEP * np.arange(STEPS[1] + 1), rtol=1e-13, atol=1e-13)
    first = exact[:, : model.window]
    with np.errstate(all="ignore"):
        states = vp.rollout(model, first, STEPS[-1], compiled=True)
        changes = []
        for name in system.invariants:
            values = system.invariants[name](states)  # (orbit, time)
            changes.append(np.abs(values / values[:, :1] - 1))
        change = np.nan_to_num(np.max(changes, axis=0), nan=np.inf)
        squares = ((states[:, : STEPS[1] + 1] - exact) ** 2).mean(2)  # (orbit, time)
        wrong = np.sqrt(np.nan_to_num(squares, nan=np.inf))
    largest = [change[:, : steps + 1].max(1) for steps in STEPS]
    distances = [np.sqrt((wrong[:, : steps + 1] ** 2).mean(1)) for steps in STEPS[:2]]
    windows = np.stack([exact[:, k : k + model.window] for k in range(0, 1000, 50)], 1)
    volume = np.abs(diagnostics.log_determinant(model, windows))
    rho = np.asarray(system.reversing_symmetries[0])
    there = vp.rollout(model, first, model.window - 1 + 20 * model.prediction_window)
    turned = there[:, -model.window :][:, ::-1] @ rho.T
    home = vp.rollout(model, turned, model.window - 1 + 20 * model.prediction_window)
    back = np.abs(home[:, -model.window :][:, ::-1] @ rho.T - first).max()
    return Long(
        json.loads(model.metadata["training"])["test_error"],
        [float(np.median(each)) for each in distances],
        [float(np.median(each)) for each in largest],
        [int((each > LOST).sum()) for each in largest],
        (float(np.median(volume)), float(volume.max())),
        float(back),
    )


def compare_windows(
    folder: Path, models: Sequence[str], seconds: float, seeds: int, grows: bool
) -> None:
    """Measure whole windows beside windows that shift, seed by seed."""
    data, rows = folder / "rigid-body.h5", []
    if not data.exists():
        vp.generate("rigid-body", data)
    for name in models:
        for new in (WINDOW, 1):
            for seed in range(seeds):
                prefix = "search" if grows else "long"
                path = folder / f"{prefix}-{name}-{new}-{seed}.safetensors"
                record = path.with_suffix(".json")
                if not record.exists():
                    model = trained(data, name, seconds, seed, path, new, grows)
                    record.write_text(json.dumps(long_rollout(model)._asdict()))
                found = Long(**json.loads(record.read_text()))
                numbers = [f"{found.error:.1e}", *(f"{x:.1e}" for x in found.distance)]
                numbers += [f"{x:.1e}" for x in found.drift]
                numbers.append(", ".join(map(str, found.lost)))
                numbers += [f"{found.volume[0]:.1e}", f"{found.back:.1e}"]
                rows.append([name, "whole" if new > 1 else "shifted", str(seed), *numbers])
                print(*rows[-1], flush=True)
    header = ["model", "windows", "seed", "error", "RMSE to 1,000", "to 10,000"]
    header += [f"drift to {steps:,}" for steps in STEPS]
    header += [f"lost of {ORBITS}", "|log det|", "there and back"]
    print_table(f"Rigid body, {seconds:g} s each, {machine()}", header, rows)


@click.command(cls=PlainCommand)
@click.option("--folder", type=click.Path(path_type=Path), default=Path("attention"))
@click.option("--seconds", default=20.0, show_default=True, help="Of each training.")
@click.option("--seeds", default=3, show_default=True)
@click.option("--count", default=400, show_default=True, help="Training trajectories.")
@click.option("--case", "names", multiple=True, help="Only these.")
@click.option("--model", "models", multiple=True, help="Only these.")
@click.option("--long", is_flag=True, help="Whole windows beside shifted ones, for 100,000 steps.")
@click.option("--grow", is_flag=True, help="With --long: search the sizes, as vp-train --search.")
def main(
    folder: Path,
    seconds: float,
    seeds: int,
    count: int,
    names: tuple[str, ...],
    models: tuple[str, ...],
    long: bool,
    grow: bool,
) -> None:
    """Measure what attention over windows gains, by median, least and largest error of seeds."""
    folder.mkdir(parents=True, exist_ok=True)
    if long:
        of_windows = [name for name, window in MODELS.items() if window > 1]
        compare_windows(folder, models or of_windows, seconds, seeds, grow)
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
