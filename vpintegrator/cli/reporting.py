"""Reports of vp-gen on a dataset that it has written."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from vpintegrator.cli.common import say, say_title
from vpintegrator.cli.output import write_json
from vpintegrator.cli.results import dataset_results
from vpintegrator.data.inspection import accuracy_text
from vpintegrator.storage.toml import read_toml

if TYPE_CHECKING:
    from vpintegrator.data import Dataset


def report_generated(dataset: Dataset) -> None:
    """Print a report on a dataset of integrated trajectories."""
    say_title(dataset.title)
    say("trajectories", dataset.description)
    error = dataset.accuracy.get("estimated_error")
    way = f"states of {dataset.attributes.get('solver')}"
    if dataset.system.is_discrete:
        way = "iterated by formula"
    say(
        "accuracy",
        f"{way}: exact but for rounding"
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
    system = dataset.system.title
    if dataset.system.is_measured:
        system = "equations not known: what needs them is left out (--system gives them)"
    say("states", ", ".join(dataset.system.components))
    for heading, text in [*notes_of_import(recipe), ("system", system)]:
        say(heading, text)
    say("trajectories", dataset.description)
    if not dataset.is_complete:
        say("lengths", "some trajectories are shorter than others")
    _written(dataset)


def notes_of_import(recipe: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return lines on what an import assumed of its source."""
    record = recipe.get("imported")
    notes = record.get("notes") if isinstance(record, dict) else None
    return [("note", str(text)) for text in notes] if isinstance(notes, list) else []


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
