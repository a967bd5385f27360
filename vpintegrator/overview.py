"""Lists of systems, recipes, methods and models, and the content of files, as text and facts."""

from __future__ import annotations

import inspect
import io
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
from vpintegrator.catalogue import DATASETS, SYSTEMS, catalogue
from vpintegrator.errors import InputError, nearest, printable
from vpintegrator.models.registry import ARCHITECTURES, DESCRIPTIONS, GROUPS
from vpintegrator.names import CLASSICAL_METHODS, OTHER_NAMES, method_name
from vpintegrator.storage.files import check_input
from vpintegrator.storage.toml import read_toml

if TYPE_CHECKING:
    from vpintegrator.data import Dataset
    from vpintegrator.dynamics import System
    from vpintegrator.models import Model
    from vpintegrator.plotting.figure import Figure
    from vpintegrator.rollout import Report
    from vpintegrator.training import Fit

# arguments of models that no user gives, and where they come from
GIVEN_OTHERWISE = {
    "dim": "it is the number of components in the dataset",
    "dtype": "give dtype to vp.models.build",
    "reversing_symmetries": "they are those of the system, or none",
    "periodic": "angles are those that the system declares",
    **dict.fromkeys(
        ("cyclic", "conserved", "explicit_time", "parameters", "vanishing"),
        "the equations say which components are",
    ),
    "expressions": "functions=system takes those of the system",
    "field": "the equations are those of the system",
}
# entries of a table that are shown; columns of those in one line
_ENTRIES = 24
_HEADING = 14  # fewest letters of headings
_COLUMNS = 90
_PAIRS = 8  # of positions and momenta that are shown
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
        Letters in a line of formulas and tables; by default as many as they take, in the table of
        a rollout at most 200.

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
    lists = {"systems": _systems, "recipes": _recipes, "methods": _methods, "models": _models}
    if name in lists:
        return lists[name]()
    if name in ARCHITECTURES:
        return _show_architecture(name)
    if method_name(name) in CLASSICAL_METHODS:
        return _show_method(method_name(name))
    from vpintegrator.dynamics import load_system

    systems = catalogue(SYSTEMS)
    if os.path.exists(name) and not name.endswith(".toml"):
        return _show_file(check_input(name, "a file to show"), width)
    if name in catalogue(DATASETS) and name not in systems:
        return _show_recipe(name)
    methods = (*CLASSICAL_METHODS, *OTHER_NAMES)
    known = [*lists, *ARCHITECTURES, *methods, *systems, *catalogue(DATASETS)]
    if name in systems or name.endswith(".toml") or "=" in name:
        return _show_system(load_system(thing, **(parameters or {})), width)
    hint = nearest(name, known) or f"; {', '.join(lists)} are lists of names"
    raise InputError(f"there is no file and no name '{name}'{hint}")


# --- lists ----------------------------------------------------------------------------------------


def system_summaries() -> list[dict[str, Any]]:
    """Return name, dim, size, kind, title and subject of the systems of the catalogue, by subject.

    ``size`` are the names of the parameters that set the number of components. Nothing is derived
    or checked, so that the list appears at once; a test sees to it that the files tell the truth.
    """
    from vpintegrator.dynamics.reading import component_names

    result = []
    for name, table in _tables(SYSTEMS):
        parameters = table.get("parameters", {})
        words = re.findall(r"\w+", str(table["state"]))
        free = table.get("divergence_free", False)
        kind = "divergence-free" if free else "not divergence-free"
        if "hamiltonian" in table:
            kind = "Hamiltonian"
        elif "map" in table:
            symplectic = table.get("symplectic", False)
            kind = "symplectic map" if symplectic else "volume-preserving map" if free else "map"
        size = ", ".join(key for key in parameters if key in words)
        about = {"name": name, "dim": len(component_names(table, name)), "size": size, "kind": kind}
        result.append(about | {"title": table["title"], "subject": table["subject"]})
    return sorted(result, key=lambda each: (each["subject"], each["name"]))


def recipe_summaries() -> list[dict[str, Any]]:
    """Return name, number of trajectories, steps, step and title of all recipes, by name."""
    return [
        {"name": name, "count": sum(table["trajectories"].values())}
        | {key: table[key] for key in ("steps", "step", "title")}
        for name, table in _tables(DATASETS)
    ]


def _tables(package: str) -> list[tuple[str, dict[str, Any]]]:
    entries = catalogue(package).items()
    return [(name, read_toml(entry.read_text(encoding="utf-8"), name)) for name, entry in entries]


