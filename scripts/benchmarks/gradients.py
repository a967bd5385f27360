"""Time of a step with gradient: classical methods of this package, and RK4 of torchdiffeq.

    python scripts/benchmarks/gradients.py

A time is that of a step and its backward pass, in a loss over a hundred steps of the pendulum,
differentiated in the initial states and in g.
"""

from __future__ import annotations

import functools
from typing import Any

from harness import benchmark, duration, machine, print_table, ratio, time_together

# isort: split

import torch

import vpintegrator as vp

METHODS = ("rk4", "stoermer-verlet", "implicit-midpoint", "gauss-legendre-4")
COUNTS, STEPS, STEP = (1, 100, 10_000), 100, 0.1


def ours(map: Any, states: torch.Tensor, g: torch.Tensor, steps: int) -> torch.Tensor:
    for _ in range(steps):
        states = map(states, {"g": g})
    return states


def torchdiffeq_rk4(states: torch.Tensor, g: torch.Tensor, steps: int) -> torch.Tensor:
    from torchdiffeq import odeint

    def field(t: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        q, p = y.unbind(-1)
        return torch.stack([p, -g * torch.sin(q)], dim=-1)

    times = STEP * torch.arange(steps + 1, dtype=torch.float64)
    final: torch.Tensor = odeint(field, states, times, method="rk4")[-1]
    return final


@benchmark(seconds=5.0)
def main(seconds: float, threads: int, quick: bool) -> None:
    """Compare gradients through classical methods with those of torchdiffeq."""
    steps = 2 if quick else STEPS
    rows = []
    for count in COUNTS[: 1 if quick else None]:
        torch.manual_seed(0)
        states = torch.randn(count, 2, dtype=torch.float64, requires_grad=True)
        g = torch.tensor(1.0, dtype=torch.float64, requires_grad=True)
        runs = {
            name: functools.partial(ours, vp.classical(name, "pendulum", STEP)) for name in METHODS
        }
        runs["torchdiffeq rk4"] = torchdiffeq_rk4

        def gradient(run, states=states, g=g):  # type: ignore[no-untyped-def]
            return torch.autograd.grad((run(states, g, steps) ** 2).sum(), (states, g))

        calls = {name: functools.partial(gradient, run) for name, run in runs.items()}
        spent = time_together(calls, 0.0 if quick else seconds)
        for name, time in spent.items():
            relative = ratio(time, spent["torchdiffeq rk4"])
            rows.append([f"{count:,}", name, duration(time / steps), relative])
    columns = ["trajectories", "method", "step with gradient", "by torchdiffeq's RK4"]
    print_table("Gradients of a loss over steps of the pendulum", columns, rows, [machine()])


if __name__ == "__main__":
    main()
