"""Maps from states alone: ``vp.fit`` of an array beside plain learners, on the same states.

    python scripts/benchmarks/from_states.py --folder measured
    python scripts/benchmarks/from_states.py --folder measured --systems kepler,own.toml --seeds 0,1
    python scripts/benchmarks/from_states.py --folder measured --counts 5,50,500 --figure pairs.png

Each learner gets the states of 154 orbits of 20 steps, their step, and the same seconds of
processor time: those that this process and its compilers use. Errors are relative to the spread of
the states: one step ahead on fresh orbits (root mean square), and after 100 steps (median over
orbits). The latter counts where two exact orbits 1e-8 apart are still less than a tenth of the
spread apart; else it is in brackets. An orbit is lost where it is not finite, or ten times farther
from the mean than exact orbits are, within 1,000 steps.
Files in the folder are not measured again. A figure shows the error over the number of pairs, a
panel for each system.
"""

from __future__ import annotations

import itertools
import json
import math
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import click
from harness import (
    machine,
    names,
    print_table,
    processor_seconds,
    processor_time,
    use_threads,
    write_result,
)

# isort: split

import numpy as np
from matplotlib.figure import Figure
from plain_learners import LEARNERS, Step

import vpintegrator as vp
from vpintegrator.cli.command import PlainCommand
from vpintegrator.errors import InputError
from vpintegrator.plotting.style import PAGE, PAPER, looks
from vpintegrator.storage.files import replacing

CATALOGUE = (
    "rigid-body",
    "pendulum",
    "henon-heiles",
    "coupled-oscillators",
    "kepler",
    "double-pendulum",
    "charged-particle",
    "abc-flow",
    "lotka-volterra-3d",
    "heavy-top",
    "point-vortices",
    "toda",
    "fput",
    "three-body",
    "lennard-jones-chain",
    "quartic-lattice",
)
OTHERS = (
    "pendula-ring",
    "bead-on-hoop",
    "swinging-atwood",
    "penning-trap",
    "spherical-pendulum",
    "anharmonic-grid",
    "taylor-green",
    "three-waves",
    "lorentz-force",
    "volterra-ring",
)
SYSTEMS = Path(__file__).parent / "systems"
OURS = "vp.fit"
STEPS = (1, 100, 1_000)
ORBIT = 20  # steps of an orbit of the training states
DRAWS = 20  # of initial states, until all orbits can be continued


def orbits(name: str, path: Path, count: int, steps: int, seed: int) -> vp.data.Dataset:
    """Return a dataset whose training group has so many orbits, made once."""
    if path.exists():
        return vp.open_dataset(path)
    own = SYSTEMS / f"{name}.toml"
    groups = {"train": count, "validation": 1, "test": 1}
    source = own if own.exists() else name
    for other in range(seed, seed + DRAWS):
        with suppress(InputError):  # an orbit that collides, or leaves the domain of the equations
            return vp.generate(source, path, trajectories=groups, steps=steps, seed=other)
    raise InputError(f"{name} has no {count} orbits of {steps:,} steps in {DRAWS} draws")


