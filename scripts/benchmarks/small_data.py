"""Few and noisy pairs: errors of the default model of vp-train on fresh states.

    python scripts/benchmarks/small_data.py             # --case NAME, --seed 1

Every case makes its data with a fixed seed, imports them with ``vp-gen``, and trains with
``vp-train`` without options. Errors are mean squared errors of the images of fresh states.
"""

from __future__ import annotations

import contextlib
import io
import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import click
import numpy as np
from harness import benchmark, print_table
from scipy.integrate import solve_ivp

import vpintegrator as vp
from vpintegrator.cli.gen import main as vp_gen
from vpintegrator.cli.train import main as vp_train

FRESH = 1_000


@dataclass(frozen=True)
class Pairs:
    """Pairs to learn from, fresh pairs, and the mean squared error of the true map on these.

    Attributes
    ----------
    before, after : (pair, component)
        States to learn from.
    fresh, images : (pair, component)
        States that the model has not seen.
    floor
        Error that noise alone causes.
    """

    before: np.ndarray
    after: np.ndarray
    fresh: np.ndarray
    images: np.ndarray
    floor: float = 0.0


def henon_heiles(z: np.ndarray) -> np.ndarray:
    x, y, px, py = z
    return np.stack([px, py, -x - 2 * x * y, -y - x * x + y * y])


def runge_kutta(
    field: Callable[[np.ndarray], np.ndarray], z: np.ndarray, step: float
) -> np.ndarray:
    a = field(z)
    b = field(z + step / 2 * a)
    c = field(z + step / 2 * b)
    return np.asarray(z + step / 6 * (a + 2 * b + 2 * c + field(z + step * c)))


def on_section(energy: float, points: np.ndarray) -> np.ndarray:
    """Return states (component, point) of points (y, py) on the section x = 0, px > 0."""
    y, py = points.T
    px = np.sqrt(2 * energy - py**2 - y**2 + 2 * y**3 / 3)
    return np.stack([np.zeros_like(y), y, px, py])


def late(energy: float, points: np.ndarray, time: float = 0.5e-3) -> np.ndarray:
    """Return the points (y, py) a time after their crossing."""
    return runge_kutta(henon_heiles, on_section(energy, points), time)[1::2].T


def section_pairs(
    energy: float, start: np.ndarray, crossings: int, is_late: bool = True
) -> np.ndarray:
    """Return crossings (crossing, trajectory, 2) of x = 0, px > 0, as states of a grid in time.

    The first state after a crossing is taken as it is, so it is late by up to a step of 1e-3,
    or brought back to the section by the time that x tells.
    """
    z = on_section(energy, start)
    y = z[1]
    z = runge_kutta(henon_heiles, z, 0.5e-3)  # crossings lie anywhere within a step
    found = np.full((crossings, len(y), 2), np.nan)
    seen = np.zeros(len(y), dtype=int)
    while (seen < crossings).any():
        new = runge_kutta(henon_heiles, z, 1e-3)
        crossed = np.flatnonzero((z[0] < 0) & (new[0] >= 0) & (seen < crossings))
        states = new[:, crossed]
        if not is_late:
            for _ in range(3):  # Newton's method
                states = runge_kutta(henon_heiles, states, -states[0] / states[2])
        found[seen[crossed], crossed] = states[1::2].T
        seen[crossed] += 1
        z = new
    return found


def section(seed: int = 0) -> Pairs:
    """300 pairs of crossings of the Henon-Heiles system at energy 0.1."""
    rng = np.random.default_rng(seed)
    count, energy = 300, 0.1
    radius, angle = 0.2 * np.sqrt(rng.uniform(size=count + FRESH)), rng.uniform(0, 7, count + FRESH)
    start = radius[:, None] * np.stack([np.cos(angle), np.sin(angle)], 1)
    before, after = section_pairs(energy, start, 2)
    # the true map of the noisy states; they and their images are half a step late on average
    crossed = late(energy, before[count:], -0.5e-3)
    images = late(energy, section_pairs(energy, crossed, 1, False)[0])
    floor = float(np.mean((images - after[count:]) ** 2))
    return Pairs(before[:count], after[:count], before[count:], after[count:], floor)


def accurate(
    field: Callable[[float, np.ndarray], np.ndarray], z: np.ndarray, times: np.ndarray
) -> np.ndarray:
    """Return states (time, trajectory, component) of a field of states (component, trajectory)."""
    shape = z.T.shape
    solution = solve_ivp(
        lambda t, y: field(t, y.reshape(shape)).ravel(),
        (times[0], times[-1]),
        z.T.ravel(),
        method="DOP853",
        t_eval=times,
        rtol=1e-13,
        atol=1e-14,
    )
    return np.asarray(solution.y.T.reshape(len(times), *shape).transpose(0, 2, 1))


def period_map(seed: int = 0) -> Pairs:
    """100 pairs of the period map of a perturbed pendulum."""
    e = 0.5

    def field(t: float, z: np.ndarray) -> np.ndarray:
        a = e * (0.3 * np.sin(2 * t) + 0.7 * np.sin(3 * t))
        return np.stack([z[0] * a + z[1], -z[1] * a - 0.25 * np.sin(z[0])])

    start = np.random.default_rng(seed).uniform(-0.9, 0.9, (100 + FRESH, 2))
    images = accurate(field, start, np.array([0, 2 * np.pi]))[-1]
    return Pairs(start[:100], images[:100], start[100:], images[100:])


