"""Record the digits of trainings, methods and files, and compare a later run with them.

    python scripts/benchmarks/record.py run -o after.json
    python scripts/benchmarks/record.py run -o some.json --only pairs,classical
    python scripts/benchmarks/record.py run -o rows.json --rows "kepler; toda, from states"
    python scripts/benchmarks/record.py compare scripts/benchmarks/record.json after.json

``scripts/benchmarks/record.json`` is the committed record. It is written once, on a quiet machine:

    python scripts/benchmarks/record.py run -o scripts/benchmarks/record.json

Later runs are compared with that file, and only rows that are named with a reason are written anew.
``compare`` prints the old and the new value of every row and a verdict, with ``--broken`` only rows
whose rule is broken; it exits with code 1 where there are some. The rules are the table ``RULES``.
Of a record of named rows only these are compared.

Everything goes through the public functions, with fixed seeds. Iterations end
trainings, and searches end by themselves: a budget of seconds is only a guard. Two processes work
side by side; machine code is timed when they are done. A full run takes at most ten minutes.
"""

from __future__ import annotations

import os

os.environ["OMP_NUM_THREADS"] = "1"  # read once, when torch and its peers are imported

import ctypes
import itertools
import json
import math
import multiprocessing
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import click
import h5py
import numpy as np
import torch
from scipy.linalg import expm

import vpintegrator as vp
from vpintegrator.errors import InputError
from vpintegrator.training import KINDS, Kind, Network, TrainingOptions

Row = dict[str, Any]  # quantity to its value

STEPS, TRAJECTORIES, TANGENT_STEPS = 300, 12, 100
GUARD = 600.0  # seconds of a search that does not end by itself


# --- trainings of systems -------------------------------------------------------------------------


@dataclass(frozen=True)
class Training:
    """Data, kinds of maps with their limits, and the step of a rollout where steps vary."""

    system: str
    data: dict[str, Any] = field(default_factory=dict)
    kinds: Sequence[Kind] = KINDS
    epochs: int | None = None
    step: float | None = None
    equations: bool = False


def fixed(
    system: str,
    epochs: int,
    name: str,
    arguments: dict[str, Any],
    reversible: bool | None = None,
    **training: Any,
) -> Training:
    """An architecture that is trained for a fixed number of epochs."""
    options = TrainingOptions(**training)
    kind = Network(arguments, reversible, architecture=name, training=options)
    return Training(system, {"count": 500}, [kind], epochs)


DEFAULTS = (
    *("rigid-body", "coupled-oscillators", "henon-heiles", "kepler", "double-pendulum", "toda"),
    *("charged-particle", "tokamak", "field-lines", "standard-map", "lotka-volterra-3d"),
    "forced-duffing",
)
NEURONS = {"functions": "neurons"}
PUBLISHED = {"weighting": "arbitrary", "feed_forward": "triangular", "depth": 3, "window": 3}
# with equations the defaults end by themselves; from states couplings may grow for minutes
LEARNED = {f"{name}, from states": Training(name, epochs=40) for name in DEFAULTS}
MADE = {name: Training(name, equations=True) for name in DEFAULTS}
TRAININGS = (
    MADE
    | LEARNED
    | {
        "vpt": fixed("rigid-body", 40, "vpt", NEURONS | {"window": 3}),
        "vpmt": fixed("rigid-body", 40, "vpmt", NEURONS | {"window": 3}),
        "transformer": fixed("rigid-body", 40, "transformer", {"window": 3, "width": 12}),
        "resnet": fixed("rigid-body", 40, "resnet", {"width": 16}),
        "vpff": fixed("rigid-body", 40, "vpff", NEURONS),
        "spff": fixed("coupled-oscillators", 40, "spff", NEURONS),
        "spt": fixed("coupled-oscillators", 40, "spt", NEURONS | {"window": 3}),
        "published vpt": fixed(
            *("rigid-body", 100, "vpt", PUBLISHED, False),
            optimizer="adam",
            learning_rate=0.01,
            loss="relative",
        ),
        "family over the step": Training(
            "rigid-body", {"vary": {"step": [0.1, 0.3]}}, step=0.2, equations=True
        ),
    }
)