class Judge:
    """Errors of maps on fresh orbits.

    Parameters
    ----------
    training : (orbit, time, dim)
        Training states, whose spread is the unit.
    test : (orbit, time, dim)
        Fresh orbits.
    periods
        Periods of angles, by component.
    """

    def __init__(self, training: np.ndarray, test: np.ndarray, periods: dict[int, float]) -> None:
        flat = training.reshape(-1, training.shape[-1])
        self.mean = flat.mean(0)
        self.spread = math.sqrt(flat.var(0).sum())
        self.test = test
        self.periods = periods

    def distance(self, states: np.ndarray, others: np.ndarray) -> np.ndarray:
        """Return distances (...) of states (..., dim), of angles modulo their periods."""
        difference = states - others
        for i, period in self.periods.items():
            difference[..., i] -= period * np.round(difference[..., i] / period)
        return np.linalg.norm(difference, axis=-1) / self.spread

    def size(self, states: np.ndarray) -> np.ndarray:
        """Return distances (...) from the mean in components that are no angles."""
        others = [i for i in range(states.shape[-1]) if i not in self.periods]
        return np.linalg.norm(states[..., others] - self.mean[others], axis=-1) / self.spread

    def errors(self, step: Step) -> dict[str, Any]:
        """Return the errors of a map of single states (n, dim)."""
        test = self.test
        ahead = np.concatenate([self.distance(step(z[:-1]), z[1:]) for z in test[:, :101]])
        with np.errstate(all="ignore"):
            limit = 10 * np.nanmax(self.size(test))
            z = test[:, 0]
            lost = np.zeros(len(z), dtype=bool)
            after = np.full(len(z), math.inf)
            for n in range(1, test.shape[1]):
                z = np.where(lost[:, None], np.nan, step(np.where(lost[:, None], test[:, 0], z)))
                lost |= ~(np.isfinite(z).all(1) & (self.size(z) <= limit))
                if n == STEPS[1]:
                    after = np.where(lost, math.inf, self.distance(z, test[:, n]))
        one = math.sqrt(float((ahead**2).mean()))
        return {"one": one, "after": float(np.median(after)), "lost": int(lost.sum())}

    def digits(self, system: vp.System, step: float) -> bool:
        """Whether exact orbits 1e-8 apart stay within a tenth of the spread for 100 steps."""
        start = self.test[:, 0]
        moved = start + 1e-8 * self.spread / math.sqrt(start.shape[1])
        own, others = (
            vp.integrate(system, "dormand-prince-8", z, step / 20, 2_000)[:, -1]
            for z in (start, moved)
        )
        return bool(np.median(self.distance(own, others)) < 0.1)


def step_of(map: Any) -> Step:
    """Return a map of single states as a function of states (n, dim)."""
    return lambda z: map.map(z[:, None])[:, 0]


def fitted(states: np.ndarray, step: float, seconds: float) -> tuple[Step | None, str, dict]:
    """Return the map of ``vp.fit``, in words, with what it says of itself."""
    with processor_seconds():
        fit = vp.fit(states, step=step, seconds=seconds, progress=False)
    facts = {
        "own error": fit.error,
        "structure": fit.model.structure.form,
        "kinds": fit.kinds,
        "tried": [each.line for each in fit.tried],
    }
    words = f"{fit.model.name}, {fit.size}"
    return (step_of(fit.model) if fit.model.window == 1 else None), words, facts


def measure(
    name: str,
    learner: str,
    data: vp.data.Dataset,
    judge: Judge,
    seconds: float,
) -> dict[str, Any]:
    """Fit one learner, and judge it."""
    states = np.array(data.states("train"))
    facts: dict[str, Any] = {}
    step: Step | None
    wall = time.perf_counter()
    start = processor_time()
    if learner == OURS:
        step, words, facts = fitted(states, data.step, seconds)
    else:
        step, words = LEARNERS[learner](states, seconds)
    used = processor_time() - start
    wall = time.perf_counter() - wall
    errors: dict[str, Any] = {"one": math.nan, "after": math.nan, "lost": -1}
    if step is not None:
        errors = judge.errors(step)
    return {
        "system": name,
        "entry": learner,
        "words": words,
        "processor seconds": used,
        "wall seconds": wall,
        "machine": machine(),
        **errors,
        **facts,
    }


def report(results: list[dict[str, Any]]) -> None:
    """Print the table, and on how many rows ours are first."""
    rows = []
    counts = {"first": 0, "a tenth": 0, "first after 100 steps": 0}
    names = list(dict.fromkeys(r["system"] for r in results))
    learners = list(dict.fromkeys(r["entry"] for r in results))
    for name in names:
        own = {r["entry"]: r for r in results if r["system"] == name}
        cells = []
        for learner in learners:
            r = own.get(learner)
            if r is None:
                cells.append("-")
                continue
            far = f"{r['after']:.1e}" if math.isfinite(r["after"]) else "lost"
            far = far if r["digits"] else f"[{far}]"
            cells.append(f"{r['one']:.1e} {far} {r['lost'] or ''}".rstrip())
        ours = own.get(OURS)
        plain = [r for r in own.values() if r["entry"] != OURS]
        if ours is not None and plain:
            least = min(r["one"] for r in plain)
            counts["first"] += ours["one"] <= max(least, 1e-13)
            counts["a tenth"] += ours["one"] <= max(least / 10, 1e-13)
            far = min(r["after"] for r in plain)
            counts["first after 100 steps"] += not ours["digits"] or ours["after"] <= far
        words = "" if ours is None else f"{ours['words']}; {ours['structure']}"
        seconds = "" if ours is None else f"{ours['processor seconds']:.0f}"
        rows.append([name, *cells, seconds, words])
    notes = [
        "error one step ahead, median after 100 steps (in brackets: no digits), orbits lost",
        *(f"{words}: {number} of {len(names)}" for words, number in counts.items()),
        *sorted({r["machine"] for r in results}),
    ]
    columns = ["system", *learners, "seconds", "vp.fit"]
    print_table("Maps from states alone", columns, rows, notes)


