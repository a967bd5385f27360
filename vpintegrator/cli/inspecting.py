"""Inspection in vp-gen (--inspect): contents of a dataset, a rollout or a model file."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from vpintegrator.cli.common import console, say, say_all, say_title, tell
from vpintegrator.cli.output import width_of, write_json
from vpintegrator.cli.reporting import notes_of_import
from vpintegrator.cli.results import dataset_results, model_results, rollout_results
from vpintegrator.errors import InputError
from vpintegrator.storage.toml import read_toml

if TYPE_CHECKING:
    from vpintegrator.data import Dataset
    from vpintegrator.data.inspection import Group
    from vpintegrator.dynamics import System
    from vpintegrator.models import Model

_COMPONENTS = 12  # listed one by one
_OF_TRAINING = {
    "system_name": "system",
    "step": "step",
    "dataset": "dataset",
    "initial_scheme": "trained from",
}
Lines = Iterator[tuple[str, str]]  # headings, and what is known under them


def inspect(path: Path, figure: Path | None, overwrite: bool) -> None:
    """Print what is in a file and, for a dataset, draw a preview beside it."""
    from vpintegrator.storage.reading import check_kind, kind_of

    check_kind(path, "dataset", "rollout", "model")
    kind = kind_of(path) or "model"
    if kind == "dataset":
        _inspect_dataset(path, figure, overwrite)
        return
    if figure is not None:
        raise InputError(f"a preview is drawn of a dataset, not of a {kind}; leave out --output")
    (_inspect_rollout if kind == "rollout" else _inspect_model)(path)


def _inspect_dataset(path: Path, figure: Path | None, overwrite: bool) -> None:
    from vpintegrator.data import open_dataset
    from vpintegrator.data.inspection import inspect_dataset
    from vpintegrator.plotting.preview import draw_preview
    from vpintegrator.storage.files import check_output

    target, left_out = figure or path.with_suffix(".png"), None
    try:
        check_output(target, overwrite)
    except InputError as error:
        if figure is not None:
            raise
        left_out = str(error)  # nobody asked for it by name, and all else can be said
    dataset = open_dataset(path)
    groups = inspect_dataset(dataset)
    say_title(dataset.title)
    say_all(_of_dataset(dataset, groups))
    if left_out is None:
        draw_preview(dataset, target, overwrite)
    say("preview", left_out or str(target))
    write_json(lambda: dataset_results(dataset))


def _of_dataset(dataset: Dataset, groups: dict[str, Group]) -> Lines:
    system = dataset.system
    yield from _of_system(system)
    yield "state", f"{dataset.dim} components: {_plain(', '.join(system.components))}"
    yield "step", dataset.step_text
    for name, (low, high) in dataset.varied.items():
        if name != "step":
            yield "varies", f"{_plain(name)} from {low:.6g} to {high:.6g}"
    unit = "t/step" if "step" in dataset.varied else "t"
    unit = "iteration" if system.is_discrete else unit
    for name, group in groups.items():
        count, length, _ = group.shape
        span = f"{unit} = {group.times[0]:g} to {group.times[1]:g}" if length else "no times"
        yield name, f"{_number(count, 'trajectory')}, {_number(length, 'time')}; {span}"
    yield from _of_origin(dataset)
    yield "states", ", ".join(_unusual(groups)) or "all observed and finite"
    low = np.fmin.reduce([group.low for group in groups.values()])
    high = np.fmax.reduce([group.high for group in groups.values()])
    if np.isfinite(low).any():
        yield from _ranges("ranges", system.components, low, high)
    for invariant in system.invariants:
        used = {name: group for name, group in groups.items() if group.shape[0]}
        changes = ", ".join(f"{name} {g.changes[invariant]:.1e}" for name, g in used.items())
        yield "invariants", f"{invariant.replace('_', ' ')}: {changes}"
    if system.invariants:
        yield "invariants", "(largest change, relative to the group's largest value)"
    yield from _of_versions(dataset)


def _of_system(system: System) -> Lines:
    parameters = ", ".join(f"{key} = {value}" for key, value in system.parameters.items())
    known = "; its equations are not known" if system.is_measured else ""
    parameters = f"; {parameters}" if parameters else ""
    yield "system", f"{system.title} ({system.name}){parameters}{known}"
    if returns := system.equations.returns:
        yield "return map", returns.words


def _of_origin(dataset: Dataset) -> Lines:
    """Yield the source of the states and their accuracy."""
    from vpintegrator.data.inspection import accuracy_text

    attributes, accuracy = dataset.attributes, dataset.accuracy
    recipe = read_toml(dataset.recipe, f"recipe in {dataset.path}")
    imported = recipe.get("imported")
    if isinstance(imported, dict):
        variable = f", {imported['variable']}" if imported.get("variable") else ""
        source = imported.get("source", "an unknown file")
        yield "imported from", f"{source}{variable} (seed {dataset.seed})"
        yield from notes_of_import(recipe)
    else:
        yield "seed", str(dataset.seed)
        tolerances = [key for key in ("rtol", "atol") if key in attributes]
        known = [f"{key} {_short(attributes[key])}" for key in tolerances]
        solver = "none: iterated by formula" if dataset.system.is_discrete else "not known"
        yield "solver", ", ".join([_short(attributes.get("solver", solver)), *known])
    if "estimated_error" in accuracy:
        yield "accuracy", accuracy_text(_short(accuracy["estimated_error"], ".1e"), accuracy)
    for key in ("split", "initial_conditions", "vary"):
        if isinstance(recipe.get(key), dict):
            entries = (f"{k} {_plain(v)}" for k, v in recipe[key].items())
            yield key.replace("_", " "), ", ".join(entries)


def _number(count: int, what: str) -> str:
    """Return ``1 trajectory``, ``2 trajectories``."""
    plural = what[:-1] + "ies" if what.endswith("y") else what + "s"
    return f"{count:,} {what if count == 1 else plural}"


def _plain(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def _short(value: Any, digits: str = "g") -> str:
    """Return a number with few digits, or any other value of a file as text."""
    return format(value, digits) if isinstance(value, float | np.floating) else _plain(str(value))


def _unusual(groups: dict[str, Group]) -> Iterator[str]:
    for name, group in groups.items():
        if group.missing:
            share = 100 * group.missing / (group.shape[0] * group.shape[1])
            yield f"{name}: {group.missing} ({share:.3g} %) missing"
        if group.infinite:
            yield f"{name}: {group.infinite} infinite"


def _ranges(heading: str, names: Any, low: np.ndarray, high: np.ndarray) -> Lines:
    """Yield the range of each of the first components, and that of all others together."""
    for name, least, most in zip(names[:_COMPONENTS], low, high, strict=False):
        yield heading, f"{_plain(name)} from {least:.6g} to {most:.6g}"
    if (rest := len(names) - _COMPONENTS) > 0:
        least, most = np.fmin.reduce(low[_COMPONENTS:]), np.fmax.reduce(high[_COMPONENTS:])
        yield heading, f"and {rest} more, {least:.6g} to {most:.6g}"


def _of_versions(dataset: Dataset) -> Lines:
    from vpintegrator.storage.reading import read_json

    attributes = dataset.attributes
    where = f"{dataset.path}: the attribute 'versions'"
    versions = read_json(str(attributes.get("versions", "{}")), where)
    yield "made with", ", ".join(f"{name} {number}" for name, number in versions.items())
    yield "format", f"{attributes['format']}, version {attributes['format_version']}"
    yield "fingerprint", dataset.fingerprint


def _inspect_rollout(path: Path) -> None:
    from vpintegrator.plotting.tables import terminal_table
    from vpintegrator.rollout import open_rollout

    report = open_rollout(path)
    say_title(f"Rollout: {report.system.title}")
    say_all(_of_system(report.system))
    states = next(iter(report.runs.values())).states
    count, times = _number(len(states), "trajectory"), _number(len(report.times), "stored time")
    say("states", f"{count}, {times}")
    say("step", f"{report.step:g}, one in {report.every} stored, to t = {report.times[-1]:g}")
    say("methods", ", ".join(f"{name} ({run.kind})" for name, run in report.runs.items()))
    out = console()
    out.print(terminal_table(report, width_of(out)))
    tell(f"draw it with: vp-plot {path}")
    write_json(lambda: rollout_results(report))


def _inspect_model(path: Path) -> None:
    from vpintegrator.models import load

    model = load(path)
    say_title(f"Model: {model.description}")
    say_all(_of_model(model, path))
    write_json(lambda: model_results(model))


def _of_model(model: Model, path: Path) -> Lines:
    from vpintegrator.compiled.one_step import OneStepTable
    from vpintegrator.dynamics.training_domain import Domain
    from vpintegrator.rollout.start import find_system
    from vpintegrator.storage.reading import read_json
    from vpintegrator.training.one_step import KEY

    metadata = model.metadata
    count = sum(p.numel() for p in model.parameters())
    yield "architecture", f"{model.name}, {count} parameters"
    for key, value in model.arguments.items():
        yield "architecture", f"{key} = {_plain(value)}"
    yield "dtype", str(model.scale.dtype).removeprefix("torch.")
    structure = model.structure
    others = {
        "preserves the volume of its chart": model.measure_preserving
        and not structure.keeps_volume,
        "invertible": model.invertible,
    }
    words = [*structure.words, *(name for name, holds in others.items() if holds)]
    yield "structure", ", ".join(words) or "none"
    if "attention" in metadata:
        yield "attention", _plain(metadata["attention"].removeprefix("attention: "))
    if "system" in metadata and "[return_map]" in metadata["system"]:
        system = find_system({model.name: model}, None)
        if returns := system.equations.returns:
            yield "return map", returns.words
    for key, heading in _OF_TRAINING.items():
        if key in metadata:
            yield heading, _plain(str(metadata[key]))
    for name, (low, high) in model.conditions.items():
        yield "family", f"{_plain(name)} from {low:.6g} to {high:.6g}"
    if KEY in metadata:
        table = OneStepTable.from_text(metadata[KEY], f"{path}: the table of one step")
        yield from (("one step", line) for line in str(table).splitlines())
    if "region" in metadata:
        region = Domain.from_text(metadata["region"], f"{path}: the region of training")
        ranges = region.components | region.invariants
        yield from _ranges("trained on", [*ranges], *np.transpose([*ranges.values()]))
    training = read_json(metadata.get("training", "{}"), f"{path}: what is told of its training")
    told = [
        f"{key.replace('_', ' ')} {value:.3g}" if isinstance(value, float) else f"{key} {value}"
        for key, value in training.items()
        if not isinstance(value, list | dict) and value != ""
    ]
    if told:
        yield "training", ", ".join(told).replace("_", " ")
