"""Many components, few pairs: linear maps and rings, beside couplings of whole states.

    python scripts/benchmarks/rings.py --seconds 60

Each case has 60 pairs of states with fixed seeds: 42 for training, 9 for validation. Errors are
those on 200 unseen pairs, relative to the spread of the images. ``vp-train`` is the default;
``couplings`` is the search among couplings alone, without the declared ring: the default of version
0.0.1. The same seconds limit both.
"""

from __future__ import annotations

import tempfile
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
import numpy as np
import torch
from harness import benchmark, print_table
from scipy.integrate import solve_ivp
from scipy.linalg import expm

import vpintegrator as vp
from vpintegrator.cli.candidates import ModelOptions, untrained
from vpintegrator.errors import InputError
from vpintegrator.training.history import Budget
from vpintegrator.training.output import Files
from vpintegrator.training.search.options import SearchOptions

PAIRS, UNSEEN = 60, 200
Map = Callable[[np.ndarray], np.ndarray]
Draw = Callable[[np.random.Generator, int], np.ndarray]


def bumps(rng: np.random.Generator, count: int, sites: int = 35) -> np.ndarray:
    """Periodic Gaussian profiles (state, site) of random places and widths."""
    x = np.arange(sites) / sites
    centre, width = rng.random((count, 1)), rng.uniform(0.05, 0.15, (count, 1))
    return sum(np.exp(-(((x - centre + turn) / width) ** 2) / 2) for turn in (-1, 0, 1))  # type: ignore[return-value]


def advected(u: np.ndarray) -> np.ndarray:
    """The exact solution of u_t + c u_x = 0 after 0.4 cells, by Fourier series."""
    sites = u.shape[1]
    wave = np.fft.fftfreq(sites) * sites
    return np.fft.ifft(np.fft.fft(u) * np.exp(-0.8j * np.pi * wave / sites)).real


def crank_nicolson(u: np.ndarray) -> np.ndarray:
    """A step of Crank and Nicolson with central differences, Courant number 0.4."""
    one = np.eye(u.shape[1])
    D = 0.1 * (np.roll(one, 1, 1) - np.roll(one, -1, 1))
    return u @ np.linalg.solve(one - D, one + D).T


def oscillators(z: np.ndarray) -> np.ndarray:
    """A chain of oscillators between walls, the exact solution after 0.3."""
    n = z.shape[1] // 2
    springs = 2 * np.eye(n) - np.eye(n, k=1) - np.eye(n, k=-1)
    zero = np.zeros((n, n))
    return np.asarray(z @ expm(0.3 * np.block([[zero, np.eye(n)], [-springs, zero]])).T)


def solved(field: Map, step: float) -> Map:
    """The solution of z' = field(z) after a step."""

    def advance(states: np.ndarray) -> np.ndarray:
        shape = states.shape
        found = solve_ivp(
            lambda t, y: field(y.reshape(shape)).ravel(),
            (0, step),
            states.ravel(),
            method="DOP853",
            rtol=1e-13,
            atol=1e-13,
        )
        return np.asarray(found.y[:, -1].reshape(shape))

    return advance


def particles(spring: Map) -> Map:
    """The field of particles on a ring whose springs pull by a function of their lengths."""

    def field(z: np.ndarray) -> np.ndarray:
        q, p = np.split(z, 2, axis=1)
        pull = spring(np.roll(q, -1, 1) - q)
        return np.concatenate([p, pull - np.roll(pull, 1, 1)], axis=1)

    return field


def lorenz(u: np.ndarray) -> np.ndarray:
    """The equations of Lorenz (1996) without forcing and damping; the divergence is zero."""
    return (np.roll(u, -1, 1) - np.roll(u, 2, 1)) * np.roll(u, 1, 1)


def normal(dim: int, size: float = 1.0) -> Draw:
    return lambda rng, count: size * rng.normal(size=(count, dim))


@dataclass(frozen=True)
class Case:
    """States, the map between them, and what is declared of them."""

    name: str
    draw: Draw
    advance: Map
    structure: str = "volume-preserving"
    topology: str | None = None


CASES = (
    Case("advection, 35 sites", bumps, advected),
    Case("advection by Crank-Nicolson, 35 sites", bumps, crank_nicolson),
    Case("chain of 10 oscillators", normal(20), oscillators, "symplectic"),
    Case(
        "Fermi-Pasta-Ulam ring, 16",
        normal(32, 0.5),
        solved(particles(lambda d: d + 0.25 * d**2 + 0.3 * d**3), 0.1),
        "symplectic",
        "ring",
    ),
    Case(
        "Toda ring, 16",
        normal(32, 0.5),
        solved(particles(lambda d: 1 - np.exp(-d)), 0.1),
        "symplectic",
        "ring",
    ),
    Case("Lorenz 1996 ring, 36", normal(36), solved(lorenz, 0.05), topology="ring"),
)


def trained(data: vp.data.Dataset, seconds: float, alone: bool) -> tuple[Any, float]:
    """Return the model of vp-train, or of couplings alone, and the seconds that it takes."""
    start = time.perf_counter()
    options = SearchOptions(Budget(seconds=seconds))
    candidate = untrained(data, ModelOptions(), options)
    candidate.choose(options, None)
    if alone:
        candidate.linear = candidate.solved = candidate.composed = None
    candidate.search(data, options)
    files = Files(output=Path(data.path).with_suffix(".safetensors"), overwrite=True)
    candidate.train(data, options, files)
    return candidate.trained, time.perf_counter() - start


def measured(case: Case, seconds: float, folder: Path, alone: bool) -> list[str]:
    """Return model, parameters, error and seconds of a case."""
    rng = np.random.default_rng(0)
    before, unseen = case.draw(rng, PAIRS), case.draw(rng, UNSEEN)
    topology = None if alone else case.topology
    path = folder / "pairs.h5"
    options = {"structure": case.structure, "topology": topology, "overwrite": True}
    data = vp.import_pairs(before, case.advance(before), path, **options)
    try:
        model, used = trained(data, seconds, alone)
    except InputError as error:
        return ["-", "-", str(error)[:40], "-"]
    with torch.no_grad():
        images = model(torch.from_numpy(unseen)[:, None])[:, 0].numpy()
    after = case.advance(unseen)
    error = np.linalg.norm(images - after) / np.linalg.norm(after - after.mean(0))
    count = sum(p.numel() for p in model.parameters())
    return [model.name, f"{count:,}", f"{error:.1e}", f"{used:.0f}"]


@benchmark(seconds=60.0)
@click.option("--cases", help="Parts of names, with commas between.")
def main(seconds: float, threads: int, quick: bool, cases: str | None) -> None:
    """Print the errors and seconds of both searches."""
    rows = []
    limit = min(seconds, 5.0) if quick else seconds
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for case in CASES:
            if cases and not any(part.strip() in case.name for part in cases.split(",")):
                continue
            for alone in (False, True):
                way = "couplings" if alone else "vp-train"
                rows.append([case.name, way, *measured(case, limit, Path(folder), alone)])
                print(*rows[-1], sep=", ", flush=True)
    columns = ["60 pairs of", "search", "model", "parameters", "error", "seconds"]
    print_table("Rings from few pairs", columns, rows)


if __name__ == "__main__":
    main()
