"""Lists of systems, recipes, methods and models, and the content of files, as text and facts."""

from __future__ import annotations

import inspect
import io
import itertools
import json
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from types import NoneType
from typing import TYPE_CHECKING, Any

import numpy as np

from vpintegrator.arguments import as_path
from vpintegrator.catalogue import (
    DATASETS,
    SYSTEMS,
    catalogue,
    recipe_summaries,
    system_summaries,
)
from vpintegrator.errors import InputError, nearest, printable
from vpintegrator.models.registry import ARCHITECTURES, DESCRIPTIONS
from vpintegrator.names import CLASSICAL_METHODS
from vpintegrator.storage.files import check_input

if TYPE_CHECKING:
    from vpintegrator.data import Dataset
    from vpintegrator.data.inspection import Group
    from vpintegrator.dynamics import System
    from vpintegrator.models import Model
    from vpintegrator.plotting.figure import Figure
    from vpintegrator.rollout import Report
    from vpintegrator.training import Fit

LISTS = ("systems", "recipes", "methods", "models")
# arguments of models that no user gives, and where they come from
GIVEN_OTHERWISE = {
    "dim": "it is the number of components in the dataset",
    "dtype": "give dtype to vp.models.build",
    "reversing_symmetries": "they are those of the system",
    "periodic": "angles are those that the system declares",
    **dict.fromkeys(
        ("cyclic", "conserved", "explicit_time", "parameters", "vanishing"),
        "the equations say which components are",
    ),
    "expressions": "functions=system takes those of the system",
    "field": "the equations are those of the system",
}
_COMPONENTS = 12  # listed one by one
_PAIRS = 8  # of positions and momenta that are shown
_OF_TRAINING = {
    "system_name": "system",
    "step": "step",
    "dataset": "dataset",
    "initial_scheme": "trained from",
}
_READ = ("system", "training", "region", "one_step")  # metadata that facts hold as they are read
_SHOWN = {bool: "true|false", int: "INTEGER", float: "NUMBER", str: "TEXT"}
Lines = Iterator[tuple[str, str]]  # headings, and what is known under them


@dataclass(frozen=True)
class Overview:
    """A list, a system, a method, an architecture, or the content of a file.

    Attributes
    ----------
    text
        What ``print`` shows.
    facts
        The same as numbers and names.

    Examples
    --------
    >>> vp.show("rk4").facts["order"]
    4
    """

    text: str
    facts: Mapping[str, Any]
    _figure: Callable[[], Figure] | None = None

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return self.text

    def draw(self, path: str | os.PathLike[str], overwrite: bool = False) -> None:
        """Draw a picture of a dataset, a rollout, or the training of a model.

        Raises
        ------
        InputError
            If there is no picture of this, or it cannot be written.
        """
        if self._figure is None:
            raise InputError("pictures are of datasets, rollouts and models; leave out the output")
        from vpintegrator.plotting.draw import draw_one

        draw_one(self._figure(), as_path("path", path), overwrite)


def show(
    thing: str | os.PathLike[str] | System | Dataset | Report,
    *,
    parameters: Mapping[str, Any] | None = None,
    width: int | None = None,
) -> Overview:
    """Return an overview of a system, a method, an architecture or a file, or a list of such.

    Parameters
    ----------
    thing
        ``"systems"``, ``"recipes"``, ``"methods"`` or ``"models"`` for a list; the name of one of
        them; a TOML file of a system; the file of a dataset, a rollout or a model; a system, a
        dataset or a report.
    parameters
        Values of parameters of a system.
    width
        Letters in a line of formulas and tables; by default as many as they take.

    Raises
    ------
    InputError
        If there is no such name or file.

    Examples
    --------
    >>> print(vp.show("pendulum"))  # doctest: +ELLIPSIS
    Mathematical pendulum
    ...
    """
    from vpintegrator.data import Dataset
    from vpintegrator.dynamics import System
    from vpintegrator.rollout import Report

    if isinstance(thing, System):
        return _show_system(thing.with_parameters(parameters) if parameters else thing, width)
    if isinstance(thing, Dataset):
        return _show_dataset(thing)
    if isinstance(thing, Report):
        return _show_report(thing, width)
    name = os.fspath(as_path("thing", thing))
    lists = dict(zip(LISTS, (_systems, _recipes, _methods, _models), strict=True))
    if name in lists:
        return lists[name]()
    if name in ARCHITECTURES:
        return _show_architecture(name)
    if name in CLASSICAL_METHODS:
        return _show_method(name)
    from vpintegrator.dynamics import load_system

    systems = catalogue(SYSTEMS)
    if os.path.exists(name) and not name.endswith(".toml"):
        return _show_file(check_input(name, "a file to show"), width)
    if name in catalogue(DATASETS) and name not in systems:
        return _show_recipe(name)
    known = [*lists, *ARCHITECTURES, *CLASSICAL_METHODS, *systems, *catalogue(DATASETS)]
    if name in systems or name.endswith(".toml") or "=" in name:
        return _show_system(load_system(thing, **(parameters or {})), width)
    hint = nearest(name, known) or f"; {', '.join(lists)} are lists of names"
    raise InputError(f"there is no file and no name '{name}'{hint}")


