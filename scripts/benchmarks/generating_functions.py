"""Generating functions by linear solves, beside couplings, Gauss-Legendre 6 and heyoka.

    python scripts/benchmarks/generating_functions.py --folder measured --markdown

For each case: the seconds until the functions are chosen, the error one step ahead on the test
group (relative to the spread of the components that move), and the cost of a step for 1,000
trajectories as machine code. Couplings are those of ``vp-train`` after as many epochs as the
default gives them. Gauss-Legendre 6 takes one step of the same size; heyoka solves to rounding.
What is measured is kept in the folder and not measured again.
"""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import click
from harness import benchmark, duration, machine, print_table, time_together, write_result

# isort: split

import numpy as np

import vpintegrator as vp
from vpintegrator.compiled.library import NotCompilable
from vpintegrator.errors import InputError
from vpintegrator.training import search
from vpintegrator.training.training_data import TrainingData

SYSTEMS = Path(__file__).parent / "systems"
CASES: dict[str, dict[str, Any]] = {
    "rigid-body": {},
    "rigid-body, step 1": {"system": "rigid-body", "step": 1.0},
    "henon-heiles": {},
    "product-oscillator": {},
    "elastic-pendulum": {},
    "lotka-volterra-3d": {},
    "gyrostat": {},
    "kepler": {},
    "double-pendulum": {},
    "storage-ring": {"count": 45, "steps": 200},
    "coupled-oscillators": {},
    "stretch-twist-fold": {},
    "dipole": {},
    "relativistic-oscillator": {},
    "restricted-three-body": {},
    "schwarzschild": {},
}
TRAJECTORIES, STEPS = 1_000, 100
EPOCHS = 200  # iterations of couplings beside a good map


def data_of(name: str, case: dict[str, Any], folder: Path) -> vp.data.Dataset:
    """The dataset of a case, made once."""
    path = folder / f"{name.replace(', ', '-').replace(' ', '-')}.h5"
    if not path.exists():
        system = case.get("system", name)
        own = SYSTEMS / f"{system}.toml"
        options = {key: case[key] for key in ("step", "count", "steps") if key in case}
        vp.generate(own if own.exists() else system, path, **options)
    return vp.open_dataset(path)


def solved(data: vp.data.Dataset) -> tuple[Any, float]:
    """The generating function, and the seconds until it is chosen, all attempts included."""
    name = "sgf" if vp.models.suited(data.system) == "spff" else "vpgf"
    start = time.perf_counter()
    return vp.fit(data, [search(name)], equations=True), time.perf_counter() - start


def couplings(data: vp.data.Dataset) -> Any:
    """What the default gives couplings beside a generating function."""
    return vp.fit(data, [search(vp.models.suited(data.system))], equations=True, epochs=EPOCHS)


def step_of(model: Any, initial: np.ndarray) -> Any:
    """A call that makes some steps of a model as machine code."""
    compiled = vp.compiled.CompiledModel(model, len(initial), initial[:, None])
    return lambda: compiled.predict(initial[:, None], STEPS)


def peers(data: vp.data.Dataset, states: np.ndarray) -> dict[str, dict[str, Any]]:
    """Errors and calls of Gauss-Legendre 6 and heyoka, of flows."""
    system = data.system
    if system.is_discrete:
        return {}
    from maps_peers import taylor

    scale = TrainingData(data).error_scale
    test = data.states("test")
    image = vp.integrate(system, "gauss-legendre-6", test[:, 0], data.step, 1)[:, 1]
    wrong = (image - test[:, 1])[:, list(scale.components)]
    error = float(np.sqrt((wrong**2).sum(1).mean())) / scale.spread
    run = taylor(system, 1e-15, data.step, 10)
    return {
        "gauss-legendre-6": {
            "error": error,
            "call": lambda: vp.integrate(system, "gauss-legendre-6", states, data.step, 3),
            "steps": 3,
        },
        "heyoka": {"error": None, "call": lambda: run(states), "steps": 10},
    }


def measure(name: str, case: dict[str, Any], folder: Path, seconds: float) -> dict[str, Any]:
    """Everything about a case."""
    data = data_of(name, case, folder)
    found, spent = solved(data)
    arguments = found.model.arguments
    start = time.perf_counter()
    try:
        trained = couplings(data)
    except InputError:
        trained = None
    of_couplings = time.perf_counter() - start
    flat = data.states("test").reshape(-1, data.dim)
    states = np.ascontiguousarray(np.resize(flat, (TRAJECTORIES, data.dim)))
    candidates = peers(data, states)
    for key, of in (("solved", found), ("couplings", trained)):
        try:
            if of is not None:
                call = step_of(of.model, states)
                candidates[key] = {"error": of.error, "call": call, "steps": STEPS}
        except NotCompilable as reason:
            click.echo(f"{name}: {key} is not compiled: {reason}", err=True)
    times = time_together({key: each["call"] for key, each in candidates.items()}, seconds)
    cost = {k: times[k] / candidates[k]["steps"] / TRAJECTORIES for k in candidates}
    return {
        "system": name,
        "entry": "generating-functions",
        "model": found.model.name,
        "degree": arguments["degree"],
        "exact terms": "hamiltonian" in arguments,
        "repeats": arguments.get("repeats", 1),
        "coefficients": found.history.parameters,
        "seconds": spent,
        "test": found.history.test_error,
        "validation": found.error,
        "couplings": None if trained is None else trained.error,
        "seconds of couplings": of_couplings,
        "gauss-legendre-6": candidates.get("gauss-legendre-6", {}).get("error"),
        "cost": cost,
        "machine": machine(),
    }


def report(results: list[dict[str, Any]]) -> None:
    """The table."""
    columns = ["case", "model", "degree", "coefficients", "seconds"]
    columns += ["error", "couplings", "Gauss-Legendre 6", "step", "of heyoka"]
    rows = []
    for r in results:
        cost = [r["cost"].get(k) for k in ("solved", "heyoka")]
        errors = [r[k] for k in ("validation", "couplings", "gauss-legendre-6")]
        rows.append(
            [
                r["system"],
                r["model"],
                r["degree"],
                r["coefficients"],
                f"{r['seconds']:.1f}",
                *("-" if e is None else f"{e:.1e}" for e in errors),
                *("-" if c is None else duration(c) for c in cost),
            ]
        )
    notes = [
        "error: one step ahead, on the validation group, relative to the spread",
        f"couplings: after {EPOCHS} epochs; heyoka solves to rounding",
        *sorted({r["machine"] for r in results}),
    ]
    print_table("Generating functions by linear solves", columns, rows, notes)


@benchmark(seconds=2.0)
@click.option("--folder", type=click.Path(file_okay=False, path_type=Path), required=True)
@click.option("--only", metavar="CASE", help="One of the cases.")
def main(seconds: float, threads: int, quick: bool, folder: Path, only: str | None) -> None:
    """Measure every case; what is in the folder is not measured again."""
    folder.mkdir(parents=True, exist_ok=True)
    if only is not None and only not in CASES:
        raise InputError(f"--only: '{only}' is none of {', '.join(CASES)}")
    results = []
    for name, case in CASES.items():
        if only not in (None, name):
            continue
        path = folder / f"{name}-generating-functions.json"
        if not path.exists():
            click.echo(name, err=True)
            write_result(folder, measure(name, case, folder, 0.1 if quick else seconds))
        results.append(json.loads(path.read_text("utf-8")))
    report(results)


if __name__ == "__main__":
    main()
