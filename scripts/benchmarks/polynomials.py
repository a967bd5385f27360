"""A step of the rigid body by couplings of polynomials: compiled, in JAX, eager, and integrated.

    python scripts/benchmarks/polynomials.py --network network.safetensors

The network has two sweeps of polynomials of degree 6, reversible, 36 parameters, and is trained for
ten seconds unless the file holds one. A time is that of one step of 0.2 of one trajectory, with all
states written. The integrators, Heyoka's Taylor method of a tolerance near the network's error and
Dormand and Prince's method of order 8 as machine code of ours, at the same step, are given the same
trajectories and write the same states.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import click
from harness import benchmark, duration, eager, machine, print_table, ratio, time_together
from rigid_body import STEP, network_options, trained

# isort: split

import numpy as np

import vpintegrator as vp
from vpintegrator.compiled import CompiledMethod, CompiledModel
from vpintegrator.models import Model
from vpintegrator.nn.basis import RADIUS
from vpintegrator.rollout import find_method, solve_reference

TOLERANCE, CHECKED = 1e-13, 20
SIZES = {1: 20_000, 1_000: 100, 100_000: 5}  # steps of so many trajectories
TERMS = [(1, 1), (1, 3), (3, 1), (1, 5), (3, 3), (5, 1)]  # degrees that the symmetries leave


def scanned(model: Model, steps: int) -> Callable[[tuple[Any, ...]], tuple[Any, ...]]:
    """The same map in jax.lax.scan, each component an array of its own: far faster than as rows."""
    import jax

    jax.config.update("jax_enable_x64", True)
    coefficients = [p.detach().numpy().reshape(3, len(TERMS)) for p in model.parameters()]
    scale, rho = model.scale.numpy(), model.reversing_symmetries[0].diagonal().tolist()

    def odd(x: Any) -> dict[int, Any]:
        x = x * (1 / RADIUS)
        double = 4 * x * x - 2
        third = double * x - x
        return {1: x, 3: third, 5: double * third - x}

    def shear(z: list[Any], a: int, weights: np.ndarray, sign: float) -> list[Any]:
        x, y = (odd(z[j]) for j in range(3) if j != a)
        first = x[1] * (weights[0] * y[1] + weights[1] * y[3] + weights[3] * y[5])
        second = x[3] * (weights[2] * y[1] + weights[4] * y[3])
        moved = z[a] + sign * (first + second + x[5] * (weights[5] * y[1]))
        return [moved if j == a else z[j] for j in range(3)]

    def step(z: tuple[Any, ...], _: None) -> tuple[Any, Any]:
        parts = [r * z[j] * (1 / s) for j, (r, s) in enumerate(zip(rho, scale, strict=True))]
        sweeps = [(a, weights[a]) for weights in coefficients for a in range(3)]
        for a, weights in reversed(sweeps):
            parts = shear(parts, a, weights, -1.0)
        parts = [r * x for r, x in zip(rho, parts, strict=True)]
        for a, weights in sweeps:
            parts = shear(parts, a, weights, 1.0)
        z = tuple(x * s for x, s in zip(parts, scale, strict=True))
        return z, z

    return jax.jit(lambda z: jax.lax.scan(step, z, None, length=steps)[1])


def in_jax(model: Model, steps: int) -> Callable[[np.ndarray], tuple[Any, ...]]:
    """The same from arrays (trajectory, 3)."""
    import jax

    run = scanned(model, steps)
    return lambda initial: jax.block_until_ready(run(tuple(jax.numpy.asarray(initial.T))))


def as_states(found: Any) -> np.ndarray:
    """What a candidate gives, as (trajectory, step, 3)."""
    if isinstance(found, tuple):
        return np.stack([np.asarray(component).T for component in found], axis=-1)
    return np.asarray(found)


def taylor(trajectories: int, steps: int) -> Callable[[np.ndarray], np.ndarray]:
    """Heyoka's Taylor integrator, compiled for the system, as many trajectories as fit a vector."""
    import heyoka

    x, y, z = heyoka.make_vars("x", "y", "z")
    equations = [(x, 0.5 * y * z), (y, -z * x), (z, 0.5 * x * y)]
    lanes = min(trajectories, heyoka.recommended_simd_size())
    times = np.ascontiguousarray(np.repeat(STEP * np.arange(steps + 1)[:, None], lanes, axis=1))
    if lanes == 1:
        alone = heyoka.taylor_adaptive(equations, [0.0, 0.0, 1.0], tol=TOLERANCE)
    else:
        start = np.ones((3, lanes))
        several = heyoka.taylor_adaptive_batch(equations, start, tol=TOLERANCE)

    def run(initial: np.ndarray) -> np.ndarray:
        states = np.empty((len(initial), steps, 3))
        for first in range(0, len(initial), lanes):
            if lanes == 1:
                alone.time, alone.state[:] = 0.0, initial[first]
                states[first] = alone.propagate_grid(times[:, 0])[-1][1:]
                continue
            several.set_time(0.0)
            several.state[:] = initial[first : first + lanes].T
            found = several.propagate_grid(times)[1]
            states[first : first + lanes] = found[1:].transpose(2, 0, 1)
        return states

    return run


