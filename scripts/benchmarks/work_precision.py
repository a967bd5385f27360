"""What a unit of simulated time costs, and how exact it is: a learned step and classical ones.

    python scripts/benchmarks/work_precision.py --network network.safetensors

A volume-preserving network (one step, reversible, polynomials of degree 6, 36 parameters) is
trained for ten seconds on the rigid body with the step 0.2, unless the file holds one, and runs
compiled. The classical methods move the same batch of trajectories, at several steps or tolerances:
as machine code too, heyoka's Taylor method as it compiles it, and SciPy's DOP853 vectorised over
the trajectories, each of which keeps the tolerance. What chooses its steps gives states 4 apart,
the others all of them.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from harness import benchmark, duration, machine, print_table, time_together
from heyoka_method import with_heyoka
from rigid_body import STEP, network_options, trained

# isort: split

import numpy as np

import vpintegrator as vp
from vpintegrator.compiled import CompiledModel, machine_code
from vpintegrator.dynamics import System
from vpintegrator.maps import ClassicalMap, Map
from vpintegrator.rollout import find_method, solve_reference

TIME, TRAJECTORIES = 120.0, 256
SIZES: dict[str, Any] = {"functions": "polynomial", "depth": 2, "degree": 6}
METHODS = (
    "implicit-midpoint",
    "gauss-legendre-4",
    "rk4",
    "dormand-prince-8",
    "blanes-moan-6",
    "yoshida-8",
)
ADAPTIVE = ("dop853", "heyoka")
STEPS = (0.4, 0.2, 0.1)
SAMPLED = 4.0  # between outputs of adaptive methods, which outputs do not hold up
TOLERANCES = ("1e-7", "1e-9", "1e-11")
PART = 200  # steps advanced at a time: states stay in the cache, as in a rollout


def classical(system: System, initial: np.ndarray, points: int) -> dict[tuple[str, str], Map]:
    """By their names, and the steps or tolerances that tell those of one name apart."""
    found: dict[tuple[str, str], Map] = {}
    for name in METHODS:
        method = find_method(name)
        map = ClassicalMap(method, system, STEP)
        machine = machine_code(map, initial)
        how = "NumPy" if machine is map else "compiled"
        for step in STEPS[:points]:
            found[f"{name}, {how}", f"{step:g}"] = machine.at_step(step)
    for name in ADAPTIVE:
        if name != "heyoka" or find_spec("heyoka"):
            for tolerance in TOLERANCES[:points]:
                flow = ClassicalMap(with_heyoka(f"{name}-{tolerance}"), system, SAMPLED)
                found[name.replace("dop853", "SciPy's DOP853"), tolerance] = flow
    return found


def run(map: Map, initial: np.ndarray, time: float) -> np.ndarray:
    """States at the end."""
    for chunk in map.advance(initial[:, None], round(time / map.step), chunk=PART):
        states = chunk
    return states[:, -1]


def run_network(machine: CompiledModel, initial: np.ndarray, time: float) -> np.ndarray:
    """The same of the network."""
    windows, left = initial[:, None], round(time / STEP)
    while left > 0:
        states, windows = machine.predict(windows, min(left, PART))
        left -= states.shape[1]
    return states[:, -1]


@benchmark(seconds=20.0)
@network_options(train_seconds=10.0)
def main(
    seconds: float, threads: int, quick: bool, network: Path | None, train_seconds: float
) -> None:
    """Compare the cost and the error of a learned step with those of classical methods."""
    if quick:
        seconds, train_seconds = 0.0, 1.0
    np.ones(3_500_000)  # once freed, the C library keeps memory, as it does in longer programs
    time, count, points = (4.0, 16, 1) if quick else (TIME, TRAJECTORIES, len(STEPS))
    model, system = trained(network, train_seconds, **SIZES), vp.load_system("rigid-body")
    initial = system.sample_initial(count, np.random.default_rng(0))
    exact = solve_reference(system, initial, np.array([0.0, time])).states[:, -1]
    learned, several = CompiledModel(model, count), classical(system, initial, points)
    runs: dict[tuple[str, str], Callable[[], np.ndarray]] = {
        key: lambda flow=flow: run(flow, initial, time) for key, flow in several.items()
    }
    runs = {("network", f"{STEP:g}"): lambda: run_network(learned, initial, time), **runs}
    spent = time_together({" ".join(key): call for key, call in runs.items()}, seconds)
    rows: dict[str, list[list[str]]] = {}
    for (name, point), call in runs.items():
        total, difference = spent[f"{name} {point}"], call() - exact
        error = np.sqrt(np.mean(np.sum(difference**2, axis=-1)))
        cells = [point, duration(total / (time * count)), f"{error:.1e}"]
        rows.setdefault(name, []).append(cells)
    lines = [[name, *map(", ".join, zip(*cells, strict=True))] for name, cells in rows.items()]
    columns = ["method", "steps or tolerances", "times", f"errors at t = {time:g}"]
    title = f"Rigid body, a unit of simulated time of one of {count:,} trajectories"
    notes = [] if find_spec("heyoka") else ["heyoka is left out: it is not installed"]
    print_table(title, columns, lines, [*notes, machine()])


if __name__ == "__main__":
    main()
