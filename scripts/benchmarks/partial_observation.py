"""Potentials learned from positions alone, beside splines, sparse regression and our other models.

    python scripts/benchmarks/partial_observation.py        # --sets 20, --figure FILE.png, --quick

Each set has 20 training runs at irregular times with noise of 1 percent, and 20 unseen runs, of
which about one period is observed. Errors are root mean squares of a run's positions over the next
ten periods, in units of their standard deviation, median and worst over the unseen runs of the
first set. Coverage is the share of runs, times and components in the 90 % band of the potential:
mean over the sets with its standard error, and the extremes. pysindy sees smoothing splines of the
positions and their derivatives, and gets the best of four thresholds in hindsight; a Fourier
library for the angle, cubic polynomials otherwise. Our other models are a symplectic generating
function of splined states, and a residual network of windows of three resampled positions. The last
data have a friction, which no potential describes.
"""

from __future__ import annotations

import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import click
import numpy as np
import pysindy
import scipy
import torch
from harness import benchmark, print_table
from scipy.integrate import solve_ivp

import vpintegrator as vp
from vpintegrator.data.partial import LearnedPotential, Observed, learn_potential

RUNS, SEEN, OBSERVED, NOISE, STEP = 20, 60, 20, 0.01, 0.25
Force = Callable[[np.ndarray], np.ndarray]


@dataclass(frozen=True)
class Case:
    """Equations q'' = f(q) - friction q', a typical period, and half widths of first states."""

    name: str
    force: Force
    period: float
    width: tuple[float, ...]
    angle: bool = False
    friction: float = 0.0


def henon_heiles(q: np.ndarray) -> np.ndarray:
    x, y = q
    return np.array([-x - 2 * x * y, -y - x * x + y * y])


CASES = (
    Case("pendulum, angle", lambda q: -np.sin(q), 6.28, (2.0, 0.8), angle=True),
    Case("double well, position", lambda q: q - q**3, 6.0, (1.5, 0.8)),
    Case("Hénon–Heiles, two positions", henon_heiles, 6.28, (0.3, 0.3, 0.3, 0.3)),
    Case(
        "pendulum with friction, angle",
        lambda q: -np.sin(q),
        6.28,
        (2.0, 0.8),
        angle=True,
        friction=0.001,
    ),
)


def flow(case: Case, first: np.ndarray, times: np.ndarray) -> np.ndarray:
    """Accurate states at increasing times, the first state at time 0."""
    d = len(first) // 2

    def field(_: float, z: np.ndarray) -> np.ndarray:
        return np.concatenate([z[d:], case.force(z[:d]) - case.friction * z[d:]])

    span = (0.0, float(times[-1]))
    return solve_ivp(field, span, first, "DOP853", t_eval=times, rtol=1e-8, atol=1e-8).y.T


@dataclass(frozen=True)
class Data:
    """Training runs, observed beginnings of unseen runs, and the truth after them."""

    times: np.ndarray
    seen: np.ndarray
    begun: np.ndarray
    beginning: np.ndarray
    at: np.ndarray
    truth: np.ndarray


def make(case: Case, seed: int) -> Data:
    generator = np.random.default_rng(seed)
    first = generator.uniform(-1, 1, (2 * RUNS, len(case.width))) * case.width
    times = np.sort(generator.uniform(0, 3 * case.period, (RUNS, SEEN)), axis=1)
    begun = np.sort(generator.uniform(0, case.period, (RUNS, OBSERVED)), axis=1)
    at = np.arange(np.ceil(case.period / STEP), np.ceil(11 * case.period / STEP)) * STEP
    d = len(case.width) // 2
    seen = np.array([flow(case, z, t)[:, :d] for z, t in zip(first, times, strict=False)])
    both = [np.concatenate([t, at]) for t in begun]
    states = np.array([flow(case, z, t) for z, t in zip(first[RUNS:], both, strict=True)])
    noise = NOISE * seen.std(axis=(0, 1))
    beginning = states[:, :OBSERVED, :d]
    return Data(
        times,
        seen + noise * generator.normal(size=seen.shape),
        begun,
        beginning + noise * generator.normal(size=beginning.shape),
        at,
        states[:, OBSERVED:],
    )


def learn(case: Case, data: Data) -> LearnedPotential:
    names = ["x", "y"][: data.seen.shape[2]]
    periods = {0: 2 * np.pi} if case.angle else {}
    return learn_potential(Observed.of(data.times, data.seen), names, periods=periods)