def candidates(model: Model, initial: np.ndarray, steps: int) -> dict[str, Callable[[], Any]]:
    """Steps by each, see ``as_states``."""
    machine = CompiledModel(model, len(initial))
    found: dict[str, Callable[[], Any]] = {
        "compiled": lambda: machine.predict(initial[:, None], steps)[0]
    }
    if find_spec("jax"):
        scan = in_jax(model, steps)
        found["jax.lax.scan"] = lambda: scan(initial)
    if find_spec("heyoka"):
        integrate = taylor(len(initial), steps)
        found["heyoka"] = lambda: integrate(initial)
    few = min(steps, 50)
    found["eager"] = lambda: eager(model, initial, few)
    system, method = vp.load_system("rigid-body"), find_method("dormand-prince-8")
    compiled = CompiledMethod(method, system, initial, STEP)
    found[method.name] = lambda: next(compiled.advance(initial[:, None], steps, chunk=steps))
    return found


@benchmark(seconds=6.0)
@network_options(train_seconds=10.0)
def main(
    seconds: float, threads: int, quick: bool, network: Path | None, train_seconds: float
) -> None:
    """Compare the cost of a step of polynomials, compiled, with its peers."""
    if quick:
        seconds, train_seconds = 0.0, 1.0
    sizes: dict[str, Any] = {"functions": "polynomial", "depth": 2, "degree": 6}
    model, system = trained(network, train_seconds, **sizes), vp.load_system("rigid-body")
    rows, notes = [], list[str]()
    for trajectories, steps in SIZES.items():
        if quick:
            trajectories, steps = min(trajectories, 16), 5
        initial = system.sample_initial(trajectories, np.random.default_rng(0))
        several = candidates(model, initial, steps)
        spent = time_together(several, seconds)
        each = {}
        expected = eager(model, initial[:CHECKED], CHECKED)
        for name, run in several.items():
            states = as_states(run())
            each[name] = spent[name] / states[..., 0].size
            difference = np.abs(states[:CHECKED, :CHECKED] - expected[:, : states.shape[1]]).max()
            if name in ("compiled", "jax.lax.scan") and not difference < 1e-13:
                raise click.ClickException(f"{name} differs from eager by {difference:.1e}")
        row = [f"{trajectories:,}", *map(duration, each.values())]
        rows.append([*row, *(ratio(value, each["compiled"]) for value in list(each.values())[1:])])
    exact = solve_reference(system, initial[:CHECKED], np.array([0.0, STEP])).states[:, 1:]
    names = [name for name in several if name != "compiled"]
    for name, run in several.items():
        error = np.abs(as_states(run())[:CHECKED, :1] - exact).max()
        notes.append(f"{name}: largest error of a step {error:.1e}")
    for peer in ("jax", "heyoka"):
        if not find_spec(peer):
            notes.append(
                f"{peer} is left out: it is not installed (pip install vpintegrator[bench])"
            )
    columns = ["trajectories", "compiled", *names, *(f"by {name}" for name in names)]
    parameters = sum(p.numel() for p in model.parameters())
    title = f"Rigid body, a step of 0.2 by polynomials, {parameters} parameters"
    print_table(title, columns, rows, [*notes, machine()])


if __name__ == "__main__":
    main()
