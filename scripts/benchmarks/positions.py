"""Incomplete states: ``vp.fit`` with nothing but the data beside plain learners of windows.

    python scripts/benchmarks/positions.py --folder measured
    python scripts/benchmarks/positions.py --folder measured --cases pendulum --learners ridge

The data are positions without momenta, states without a component, a parameter or a step that
varies and is not told, and noisy positions. Each learner gets the same states and the same seconds
of processor time. Ridge regression tries windows and degrees, and takes those of the least error on
the validation orbits; the network reads the window that ``vp.fit`` found.

Errors are relative to the spread of the states, on fresh orbits without noise: one step ahead (root
mean square), and after 20 and 100 steps (median over orbits). An orbit is lost where it is not
finite, or outside twice the range of the training states. Files in the folder are not measured
again. In full the command takes an hour and a half.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import click
from harness import (
    benchmark,
    machine,
    names,
    print_table,
    processor_seconds,
    processor_time,
    write_result,
)

# isort: split

import numpy as np
from plain_learners import Units, mlp

import vpintegrator as vp

SYSTEMS = Path(__file__).parent / "systems"
OURS = "vp.fit"
AHEAD = (20, 100)
LONGEST = 16  # states of a window
TRANSFORMERS = ("vpmt", "transformer")
WINDOW = 3  # of the transformers

Step = Callable[[np.ndarray], np.ndarray]


@dataclass(frozen=True)
class Case:
    """Observed data.

    Attributes
    ----------
    system
        Name of a system of the catalogue, or of a file of the benchmarks.
    observe
        The table ``[observe]`` of the recipe.
    count, steps
        Trajectories of all groups, and steps of each.
    vary
        Ranges of what varies.
    lost
        Steps after which lost orbits are counted.
    """

    system: str
    observe: dict[str, Any]
    count: int = 2_000
    steps: int = 10
    vary: dict[str, Any] = field(default_factory=dict)
    lost: int = 1_000

    def data(self, path: Path, fresh: bool, quick: bool) -> vp.data.Dataset:
        """Return the training data, or fresh orbits without noise; made once."""
        if path.exists():
            return vp.open_dataset(path)
        own = SYSTEMS / f"{self.system}.toml"
        source = own if own.exists() else self.system
        observe = {k: v for k, v in self.observe.items() if not (fresh and k == "noise")}
        count = min(self.count, 100) if quick else self.count
        size = {
            "trajectories": {"train": 40, "validation": 1, "test": 1},
            "steps": AHEAD[1] + LONGEST,
        }
        if not fresh:
            size = {"count": count, "steps": self.steps}
        vary = {"vary": self.vary} if self.vary else {}
        return vp.generate(source, path, **size, **vary, seed=int(fresh), observe=observe)


def positions(system: str, *names: str, **options: Any) -> Case:
    """Return positions of a mechanical system."""
    noise = {"noise": options.pop("noise")} if "noise" in options else {}
    return Case(system, {"components": [*names], **noise}, **options)


BODIES: dict[str, Any] = {"count": 572, "steps": 22, "lost": 10_000}
CASES = {
    "henon-heiles": positions("henon-heiles", "q"),
    "pendulum": positions("pendulum", "q"),
    "coupled-oscillators": positions("coupled-oscillators", "q"),
    "double-pendulum": positions("double-pendulum", "q"),
    "kepler": positions("kepler", "q"),
    "toda": positions("toda", "q"),
    "rigid-body-unseen": Case("rigid-body", {"components": ["z1", "z2"]}, **BODIES),
    "hidden-moment": Case("rigid-body", {"hide": ["I1"]}, vary={"I1": [1.5, 2.5]}, **BODIES),
    "hidden-step": Case("rigid-body", {"hide": ["step"]}, vary={"step": [0.1, 0.3]}, **BODIES),
    "pendulum-hidden": Case("pendulum", {"hide": ["g"]}, vary={"g": [0.6, 1.6]}, **BODIES),
    "hidden-moment-noise": Case(
        "rigid-body", {"hide": ["I1"], "noise": 1e-4}, vary={"I1": [1.5, 2.5]}, **BODIES
    ),
    "henon-heiles-noise": positions("henon-heiles", "q", noise=1e-4),
    "pendulum-noise": positions("pendulum", "q", noise=1e-4),
    "coupled-oscillators-noise": positions("coupled-oscillators", "q", noise=1e-4),
    "elastic-pendulum": positions("elastic-pendulum", "r", "theta"),
    "gyrostat-unseen": Case("gyrostat", {"components": ["m1", "m3"]}, **BODIES),
}


class Judge:
    """Errors of maps on fresh orbits, and orbits that they lose.

    Parameters
    ----------
    training : (orbit, time, dim)
        Training states, which give the unit and the range.
    test : (orbit, time, dim)
        Fresh orbits.
    periods
        Periods of angles, by component.
    lost
        Steps after which lost orbits are counted.
    """

    def __init__(
        self, training: np.ndarray, test: np.ndarray, periods: dict[int, float], lost: int
    ) -> None:
        flat = training.reshape(-1, training.shape[-1])
        variance = flat.var(0)
        for i, period in periods.items():
            variance[i] = min(variance[i], period**2 / 12)
        self.spread = math.sqrt(variance.sum())
        self.middle = (flat.min(0) + flat.max(0)) / 2
        self.reach = flat.max(0) - flat.min(0)
        self.reach[[*periods]] = math.inf
        self.test = test
        self.periods = periods
        self.lost = lost

    def distance(self, states: np.ndarray, others: np.ndarray) -> np.ndarray:
        """Return distances (...) of states (..., dim), of angles modulo their periods."""
        difference = states - others
        for i, period in self.periods.items():
            difference[..., i] -= period * np.round(difference[..., i] / period)
        return np.linalg.norm(difference, axis=-1) / self.spread

    def errors(self, step: Step, window: int) -> dict[str, Any]:
        """Return the errors of a function of windows (n, window * dim)."""
        test = self.test
        count = test.shape[1] - window
        rows = [test[:, k : k + count] for k in range(window)]
        windows = np.concatenate(rows, -1)  # (orbit, time, window * dim)
        dim = test.shape[2]
        ahead = [self.distance(step(w), z) for w, z in zip(windows, test[:, window:], strict=True)]
        result: dict[str, Any] = {"one": math.sqrt(float((np.concatenate(ahead) ** 2).mean()))}
        z = windows[:, 0]
        alive = np.ones(len(z), dtype=bool)
        for n in range(1, self.lost + 1):
            with np.errstate(all="ignore"):
                new = np.full((len(z), dim), np.nan)
                if alive.any():
                    new[alive] = step(z[alive])
                alive &= (np.abs(new - self.middle) <= self.reach).all(1) & np.isfinite(new).all(1)
                z = np.concatenate([z[:, dim:], new], 1)
                if n in AHEAD:
                    distance = self.distance(new, test[:, window + n - 1])
                    distance = np.where(np.isfinite(distance) & alive, distance, math.inf)
                    result[f"after {n}"] = float(np.median(distance))
        return {**result, "lost": int((~alive).sum()), "of": len(z), "steps": self.lost}


def step_of(model: Any) -> Step:
    """Return a function of windows (n, window * dim) that gives the next states."""
    shape = (model.window, model.dim)
    new = model.window - model.prediction_window
    return lambda w: model.map(w.reshape(-1, *shape))[:, new]


def fit(
    data: vp.data.Dataset, kinds: Any, seconds: float, seed: int = 0
) -> tuple[Step, int, str, dict[str, Any]]:
    """Return the map of ``vp.fit``, its window, what it is, and what was said of it."""
    given = [] if kinds is None else [[kinds]]
    with processor_seconds():
        result = vp.fit(data.path, *given, seconds=seconds, seed=seed, progress=False)
    model = result.model
    facts = {"own error": result.error, "tried": [each.line for each in result.tried]}
    facts |= {"structure": model.structure.form, "choices": [*getattr(model, "choices", ())]}
    return step_of(model), model.window, f"{model.name}, {result.size}", facts


def ridge(
    train: np.ndarray,
    validation: np.ndarray,
    seconds: float,
    windows: tuple[int, ...] = (1, 2, 3),
    terms: int = 1_500,
    rows: int = 12_000,
) -> tuple[Step, int, str]:
    """Fit polynomials of windows; window, degree and penalty have the least validation error."""
    end = processor_time() + seconds
    best: tuple[float, Any] = (math.inf, None)
    for window in windows:
        units = Units(train, window)
        own = units.pairs(train)
        own = own.take(np.arange(0, len(own.before), -(-len(own.before) // rows)))
        others = units.pairs(validation)
        reach = np.abs(own.before).max(0)
        before = math.inf
        idle = 0
        for degree in range(1, 40):
            variables = own.before.shape[1]
            if math.comb(variables + degree, degree) > terms or processor_time() > end:
                break
            powers = exponents(variables, degree)
            Q, R = np.linalg.qr(chebyshev(own.before / reach, powers))
            U, sizes, V = np.linalg.svd(R)
            image = U.T @ (Q.T @ own.change)
            features = chebyshev(others.before / reach, powers) @ V.T
            least = math.inf
            for penalty in 10.0 ** np.arange(-30.0, 1, 1.5):
                filters = sizes / (sizes**2 + penalty * sizes[0] ** 2)
                error = float(((features @ (filters[:, None] * image) - others.change) ** 2).mean())
                least = min(least, error)
                if error < best[0]:
                    c = V.T @ (filters[:, None] * image)
                    words = f"window {window}, degree {degree}, penalty {penalty:.0e}"
                    best = error, (units, powers, reach, c, words)
            idle = idle + 1 if least > 0.9 * before else 0
            if idle == 2:  # odd functions gain nothing by an even degree
                break
            before = min(before, least)
    units, powers, reach, c, words = best[1]
    return units.step(lambda x: chebyshev(x / reach, powers) @ c), units.window, words


def exponents(variables: int, degree: int) -> np.ndarray:
    """Return the degrees (term, variable) of all products up to a total degree."""
    rows: list[tuple[int, ...]] = [()]
    for _ in range(variables):
        rows = [(*row, k) for row in rows for k in range(degree - sum(row) + 1)]
    return np.array(rows)


def chebyshev(x: np.ndarray, powers: np.ndarray) -> np.ndarray:
    """Return products (n, term) of Chebyshev polynomials of variables x (n, variable)."""
    T = [np.ones_like(x), x]
    for _ in range(2, int(powers.max()) + 1):
        T.append(2 * x * T[-1] - T[-2])
    each = np.stack(T)  # (degree, n, variable)
    result = each[powers[:, 0], :, 0].T.copy()
    for j in range(1, powers.shape[1]):
        result *= each[powers[:, j], :, j].T
    return result


def learn(
    learner: str, data: vp.data.Dataset, seconds: float, window: int
) -> tuple[Step, int, str, dict[str, Any]]:
    """Return a learned map, its window, what it is, and what was said of it."""
    if learner == OURS:
        return fit(data, None, seconds)
    if learner in TRANSFORMERS:
        arguments = {"window": WINDOW, "prediction_window": 1}
        return fit(data, vp.training.search(learner, arguments), seconds)
    train = data.states("train")
    if learner == "ridge":
        return *ridge(train, data.states("validation"), seconds), {}
    # the network takes half of the seconds that it is given
    step, words = mlp(train, 2 * seconds, window=window)
    return step, window, f"window {window}, {words}", {}


LEARNERS = (OURS, "ridge", "MLP")


def learners_of(name: str) -> tuple[str, ...]:
    """Return the learners of a case: transformers where attention is asked for."""
    return (*LEARNERS, *TRANSFORMERS) if name == "rigid-body-unseen" else LEARNERS


def measure(
    name: str, learner: str, folder: Path, seconds: float, window: int, quick: bool
) -> dict[str, Any]:
    """Fit one learner, and judge it."""
    case = CASES[name]
    data = case.data(folder / f"{name}.h5", False, quick)
    fresh = case.data(folder / f"{name}-fresh.h5", True, quick)
    test = fresh.states("train")
    lost = min(case.lost, 100) if quick else case.lost
    judge = Judge(data.states("train"), test, data.system.periods, lost)
    start = processor_time()
    step, window, words, facts = learn(learner, data, seconds, window)
    used = processor_time() - start
    return {
        "system": name,
        "entry": learner,
        "words": words,
        "window": window,
        "processor seconds": used,
        "machine": machine(),
        **judge.errors(step, window),
        **facts,
    }


def report(results: list[dict[str, Any]]) -> None:
    """Print the table."""
    rows = []
    for r in results:
        far = (
            f"{r[f'after {n}']:.1e}" if math.isfinite(r[f"after {n}"]) else "lost" for n in AHEAD
        )
        lost = f"{r['lost']} of {r['of']} in {r['steps']:,}"
        seconds = f"{r['processor seconds']:.0f}"
        rows.append([r["system"], r["entry"], f"{r['one']:.1e}", *far, lost, seconds, r["words"]])
    ahead = (f"after {n} steps" for n in AHEAD)
    columns = ["data", "learner", "one step", *ahead, "orbits lost", "seconds", "map"]
    machines = {re.sub(r" \(load [^)]*\)", "", r["machine"]) for r in results}
    print_table("Incomplete states", columns, rows, sorted(machines))


@benchmark(seconds=60.0)
@click.option("--folder", type=click.Path(file_okay=False, path_type=Path), required=True)
@click.option("--cases", metavar="NAME,...", help=f"Some of {', '.join(CASES)}.")
@click.option(
    "--learners", metavar="NAME,...", help="Some of vp.fit, ridge, MLP, vpmt, transformer."
)
def main(
    folder: Path,
    cases: str | None,
    learners: str | None,
    seconds: float,
    threads: int,
    quick: bool,
) -> None:
    """Measure every learner on all incomplete data; what is in the folder is not measured again."""
    folder.mkdir(parents=True, exist_ok=True)
    cases_asked = names("--cases", cases, tuple(CASES))
    wanted = names("--learners", learners, (*LEARNERS, *TRANSFORMERS))
    results: list[dict[str, Any]] = []
    for name in cases_asked:
        window = 2
        for learner in (each for each in learners_of(name) if each in wanted):
            path = folder / f"{name}-{learner}.json"
            if not path.exists():
                click.echo(f"{name}: {learner}", err=True)
                write_result(folder, measure(name, learner, folder, seconds, window, quick))
            result = json.loads(path.read_text("utf-8"))
            results.append(result)
            if learner == OURS:
                window = max(result["window"], 2)
    report(results)


if __name__ == "__main__":
    main()