def splines(times: np.ndarray, values: np.ndarray, at: np.ndarray) -> np.ndarray:
    """Smoothed positions and velocities of a run at some times."""
    found = [scipy.interpolate.make_smoothing_spline(times, column) for column in values.T]
    return np.stack([f(at) for f in found] + [f.derivative()(at) for f in found], axis=1)


def middle(data: Data, run: int) -> tuple[float, np.ndarray]:
    """Time and splined state in the middle of an observed beginning, where splines are good."""
    when = STEP * round(float(data.begun[run].mean()) / STEP)
    return when, splines(data.begun[run], data.beginning[run], np.array([when]))[0]


def by_sindy(case: Case, data: Data, threshold: float) -> np.ndarray:
    grids = [np.arange(t[1], t[-2], 0.02) for t in data.times]
    pairs = zip(data.times, data.seen, grids, strict=True)
    states = [splines(t, y, grid) for t, y, grid in pairs]
    library = pysindy.PolynomialLibrary(degree=1 if case.angle else 3)
    if case.angle:
        library = library + pysindy.FourierLibrary(n_frequencies=1)
    model = pysindy.SINDy(pysindy.STLSQ(threshold=threshold), feature_library=library)
    model.fit(states, t=0.02)
    return continued(data, lambda z, count: _solved(model, z, count))


def _solved(model: pysindy.SINDy, first: np.ndarray, count: int) -> np.ndarray:
    """Solutions of all runs together, bounded where they escape."""
    shape = first.shape

    def field(_: float, y: np.ndarray) -> np.ndarray:
        return np.clip(model.predict(np.clip(y.reshape(shape), -50, 50)), -50, 50).ravel()

    times = STEP * np.arange(count + 1)
    solved = solve_ivp(field, (0, times[-1]), first.ravel(), t_eval=times, rtol=1e-5)
    states = np.full((count + 1, *shape), np.nan)
    states[: len(solved.t)] = solved.y.T.reshape(-1, *shape)
    return states


def continued(data: Data, run: Callable[[np.ndarray, int], np.ndarray]) -> np.ndarray:
    """Positions at the wanted times, by a flow or map of all states (run, dim) in equal steps."""
    begun = [middle(data, k) for k in range(RUNS)]
    first = np.stack([z for _, z in begun])
    skipped = [round((data.at[0] - when) / STEP) for when, _ in begun]
    states = run(first, max(skipped) + len(data.at))
    d = data.seen.shape[2]
    return np.stack([states[n : n + len(data.at), k, :d] for k, n in enumerate(skipped)])


def imported(data: Data, folder: Path, full: bool) -> vp.data.Dataset:
    """Training runs splined to equal steps: states for a symplectic map, or positions alone."""
    grids = [np.arange(t[1], t[-2], STEP) for t in data.times]
    length = min(map(len, grids))
    rows = zip(data.times, data.seen, grids, strict=True)
    states = np.array([splines(t, y, grid[:length]) for t, y, grid in rows])
    d = data.seen.shape[2]
    options = {"structure": "symplectic"} if full else {"structure": "none"}
    path = folder / f"{full}.h5"
    return vp.import_dataset(states if full else states[..., :d], path, step=STEP, **options)


def by_model(data: Data, folder: Path, full: bool, seconds: float) -> np.ndarray:
    dataset, d = imported(data, folder, full), data.seen.shape[2]
    model = vp.models.build(
        dataset.system, "sgf" if full else "resnet", **({"degree": 6} if full else {"window": 3})
    )
    vp.train(model, dataset, seconds=seconds)

    def iterated(first: np.ndarray, count: int) -> np.ndarray:
        if full:
            states = [torch.as_tensor(first)]
        else:
            begun = zip(data.begun, data.beginning, strict=True)
            before = [middle(data, k)[0] + STEP * np.arange(-2, 1) for k in range(RUNS)]
            windows = [splines(t, y, own)[:, :d] for (t, y), own in zip(begun, before, strict=True)]
            states = list(torch.as_tensor(np.stack(windows, axis=1)))
        length = len(states)
        with torch.no_grad():
            for _ in range(count):
                states.append(model(torch.stack(states[-length:], dim=1))[:, -1])
        return torch.stack(states[length - 1 :]).numpy()

    return continued(data, iterated)


def errors(data: Data, found: np.ndarray) -> np.ndarray:
    """Relative root mean square errors of the runs; those that escape count as 10."""
    truth = data.truth[..., : found.shape[2]]
    squares = np.square(found - truth).mean(axis=(1, 2)) / truth.var(axis=(0, 1)).mean()
    return np.minimum(np.nan_to_num(np.sqrt(squares), nan=10.0), 10.0)


