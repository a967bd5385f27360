"""Coverage of the bands of models of noisy states, and their estimates of the noise.

    python scripts/benchmarks/error_bars.py             # --datasets 200, --case, --seed 0

Each data set is simulated with new noise and new initial states. The band is that from 5 % to 95 %
of 64 draws from the posterior, along eight trajectories of 30 steps that are not in the data.
"""

from __future__ import annotations

import tempfile
import time
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
import numpy as np
import torch
from harness import benchmark, print_table

import vpintegrator as vp
from vpintegrator.rollout.diagnostics.bands import quantiles
from vpintegrator.training.linear import fit_linear
from vpintegrator.training.posterior import posterior_of_pairs
from vpintegrator.training.search.few_pairs import find_few_pairs
from vpintegrator.training.search.options import SearchOptions
from vpintegrator.training.training_data import TrainingData

STEP, STEPS, STARTS, DRAWS = 0.2, 30, 8, 64
SYSTEMS = Path(__file__).parent / "systems"
PRODUCT = str(SYSTEMS / "product-oscillator.toml")
KICKED = str(SYSTEMS / "kicked-oscillator.toml")


@dataclass(frozen=True)
class Case:
    """A system, its model, the noise, and the data: pairs, or orbits of some steps.

    Without a degree the search for few pairs finds it.
    """

    name: str
    system: str
    model: str
    degree: int
    noise: float
    count: int
    steps: int = 0

    def fitted(self, seed: int) -> vp.models.Integrator:
        """Return a model of a data set."""
        if self.steps:
            return self.of_orbits(seed)
        return self.of_pairs(seed) if self.degree else self.of_few_pairs(seed)

    @property
    def step(self) -> float:
        """Time of a step, 1 of a map."""
        return STEP if self.degree else 1.0

    def pairs(self, seed: int) -> tuple[np.ndarray, np.ndarray]:
        """Return pairs with noise on the images."""
        rng = np.random.default_rng(seed)
        system = vp.load_system(self.system)
        first = system.sample_initial(self.count, rng)
        image = vp.solve(system, first, np.array([0.0, self.step]))[:, 1]
        return first, image + self.noise * rng.normal(size=image.shape)

    def of_pairs(self, seed: int) -> vp.models.Integrator:
        """Return a generating function of pairs."""
        z, Z = map(torch.from_numpy, self.pairs(seed))
        model = vp.models.build(vp.load_system(self.system), self.model, degree=self.degree)
        model.set_normalisation(z.mean(0), z.std(0))
        model.adapt(torch.cat([z, Z]))
        fit_linear(model, z, Z)
        model.posterior = posterior_of_pairs(model, z, Z)
        return model

    def of_few_pairs(self, seed: int) -> vp.models.Integrator:
        """Return couplings of pairs, of the size that the search finds."""
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "data.h5"
            data = vp.import_pairs(
                *self.pairs(seed), path, components=["q", "p"], fractions=(1, 0, 0)
            )

            def make(arguments: dict[str, Any]) -> vp.models.Integrator:
                return vp.models.build(data.system, self.model, **arguments)

            found: vp.models.Integrator = find_few_pairs(
                make, TrainingData(data), SearchOptions()
            ).model
        return found

    def of_orbits(self, seed: int) -> vp.models.Integrator:
        """Return a model of orbits with noise on all states, fitted to them."""
        with tempfile.TemporaryDirectory() as folder:
            data = vp.generate(
                self.system,
                Path(folder) / "data.h5",
                count=self.count,
                steps=self.steps,
                step=STEP,
                seed=seed,
                observation={"noise": self.noise},
            )
            model = vp.models.build(data.system, self.model, degree=self.degree)
            vp.train(model, data, optimizer="linear")
            vp.training.fit_orbits(model, data, self.steps)
        return model


CASES = (
    Case("H = (q² + 1)(p² + 1)/2, 200 pairs", PRODUCT, "sgf", 8, 1e-3, 200),
    Case("H = (q² + 1)(p² + 1)/2, 200 pairs", PRODUCT, "sgf", 8, 1e-2, 200),
    Case("pendulum, 50 orbits of 5 steps", "pendulum", "sgf", 6, 1e-2, 50, 5),
    Case("rigid body, 60 orbits of 3 steps", "rigid-body", "vpgf", 4, 1e-2, 60, 3),
    Case("kicked oscillator, couplings of 200 pairs", KICKED, "spff", 0, 1e-2, 200),
)


@benchmark(seconds=540.0)
@click.option("--datasets", default=200, show_default=True)
@click.option("--case", "cases", type=click.IntRange(1, len(CASES)), multiple=True)
@click.option("--seed", default=0, show_default=True)
def main(
    seconds: float, threads: int, quick: bool, datasets: int, cases: tuple[int, ...], seed: int
) -> None:
    """Print coverage, width, error, and the ratio of estimated to true noise."""
    warnings.simplefilter("ignore")
    chosen = [CASES[k - 1] for k in cases] or CASES
    rows = [measured(case, 4 if quick else datasets, seed, seconds) for case in chosen]
    columns = [
        "system",
        "noise",
        "data sets",
        "coverage, steps 1 to 10",
        "11 to 30",
        "width, step 30",
        "error, step 30",
        "estimated over true noise",
    ]
    print_table("Error bars", columns, rows)


def measured(case: Case, datasets: int, seed: int, seconds: float) -> list[str]:
    """Return a row: means over data sets, as many as the seconds allow, with standard errors."""
    begin = time.perf_counter()
    system = vp.load_system(case.system)
    inside, width, error, ratio = [], [], [], []
    for number in range(datasets):
        own = 10_000 * seed + number
        starts = system.sample_initial(STARTS, np.random.default_rng((1, own)))
        truth = vp.solve(system, starts, case.step * np.arange(STEPS + 1))
        model = case.fitted(own)
        states = vp.rollout(model, starts, STEPS, compiled=False)
        low, high = quantiles(vp.rollout(model, starts, STEPS, samples=DRAWS, compiled=False))
        inside.append(((low <= truth) & (truth <= high))[:, 1:].mean((0, 2)))
        width.append(np.median((high - low)[:, -1]))
        error.append(np.nanmedian(np.abs(states - truth)[:, -1]))
        ratio.append(np.mean(model.noise / case.noise))
        if number >= 3 and time.perf_counter() - begin > seconds:
            break
    short, long = (np.array(inside)[:, part].mean(1) for part in (slice(0, 10), slice(10, None)))
    return [
        case.name,
        f"{case.noise:g}",
        str(len(ratio)),
        *(f"{each.mean():.3f} ± {each.std() / len(each) ** 0.5:.3f}" for each in (short, long)),
        f"{np.mean(width):.1e}",
        f"{np.nanmean(error):.1e}",
        f"{np.mean(ratio):.3f} ± {np.std(ratio) / len(ratio) ** 0.5:.3f}",
    ]


if __name__ == "__main__":
    main()