def _systems() -> Overview:
    facts = system_summaries()
    text = "size: parameters that set the number of components, as in -p n=16"
    return Overview(f"{_table(facts)}\n{text}", {"systems": facts})


def _recipes() -> Overview:
    facts = recipe_summaries()
    text = "every system is a recipe, too: 1,300 trajectories"
    return Overview(f"{_table(facts)}\n{text}", {"recipes": facts})


def _methods() -> Overview:
    facts = [method_facts(name) for name in CLASSICAL_METHODS]
    others = ", ".join(f"{name} is {usual}" for name, usual in OTHER_NAMES.items())
    return Overview(f"{_table(facts)}\nother names: {others}", {"methods": facts})


def _models() -> Overview:
    width = max(map(len, DESCRIPTIONS))
    lines: list[str] = []
    for group, models in GROUPS.items():
        lines += [*[""] * bool(lines), group]
        lines += [f"  {name.ljust(width)}  {words}" for name, words in models.items()]
    text = "\n".join([*lines, "", "vp-show vpt lists the arguments of vpt"])
    return Overview(text, {"models": GROUPS})


def _table(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return facts of the same names in columns."""
    cells = [[*rows[0]], *([str(value) for value in row.values()] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    return "\n".join("  ".join(map(str.ljust, row, widths)).rstrip() for row in cells)


# --- one of them ----------------------------------------------------------------------------------


def _show_method(name: str) -> Overview:
    from vpintegrator.maps import find_method

    facts = method_facts(name)
    return Overview(_text(find_method(name).title, facts), facts)


def method_facts(name: str) -> dict[str, Any]:
    """Return order, structure and source of a classical method."""
    from vpintegrator.dynamics import Structure
    from vpintegrator.maps import find_method

    method = find_method(name)
    words = Structure(method.form).words + (("symmetric",) if method.symmetric else ())
    facts = {"method": name, "order": method.order, "structure": ", ".join(words) or "none"}
    return facts | {"source": method.source}


def _show_recipe(name: str) -> Overview:
    from vpintegrator.data import load_recipe

    recipe = load_recipe(name)
    text = f"{recipe.title}\n\n{recipe.text}".rstrip()
    return Overview(text, {"name": name, "text": recipe.text})


def _show_architecture(name: str) -> Overview:
    title = f"{name}: {DESCRIPTIONS[name]}"
    arguments = architecture_arguments(ARCHITECTURES.find(name))
    rows = [
        {"argument": each, **about, "meaning": about["meaning"].partition(". ")[0]}
        for each, about in arguments.items()
    ]
    text = _table(rows) if rows else "no arguments"
    return Overview(f"{title}\n\n{text}", {"model": name, "description": title, **arguments})


def architecture_arguments(architecture: type[Model]) -> dict[str, dict[str, Any]]:
    """Return value, default and meaning of each argument that a user gives to an architecture."""
    from vpintegrator.models.stored import arguments_of

    meanings = described(architecture)
    result = {}
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
    """Return the words of a class's docstring on each of its parameters.

    "As in ``VolumePreservingFeedForward``." stands for the words of this class on the same one.
    """
    from vpintegrator import models

    text = inspect.getdoc(architecture) or ""
    section = re.split(r"^\w+\n-+\n", text.partition("Parameters\n----------\n")[2], flags=re.M)[0]
    entries = re.findall(r"^(\w[\w, ]*)\n((?: +.*\n?)+)", section, flags=re.M)
    result = {
        name: " ".join(words.split()).replace("``", "")
        for names, words in entries
        for name in names.split(", ")
    }
    for name, words in result.items():
        if match := re.fullmatch(r"As in (\w+)\.", words):
            result[name] = described(getattr(models, match[1]))[name]
    return result


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
        in_a_line,
        invariants_unicode,
        symmetries_unicode,
    )
    from vpintegrator.maps import applicable_methods

    e = system.equations
    names = system.components
    equations = "not known: measured"
    if system.has_formulas:
        equations = equations_unicode(system, width)
    elif system.derivatives:
        equations = f"a Python function, {system.function or 'without a name'}"
    yield "Map" if e.stages else "Equations", equations
    if e.returns:
        yield "Return map", e.returns.words
    if system.is_canonical:
        pairs = [f"{names[q]}, {names[p]}" for q, p in zip(*e.halves, strict=True)]
        more = ["..."] if len(pairs) > _PAIRS else []
        yield "Positions and their momenta", "; ".join(pairs[:_PAIRS] + more)
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
        words = (f"{names[i]} {period:.9g}" for i, period in angles.items())
        yield "Angles and their periods", ", ".join(words)
    if not system.is_measured:
        title = "Derivative" if system.is_discrete else "Divergence"
        yield title, divergence_unicode(system)
    if system.chart:
        texts = {k: v if isinstance(v, list) else [v] for k, v in e.table["chart"]["map"].items()}
        lines = [
            f"{name} = {', '.join(map(in_a_line, formulas))}" for name, formulas in texts.items()
        ]
        yield f"Other coordinates, {system.chart.system.kind} there", "\n".join(lines)
    hidden = "step" if system.is_discrete else ""  # is always one
    if suggested := [f"{k} {v:g}" for k, v in system.defaults.items() if k != hidden]:
        yield "Suggested", ", ".join(suggested)
    if not (system.is_measured or system.is_discrete):
        yield "Classical methods", ", ".join(applicable_methods(system)[0])


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
    return _show_model(path)


def _text(title: str, facts: Mapping[str, Any]) -> str:
    """Return facts as lines with headings; the entries of a table stand in one line if they fit."""
    lines = [title]
    width = max([_HEADING, *map(len, facts)])
    for key, value in facts.items():
        texts = _entries(value) if isinstance(value, Mapping) else [_plain(value)]
        if len(", ".join(texts)) <= _COLUMNS:
            texts = list(filter(None, [", ".join(texts)]))
        elif (rest := len(texts) - _ENTRIES) > 0:
            texts[_ENTRIES:] = [f"and {rest} more"]
        headings = [key.replace("_", " "), *[""] * len(texts)]
        lines += [f"  {head:<{width}} {text}" for head, text in zip(headings, texts, strict=False)]
    return "\n".join(lines)


def _entries(table: Mapping[str, Any]) -> list[str]:
    return [
        f"{name}: {_plain(value)}" if isinstance(value, Mapping) else f"{name} {_plain(value)}"
        for name, value in table.items()
    ]


def _plain(value: Any) -> str:
    """Return a fact as text; a tuple is a range."""
    match value:
        case float():
            return f"{value:.6g}"
        case (float(low), float(high)) if isinstance(value, tuple):
            return f"from {low:.6g} to {high:.6g}"
        case list() | tuple():
            value = f"({', '.join(map(_plain, value))})"
        case Mapping():
            value = ", ".join(_entries(value))
    return printable(str(value), 2 * _COLUMNS)


def _show_report(report: Report, width: int | None) -> Overview:
    facts = report_facts(report)
    rest = {key: value for key, value in facts.items() if key not in ("table", "one_step")}
    text = _text(f"Rollout: {report.system.title}", rest)

    def overview() -> Figure:
        from vpintegrator.plotting.figures.overview import OverviewFigure
        from vpintegrator.plotting.scene import Scene

        return OverviewFigure(Scene(report))

    return Overview(f"{text}\n{report_text(report, width, notes=True)}", facts, overview)


def report_text(report: Report, width: int | None = None, *, notes: bool = False) -> str:
    """Return the table of a report, with the sentences that explain its numbers."""
    from rich.console import Console

    from vpintegrator.plotting.tables import WIDEST, terminal_table

    *parts, sentences = terminal_table(report, width).renderables
    console = Console(file=io.StringIO(), width=min(width or WIDEST, WIDEST), highlight=False)
    with console.capture() as captured:
        console.print(*parts, *[sentences] * notes)
    return "\n".join(line.rstrip() for line in captured.get().splitlines())


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
    from vpintegrator.storage.reading import read_json

    attributes = dataset.attributes
    system = dataset.system
    groups = inspect_dataset(dataset)
    recipe = read_toml(dataset.recipe, f"recipe in {dataset.path}")
    facts = dataset_facts(dataset)
    if returns := system.equations.returns:
        facts["return_map"] = returns.words
    facts["solver"] = "iterated by formula" if system.is_discrete else "not known"
    facts |= {key: attributes[key] for key in ("solver", "rtol", "atol") if key in attributes}
    origins = ("imported", "split", "initial_conditions", "vary")
    facts |= {key: recipe[key] for key in origins if isinstance(recipe.get(key), dict)}
    low = np.fmin.reduce([group.low for group in groups.values()])
    high = np.fmax.reduce([group.high for group in groups.values()])
    pairs = zip(low.tolist(), high.tolist(), strict=True)
    facts |= {
        "steps" if "step" in dataset.varied or system.is_discrete else "times": {
            name: group.times for name, group in groups.items()
        },
        "missing": {name: group.missing for name, group in groups.items() if group.missing},
        "infinite": {name: group.infinite for name, group in groups.items() if group.infinite},
        "ranges": dict(zip(system.components, pairs, strict=True)),
        "largest_change": {
            invariant.replace("_", " "): {
                name: group.changes[invariant] for name, group in groups.items() if group.shape[0]
            }
            for invariant in system.invariants
        },
        "made_with": read_json(
            str(attributes.get("versions", "{}")), f"{dataset.path}: the attribute 'versions'"
        ),
        "format": f"{attributes['format']}, version {attributes['format_version']}",
    }

    def preview() -> Figure:
        from vpintegrator.plotting.figures.portraits import PreviewFigure

        return PreviewFigure(dataset)

    return Overview(_text(dataset.title, facts | {"title": {}}), facts, preview)


def dataset_facts(dataset: Dataset) -> dict[str, Any]:
    """Return the properties of a dataset, without its states."""
    return {
        "title": dataset.title,
        "system": dataset.system.name,
        "parameters": dict(dataset.parameters),
        "components": list(dataset.system.components),
        "step": tuple(dataset.varied["step"]) if "step" in dataset.varied else dataset.step,
        "varied": {name: tuple(bounds) for name, bounds in dataset.varied.items()},
        "seed": dataset.seed,
        "shapes": {name: list(shape) for name, shape in dataset.shapes.items()},
        "accuracy": dict(dataset.accuracy),
        "complete": dataset.is_complete,
        "observed": dataset.observation.words,
        "fingerprint": dataset.fingerprint,
    }


def notes_of_import(dataset: Dataset) -> list[tuple[str, str]]:
    """Return lines on what an import assumed of its source."""
    record = read_toml(dataset.recipe, f"recipe in {dataset.path}").get("imported")
    notes = record.get("notes") if isinstance(record, dict) else None
    return [("note", str(text)) for text in notes] if isinstance(notes, list) else []


def _show_model(path: Path) -> Overview:
    from vpintegrator.measure.rows import OneStepTable
    from vpintegrator.models import load

    model = load(path)
    facts = model_facts(model)
    shown = facts | {"one_step": {}}
    if model.domain is not None:
        shown["region"] = model.domain.components | model.domain.invariants
    text = _text(f"Model: {model.description}", shown)
    if rows := model.record.one_step:
        text += f"\n{OneStepTable.of_values(rows, f'{path}: the table of one step')}"

    def training() -> Figure:
        from vpintegrator.plotting.figures.models import TrainingFigure, read_training

        return TrainingFigure(read_training(path))

    return Overview(text, facts, training)


def model_facts(model: Model) -> dict[str, Any]:
    """Return the properties of a model, and of its training."""
    origin = model.origin
    record = model.record
    system = origin.system
    history = {} if record.history is None else record.history.summary()
    origins = {
        "system": system and system.name,
        "parameters": system and dict(system.definitions),
        **{name: getattr(origin, name) for name in ("step", "dataset", "fingerprint")},
    }
    notes = ("provenance", "data", "versions", "initial_scheme", "start", "attention")
    measured = ("lead_time_errors", "search", "search_seconds")
    others = {name: getattr(record, name) for name in (*notes, *measured)}
    return {
        "model": model.name,
        "arguments": dict(model.arguments),
        "parameters": sum(p.numel() for p in model.parameters()),
        "dtype": str(model.scale.dtype).removeprefix("torch."),
        "form": model.structure.form,
        "structure": [*model.structure.words, *["invertible"] * model.invertible],
        "measure_preserving": model.measure_preserving,
        "remark": model.remark,
        "invariants": {} if model.invariants is None else model.invariants.sizes,
        "reversing_symmetries": len(model.reversing_symmetries),
        "family": dict(model.ranges),
        "region": {} if origin.domain is None else asdict(origin.domain),
        "one_step": {"rows": [*record.one_step]} if record.one_step else {},
        "training": {k: v for k, v in history.items() if not isinstance(v, list) and v != ""},
        "origin": {name: value for name, value in origins.items() if value},
        "record": {name: value for name, value in others.items() if value},
    }


def fit_facts(fit: Fit) -> dict[str, Any]:
    """Return the properties of a trained model, and those of every model that was tried."""
    numbers = ("kind", "error", "deviation", "seconds", "stopped_by")
    tried = ("kind", "size", "parameters", "error", "seconds")
    from vpintegrator.models import Model

    return {
        **(model_facts(fit.model) if isinstance(fit.model, Model) else {"model": fit.model.name}),
        **{name: getattr(fit, name) for name in numbers},
        "tried": [{name: getattr(each, name) for name in tried} for each in fit.tried],
        "windows": dict(fit.windows),
        "history": fit.history.summary(),
    }
