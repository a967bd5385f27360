"""Bias by noise on the states before a step: least squares, and orbits with unknown first states.

    python scripts/benchmarks/input_noise.py            # --datasets 50, --case, --seed 0

Each data set has new initial states and new noise, of the same size on all states. The motion of a
model is its displacement of states, projected on the true displacement and divided by it: 1 for the
true map. Its mean over data sets less 1 is the bias, its standard deviation the scatter. Errors are
those of images of exact states, beside exact images, and those of images of noisy states, beside
noisy images and in units of the noise.
"""

from __future__ import annotations

import math
import tempfile
import time
import warnings
from dataclasses import dataclass
from pathlib import Path

import click
import numpy as np
import torch
from harness import benchmark, print_table

import vpintegrator as vp

TESTED = 2_000  # states
PRODUCT = str(Path(__file__).parent / "systems" / "product-oscillator.toml")
ESTIMATORS = {"least squares": False, "orbits": True}


@dataclass(frozen=True)
class Case:
    """A system, its model, and the data: trajectories of some steps.

    First states are uniform with a spread in all components, or those of the catalogue. Degree 0 is
    the one that the training chooses.
    """

    name: str
    system: str
    model: str
    degree: int
    spread: float
    step: float
    count: int
    steps: int

    def first(self, count: int, rng: np.random.Generator) -> np.ndarray:
        """Return first states (state, dim)."""
        system = vp.load_system(self.system)
        if not self.spread:
            return system.sample_initial(count, rng)
        return self.spread * math.sqrt(3) * rng.uniform(-1, 1, size=(count, system.dim))

    def measured(self, path: Path, noise: float, seed: int) -> vp.data.Dataset:
        """Return a data set."""
        rng = np.random.default_rng(seed)
        times = self.step * np.arange(self.steps + 1)
        states = vp.solve(vp.load_system(self.system), self.first(self.count, rng), times)
        states += noise * rng.normal(size=states.shape)
        return vp.import_dataset(states, path, step=self.step, overwrite=True)


CASES = (
    Case("harmonic oscillator, 300 pairs", "harmonic-oscillator", "sgf", 2, 0.1, 1.0, 300, 1),
    Case("pendulum, 300 pairs", "pendulum", "sgf", 4, 0.2, 1.0, 300, 1),
    Case("pendulum, 60 orbits of 10 steps", "pendulum", "sgf", 4, 0.2, 1.0, 60, 10),
    Case("H = (q² + 1)(p² + 1)/2, 300 pairs", PRODUCT, "sgf", 4, 0.2, 1.0, 300, 1),
    Case("the same, 60 orbits of 10 steps", PRODUCT, "sgf", 4, 0.2, 1.0, 60, 10),
    Case("rigid body, 300 pairs", "rigid-body", "vpgf", 4, 0.0, 0.5, 300, 1),
    Case("pendulum, 300 pairs, any degree", "pendulum", "sgf", 0, 0.0, 0.2, 300, 1),
    Case("rigid body, 300 pairs, any degree", "rigid-body", "vpgf", 0, 0.0, 0.2, 300, 1),
    Case("Lotka–Volterra, 300 pairs, any degree", "lotka-volterra-3d", "vpgf", 0, 0.0, 0.2, 300, 1),
    Case("pendulum, 100 orbits of 40 steps", "pendulum", "sgf", 0, 0.0, 0.2, 100, 40),
    Case("Hénon–Heiles, 100 orbits of 40 steps", "henon-heiles", "sgf", 0, 0.0, 0.2, 100, 40),
    Case("rigid body, 100 orbits of 40 steps", "rigid-body", "vpgf", 0, 0.0, 0.2, 100, 40),
    Case("Lotka–Volterra, 100 orbits", "lotka-volterra-3d", "vpgf", 0, 0.0, 0.2, 100, 40),
)