def train(name: str) -> dict[str, Row]:
    """Train a model of a system, and let it run from states that training has not seen."""
    training = TRAININGS[name]
    with tempfile.TemporaryDirectory() as folder:
        data = vp.generate(training.system, Path(folder, "data.h5"), **training.data)
        row, model = fit(data, training.kinds, training.epochs, training.equations)
        report = vp.compare(
            model,
            [],
            steps=STEPS,
            step=training.step,
            trajectories=TRAJECTORIES,
            section=None,
            tangent_steps=TANGENT_STEPS,
        )
    table = report.table()[0]
    row["RMSE, units of the system"] = table["median RMSE"]
    # the threshold is a tenth of the spread of the states
    row["RMSE, relative"] = 0.1 * table["median RMSE"] / report.threshold
    invariants = [key.removesuffix(" kind") for key in table if key.endswith(" error kind")]
    row["change of invariants"] = max((table[key] for key in invariants), default=None)
    # of a system that changes volume, the difference from the exact solution
    volume = "contraction error" if "map contraction error" in table else "volume error"
    row["log|det|, one step"] = table[f"map {volume}"]
    row[f"log|det|, {TANGENT_STEPS} steps"] = table[f"phase-space {volume}"]
    return {name: row}


def fit(
    data: vp.data.Dataset,
    kinds: Sequence[Kind] = KINDS,
    epochs: int | None = None,
    equations: bool = False,
) -> tuple[Row, vp.models.Model]:
    """Train; return the kind of the model, its size and its error, and the model."""
    seconds = GUARD if epochs is None else None
    limits = {"seconds": seconds, "epochs": epochs}
    result = vp.fit(data, kinds, equations=equations, progress=False, **limits)
    count = sum(parameter.numel() for parameter in result.model.parameters())
    row = {"kind": result.model.name, "parameters": count, "error": result.history.test_error}
    return row, result.model


# --- pairs of states without equations ------------------------------------------------------------


def henon(states: np.ndarray) -> np.ndarray:
    """Return the images under Henon's quadratic map, which keeps areas."""
    angle = 2 * math.pi * 0.21
    q, p = states.T
    kicked = p - q**2
    cosine, sine = math.cos(angle), math.sin(angle)
    return np.stack([q * cosine - kicked * sine, q * sine + kicked * cosine], axis=1)


def symplectic_matrix(degrees: int) -> np.ndarray:
    """Return the exponential of a random Hamiltonian matrix in components (q, p)."""
    random = np.random.default_rng(1)
    # H = p.p/2 + q.K.q/2 with K positive: motions stay bounded
    factor = random.standard_normal((degrees, degrees)) / math.sqrt(degrees)
    stiffness = np.eye(degrees) + factor @ factor.T
    zero, one = np.zeros_like(stiffness), np.eye(degrees)
    return expm(0.3 * np.block([[zero, one], [-stiffness, zero]]))


def rigid_body_flow(states: np.ndarray) -> np.ndarray:
    """Return the states of the rigid body after a step of 0.2."""
    return vp.solve(vp.load_system("rigid-body"), states, np.array([0.0, 0.2]))[:, -1]


def linear_map(states: np.ndarray) -> np.ndarray:
    return states @ symplectic_matrix(states.shape[1] // 2).T


Images = Callable[[np.ndarray], np.ndarray]
CANONICAL = (*(f"q{i}" for i in range(1, 11)), *(f"p{i}" for i in range(1, 11)))
PAIRS: dict[str, tuple[Images, int, tuple[str, ...]]] = {
    "map of the plane": (henon, 400, ("q", "p")),
    "linear map, 20 components": (linear_map, 200, CANONICAL),
    "rigid body, 300 pairs": (rigid_body_flow, 300, ("z1", "z2", "z3")),
}


def train_pairs(name: str) -> dict[str, Row]:
    """Train on pairs of states, and measure errors on others."""
    images, count, components = PAIRS[name]
    random = np.random.default_rng(0)
    states = random.uniform(-0.4, 0.4, (count + 500, len(components)))
    if images is rigid_body_flow:
        states /= np.linalg.norm(states, axis=1, keepdims=True)
    after = images(states)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "data.h5")
        data = vp.import_dataset(
            (states[:count], after[:count]), path, pairs=True, components=components
        )
        row, model = fit(data)
    windows = torch.from_numpy(states[count:, None])
    difference = model(windows).detach().numpy()[:, 0] - after[count:]
    row["error of other states"] = math.sqrt(np.mean(difference**2) / np.var(after[count:]))
    row["log|det|, one step"] = float(np.abs(log_determinants(model, windows[:50])).max())
    return {name: row}


