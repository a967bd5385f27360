"""Tests of structure on simulated measurements: rates of wrong and of right rejections.

    python scripts/benchmarks/structure_tests.py        # --repeats 100, --seed 0

Each data set has trajectories of 10 steps with noise. A property that holds should be rejected at
p < 0.05 in 5 percent of the data sets, and one that does not hold in all.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import click
import numpy as np
from harness import benchmark, print_table
from scipy.integrate import solve_ivp

from vpintegrator.data.structure_tests import structure_of_states

STEPS, LEVEL = 10, 0.05


@dataclass(frozen=True)
class Case:
    """A system, the half width of its initial states, and what is tested."""

    name: str
    field: Callable[[float, np.ndarray], list[np.ndarray]]
    width: float
    dim: int
    trajectories: int
    noise: float
    tests: tuple[str, ...]
    centre: float = 0.0


def pendulum(friction: float) -> Callable[[float, np.ndarray], list[np.ndarray]]:
    return lambda t, z: [z[1], -np.sin(z[0]) - friction * z[1]]


def rigid_body(t: float, z: np.ndarray) -> list[np.ndarray]:
    return [0.5 * z[1] * z[2], -z[2] * z[0], 0.5 * z[0] * z[1]]


def henon_heiles(t: float, z: np.ndarray) -> list[np.ndarray]:
    x, y, px, py = z
    return [px, py, -x - 2 * x * y, -y - x * x + y * y]


def lotka_volterra(t: float, z: np.ndarray) -> list[np.ndarray]:
    return [z[0] * (1 - z[1]), z[1] * (z[0] - 1)]


def duffing(t: float, z: np.ndarray) -> list[np.ndarray]:
    return [z[1], z[0] - z[0] ** 3 + 0.3 * np.cos(1.2 * t)]


def damped_oscillators(t: float, z: np.ndarray) -> list[np.ndarray]:
    a, b, p, q = z
    return [p, q, -1.3 * a - a**3 / 2 + 0.3 * b - 0.01 * p, -1.8 * b + 0.3 * a - 0.01 * q]


CASES = (
    Case("pendulum", pendulum(0), 1.5, 2, 40, 1e-2, ("volume", "contraction", "autonomous")),
    Case("rigid body", rigid_body, 1.0, 3, 40, 1e-2, ("volume", "contraction", "-z1, z2, z3")),
    Case("Hénon–Heiles", henon_heiles, 0.3, 4, 60, 1e-3, ("volume", "symplectic", "autonomous")),
    Case(
        "oscillators, friction 0.01",
        damped_oscillators,
        1.0,
        4,
        60,
        1e-3,
        ("symplectic up to a factor", "volume", "symplectic", "z1, z2, -z3, -z4"),
    ),
    Case("pendulum, friction 0.01", pendulum(0.01), 1.5, 2, 40, 1e-3, ("volume", "contraction")),
    Case("rigid body", rigid_body, 1.0, 3, 40, 1e-2, ("-z1, -z2, z3",)),
    Case("Lotka–Volterra", lotka_volterra, 0.5, 2, 40, 1e-2, ("volume",), centre=1.0),
    Case("driven Duffing", duffing, 1.0, 2, 40, 1e-2, ("autonomous",)),
)


def measured(case: Case, step: float, rng: np.random.Generator) -> np.ndarray:
    """Return noisy trajectories (trajectory, time, dim)."""
    count, dim = case.trajectories, case.dim
    first = case.centre + case.width * rng.uniform(-1, 1, (dim, count))
    times = step * np.arange(STEPS + 1)
    solution = solve_ivp(
        lambda t, z: np.concatenate(case.field(t, z.reshape(dim, count))),
        (0, times[-1]),
        first.ravel(),
        method="DOP853",
        t_eval=times,
        rtol=1e-10,
        atol=1e-11,
    )
    states = solution.y.reshape(dim, count, -1).transpose(1, 2, 0)
    return np.asarray(states + case.noise * rng.normal(size=states.shape))


@benchmark()
@click.option("--repeats", default=100, show_default=True)
@click.option("--seed", default=0, show_default=True)
def main(seconds: float, threads: int, quick: bool, repeats: int, seed: int) -> None:
    """Print how often each property is rejected at p < 0.05."""
    rows = []
    repeats = 5 if quick else repeats
    for case in CASES:
        p: dict[str, list[float]] = {name: [] for name in case.tests}
        for number in range(repeats):
            states = measured(case, 0.2, np.random.default_rng((seed, number)))
            for test in structure_of_states(states, 0.2, canonical=case.dim % 2 == 0):
                name = test.what or test.name
                if name in p and not np.isnan(test.p):
                    p[name].append(test.p)
        for name, values in p.items():
            rejected = f"{np.mean(np.array(values) < LEVEL):.2f}" if values else "-"
            given = f"{case.trajectories}, {case.noise:g}"
            rows.append([case.name, given, name, rejected, f"{len(values)}/{repeats}"])
    columns = ["system", "trajectories, noise", "property", "rejected", "tested"]
    print_table("Tests of structure", columns, rows)


if __name__ == "__main__":
    main()