@benchmark(seconds=10.0)
@click.option("--sets", default=20, show_default=True, help="Data sets for the coverage.")
@click.option("--only", type=click.IntRange(1, len(CASES)), help="One of the data.")
@click.option("--figure", type=click.Path(path_type=Path), help="Draw an unseen pendulum run.")
def main(
    seconds: float, threads: int, quick: bool, sets: int, only: int | None, figure: Path | None
) -> None:
    """Compare predictions of unseen runs."""
    rows, covered = [], []
    for case in CASES if only is None else CASES[only - 1 : only]:
        data, learned = make(case, 0), learn(case, make(case, 0))
        predicted = learned.model.predict(data.begun, data.beginning, data.at)
        found = {"potential from positions": predicted.states[..., : data.seen.shape[2]]}
        found |= peers(case, data, seconds)
        for name, states in found.items():
            error = errors(data, states)
            label = f"{name} (degree {learned.degree})" if name in list(found)[:1] else name
            rows.append([case.name, label, f"{np.median(error):.2g}", f"{error.max():.2g}"])
        covered.append([case.name, *coverage(case, 1 if quick else sets)])
        if figure is not None and case is CASES[0]:
            draw(data, found, predicted.band(0.9), figure)
    columns = ["data", "model", "median error", "worst"]
    print_table("Unseen runs over ten periods, from positions alone", columns, rows)
    columns = ["data", "sets", "coverage", "least", "largest", "degrees", "fit in s (processor)"]
    print_table("Coverage of the 90 % band", columns, covered)


def peers(case: Case, data: Data, seconds: float) -> dict[str, np.ndarray]:
    """Positions of the unseen runs by other methods."""
    d = data.seen.shape[2]
    flat = [splines(t, y, data.at) for t, y in zip(data.begun, data.beginning, strict=True)]
    bounds = data.seen.min(axis=(0, 1)), data.seen.max(axis=(0, 1))
    found = {"spline, continued": np.clip(np.array(flat)[..., :d], *bounds)}
    with warnings.catch_warnings(), tempfile.TemporaryDirectory() as folder:
        warnings.simplefilter("ignore")
        tried = [by_sindy(case, data, threshold) for threshold in (0.02, 0.05, 0.1, 0.2)]
        found["pysindy"] = min(tried, key=lambda one: float(np.median(errors(data, one))))
        found["sgf of splined states"] = by_model(data, Path(folder), True, seconds)
        found["resnet, windows of 3"] = by_model(data, Path(folder), False, seconds)
    return found


def coverage(case: Case, sets: int) -> list[str]:
    """Coverage over data sets, the degrees that were chosen, and the median time of a fit."""
    inside, took, degrees = [], [], Counter[int]()
    for seed in range(sets):
        data, begun = make(case, seed), time.process_time()
        learned = learn(case, data)
        took.append(time.process_time() - begun)
        degrees[learned.degree] += 1
        predicted = learned.model.predict(data.begun, data.beginning, data.at)
        low, high = predicted.band(0.9)
        inside.append(((low <= data.truth) & (data.truth <= high)).mean())
    error = np.std(inside, ddof=1) / sets**0.5 if sets > 1 else np.nan
    chosen = ", ".join(f"{n} ({count})" for n, count in sorted(degrees.items()))
    extremes = f"{min(inside):.2f}", f"{max(inside):.2f}"
    spread = f"{np.mean(inside):.3f} +- {error:.3f}"
    return [str(sets), spread, *extremes, chosen, f"{np.median(took):.1f}"]


def draw(
    data: Data,
    found: dict[str, np.ndarray],
    band: tuple[np.ndarray, np.ndarray],
    path: Path,
) -> None:
    """Draw the unseen run with the median error of the potential."""
    import matplotlib.pyplot as plt

    run = int(np.argsort(errors(data, found["potential from positions"]))[RUNS // 2])
    figure, axes = plt.subplots(len(found), 1, figsize=(8, 9), sharex=True, layout="constrained")
    for axis, (name, states) in zip(axes, found.items(), strict=True):
        axis.plot(data.at, data.truth[run, :, 0], "k", lw=0.8, label="truth")
        axis.plot(data.begun[run], data.beginning[run, :, 0], "k.", ms=4, label="observed")
        axis.plot(data.at, states[run, :, 0], "C0" if axis is axes[0] else "C1", lw=1)
        if axis is axes[0]:
            axis.fill_between(data.at, *(each[run, :, 0] for each in band), alpha=0.4)
            axis.legend(loc="upper right")
        axis.set_title(name, fontsize=9)
        axis.set_ylabel("angle")
    axes[-1].set_xlabel("time")
    figure.savefig(path, dpi=120)


if __name__ == "__main__":
    main()