@benchmark(seconds=540.0)
@click.option("--datasets", default=50, show_default=True)
@click.option("--case", "cases", type=click.IntRange(1, len(CASES)), multiple=True)
@click.option("--noise", "noises", type=float, multiple=True, default=(1e-2, 1e-3))
@click.option("--seed", default=0, show_default=True)
def main(
    seconds: float,
    threads: int,
    quick: bool,
    datasets: int,
    cases: tuple[int, ...],
    noises: tuple[float, ...],
    seed: int,
) -> None:
    """Print bias and scatter of the motion, errors of the map, and the estimated noise."""
    warnings.simplefilter("ignore")
    columns = [
        "data",
        "noise",
        "data sets",
        "fit",
        "bias of the motion",
        "scatter",
        "error of the map",
        "beside noisy images",
        "estimated over true noise",
        "seconds",
    ]
    rows = []
    for case in [CASES[k - 1] for k in cases] or CASES:
        for noise in noises:
            rows += measured(case, noise, 3 if quick else datasets, seed, seconds)
    print_table("Noise on the states before a step", columns, rows)
    harmonic = CASES[0]
    for noise in noises:
        print(f"harmonic oscillator, noise {noise:g}: bias {attenuation(harmonic, noise):+.2e}")


def measured(case: Case, noise: float, datasets: int, seed: int, seconds: float) -> list[list[str]]:
    """Return a row for each estimator, over as many data sets as the seconds allow."""
    begin, system = time.perf_counter(), vp.load_system(case.system)
    rng = np.random.default_rng((1, seed))
    starts = case.first(TESTED, rng)
    motion = vp.solve(system, starts, np.array([0.0, case.step]))[:, 1] - starts
    noisy, image_noise = (
        starts + noise * rng.normal(size=starts.shape),
        rng.normal(size=starts.shape),
    )
    sizes = {"degree": case.degree} if case.degree else {}
    found = {name: list[tuple[float, ...]]() for name in ESTIMATORS}

    def make(arguments: dict[str, int]) -> vp.models.Integrator:
        return vp.models.build(system, case.model, **arguments)

    for number in range(datasets):
        with tempfile.TemporaryDirectory() as folder:
            data = case.measured(Path(folder) / "data.h5", noise, 10_000 * seed + number)
            for name, refine in ESTIMATORS.items():
                start = time.process_time()
                model = vp.training.find_generating_function(
                    make, data, refine=refine, sizes=sizes
                ).model
                spent = time.process_time() - start
                own = images(model, starts) - starts
                beside = (images(model, noisy) - starts - motion) / noise - image_noise
                share = (own * motion).sum() / (motion**2).sum() - 1
                error = np.sqrt(np.mean((own - motion) ** 2))
                ratio = math.nan if model.noise is None else float(np.mean(model.noise)) / noise
                prediction = np.sqrt(np.mean(beside**2))
                found[name].append((share, error, prediction, ratio, spent))
        if number >= 2 and time.perf_counter() - begin > seconds:
            break
    return [_row(case, noise, name, np.array(values)) for name, values in found.items()]


def images(model: vp.models.Integrator, states: np.ndarray) -> np.ndarray:
    """Return images of states (state, dim)."""
    with torch.no_grad():
        return model(torch.from_numpy(states)[:, None])[:, 0].numpy()


def _row(case: Case, noise: float, name: str, values: np.ndarray) -> list[str]:
    share, error, prediction, ratio, spent = values.T
    count = len(share)
    return [
        case.name,
        f"{noise:g}",
        str(count),
        name,
        f"{share.mean():+.1e} ± {share.std(ddof=1) / count**0.5:.1e}",
        f"{share.std(ddof=1):.1e}",
        f"{np.sqrt(np.mean(error**2)):.1e}",
        f"{np.sqrt(np.mean(prediction**2)):.4f}",
        f"{ratio.mean():.3f} ± {ratio.std(ddof=1) / count**0.5:.3f}",
        f"{spent.mean():.1f}",
    ]


def attenuation(case: Case, noise: float) -> float:
    """Return the bias of the motion that theory gives for least squares of a rotation.

    The equation is that of the midpoint, whose variance v gets half of the noise's: the slope
    2 tan(angle / 2) is multiplied by v / (v + noise² / 2).
    """
    middle = (case.spread * math.cos(case.step / 2)) ** 2
    slope = math.tan(case.step / 2)
    angle = 2 * math.atan(slope * middle / (middle + noise**2 / 2))
    first, own = np.exp(1j * np.array([case.step, angle])) - 1
    return float((own * first.conjugate()).real / abs(first) ** 2 - 1)


if __name__ == "__main__":
    main()
