"""Loading of recipes: from the catalogue, a file, or the defaults of a system."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from vpintegrator.catalogue import DATASETS, SYSTEMS, catalogue
from vpintegrator.data.recipe import Recipe
from vpintegrator.data.split import GROUPS, Split
from vpintegrator.data.variation import Variation
from vpintegrator.dynamics import System, load_system
from vpintegrator.dynamics.load import find_description, is_path
from vpintegrator.errors import InputError
from vpintegrator.storage.toml import check_keys, read_toml

_SOLVER = ("method", "rtol", "atol")
_RETURN_TOLERANCE = 1e-13
_TABLES: dict[str, Any] = {"split": Split.from_table, "vary": Variation.from_table}


def load_recipe(
    source: str | os.PathLike[str] | Recipe | System,
    *,
    count: int | None = None,
    step: float | None = None,
    steps: int | None = None,
    trajectories: Mapping[str, int] | None = None,
    initial_conditions: Mapping[str, Any] | None = None,
    split: Split | Mapping[str, Any] | None = None,
    vary: Variation | Mapping[str, Any] | None = None,
    parameters: Mapping[str, Any] | None = None,
    method: str | None = None,
    rtol: float | None = None,
    atol: float | None = None,
    seed: int | None = None,
) -> Recipe:
    """Load a recipe, or make one for a system.

    Parameters
    ----------
    source
        A name in the catalogue (:func:`vpintegrator.list_recipes`), the path of a TOML file, TOML
        text, or the same for a system, whose defaults then make the recipe; or a system that is
        loaded.
    count
        Trajectories in all.
    step, steps, trajectories, initial_conditions, method, rtol, atol, seed
        Values that replace those of the recipe, see :class:`Recipe`.
    split, vary
        The same, or dictionaries that replace some of their entries.
    parameters
        Values of the system's parameters.

    Raises
    ------
    InputError
        If there is no such recipe or system, or it cannot be understood.

    Examples
    --------
    >>> vp.load_recipe("rigid-body").system.name
    'rigid-body'
    """
    values: dict[str, Any] = {
        "step": step,
        "steps": steps,
        "trajectories": trajectories,
        "initial_conditions": initial_conditions,
        "method": method,
        "rtol": rtol,
        "atol": atol,
        "seed": seed,
    }
    if step is None:
        values["step"] = _middle_step(vary, "recipe")
    changes = {key: each for key, each in values.items() if each is not None}
    tables = {key: each for key, each in (("split", split), ("vary", vary)) if each is not None}
    if isinstance(source, Recipe):
        if parameters:
            changes["system"] = source.system.with_parameters(parameters)
        recipe = dataclasses.replace(source, **changes)
    elif isinstance(source, System):
        system = source.with_parameters(parameters) if parameters else source
        recipe = _recipe(system, source.name, {"title": system.title}, changes)
    else:
        known = {**catalogue(SYSTEMS), **catalogue(DATASETS)}  # a dataset comes before its system
        text, found, path = find_description(source, known, "dataset or system")
        name = found or "text"
        label = name if path is None else f"{name}.toml"
        table = read_toml(text, label)
        if "state" in table or "system" not in table:
            system = System(text, name, parameters or {}, source=label)
            recipe = _recipe(system, label, {"title": system.title}, changes)
        else:
            folder = None if path is None else path.parent
            system, entries = _read(table, label, folder, parameters or {})
            recipe = _recipe(system, label, entries, changes)
    recipe = _with_tables(recipe, tables)
    return recipe if count is None else recipe.with_count(count)


def _recipe(
    system: System, label: str, entries: Mapping[str, Any], changes: Mapping[str, Any]
) -> Recipe:
    """Return the recipe of the system's defaults, entries of a file, and changes of these."""
    system.require_equations("integrating")
    suggested = {key: value for key, value in system.defaults.items() if key in ("step", "steps")}
    if system.flow is not None:  # a step is a whole solution, whose errors add up
        suggested |= {"rtol": _RETURN_TOLERANCE, "atol": _RETURN_TOLERANCE}
    values = {"steps": 100, **suggested, **entries, **changes}
    if "step" not in values:
        raise InputError(f"{label} suggests no step; give one with --step (step=... in Python)")
    return Recipe(system=system, source=label, **values)


def _read(
    table: Mapping[str, Any], label: str, folder: Path | None, parameters: Mapping[str, Any]
) -> tuple[System, dict[str, Any]]:
    """Return the system of the table of a recipe, and the other arguments of the recipe."""
    names = [field.name for field in dataclasses.fields(Recipe)]
    plain = [name for name in names if name not in (*_SOLVER, *_TABLES, "system", "source")]
    texts = ["title", "reference", "system", "system_name"]
    kinds = {
        **dict.fromkeys(["parameters", "trajectories", "initial_conditions", "solver"], dict),
        **dict.fromkeys(_TABLES, dict),
        **dict.fromkeys(texts, str),
    }
    check_keys(table, [*plain, *kinds], label)
    for key, kind in kinds.items():
        if not isinstance(table.get(key, kind()), kind):
            words = "text in quotes" if kind is str else f"a table, written [{key}]"
            raise InputError(f"{label}: '{key}' must be {words}, not {table[key]!r}")
    solver, name = table.get("solver", {}), table["system"]
    check_keys(solver, _SOLVER, f"{label}, [solver]")
    values = {**table.get("parameters", {}), **parameters}
    if "\n" in name:
        system = System(name, table.get("system_name") or None, values, source=f"{label}, system")
    elif is_path(name) and folder is not None:  # meant from the recipe's own folder
        system = load_system(folder / name, **values)
    else:
        system = load_system(name, **values)
    middle = _middle_step(table.get("vary"), label)
    return system, {
        **({} if middle is None else {"step": middle}),
        **{key: table[key] for key in plain if key in table},
        **solver,
        **{key: read(table[key], label) for key, read in _TABLES.items() if key in table},
    }


def _middle_step(vary: Any, where: str) -> float | None:
    """Return the middle of the steps, where they vary: the step that stands for all of them."""
    if isinstance(vary, Mapping):
        vary = Variation.from_table(vary, where)
    return vary.of_step.middle if isinstance(vary, Variation) and vary.of_step else None


def _with_tables(recipe: Recipe, tables: Mapping[str, Any]) -> Recipe:
    """Return the recipe with entries of such tables replaced."""
    changes: dict[str, Any] = dict(tables)
    for key, given in tables.items():
        if isinstance(given, Mapping):
            table = dict(getattr(recipe, key).table)
            if any(name in given for name in GROUPS):
                table = {k: v for k, v in table.items() if k not in GROUPS}
            changes[key] = _TABLES[key]({**table, **given}, "recipe")
    split = changes.get("split", recipe.split)
    if split.by == "trajectory" and split.fractions is not None:
        counts = split.counts(recipe.count)
        changes |= {"split": Split(), "trajectories": dict(zip(GROUPS, counts, strict=True))}
    return dataclasses.replace(recipe, **changes) if changes else recipe