def log_determinants(model: torch.nn.Module, windows: torch.Tensor) -> np.ndarray:
    """Return the logarithm of the determinant of the derivative at each state, (state,)."""

    def image(state: torch.Tensor) -> torch.Tensor:
        return model(state[None])[0, 0]

    derivative = torch.func.vmap(torch.func.jacrev(image))
    return torch.linalg.slogdet(derivative(windows)[:, :, 0])[1].detach().numpy()


# --- classical methods ----------------------------------------------------------------------------

METHODS = (
    *("explicit-midpoint", "rk4", "dormand-prince-8", "implicit-midpoint", "gauss-legendre-4"),
    *("gauss-legendre-6", "stoermer-verlet", "coordinate-splitting", "strang-splitting"),
    *("yoshida-4", "yoshida-6", "yoshida-8", "blanes-moan-4", "blanes-moan-6", "boris", "dop853"),
)
# initial states and step
CLASSICAL: dict[str, tuple[list[list[float]], float]] = {
    "rigid-body": ([[0.6, 0.0, 0.8], [0.48, -0.64, 0.6]], 0.2),
    "coupled-oscillators": ([[0.5, -0.3, 0.1, 0.2], [0.0, 0.4, -0.3, 0.6]], 0.2),
    "henon-heiles": ([[0.1, -0.2, 0.3, 0.1], [0.0, 0.2, 0.25, -0.1]], 0.2),
    "kepler": ([[0.8, 0.0, 0.0, 1.2], [0.0, 1.0, -1.0, 0.1]], 0.05),
    "pendulum": ([[1.0, 0.0], [2.0, 0.5]], 0.1),
    "charged-particle": ([], 0.1),
}


def integrate(system: str) -> dict[str, Row]:
    """Integrate a system by each method that applies, at three steps."""
    initial, step = CLASSICAL[system]
    dim = vp.load_system(system).dim
    states = initial or [[0.3 + 0.1 * i for i in range(dim)], [0.5 - 0.1 * i for i in range(dim)]]
    rows = {}
    for method in METHODS:
        try:
            ends = [
                vp.integrate(system, method, states, step / refinement, 40 * refinement)[:, -1]
                for refinement in (1, 2, 4)
            ]
        except InputError:  # the method does not apply to the system
            continue
        errors = [float(np.linalg.norm(b - a)) for a, b in itertools.pairwise(ends)]
        row: Row = {"sum of states": float(ends[0].sum()), "error": errors[0]}
        if errors[1] > 1e-10:  # above rounding
            row["order"] = math.log2(errors[0] / errors[1])
        rows[f"{system}, {method}"] = row
    return rows


# --- networks of GeometricMachineLearning.jl ------------------------------------------------------


