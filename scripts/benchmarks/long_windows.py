"""Long rollouts of maps of windows, seed by seed: what ``attention.py --long`` measures.

A row of the table is a model with its window. Each seed of a row leaves a model and a file of
measurements in the folder. What is there is not done again, so that a run can be stopped and
resumed, or given more seeds.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from harness import machine, print_table, processor_seconds

# isort: split

import numpy as np

import vpintegrator as vp
from vpintegrator.training import KeptInvariants, Kind, Network, TrainingOptions, search

STEPS = (1_000, 100_000)  # of a long rollout
TIME, ORBITS = 400.0, 24
LOST = 0.1  # change of an invariant, in units of its root mean square, from which an orbit is lost
LENGTH = 20  # steps of the training trajectories
SYSTEMS = {
    "rigid-body": "rigid-body",
    "coupled-oscillators": "coupled-oscillators",
    "gyrostat": str(Path(__file__).parent / "systems" / "gyrostat.toml"),
}
CONTROLS = ("vpff", "spff")  # they read the last state alone


class Row(NamedTuple):
    """A model, the states that it reads, and those that a call of it gives."""

    model: str
    window: int
    new: int

    @property
    def words(self) -> str:
        """The move of its windows, in words."""
        if self.window == 1:
            return "last state"
        return "whole" if self.new == self.window else "shifted"

    @property
    def label(self) -> str:
        """Name in the names of files."""
        return f"{self.model}-{self.window}-{self.new}"


def rows_of(
    system: vp.System, models: Sequence[str] = (), windows: Sequence[int] = ()
) -> list[Row]:
    """Return the rows of a system: symplectic models where states are positions and momenta."""
    three = ["vpt", "vpmt", "spt", "transformer", "resnet"]
    rows = [Row(name, 3, new) for name in three for new in (3, 1)]
    rows += [Row(name, 1, 1) for name in (*CONTROLS, "resnet")]
    rows += [Row("vpt", window, new) for window in (2, 5, 8) for new in (window, 1)]
    if not system.is_canonical:
        rows = [row for row in rows if not row.model.startswith("sp")]
    rows = [row for row in rows if not windows or row.window in windows]
    return [row for row in rows if not models or row.model in models]


def kind_of(name: str, arguments: dict[str, Any], grows: bool, training: TrainingOptions) -> Kind:
    """Return the search of an architecture, or the training of one model of its default sizes."""
    if grows:
        return search(name, arguments, training=training)
    return Network(arguments, architecture=name, training=training)


def trained(
    data: Path,
    row: Row,
    path: Path,
    *,
    seconds: float,
    seed: int,
    grows: bool,
    training: TrainingOptions | None = None,
    invariants: bool = False,
) -> vp.models.Model:
    """Return the model of a seed, from its file if that is there."""
    if not path.exists():
        arguments = {"window": row.window} if row.window > 1 else {}
        if row.new < row.window:
            arguments["prediction_window"] = row.new
        kind = kind_of(row.model, arguments, grows, training or TrainingOptions())
        kinds = [kind, KeptInvariants()] if invariants else [kind]
        with processor_seconds():
            result = vp.fit(data, kinds, seconds=seconds, seed=seed)
        vp.save(result.model, path)
    return vp.load(path)


def long_rollout(
    model: vp.models.Model, system: vp.System, steps: Sequence[int] = STEPS
) -> dict[str, Any]:
    """Return the measurements of a model of a system.

    They are its number of parameters; ``error``, one step ahead as the training tells; ``RMSE``,
    the median over orbits to t = 400; ``windows`` and ``phase_space``, the largest ``|log|det||``
    of a step of the iterated map and of z_0 -> z_n over 200 steps; ``drift``, by invariant, the
    median over orbits of the largest change after each number of ``steps``; ``worst``, the same for
    the worst orbit; and ``lost``, the number of orbits that are not finite or change an invariant
    by more than a tenth. Changes are in units of the root mean square of the invariant.
    """
    step = model.step
    initial = system.sample_initial(ORBITS, np.random.default_rng(1))
    count = min(round(TIME / step), steps[-1])
    with np.errstate(all="ignore"):
        exact = vp.solve(system, initial, step * np.arange(count + 1), rtol=1e-13, atol=1e-13)
        report = vp.compare(model, (), system=system, reference=exact, section=None, progress=False)
        (name,) = report.runs
        run, summary = report.runs[name], report.summary(name)
        states = vp.rollout(model, exact[:, : model.window], steps[-1])
        values = {key: function(states) for key, function in system.invariants.items()}
    change = {  # (orbit, time)
        key: np.nan_to_num(
            np.abs(each - each[:, :1]) / np.sqrt((each[:, 0] ** 2).mean()), nan=np.inf
        )
        for key, each in values.items()
    }
    largest = {  # (length, orbit)
        key: np.stack([each[:, : number + 1].max(1) for number in steps])
        for key, each in change.items()
    }
    lost = np.max([*largest.values()], axis=0) > LOST  # (length, orbit)
    return {
        "parameters": sum(weight.numel() for weight in model.parameters()),
        "error": model.record.history.test_error,
        "RMSE": float(np.median(run.root_mean_square_error)),
        "windows": summary.volume.get("step"),
        "phase_space": summary.volume.get("phase-space"),
        "drift": {key: np.median(each, 1).tolist() for key, each in largest.items()},
        "worst": {key: each.max(1).tolist() for key, each in largest.items()},
        "lost": lost.sum(1).tolist(),
    }


def number(values: Sequence[float | None]) -> str:
    """Return the median of seeds, with the least and the largest in brackets."""
    known = [value for value in values if value is not None]
    if not known:
        return "-"
    words = ["lost" if not np.isfinite(x) else f"{x:.1e}" for x in (min(known), max(known))]
    middle = float(np.median(known))
    median = f"{middle:.1e}" if np.isfinite(middle) else "lost"
    return median if len(known) == 1 else f"{median} ({words[0]} to {words[1]})"


def cells(row: Row, records: Sequence[dict[str, Any]], steps: Sequence[int] = STEPS) -> list[str]:
    """Return the line of a table that the records of some seeds give."""
    sizes = sorted({record["parameters"] for record in records})
    line = [row.model, str(row.window), row.words, str(len(records))]
    line.append(str(sizes[0]) if len(sizes) == 1 else f"{sizes[0]} to {sizes[-1]}")
    line += [number([record[key] for record in records]) for key in ("error", "RMSE")]
    line += [number([record[key] for record in records]) for key in ("windows", "phase_space")]
    for key in records[0]["drift"]:
        line += [number([record["drift"][key][k] for record in records]) for k in range(len(steps))]
    counts = [[record["lost"][k] for record in records] for k in range(len(steps))]
    return [*line, *(", ".join(map(str, sorted(each))) for each in counts)]


def header(invariants: Sequence[str], steps: Sequence[int] = STEPS) -> list[str]:
    """Return the titles of the columns."""
    titles = ["model", "window", "call", "seeds", "parameters", "error", f"RMSE to t = {TIME:g}"]
    titles += ["volume of windows", "of phase space"]
    titles += [f"{name.replace('_', ' ')}, {n:,}" for name in invariants for n in steps]
    return [*titles, *(f"lost of {ORBITS}, {n:,}" for n in steps)]


def compare_windows(
    folder: Path,
    systems: Sequence[str],
    models: Sequence[str] = (),
    windows: Sequence[int] = (),
    *,
    seconds: float,
    seeds: int,
    grows: bool,
    training: TrainingOptions | None = None,
    steps: Sequence[int] = STEPS,
    count: int | None = None,
    invariants: bool = False,
) -> None:
    """Train and measure all rows of the systems, one seed of each after the other, and print."""
    for name in systems:
        system = vp.load_system(SYSTEMS[name])
        data = folder / f"{name}.h5"
        if not data.exists():
            vp.generate(system, data, steps=LENGTH, seed=1, count=count or 2_000)
        rows = rows_of(system, models, windows)
        if invariants:  # a projection moves one new state
            rows = [row for row in rows if row.new == 1 and row.model not in CONTROLS]
        records: dict[Row, list[dict[str, Any]]] = {row: [] for row in rows}
        for seed in range(seeds):
            for row in rows:
                prefix = f"{name}-{'searched' if grows else 'neurons'}"
                horizon = (
                    f"-horizon-{training.horizon}" if training and training.horizon > 1 else ""
                )
                kept = "-invariants" * invariants
                path = folder / f"{prefix}{horizon}{kept}-{row.label}-{seed}.safetensors"
                record = path.with_suffix(".json")
                if not record.exists():
                    options = {"seconds": seconds, "seed": seed, "grows": grows}
                    options["invariants"] = invariants
                    model = trained(data, row, path, training=training, **options)
                    record.write_text(json.dumps(long_rollout(model, system, steps)))
                records[row].append(json.loads(record.read_text()))
                print(*cells(row, records[row][-1:], steps), flush=True)
        sizes = "sizes searched" if grows else "default sizes"
        title = f"{name}, {sizes}, {seconds:g} s of processor time each, {machine()}"
        lines = [cells(row, found, steps) for row, found in records.items()]
        print_table(title, header([*system.invariants], steps), lines)
