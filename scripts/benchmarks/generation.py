"""Rigid-body trajectories into a file: vp.generate, and one solver call for each trajectory.

    python scripts/benchmarks/generation.py

1,258 trajectories of 100 outputs, 0.2 apart. Our time is that of the whole call: reading the
recipe, integrating, measuring the accuracy and writing the file; the peers only integrate. Errors
are the largest differences from the solution in Jacobi's elliptic functions. Of the peers that take
one trajectory at a time a sample is run, and its time multiplied.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from harness import benchmark, duration, machine, print_table, ratio, time_together

# isort: split

import numpy as np
import scipy.integrate
import scipy.special

import vpintegrator as vp
from vpintegrator.dynamics.solve import solve

TRAJECTORIES, OUTPUTS, STEP, TOLERANCE = 1258, 100, 0.2, 1e-12
TIGHT = 3e-14  # with which solve_ivp is as accurate as vp.generate is with 1e-12


def exact(initial: np.ndarray, times: np.ndarray) -> np.ndarray:
    """States (trajectory, time, 3) of the free rigid body with moments of inertia 2, 1, 2/3.

    With z1' = a z2 z3, z2' = b z3 z1, z3' = c z1 z2 and b < 0 < a, c: z2 is an sn, and of z1 and z3
    the one that never vanishes a dn, the other a cn (Hairer, Lubich, Wanner, VII.5).
    """
    a, b, c = 0.5, -1.0, 0.5
    states = np.empty((len(initial), len(times), 3))
    for n, (z1, z2, z3) in enumerate(initial):
        size1, size3 = z1**2 - a / b * z2**2, z3**2 - c / b * z2**2  # where z2 = 0
        swapped = a * size3 > c * size1
        if swapped:  # the equations are the same with 1 and 3, and a and c, exchanged
            z1, z3, size1, size3 = z3, z1, size3, size1
        first, third = np.copysign(np.sqrt(size1), z1), np.sqrt(size3)
        rate = np.sqrt(-b * (a if swapped else c) * size1)
        modulus = (c / a if swapped else a / c) * size3 / size1
        second = b * third * first / rate
        phase = scipy.special.ellipkinc(np.arctan2(z2 / second, z3 / third), modulus)
        sn, cn, dn, _ = scipy.special.ellipj(rate * times + phase, modulus)
        columns = [first * dn, second * sn, third * cn]
        states[n] = np.stack(columns[::-1] if swapped else columns, axis=1)
    return states


def field(_: float, z: np.ndarray) -> list[float]:
    """As a user of SciPy would write it for one trajectory; a list is faster than an array."""
    return [0.5 * z[1] * z[2], -z[2] * z[0], 0.5 * z[0] * z[1]]


def one_by_one(initial: np.ndarray, times: np.ndarray, tolerance: float) -> np.ndarray:
    span = times[0], times[-1]
    options: dict[str, Any] = {"method": "DOP853", "rtol": tolerance, "atol": tolerance}
    return np.stack(
        [scipy.integrate.solve_ivp(field, span, z, t_eval=times, **options).y.T for z in initial]
    )


def taylor(tolerance: float) -> Callable[[np.ndarray, np.ndarray], np.ndarray]:
    """Heyoka's Taylor integrator, compiled for the system, one trajectory after another."""
    import heyoka

    x, y, z = heyoka.make_vars("x", "y", "z")
    equations = [(x, 0.5 * y * z), (y, -z * x), (z, 0.5 * x * y)]
    integrator = heyoka.taylor_adaptive(equations, [0.0, 0.0, 1.0], tol=tolerance)

    def run(initial: np.ndarray, times: np.ndarray) -> np.ndarray:
        states = np.empty((len(initial), len(times), 3))
        for n, state in enumerate(initial):
            integrator.time = 0.0
            integrator.state[:] = state
            states[n] = integrator.propagate_grid(times)[-1]
        return states

    return run


@benchmark(seconds=30.0)
def main(seconds: float, threads: int, quick: bool) -> None:
    """Compare vp.generate with one call of solve_ivp for each trajectory."""
    count, sample = (20, 2) if quick else (TRAJECTORIES, 20)
    seconds = 0.0 if quick else seconds
    times = STEP * np.arange(OUTPUTS + 1)
    settings = {"count": count, "steps": OUTPUTS, "step": STEP}
    settings |= {"rtol": TOLERANCE, "atol": TOLERANCE, "method": "DOP853"}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rigid-body.h5"
        recipe = vp.load_recipe("rigid-body", **settings)
        dataset = vp.generate(recipe, path)
        states = np.concatenate([dataset.states(group) for group in dataset.shapes])
        initial = states[:, 0]
        few = initial[:: count // sample]
        several: dict[str, tuple[Callable[[np.ndarray, np.ndarray], np.ndarray], np.ndarray]] = {
            "solve_ivp, each alone, 1e-12": (lambda z, t: one_by_one(z, t, TOLERANCE), few),
            "solve_ivp, each alone, 3e-14": (lambda z, t: one_by_one(z, t, TIGHT), few),
        }
        if find_spec("heyoka"):
            several["heyoka, each alone, 1e-12"] = (taylor(TOLERANCE), initial)
            several["heyoka, each alone, 1e-16"] = (taylor(1e-16), initial)
        candidates: dict[str, Callable[[], object]] = {
            "vp.generate, file written": lambda: vp.generate(
                "rigid-body", path, overwrite=True, **settings
            ),
            "... recipe read before": lambda: vp.generate(recipe, path, overwrite=True),
            "... the integration alone": lambda: solve(
                dataset.system, initial, times, "DOP853", TOLERANCE, TOLERANCE
            ),
        }
        ours = list(candidates)
        for name, (run, some) in several.items():
            candidates[name] = lambda run=run, some=some: run(some, times)
        spent = time_together(candidates, seconds)
    error = np.abs(states - exact(initial, times)).max()
    rows = []
    for name, value in spent.items():
        if name in ours:
            difference, total = error, value
        else:
            run, some = several[name]
            difference = np.abs(run(some, times) - exact(some, times)).max()
            total = value * count / len(some)
        rows.append([name, duration(total), ratio(total, spent[ours[0]]), f"{difference:.1e}"])
    notes = ["heyoka is left out: it is not installed"] if not find_spec("heyoka") else []
    columns = ["method and tolerance", "time", "by vp.generate", "largest error"]
    title = f"{count:,} rigid bodies, {OUTPUTS} outputs"
    print_table(title, columns, rows, [*notes, machine()])


if __name__ == "__main__":
    main()