def advection(seed: int = 0) -> Pairs:
    """60 pairs of profiles of 35 points on a ring, moved by 0.3 of a distance of points."""
    rng = np.random.default_rng(seed)
    start = rng.normal(size=(60 + FRESH, 35))
    waves = np.fft.rfftfreq(35, 1 / 35)
    images = np.fft.irfft(np.fft.rfft(start) * np.exp(-2j * np.pi * 0.3 * waves / 35), 35)
    return Pairs(start[:60], images[:60], start[60:], images[60:])


def rigid_body(seed: int = 0) -> Pairs:
    """300 pairs of a free rigid body, step 0.1."""

    def field(t: float, z: np.ndarray) -> np.ndarray:
        return np.stack([z[1] * z[2] / 2, -z[2] * z[0], z[0] * z[1] / 2]) * 2

    start = np.random.default_rng(seed).normal(size=(300 + FRESH, 3))
    start /= np.linalg.norm(start, axis=1, keepdims=True)
    images = accurate(field, start, np.array([0, 0.1]))[-1]
    return Pairs(start[:300], images[:300], start[300:], images[300:])


def charged_particle(seed: int = 0) -> Pairs:
    """200 pairs of one orbit of a charged particle in a plane, step 0.2, and the next 100.

    The seed does not matter.
    """

    def field(t: float, z: np.ndarray) -> np.ndarray:
        x, y, u, v = z
        distance = np.sqrt(x * x + y * y)
        pull = 1 / (100 * distance**3)
        return np.stack([u, v, pull * x + distance * v, pull * y - distance * u])

    start = np.array([[0.0, 1.0, 0.1, 0.01]])
    orbit = accurate(field, start, 0.2 * np.arange(302))[:, 0]
    return Pairs(orbit[:200], orbit[1:201], orbit[200:300], orbit[201:301])


@dataclass(frozen=True)
class Case:
    """Data of a case, its components, the errors that are asked for, and options of vp-gen."""

    pairs: Callable[[int], Pairs]
    components: str
    structure: str | None
    step: float
    asked: str
    options: tuple[str, ...] = ()


CASES = {
    "Hénon–Heiles section": Case(section, "y,py", None, 1, "1.5 times the floor, 5 s"),
    "period map": Case(period_map, "q,p", None, 2 * np.pi, "median 1e-9, mean 1e-7"),
    "advection": Case(
        advection, ",".join(f"u{k}" for k in range(35)), "volume-preserving", 1, "1e-12 relative"
    ),
    "rigid body": Case(rigid_body, "z1,z2,z3", "volume-preserving", 0.1, "1e-12 relative, 5 s"),
    "charged particle": Case(
        charged_particle,
        "x,y,u,v",
        "volume-preserving",
        0.2,
        "1e-10 mean square",
        ("--fractions", "1,0,0"),  # the next part of the orbit is the test
    ),
}


def trained(case: Case, pairs: Pairs, folder: Path) -> tuple[vp.models.Integrator, float]:
    """Return the default model of the pairs, and the seconds of vp-train."""
    np.savez(folder / "pairs.npz", before=pairs.before, after=pairs.after)
    data, model = folder / "pairs.h5", folder / "model.safetensors"
    arguments = ["--from", folder / "pairs.npz", "--pairs", "before,after", "-o", data]
    arguments += ["--columns", case.components, "--step", case.step, "--overwrite", *case.options]
    if case.structure:
        arguments += ["--structure", case.structure]
    with contextlib.redirect_stdout(io.StringIO()):
        vp_gen.main([*map(str, arguments)], standalone_mode=False)
    begin = time.perf_counter()
    vp_train.main([str(data), "-o", str(model), "--overwrite", "-v"], standalone_mode=False)
    return vp.load(model), time.perf_counter() - begin


@benchmark()
@click.option("--case", "only", help="A part of the name of the cases to run.")
@click.option("--seed", default=0, show_default=True, help="Seed of the data.")
def main(seconds: float, threads: int, quick: bool, only: str | None, seed: int) -> None:
    """Print errors of the default models of few pairs."""
    rows = []
    for name, case in CASES.items():
        if only and not re.search(only, name):
            continue
        pairs = case.pairs(seed)
        with TemporaryDirectory() as folder:
            model, used = trained(case, pairs, Path(folder))
        images = vp.rollout(model, pairs.fresh[:, None], 1)[:, -1]
        squares = np.asarray((images - pairs.images) ** 2).mean(1)
        spread = float(np.sqrt(pairs.images.var(0).mean()))
        rows.append(
            [
                name,
                model.name,
                f"{squares.mean():.1e}",
                f"{np.median(squares):.1e}",
                f"{np.sqrt(squares.mean()) / spread:.1e}",
                f"{pairs.floor:.1e}" if pairs.floor else "-",
                f"{used:.1f} s",
                case.asked,
            ]
        )
    columns = ["data", "model", "mean square", "median", "relative", "floor", "time", "asked"]
    print_table("Few pairs", columns, rows)


if __name__ == "__main__":
    main()
