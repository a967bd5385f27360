"""A step of a ring of many bodies by sums over clusters: how its cost grows with their number.

    python scripts/benchmarks/bodies.py

The model is what ``spff`` is for the Toda ring: polynomials of neighbours with weights in common,
reversible; its weights are drawn, which costs as much as trained ones. Times are those of one step
of one trajectory with all states written, alone or as one of 64; and of compiling, with an empty
cache, the step and its derivatives. The peers: the same map in ``jax.lax.scan``, bodies an array
that is rolled round; in eager PyTorch; and Stoermer-Verlet for the Toda ring in NumPy, one force a
step, which is other work and errs far more.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable
from importlib.util import find_spec
from itertools import pairwise
from typing import Any

import click
from harness import benchmark, duration, eager, machine, print_table, ratio, time_together

# isort: split

import numpy as np
import torch

import vpintegrator as vp
from vpintegrator.compiled import CompiledResidual, compile_model
from vpintegrator.models import Integrator
from vpintegrator.nn.univariate import RADIUS

SIZES = (8, 32, 128, 512, 1024)
TRAJECTORIES, STEP, CHECKED, TRAINED_ON = 64, 0.1, 3, 16


def ring(bodies: int) -> Integrator:
    """A model of a ring, with the same weights for any number of bodies."""
    torch.manual_seed(0)
    sign = torch.cat([torch.ones(bodies), -torch.ones(bodies)])
    model = vp.models.SymplecticFeedForward(
        dim=2 * bodies,
        bodies=bodies,
        topology="ring",
        translations=True,
        depth=3,
        functions="polynomial",
        degree=6,
        initial_scale=1e-2,
        reversing_symmetries=[torch.diag(sign).tolist()],
    )
    return model.eval()


def initial_states(count: int, bodies: int) -> np.ndarray:
    """(trajectory, dim), at rest on the average, as the step keeps it."""
    states = np.random.default_rng(0).uniform(-0.8, 0.8, (count, 2, bodies))
    return (states - states.mean(-1, keepdims=True)).reshape(count, -1)


def rolled_gradient(potential: Any, np_: Any) -> Callable[[Any], Any]:
    """The gradient of a potential of clusters along a ring, by rolling arrays of bodies."""
    order, relative = potential.features.order, potential.features.translations
    function = potential.function
    weights = function.coefficients.detach()[function.sources] * function.factors
    terms = list(zip(function.chosen.tolist(), weights.tolist(), strict=True))

    def chebyshev(x: Any) -> tuple[list[Any], list[Any]]:
        x = x * (1 / RADIUS)
        values, slopes = [np_.ones_like(x), x], [np_.zeros_like(x), np_.ones_like(x)]
        for n in range(1, function.degree):
            values.append(2 * x * values[n] - values[n - 1])
            slopes.append(2 * values[n] + 2 * x * slopes[n] - slopes[n - 1])
        return values, [slope * (1 / RADIUS) for slope in slopes]

    def gradient(x: Any) -> Any:
        places = [np_.roll(x, -j, -1) for j in range(order)]
        if relative:
            places = [b - a for a, b in pairwise(places)]
        of_places = [chebyshev(u) for u in places]
        parts = []
        for j in range(len(places)):
            part = 0.0
            for e, weight in terms:
                if not e[j]:
                    continue
                product = weight * of_places[j][1][e[j]]
                for i, (values, _) in enumerate(of_places):
                    product = product * values[e[i]] if i != j and e[i] else product
                part = part + product
            parts.append(part)
        if relative:
            parts = [a - b for a, b in zip([0.0, *parts], [*parts, 0.0], strict=True)]
        return sum(np_.roll(part, j, -1) for j, part in enumerate(parts))

    return gradient


def scanned(model: Integrator, steps: int) -> Callable[[tuple[Any, Any]], tuple[Any, Any]]:
    """The same map in jax.lax.scan, of positions and momenta (trajectory, body)."""
    import jax

    jax.config.update("jax_enable_x64", True)
    core: Any = model.core
    layers = [
        [[rolled_gradient(p, jax.numpy) for p in v.potentials] for v in (c.kinetic, c.potential)]
        for c in core.psi
    ]

    def step(z: tuple[Any, Any], _: None) -> tuple[Any, Any]:
        q, p = z[0], -z[1]
        for kinetic, potential in reversed(layers):
            p = p + sum(gradient(q) for gradient in potential)
            q = q - sum(gradient(p) for gradient in kinetic)
        p = -p
        for kinetic, potential in layers:
            q = q + sum(gradient(p) for gradient in kinetic)
            p = p - sum(gradient(q) for gradient in potential)
        return (q, p), (q, p)

    return jax.jit(lambda z: jax.lax.scan(step, z, None, length=steps)[1])


def in_jax(model: Integrator, steps: int) -> Callable[[np.ndarray], np.ndarray]:
    """The same from arrays (trajectory, dim), to (trajectory, step, dim)."""
    import jax

    run = scanned(model, steps)

    def states(initial: np.ndarray) -> np.ndarray:
        halves = tuple(map(jax.numpy.asarray, np.split(initial, 2, axis=-1)))
        found = jax.block_until_ready(run(halves))
        return np.concatenate([np.asarray(half) for half in found], -1).swapaxes(0, 1)

    return states


def stoermer_verlet(initial: np.ndarray, steps: int) -> np.ndarray:
    """The Toda ring in NumPy, one force a step."""
    q, p = (half.copy() for half in np.split(initial, 2, axis=-1))
    states = np.empty((len(initial), steps, initial.shape[1]))

    def force(q: np.ndarray) -> np.ndarray:
        spring = np.exp(q - np.roll(q, -1, -1))
        return np.asarray(np.roll(spring, 1, -1) - spring)

    f = force(q)
    for n in range(steps):
        p += 0.5 * STEP * f
        q += STEP * p
        f = force(q)
        p += 0.5 * STEP * f
        states[:, n] = np.concatenate([q, p], -1)
    return states


def compiling(model: Integrator) -> tuple[float, float]:
    """Seconds until the step is there, and its derivatives, where nothing is in the cache."""
    before, spent = os.environ.get("VPINTEGRATOR_CACHE"), []
    with tempfile.TemporaryDirectory() as folder:
        os.environ["VPINTEGRATOR_CACHE"] = folder
        try:
            for make in (
                lambda: compile_model(model),
                lambda: CompiledResidual(model, np.ones(model.dim)),
            ):
                start = time.perf_counter()
                make()
                spent.append(time.perf_counter() - start)
        finally:
            os.environ.pop("VPINTEGRATOR_CACHE")
            if before is not None:
                os.environ["VPINTEGRATOR_CACHE"] = before
    return spent[0], spent[1]


def candidates(model: Integrator, count: int, steps: int) -> dict[str, tuple[Any, int]]:
    """What is timed, and how many steps of a trajectory it makes."""
    initial = initial_states(count, model.dim // 2)
    machine = compile_model(model, count)
    found: dict[str, tuple[Any, int]] = {
        "compiled": (lambda: machine.advance(initial[:, None], steps)[0], count * steps)
    }
    if find_spec("jax"):
        scan = in_jax(model, steps)
        found["jax.lax.scan"] = lambda: scan(initial), count * steps
    few = min(steps, 20)
    found["eager"] = lambda: eager(model, initial, few), count * few
    found["stoermer-verlet"] = lambda: stoermer_verlet(initial, few), count * few
    return found


def derivatives(model: Integrator) -> tuple[Callable[[], object], Callable[[], object]]:
    """J^T of the residuals of some windows, and J^T J."""
    residual = CompiledResidual(model, np.ones(model.dim))
    windows = initial_states(TRAINED_ON, model.dim // 2)[:, None]
    parameters = [p.detach().numpy().ravel() for p in model.parameters()]
    arrays = np.concatenate(parameters), windows, windows

    def jacobians() -> None:
        for _ in residual.jacobians(*arrays):
            pass

    return jacobians, lambda: residual.normal_equations(*arrays)


@benchmark(seconds=2.0)
def main(seconds: float, threads: int, quick: bool) -> None:
    """Compare the cost of a step of many bodies with its peers, and how it grows."""
    sizes = SIZES[:2] if quick else SIZES
    seconds = 0.0 if quick else seconds
    columns: list[str] = []
    tables: dict[int, list[list[str]]] = {1: [], TRAJECTORIES: []}
    of_compiling, each = [], dict[tuple[int, int], float]()
    for bodies in sizes:
        model = ring(bodies)
        step, residual = compiling(model)
        jacobians, normal = derivatives(model)
        spent = time_together({"jacobians": jacobians, "normal": normal}, seconds)
        times = [duration(t / TRAINED_ON) for t in spent.values()]
        of_compiling.append([f"{bodies:,}", duration(step), duration(residual), *times])
        for count, rows in tables.items():
            steps = 5 if quick else max(20, 400_000 // (bodies * count))
            several = candidates(model, count, steps)
            expected = eager(model, initial_states(count, bodies), CHECKED)
            for name in ("compiled", "jax.lax.scan"):
                if name in several:
                    error = np.abs(several[name][0]()[:, :CHECKED] - expected).max()
                    if not error < 1e-12:
                        raise click.ClickException(f"{name} differs from eager by {error:.1e}")
            found = time_together({name: call for name, (call, _) in several.items()}, seconds)
            costs = {name: found[name] / made for name, (_, made) in several.items()}
            each[bodies, count] = costs["compiled"]
            peers = [ratio(cost, costs["compiled"]) for cost in list(costs.values())[1:]]
            rows.append([f"{bodies:,}", *map(duration, costs.values()), *peers])
            columns = ["bodies", *several, *(f"by {name}" for name in list(several)[1:])]
    parameters = sum(p.numel() for p in model.parameters())
    for count, rows in tables.items():
        notes = []
        if not quick:
            growth = each[512, count] / each[32, count]
            notes = [f"a step of 512 bodies: {growth:.1f} times that of 32"]
        if not find_spec("jax"):
            notes.append("jax is left out: it is not installed (pip install vpintegrator[bench])")
        what = "one trajectory" if count == 1 else f"one of {count} trajectories"
        print_table(f"A ring, {parameters} parameters, a step of {what}", columns, rows, notes)
    columns = ["bodies", "compile the step", "its derivatives", "Jacobian", "with J^T J"]
    title = f"Compiling with an empty cache; derivatives of a window by {parameters} parameters"
    print_table(title, columns, of_compiling, [machine()])


if __name__ == "__main__":
    main()