# --- lists ----------------------------------------------------------------------------------------


def _systems() -> Overview:
    rows = list[tuple[str, ...]]()
    for subject, group in itertools.groupby(system_summaries(), key=lambda each: each.subject):
        rows.append((f"{subject}:",))
        for each in group:
            dim = f"{each.dim} ({each.size})" if each.size else str(each.dim)
            structure = each.kind.replace("not divergence-free", "neither")
            rows.append((f"  {each.name}", dim, structure, each.title))
    titles = ("system", "dim", "structure", "title")
    text = _table(titles, rows) + "\ndim: with the parameter that sets it, as in -p n=16"
    return Overview(text, {"systems": [asdict(each) for each in system_summaries()]})


def _recipes() -> Overview:
    rows = [
        (each.name, f"{each.count} of {each.steps} steps of {each.step:g}", each.title)
        for each in recipe_summaries()
    ]
    text = _table(("recipe", "trajectories", "title"), rows)
    text += "\nevery system is a recipe, too: 1,300 trajectories"
    return Overview(text, {"recipes": [asdict(each) for each in recipe_summaries()]})


def _methods() -> Overview:
    from vpintegrator.maps import find_method

    methods = {name: find_method(name) for name in CLASSICAL_METHODS}
    rows = [
        (name, str(method.order), _kept(method), method.source) for name, method in methods.items()
    ]
    facts = {n: {"order": m.order, "source": m.source} for n, m in methods.items()}
    return Overview(_table(("method", "order", "structure", "source"), rows), {"methods": facts})


def _models() -> Overview:
    text = _table(("model", "what it is"), DESCRIPTIONS.items())
    return Overview(f"{text}\nvp-show vpt lists the arguments of vpt", {"models": DESCRIPTIONS})


def _kept(method: Any) -> str:
    from vpintegrator.dynamics import Structure

    words = Structure(method.form).words + (("symmetric",) if method.symmetric else ())
    return ", ".join(words) or "none"