class NetworkFile:
    """Networks with random weights, written as GeometricMachineLearning.jl does."""

    def __init__(self, path: Path, dim: int) -> None:
        self.file, self.dim, self.count = h5py.File(path, "w"), dim, 0
        self.random = np.random.default_rng(0)

    def layer(self, **shapes: tuple[int, ...]) -> h5py.Group:
        self.count += 1
        return self.fill(self.file.create_group(f"L{self.count}"), **shapes)

    def fill(self, group: h5py.Group, **shapes: tuple[int, ...]) -> h5py.Group:
        for name, shape in shapes.items():
            group[name] = 0.3 * self.random.standard_normal(shape)
        return group

    def triangle(self, group: h5py.Group, name: str, kind: str) -> None:
        matrix = self.fill(group.create_group(name), S=(self.dim * (self.dim - 1) // 2,))
        matrix.attrs["gml_type"], matrix["n"] = kind, self.dim

    def feed_forward(self, blocks: int) -> None:
        # a block is a linear pair, whose second layer has a bias, and a nonlinear pair; at the end
        # there is a linear pair
        for i, bias in enumerate([False, True, True, True] * blocks + [False, True]):
            layer = self.layer(**({"bias": (self.dim,)} if bias else {}))
            self.triangle(layer, "weight", ("LowerTriangular", "UpperTriangular")[i % 2])

    def multihead(self, heads: int) -> None:
        layer, shape = self.layer(), (self.dim // heads, self.dim)
        for projection in ("PQ", "PK", "PV"):
            shapes = {f"head_{head + 1}": shape for head in range(heads)}
            self.fill(layer.create_group(projection), **shapes)

    def residual(self, count: int) -> None:
        for _ in range(count):
            self.layer(weight=(self.dim, self.dim), bias=(self.dim,))


def write_network(path: Path, name: str) -> None:
    """Write one of the published networks with random weights."""
    network = NetworkFile(path, 4 if name == "standard transformer" else 3)
    with network.file:
        if name == "feed-forward":
            network.feed_forward(6)
        for _ in range(3 if "transformer" in name else 0):
            if name == "standard transformer":
                network.multihead(2)
                network.residual(3)
                continue
            if name == "transformer, skew":
                network.triangle(network.layer(), "A", "SkewSymMatrix")
            else:
                network.layer(A=(3, 3))
            network.feed_forward(2)


def load_network(name: str) -> dict[str, Row]:
    """Read the file of a published network, and evaluate it."""
    with tempfile.TemporaryDirectory() as folder:
        write_network(Path(folder, "network.h5"), name)
        model = vp.models.load_gml(Path(folder, "network.h5"))
    windows = np.random.default_rng(1).uniform(-1, 1, (5, model.window, model.dim))
    outputs = model(torch.from_numpy(windows)).detach().numpy()
    return {name: {"norm": float(np.linalg.norm(outputs)), "largest": float(outputs.max())}}


NETWORKS = ("transformer, skew", "transformer, arbitrary", "feed-forward", "standard transformer")

# --- machine code ---------------------------------------------------------------------------------


def run_machine_code(system: str) -> dict[str, Row]:
    """Train the default model; time steps of it and of RK4, and compare its C with PyTorch."""
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder, "step.c")
        row, model = fit(vp.generate(system, Path(folder, "data.h5")), equations=True)
        vp.export(model, source)
        library = source.with_suffix(".so")
        subprocess.run(["cc", "-O2", "-shared", "-fPIC", source, "-lm", "-o", library], check=True)
        step = ctypes.CDLL(str(library)).vp_step
        row["bytes of C"] = source.stat().st_size
    states = np.random.default_rng(0).uniform(-0.5, 0.5, (100, model.dim))
    images = np.empty_like(states)
    for state, image in zip(states, images, strict=True):
        step(ctypes.c_void_p(state.ctypes.data), ctypes.c_void_p(image.ctypes.data))
    expected = model(torch.from_numpy(states[:, None])).detach().numpy()[:, 0]
    row["C and PyTorch differ by"] = float(np.abs(images - expected).max())

    initial, steps = CLASSICAL[system][0], 200_000
    calls = {
        "model": partial(vp.rollout, model, np.array(initial), steps, compiled=True),
        "RK4": partial(vp.integrate, system, "rk4", initial, 0.2, steps, compiled=True),
    }
    seconds = dict.fromkeys(calls, math.inf)
    for _ in range(6):  # the first round compiles
        for name, call in calls.items():
            start = time.process_time()
            call()
            elapsed = time.process_time() - start
            seconds[name] = min(seconds[name], elapsed / steps / len(initial))
    row |= {f"seconds of a step of {name}": value for name, value in seconds.items()}
    return {system: row | {"model / RK4": seconds["model"] / seconds["RK4"]}}


# --- sections and rules ---------------------------------------------------------------------------

# section to its function and what it is called with
SECTIONS: dict[str, tuple[Callable[[str], dict[str, Row]], tuple[str, ...]]] = {
    "trainings": (train, tuple(TRAININGS)),
    "pairs": (train_pairs, tuple(PAIRS)),
    "classical": (integrate, tuple(CLASSICAL)),
    "published": (load_network, NETWORKS),
    "machine-code": (run_machine_code, ("rigid-body", "coupled-oscillators")),
}
ALONE = "machine-code"  # is measured when all else is done


def equal(old: Any, new: Any) -> bool:
    return old == new


def error(old: float, new: float) -> bool:
    """At most three times as large, or below 1e-14."""
    return new <= max(3 * old, 1e-14)


def structure(old: float, new: float) -> bool:
    """Rounding, or at most three times as large."""
    return new <= max(3 * old, 1e-12)


def rounding(old: float, new: float) -> bool:
    return math.isclose(old, new, rel_tol=1e-12, abs_tol=1e-14)


def order(old: float, new: float) -> bool:
    """Differences of states, which are divided, have fewer digits."""
    return math.isclose(old, new, abs_tol=1e-4)


def duration(old: float, new: float) -> bool:
    return new <= 1.3 * old


def agreement(_: float, new: float) -> bool:
    return new <= 1e-14


TRAINED = {"kind": equal, "error": error, "error of other states": error, "log|det|": structure}
RULES: dict[str, dict[str, Callable[[Any, Any], bool]]] = {  # by the beginning of the quantity
    "trainings": TRAINED | {"RMSE": error, "change of invariants": structure},
    "pairs": TRAINED,
    "classical": {"sum of states": rounding, "error": rounding, "order": order},
    "published": {"norm": rounding, "largest": rounding},
    "machine-code": {"kind": equal, "model / RK4": duration, "C and PyTorch": agreement},
}


def verdict(section: str, quantity: str, old: Any, new: Any) -> str:
    """Judge a quantity: ``same``, ``kept``, ``BROKEN``, or ``-`` where no rule speaks of it."""
    rules = [rule for key, rule in RULES[section].items() if quantity.startswith(key)]
    if not rules or old == new:
        return "same" if old == new else "-"
    if isinstance(old, float) != isinstance(new, float):
        return "BROKEN"  # one of them is missing or not finite
    return "kept" if rules[-1](old, new) else "BROKEN"


def finite(row: Row) -> Row:
    """Return the row with None for numbers that are not finite."""
    return {
        key: None if isinstance(value, float) and not math.isfinite(value) else value
        for key, value in row.items()
    }


def timed(call: Callable[[str], dict[str, Row]], name: str) -> tuple[dict[str, Row], float]:
    """Return the rows of a call, and its seconds."""
    start = time.perf_counter()
    rows = call(name)
    return {key: finite(row) for key, row in rows.items()}, time.perf_counter() - start


@click.group()
def main() -> None:
    """Record the digits of the package, and compare them with those of a later run."""


@main.command()
@click.option("-o", "--output", type=click.Path(path_type=Path), required=True)
@click.option("--only", metavar="SECTION,...", help=f"Some of: {', '.join(SECTIONS)}.")
@click.option("--rows", metavar="NAME;...", help="Some rows of the sections, by their names.")
def run(output: Path, only: str | None, rows: str | None) -> None:
    """Measure everything, and write it to a JSON file."""
    chosen = list(SECTIONS) if only is None else only.split(",")
    if unknown := set(chosen) - set(SECTIONS):
        raise click.BadParameter(f"there is no section {', '.join(unknown)}", param_hint="--only")
    known = {name for section in chosen for name in SECTIONS[section][1]}
    names = known if rows is None else {name.strip() for name in rows.split(";")}
    if unknown := names - known:
        raise click.BadParameter(f"there is no row {', '.join(unknown)}", param_hint="--rows")
    record: dict[str, Any] = {"machine": platform.platform(), "python": platform.python_version()}
    record |= {
        "partial": rows is not None,
        "seconds": {},
        "sections": {section: {} for section in chosen},
    }
    start = time.perf_counter()
    context = multiprocessing.get_context("spawn")
    for workers, alone in ((2, False), (1, True)):
        with ProcessPoolExecutor(workers, mp_context=context) as pool:
            jobs = [
                (section, name, pool.submit(timed, SECTIONS[section][0], name))
                for section in chosen
                if (section == ALONE) == alone
                for name in SECTIONS[section][1]
                if name in names
            ]
            for section, name, job in jobs:
                results, seconds = job.result()
                record["sections"][section] |= results
                record["seconds"][f"{section}: {name}"] = round(seconds, 1)
                click.echo(f"{time.perf_counter() - start:6.0f} s  {section}: {name}", err=True)
    output.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


@main.command()
@click.argument("old", type=click.Path(exists=True, path_type=Path))
@click.argument("new", type=click.Path(exists=True, path_type=Path))
@click.option("--broken", "short", is_flag=True, help="Print only rows whose rule is broken.")
def compare(old: Path, new: Path, short: bool) -> None:
    """Compare the record NEW with the record OLD."""
    is_partial = json.loads(new.read_text("utf-8")).get("partial", False)
    before, after = (json.loads(path.read_text("utf-8"))["sections"] for path in (old, new))
    broken = 0
    for section in (name for name in before if name in after):
        for row, values in before[section].items():
            if is_partial and row not in after[section]:
                continue
            others = after[section].get(row, {})
            for quantity, value in values.items():
                other = others.get(quantity)
                judged = verdict(section, quantity, value, other)
                broken += judged == "BROKEN"
                if judged == "BROKEN" or not short:
                    cells = [f"{v:.3g}" if isinstance(v, float) else str(v) for v in (value, other)]
                    name = f"{section}: {row}: {quantity}"
                    click.echo(f"{name:72s} {cells[0]:>10s} {cells[1]:>10s}  {judged}")
    click.echo(f"{broken} rules broken" if broken else "all rules hold")
    sys.exit(bool(broken))


if __name__ == "__main__":
    main()