@click.command(cls=PlainCommand)
@click.option("--folder", type=click.Path(file_okay=False, path_type=Path), required=True)
@click.option("--systems", metavar="NAME,...", help="Names or files of systems.")
@click.option("--learners", metavar="NAME,...", help=f"Some of {OURS}, {', '.join(LEARNERS)}.")
@click.option("--seeds", metavar="NUMBER,...", default="0", show_default=True)
@click.option("--counts", metavar="NUMBER,...", default="154", show_default=True)
@click.option("--seconds", type=click.FloatRange(min=0), default=60.0, show_default=True)
@click.option("--threads", type=click.IntRange(min=1), default=1, show_default=True)
@click.option("--figure", type=click.Path(path_type=Path), help="Draw the error over the pairs.")
@click.option("--markdown", is_flag=True, help="Print tables as Markdown.")
def main(
    folder: Path,
    systems: str | None,
    learners: str | None,
    seeds: str,
    counts: str,
    seconds: float,
    threads: int,
    figure: Path | None,
    markdown: bool,
) -> None:
    """Measure every learner on every system; what is in the folder is not measured again."""
    use_threads(threads)
    folder.mkdir(parents=True, exist_ok=True)
    known = (OURS, *LEARNERS)
    chosen = names("--learners", learners, known)
    sources = (*CATALOGUE, *OTHERS) if systems is None else systems.split(",")
    cases = itertools.product(seeds.split(","), sources, counts.split(","))
    results = []
    for seed, source, count in cases:
        name = f"{Path(source).stem}-{count}-{seed}"
        paths = {each: folder / f"{name}-{each}.json" for each in chosen}
        missing = [each for each, path in paths.items() if not path.exists()]
        if missing:
            _measure_all(source, name, missing, folder, int(count), int(seed), seconds)
        own = [json.loads(path.read_text("utf-8")) for path in paths.values()]
        results += [each | {"source": Path(source).stem, "count": int(count)} for each in own]
    report(results)
    if figure is not None:
        draw(results, figure)


def draw(results: list[dict[str, Any]], path: Path) -> None:
    """Draw the error one step ahead over the number of pairs, a panel for each system."""
    names = list(dict.fromkeys(r["source"] for r in results))
    learners = list(dict.fromkeys(r["entry"] for r in results))
    found = looks((each, "learned", each) for each in (OURS, *LEARNERS))
    with PAPER.applied():
        own = Figure(figsize=(PAGE, PAPER.em * 17), layout="constrained")
        panels = own.subplots(1, len(names), sharey=True, squeeze=False)[0]
        for axes, name in zip(panels, names, strict=True):
            for learner in learners:
                rows = [r for r in results if (r["source"], r["entry"]) == (name, learner)]
                rows.sort(key=lambda r: r["count"])
                pairs = [ORBIT * r["count"] for r in rows]
                axes.loglog(pairs, [r["one"] for r in rows], **found[learner].strokes(4.0))
            axes.set_title(name)
            axes.set_xlabel("pairs of states")
        panels[0].set_ylabel("error one step ahead")
        own.legend(learners, loc="outside lower center", ncols=len(learners))
        with replacing(path, True) as temporary:
            own.savefig(temporary, format=path.suffix[1:])


def _measure_all(
    source: str,
    name: str,
    learners: list[str],
    folder: Path,
    count: int,
    seed: int,
    seconds: float,
) -> None:
    """Measure some learners on one system, and write their results."""
    data = orbits(source, folder / f"{name}.h5", count, ORBIT, seed)
    fresh = orbits(source, folder / f"{name}-fresh.h5", 40, STEPS[-1], seed + 1_000)
    judge = Judge(data.states("train"), fresh.states("train"), data.system.periods)
    digits = judge.digits(data.system, data.step)
    for learner in learners:
        click.echo(f"{name}: {learner}", err=True)
        result = measure(name, learner, data, judge, seconds)
        write_result(folder, result | {"digits": digits})


if __name__ == "__main__":
    main()
