"""Reports of vp-gen on a dataset that it has written."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import floor, log10
from typing import TYPE_CHECKING, Any

from vpintegrator.cli.common import say, say_title
from vpintegrator.cli.output import write_json
from vpintegrator.cli.results import dataset_results
from vpintegrator.data.inspection import accuracy_text
from vpintegrator.storage.toml import read_toml

if TYPE_CHECKING:
    from vpintegrator.data import Dataset
    from vpintegrator.dynamics import Bodies


def report_generated(dataset: Dataset) -> None:
    """Print a report on a dataset of integrated trajectories."""
    say_title(dataset.title)
    say("trajectories", dataset.description)
    error = dataset.accuracy.get("estimated_error")
    say(
        "accuracy",
        "iterated by formula: exact but for rounding"
        if error is None
        else accuracy_text(f"{error:.1e}", dataset.accuracy),
    )
    drift = ", ".join(
        f"{k.replace('_', ' ')} {v:.1e}" for k, v in dataset.accuracy["invariant_drift"].items()
    )
    if drift:
        say("invariants", f"largest change, relative to the largest value: {drift}")
    _written(dataset)


def report_imported(dataset: Dataset) -> None:
    """Print a report on a dataset of imported trajectories."""
    say_title(dataset.title)
    recipe = read_toml(dataset.recipe, f"recipe in {dataset.path}")
    states, *guessed = told_of_import(dataset.system.components, recipe)
    system = dataset.system.title
    if dataset.system.is_measured:
        system = "equations not known: what needs them is left out (--system gives them)"
    misfits = recipe.get("equations", {}).get("fits") == "no"
    for heading, text in [states, *guessed, ("system", system), *told_of_equations(recipe)]:
        say(heading, text, "bold red" if heading == "equations" and misfits else None)
    say("trajectories", dataset.description)
    if not dataset.is_complete:
        say("missing", "some states were not observed; no window that lacks one is used")
    _written(dataset)


def told_of_import(components: Sequence[str], recipe: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return lines on units, guesses and structure of imported states."""
    record = recipe.get("imported")
    record = record if isinstance(record, dict) else {}
    units, guessed = record.get("units"), record.get("guessed")
    units = [str(unit) for unit in units] if isinstance(units, list) else []
    units += [""] * (len(components) - len(units))
    pairs = zip(components, units, strict=False)
    states = ", ".join(f"{name} [{unit}]" if unit else name for name, unit in pairs)
    guessed = guessed if isinstance(guessed, list) else []
    told = [("states", states), *(("guessed", str(text)) for text in guessed)]
    structure = record.get("structure")
    structure = structure if isinstance(structure, list) else []
    return [*told, *(("structure", str(text)) for text in structure)]


def told_of_equations(recipe: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return lines on fitted parameters, and on how well equations describe imported states."""
    equations = recipe.get("equations")
    equations = equations if isinstance(equations, dict) else {}
    fitted = equations.get("fitted")
    told = []
    for name, found in fitted.items() if isinstance(fitted, dict) else ():
        if isinstance(found, list) and [type(part) for part in found] == [float, float]:
            told.append(("fitted", f"{name} = {_uncertain(*found)}"))
    if "said" in equations:
        told.append(("equations", str(equations["said"])))
    return told


def _uncertain(value: float, error: float) -> str:
    """Return a value with as many digits as its standard error allows."""
    if not 0 < error < float("inf"):
        return f"{value:.8g}"
    digits = max(1 - floor(log10(error)), 0)
    return f"{value:.{min(digits, 15)}f} +- {error:.2g} (standard error)"


def _written(dataset: Dataset) -> None:
    write_json(lambda: {"output": dataset.path, **dataset_results(dataset)})
    say("written to", f"{dataset.path} ({_size(dataset.path.stat().st_size)})")
    if "shards" in dataset.attributes:
        files = list(dataset.path.with_name(dataset.attributes["shards"]).glob("*.h5"))
        size = _size(sum(file.stat().st_size for file in files))
        shards = f"its {len(files)} shards in {dataset.attributes['shards']} ({size})"
        say("", f"with {shards}, to be kept beside it")


def _size(bytes_: int) -> str:
    return f"{bytes_ / 2**20:.3g} MiB" if bytes_ < 2**30 else f"{bytes_ / 2**30:.3g} GiB"


def told_of_bodies(bodies: Bodies) -> str:
    """Return words such as ``3 bodies of 2 components``."""
    return (
        f"{bodies.count} {'body' if bodies.count == 1 else 'bodies'} of {bodies.dimension} "
        f"{'component' if bodies.dimension == 1 else 'components'}"
    )
