"""How often an ensemble mistakes tori of the standard map for chaos, and chaos for tori.

    python scripts/benchmarks/tori_and_chaos.py                 # --kick 0.97, --orbits 8000

Orbits start evenly in the torus. An orbit is chaotic if a tangent vector grows by more than e^40 in
200,000 steps: on tori it grows like their number, by less than e^20. Beside it stands what
``vp.rollout.ensemble`` says after fewer steps.
"""

from __future__ import annotations

import math
import tempfile
from pathlib import Path

import click
import numpy as np

import vpintegrator as vp

LENGTHS = (200, 400, 1000, 2000, 4000, 10_000, 20_000, 40_000, 100_000)
_GROWTH, _TRUTH = 40.0, 200_000  # of the logarithm of a tangent vector, in so many steps
_SCALED = 16  # steps after which tangent vectors are scaled


def is_chaotic(initial: np.ndarray, kick: float, steps: int = _TRUTH) -> np.ndarray:
    """Whether a tangent vector of each orbit (orbit, 2) grows exponentially."""
    q, p = initial.T.copy()
    dq, dp = np.ones(len(q)), np.zeros(len(q))
    growth = np.zeros(len(q))
    for step in range(steps):
        dp += kick * np.cos(q) * dq
        p += kick * np.sin(q)
        dq += dp
        q += p
        if step % _SCALED == 0:
            size = np.hypot(dq, dp)
            growth += np.log(size)
            dq /= size
            dp /= size
            q = np.remainder(q, 2 * np.pi)
    return growth > _GROWTH


def mistaken(
    initial: np.ndarray, kick: float, steps: int, chaotic: np.ndarray
) -> tuple[float, float, float]:
    """The tolerance, the part of tori called chaos, and that of chaos called tori."""
    flow = vp.rollout.ExactMap(vp.load_system("standard-map", K=kick))
    measures = vp.rollout.EnsembleMeasures(resolution=8)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "ensemble.h5"
        found = vp.rollout.ensemble(flow, path, initial=initial, steps=steps, measures=measures)
    tori, chaos = found.regular[~chaotic], found.regular[chaotic]
    return found.tolerance, float(np.mean(~tori)), float(np.mean(chaos)) if len(chaos) else math.nan


@click.command(help=__doc__)
@click.option("--kick", default=0.5, show_default=True, help="The parameter K of the map.")
@click.option("--orbits", default=2000, show_default=True)
@click.option("--longest", default=LENGTHS[-1], show_default=True, help="Steps at most.")
@click.option("--truth", default=_TRUTH, show_default=True, help="Steps of the tangent vectors.")
def main(kick: float, orbits: int, longest: int, truth: int) -> None:
    """Print a table of lengths."""
    initial = np.random.default_rng(0).uniform(-np.pi, np.pi, (orbits, 2))
    chaotic = is_chaotic(initial, kick, truth)
    print(f"K = {kick:g}: {orbits} orbits, {chaotic.sum()} of them chaotic\n")
    print("| steps | tolerance | tori called chaos | chaos called tori |\n|--:|--:|--:|--:|")
    for steps in (each for each in LENGTHS if each <= longest):
        tolerance, tori, chaos = mistaken(initial, kick, steps, chaotic)
        print(f"| {steps:,} | {tolerance:.1e} | {tori:.1%} | {chaos:.1%} |", flush=True)


if __name__ == "__main__":
    main()