def _table(titles: Sequence[str], rows: Any) -> str:
    """Return rows in columns; a row of one entry is a heading."""
    rows = [titles, *rows]
    full = [row for row in rows if len(row) == len(titles)]
    widths = [max(map(len, column)) for column in zip(*full, strict=True)]
    lines = ("  ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=False)) for row in rows)
    return "\n".join(map(str.rstrip, lines))


# --- one of them ----------------------------------------------------------------------------------


def _show_method(name: str) -> Overview:
    from vpintegrator.maps import find_method

    method = find_method(name)
    facts = {"method": name, "order": method.order, "source": method.source}
    return Overview(
        f"{method.title} ({name})\n  order          {method.order}\n"
        f"  structure      {_kept(method)}\n  source         {method.source}",
        facts | {"structure": _kept(method)},
    )


def _show_recipe(name: str) -> Overview:
    from vpintegrator.data import load_recipe

    recipe = load_recipe(name)
    return Overview(
        f"{recipe.title}\n\n{recipe.text}".rstrip(), {"name": name, "text": recipe.text}
    )


def _show_architecture(name: str) -> Overview:
    title = f"{name}: {DESCRIPTIONS[name]}"
    arguments = architecture_arguments(ARCHITECTURES.find(name))
    rows = [
        (each, about["value"], str(about["default"]), f"{about['meaning'].partition('. ')[0]}")
        for each, about in arguments.items()
    ]
    text = _table(("argument", "value", "default", "meaning"), rows) if rows else "no arguments"
    return Overview(f"{title}\n\n{text}", {"model": name, "description": title, **arguments})


def architecture_arguments(architecture: type[Model]) -> dict[str, dict[str, Any]]:
    """Return value, default and meaning of each argument that a user gives to an architecture."""
    from vpintegrator.models.arguments import arguments_of

    meanings, result = described(architecture), {}
    for name, (kinds, choices, default) in arguments_of(architecture).items():
        if name in GIVEN_OTHERWISE:
            continue
        values = choices or [_SHOWN[kind] for kind in kinds if kind in _SHOWN]
        value = "BLOCKS" if name == "split" else "|".join(values)
        value += "|none" if NoneType in kinds else ""
        shown = str(default).lower() if default is None or isinstance(default, bool) else default
        shown = "required" if default is inspect.Parameter.empty else shown
        result[name] = {"value": value, "default": shown, "meaning": meanings.get(name, "")}
    return result


def described(architecture: type[Model]) -> dict[str, str]:
    """Return the words of a class's docstring on each of its parameters."""
    text = inspect.getdoc(architecture) or ""
    section = re.split(r"^\w+\n-+\n", text.partition("Parameters\n----------\n")[2], flags=re.M)[0]
    entries = re.findall(r"^(\w[\w, ]*)\n((?: +.*\n?)+)", section, flags=re.M)
    return {
        name: " ".join(words.split()).replace("``", "")
        for names, words in entries
        for name in names.split(", ")
    }


# --- a system -------------------------------------------------------------------------------------


def _show_system(system: System, width: int | None) -> Overview:
    """Return equations, parameters, invariants, symmetries and divergence of a system."""
    lines = [system.title, f"{system.name}, {system.dim} components, {system.kind}"]
    lines += [text for text in (system.description, system.reference) if text]
    for title, text in _sections(system, max((width or 100) - 2, 60)):
        lines += ["", title, *(f"  {line}" for line in text.splitlines())]
    return Overview("\n".join(lines), system_facts(system))


def _sections(system: System, width: int) -> Lines:
    from vpintegrator.dynamics.typeset import (
        divergence_unicode,
        equations_unicode,
        invariants_unicode,
        symmetries_unicode,
    )
    from vpintegrator.maps import applicable_methods

    equations = "not known: measured"
    if system.has_formulas:
        equations = equations_unicode(system, width)
    elif system.derivatives:
        equations = f"a Python function, {system.function or 'without a name'}"
    yield "Map" if system.equations.stages else "Equations", equations
    if returns := system.equations.returns:
        yield "Return map", returns.words
    if system.is_canonical:
        yield "Positions and their momenta", _conjugate(system)
    if system.parameters:
        values = (f"{k} = {_value(v)}" for k, v in system.parameters.items())
        yield "Parameters", "\n".join(values)
    yield "Invariants", invariants_unicode(system, width) or "none declared"
    reversal = "(ρ M ρ M = 1)" if system.is_discrete else "(f(ρz) = -ρ f(z))"
    symmetries = symmetries_unicode(system) or ["none declared"]
    yield f"Reversing symmetries {reversal}", "\n".join(symmetries)
    if system.time:
        period = f", of period {system.period:.9g}" if system.period else ""
        yield "Time", f"{system.time}, a component of the state{period}"
    angles = {i: period for i, period in system.periods.items() if i != system.explicit_time}
    if angles:
        words = (f"{system.components[i]} {period:.9g}" for i, period in angles.items())
        yield "Angles and their periods", ", ".join(words)
    if not system.is_measured:
        title = "Derivative" if system.is_discrete else "Divergence"
        yield title, divergence_unicode(system)
    if system.chart:
        yield f"Other coordinates, {system.chart.system.kind} there", _chart(system)
    hidden = "step" if system.is_discrete else ""  # is always one
    if suggested := [f"{k} {v:g}" for k, v in system.defaults.items() if k != hidden]:
        yield "Suggested", ", ".join(suggested)
    if not (system.is_measured or system.is_discrete):
        yield "Classical methods", ", ".join(applicable_methods(system)[0])


def _conjugate(system: System) -> str:
    """Return the first pairs of a position and its momentum, and why they are pairs."""
    from vpintegrator.dynamics.conjugate import conjugate_pairs

    names = system.components
    pairs = [(names[q], names[p]) for q, p in zip(*system.equations.halves, strict=True)]
    text = "; ".join(f"{q}, {p}" for q, p in pairs[:_PAIRS])
    text += "; ..." if len(pairs) > _PAIRS else ""
    if conjugate_pairs(names[: system.phase_dim], velocities=True) is None:
        text += "\nthe names of the components do not say so: positions come first, then momenta"
    return text


def _chart(system: System) -> str:
    """Return the new components, a line each, as in the file."""
    chart, lines = system.equations.table["chart"], []
    for name, texts in chart["map"].items():
        texts = texts if isinstance(texts, list) else [texts]
        lines.append(f"{name} = {', '.join(' '.join(str(text).split()) for text in texts)}")
    return "\n".join(lines)


def _value(value: Any) -> str:
    return ", ".join(f"{v:.9g}" for v in value) if isinstance(value, list) else f"{value:.9g}"


def system_facts(system: System) -> dict[str, Any]:
    """Return the properties of a system."""
    return {
        "name": system.name,
        "title": system.title,
        "components": list(system.components),
        "parameters": dict(system.parameters),
        "structure": system.kind,
        "time": system.time,
        "period": system.period,
        "invariants": list(system.invariants),
        "reversing_symmetries": len(system.reversing_symmetries),
        "periodic": {system.components[i]: period for i, period in system.periods.items()},
        "chart": dict(zip(system.chart.components, system.chart.texts, strict=True))
        if system.chart
        else None,
        "defaults": dict(system.defaults),
        "text": system.text,
    }


# --- a file ---------------------------------------------------------------------------------------


def _show_file(path: Path, width: int | None) -> Overview:
    from vpintegrator.storage.reading import check_kind, kind_of

    check_kind(path, "dataset", "rollout", "model")
    kind = kind_of(path) or "model"
    if kind == "dataset":
        from vpintegrator.data import open_dataset

        return _show_dataset(open_dataset(path))
    if kind == "rollout":
        from vpintegrator.rollout import open_rollout

        return _show_report(open_rollout(path), width)
    from vpintegrator.models import load

    model = load(path)
    text = _text(f"Model: {model.description}", _of_model(model, path))

    def training() -> Figure:
        from vpintegrator.plotting.figures.models import TrainingFigure, read_training

        return TrainingFigure(read_training(path))

    return Overview(text, model_facts(model), training)


def _text(title: str, lines: Lines) -> str:
    """Return lines with their headings; a heading that is that of the line before is left out."""
    result, before = [title], ""
    for heading, text in lines:
        result.append(f"  {'' if heading == before else heading:<15}{text}")
        before = heading
    return "\n".join(result)


def _show_report(report: Report, width: int | None) -> Overview:
    count, times = _number(len(report.reference), "trajectory"), len(report.times)
    kinds = ", ".join(f"{name} ({run.kind})" for name, run in report.runs.items())
    lines = [
        *_of_system(report.system),
        ("states", f"{count}, {_number(times, 'stored time')}"),
        ("step", f"{report.step:g}, one in {report.every} stored, to t = {report.times[-1]:g}"),
        ("methods", kinds),
    ]
    text = _text(f"Rollout: {report.system.title}", iter(lines))
    table = report_text(report, width, notes=True)

    def overview() -> Figure:
        from vpintegrator.plotting.figures.overview import OverviewFigure
        from vpintegrator.plotting.scene import Scene

        return OverviewFigure(Scene(report))

    return Overview(f"{text}\n{table}", report_facts(report), overview)


def report_text(report: Report, width: int | None = None, *, notes: bool = False) -> str:
    """Return the table of a report, with the sentences that explain its numbers."""
    from rich.console import Console

    from vpintegrator.plotting.tables import terminal_table

    out = io.StringIO()
    console = Console(file=out, width=width or 100_000, highlight=False, markup=False, emoji=False)
    console.print(terminal_table(report, width))
    lines = [line.rstrip() for line in out.getvalue().rstrip("\n").split("\n")]
    return "\n".join(lines if notes else lines[: len(lines) - 1])


def report_facts(report: Report) -> dict[str, Any]:
    """Return the table of a report with every number, and its title."""
    return {
        "system": report.system.name,
        "parameters": dict(report.system.parameters),
        "step": report.step,
        "time": report.times[-1],
        "orbits": len(report.reference),
        "seed": report.seed,
        "reference_time": report.reference_time,
        "reference_error": report.reference_error.max(),
        "threshold": report.threshold,
        "table": report.table(),
        "one_step": json.loads(report.step_table.text),
    }


def _show_dataset(dataset: Dataset) -> Overview:
    from vpintegrator.data.inspection import inspect_dataset

    def preview() -> Figure:
        from vpintegrator.plotting.preview import PreviewFigure

        return PreviewFigure(dataset)

    lines = _of_dataset(dataset, inspect_dataset(dataset))
    return Overview(_text(dataset.title, lines), dataset_facts(dataset), preview)


def dataset_facts(dataset: Dataset) -> dict[str, Any]:
    """Return the properties of a dataset, without its states."""
    return {
        "title": dataset.title,
        "system": dataset.system.name,
        "parameters": dict(dataset.parameters),
        "components": list(dataset.system.components),
        "step": list(dataset.varied["step"]) if "step" in dataset.varied else dataset.step,
        "varied": {name: list(bounds) for name, bounds in dataset.varied.items()},
        "seed": dataset.seed,
        "shapes": {name: list(shape) for name, shape in dataset.shapes.items()},
        "accuracy": dict(dataset.accuracy),
        "complete": dataset.is_complete,
        "fingerprint": dataset.fingerprint,
    }


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
    from vpintegrator.storage.toml import read_toml

    attributes, accuracy = dataset.attributes, dataset.accuracy
    recipe = read_toml(dataset.recipe, f"recipe in {dataset.path}")
    imported = recipe.get("imported")
    if isinstance(imported, dict):
        variable = f", {imported['variable']}" if imported.get("variable") else ""
        source = imported.get("source", "an unknown file")
        yield "imported from", f"{source}{variable} (seed {dataset.seed})"
        yield from notes_of_import(dataset)
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


def notes_of_import(dataset: Dataset) -> list[tuple[str, str]]:
    """Return lines on what an import assumed of its source."""
    from vpintegrator.storage.toml import read_toml

    record = read_toml(dataset.recipe, f"recipe in {dataset.path}").get("imported")
    notes = record.get("notes") if isinstance(record, dict) else None
    return [("note", str(text)) for text in notes] if isinstance(notes, list) else []


def _number(count: int, noun: str) -> str:
    """Return ``1 trajectory``, ``2 trajectories``."""
    plural = noun[:-1] + "ies" if noun.endswith("y") else noun + "s"
    return f"{count:,} {noun if count == 1 else plural}"


def _plain(value: Any) -> str:
    text = printable(value if isinstance(value, str) else json.dumps(value))
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
    for name, (low, high) in model.ranges.items():
        yield "family", f"{_plain(name)} from {low:.6g} to {high:.6g}"
    if KEY in metadata:
        table = OneStepTable.from_text(metadata[KEY], f"{path}: the table of one step")
        yield from (("one step", line) for line in str(table).splitlines())
    if "region" in metadata:
        region = Domain.from_text(metadata["region"], f"{path}: the region of training")
        ranges = region.components | region.invariants
        yield from _ranges("trained on", [*ranges], *np.transpose([*ranges.values()]))
    training = read_json(metadata.get("training", "{}"), f"{path}: the record of its training")
    record = [
        f"{key.replace('_', ' ')} {value:.3g}" if isinstance(value, float) else f"{key} {value}"
        for key, value in training.items()
        if not isinstance(value, list | dict) and value != ""
    ]
    if record:
        yield "training", ", ".join(record).replace("_", " ")


def model_facts(model: Model) -> dict[str, Any]:
    """Return the properties of a model; values of its training are the strings of its metadata."""
    from vpintegrator.storage.reading import read_json

    return {
        "model": model.name,
        "arguments": dict(model.arguments),
        "parameters": sum(p.numel() for p in model.parameters()),
        "form": model.structure.form,
        "measure_preserving": model.measure_preserving,
        "reversing_symmetries": len(model.reversing_symmetries),
        "region": read_json(model.metadata.get("region", "{}"), "the region of training"),
        "one_step": read_json(model.metadata.get("one_step", "{}"), "the table of one step"),
        "metadata": {k: v for k, v in model.metadata.items() if k not in _READ},
    }


def fit_facts(fit: Fit) -> dict[str, Any]:
    """Return the properties of a trained model, and those of every model that was tried."""
    numbers = ("kind", "error", "deviation", "seconds", "stopped_by")
    tried = ("kind", "size", "parameters", "error", "seconds")
    return {
        **model_facts(fit.model),
        **{name: getattr(fit, name) for name in numbers},
        "tried": [{name: getattr(each, name) for name in tried} for each in fit.tried],
        "history": fit.history.summary(),
    }
