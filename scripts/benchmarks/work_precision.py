"""What a unit of simulated time costs, and how exact it is: a learned step and classical ones.

    python scripts/benchmarks/work_precision.py --network network.safetensors

A volume-preserving feed-forward network (one step, reversible, 576 parameters) is trained on the
rigid body with the step 0.2, unless the file holds one, and runs compiled. The classical methods
are this package's own, vectorised over the same batch of 40 trajectories, at several steps.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from harness import benchmark, duration, machine, print_table, ratio, time_together
from rigid_body import STEP, network_options, trained

# isort: split

import numpy as np

import vpintegrator as vp
from vpintegrator.compiled import compile_model
from vpintegrator.dynamics import System
from vpintegrator.models import Integrator
from vpintegrator.rollout import solve_reference
from vpintegrator.rollout.flow import ClassicalFlow, LearnedFlow, NumericalFlow

TIME, TRAJECTORIES = 120.0, 40
METHODS = ("implicit-midpoint", "gauss-legendre-4", "rk4", "strang-splitting")
STEPS = (0.4, 0.2, 0.1, 0.05)
PART = 200  # steps advanced at a time: states stay in the cache, as in a rollout


def flows(model: Integrator, system: System, steps: tuple[float, ...]) -> dict[str, NumericalFlow]:
    learned = LearnedFlow(model, system, "network", STEP, compile_model(model, TRAJECTORIES))
    return {"network": learned} | {
        f"{method} {step}": ClassicalFlow(method, system, step)
        for method in METHODS
        for step in steps
    }


def run(flow: NumericalFlow, initial: np.ndarray, time: float) -> np.ndarray:
    """States at the end."""
    cursor, left = flow.start(initial[:, None]), round(time / flow.step)
    while left > 0:
        states = cursor.advance(min(left, PART))
        left -= states.shape[1]
    return states[:, -1]


@benchmark(seconds=20.0)
@network_options(train_seconds=90.0)
def main(
    seconds: float, threads: int, quick: bool, network: Path | None, train_seconds: float
) -> None:
    """Compare the cost and the error of a learned step with those of classical methods."""
    if quick:
        seconds, train_seconds = 0.0, 1.0
    time = 4.0 if quick else TIME
    model, system = trained(network, train_seconds), vp.load_system("rigid-body")
    initial = system.sample_initial(TRAJECTORIES, np.random.default_rng(0))
    exact = solve_reference(system, initial, np.array([0.0, time])).states[:, -1]
    several = flows(model, system, STEPS[1:2] if quick else STEPS)
    calls: dict[str, Callable[[], object]] = {
        name: lambda flow=flow: run(flow, initial, time) for name, flow in several.items()
    }
    spent = time_together(calls, seconds)
    rows = []
    for name, flow in several.items():
        cost = spent[name] / (time * TRAJECTORIES)
        difference = run(flow, initial, time) - exact
        error = np.sqrt(np.mean(np.sum(difference**2, axis=-1)))
        relative = ratio(spent[name], spent["network"])
        row = [name.split()[0], f"{flow.step:g}", duration(cost), relative, f"{error:.1e}"]
        rows.append(row)
    columns = ["method", "step", "time", "by the network", f"error at t = {time:g}"]
    title = f"Rigid body, a unit of simulated time of one of {TRAJECTORIES} trajectories"
    print_table(title, columns, rows, [machine()])


if __name__ == "__main__":
    main()
