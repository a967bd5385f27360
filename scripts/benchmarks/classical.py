"""What machine code gains for classical methods: a step in NumPy and compiled, of three systems.

    python scripts/benchmarks/classical.py

A time is that of a step of one of a thousand trajectories, all states written. Compilation is that
of equations whose library is not kept yet; a library serves any step and, as a rule, any values of
the parameters. The table below has what a unit of time costs at equal error: methods of our own
with fixed steps and with steps that adapt themselves, heyoka, and SciPy's DOP853 vectorised over
the trajectories.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable
from importlib.util import find_spec
from unittest.mock import patch

from harness import benchmark, duration, machine, print_table, ratio, time_together
from heyoka_method import with_heyoka

# isort: split

import numpy as np

import vpintegrator as vp
from vpintegrator.compiled import CompiledMethod
from vpintegrator.dynamics import System
from vpintegrator.maps import ClassicalMap, ClassicalMethod, Map
from vpintegrator.rollout import applicable_methods, solve_reference

SYSTEMS = ("rigid-body", "kepler", "tokamak")
METHODS = ("rk4", "dormand-prince-8", "blanes-moan-6")
TRAJECTORIES, STEPS, STEP, TIME, ERROR = 1000, 100, 0.02, 20.0, 1e-7
FIXED = ("rk4", "dormand-prince-8", "blanes-moan-6")
ADAPTIVE = ("heyoka", "dop853")


def compiled(method: ClassicalMethod, system: System, initial: np.ndarray) -> CompiledMethod:
    return CompiledMethod(method, system, initial, STEP)  # type: ignore[arg-type]


def steps_row(
    method: ClassicalMethod, system: System, initial: np.ndarray, seconds: float
) -> list[str]:
    """A step in NumPy and compiled."""
    with (
        tempfile.TemporaryDirectory() as cache,
        patch.dict(os.environ, VPINTEGRATOR_CACHE=cache),
    ):
        begin = time.perf_counter()
        code = compiled(method, system, initial)
        making = time.perf_counter() - begin
    calls: dict[str, Callable[[], object]] = {
        "numpy": lambda: next(
            ClassicalMap(method, system, STEP).advance(initial[:, None], STEPS // 10)
        ),
        "compiled": lambda: next(code.advance(initial[:, None], STEPS)),
    }
    spent = time_together(calls, seconds)
    numpy, ours = spent["numpy"] / (STEPS // 10), spent["compiled"] / STEPS
    each = [duration(numpy / len(initial)), duration(ours / len(initial))]
    return [system.name, method.name, *each, ratio(numpy, ours), f"{making:.2g} s"]


def flows(system: System, initial: np.ndarray) -> dict[str, list[Map]]:
    """Methods, each at several steps or tolerances, the least accurate first."""
    found: dict[str, list[Map]] = {}
    several = applicable_methods(system)[0]
    for name in FIXED:
        if name in several:
            code = compiled(several[name], system, initial)
            steps = [TIME / n for n in (20, 40, 80, 160, 320, 640, 1280, 2560)]
            found[f"{name}, compiled"] = [code.at_step(h) for h in steps]
    for name in ADAPTIVE:
        if name != "heyoka" or find_spec("heyoka"):
            tolerances = [f"1e-{k}" for k in range(3, 13)]
            flow = [ClassicalMap(with_heyoka(f"{name}-{t}"), system, TIME) for t in tolerances]
            found[name.replace("dop853", "SciPy's DOP853")] = flow
    return found


def last(map: Map, initial: np.ndarray) -> np.ndarray:
    """States at the end of the time."""
    steps = round(TIME / map.step)
    return next(map.advance(initial[:, None], steps, chunk=steps))[:, -1]


def accurate(
    several: list[Map], initial: np.ndarray, exact: np.ndarray
) -> tuple[Map, float] | None:
    """The first that errs no more than is asked for, and its error."""
    for flow in several:
        states = last(flow, initial[: len(exact)])
        error = float(np.sqrt(np.mean(np.sum((states - exact) ** 2, axis=-1))))
        if error <= ERROR:
            return flow, error
    return None


def equal_rows(system: System, initial: np.ndarray, seconds: float) -> list[list[str]]:
    """What a unit of time costs by each method, at the same error."""
    exact = solve_reference(system, initial[:64], np.array([0.0, TIME])).states[:, -1]
    found = {
        name: accurate(several, initial, exact) for name, several in flows(system, initial).items()
    }
    chosen = {name: each for name, each in found.items() if each is not None}
    calls: dict[str, Callable[[], object]] = {
        name: lambda flow=flow: last(flow, initial) for name, (flow, _) in chosen.items()
    }
    spent = time_together(calls, seconds)
    rows = []
    for name, (flow, error) in chosen.items():
        adaptive = name.partition(",")[0] == name
        point = f"1e-{flow.name.rpartition('-')[2]}" if adaptive else f"{flow.step:g}"
        cost = duration(spent[name] / (TIME * len(initial)))
        relative = ratio(spent[name], min(spent.values()))
        rows.append([system.name, name, point, cost, relative, f"{error:.1e}"])
    return rows


@benchmark(seconds=2.0)
def main(seconds: float, threads: int, quick: bool) -> None:
    """Compare classical methods in NumPy, as machine code, and with heyoka and SciPy."""
    seconds, count = (0.0, 16) if quick else (seconds, TRAJECTORIES)
    rows, equal = [], []
    for name in SYSTEMS[: 1 if quick else None]:
        system = vp.load_system(name)
        initial = system.sample_initial(count, np.random.default_rng(0))
        several = applicable_methods(system)[0]
        rows += [steps_row(several[m], system, initial, seconds) for m in METHODS if m in several]
        equal += equal_rows(system, initial, seconds)
    columns = ["system", "method", "NumPy", "compiled", "gain", "compilation"]
    print_table(f"A step of one of {count:,} trajectories", columns, rows)
    columns = ["system", "method", "step or tolerance", "time", "by the best", "error"]
    title = f"A unit of time at an error of at most {ERROR:.0e} at t = {TIME:g}"
    notes = [] if find_spec("heyoka") else ["heyoka is left out: it is not installed"]
    print_table(title, columns, equal, [*notes, machine()])


if __name__ == "__main__":
    main()
