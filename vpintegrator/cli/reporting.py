"""What vp-gen says about a dataset that it has written."""

from __future__ import annotations

from itertools import zip_longest
from math import floor, log10
from typing import TYPE_CHECKING

from vpintegrator.catalogue import read_toml
from vpintegrator.cli.common import console
from vpintegrator.cli.output import write_json
from vpintegrator.cli.results import dataset_results

if TYPE_CHECKING:
    from vpintegrator.data import Dataset


def report_generated(dataset: Dataset) -> None:
    """Of trajectories that were integrated."""
    out = console()
    drift = ", ".join(
        f"{k.replace('_', ' ')} {v:.1e}" for k, v in dataset.accuracy["invariant_drift"].items()
    )
    out.print(dataset.title, style="bold")
    _trajectories(dataset)
    out.print(
        f"  accuracy       error about {dataset.accuracy['estimated_error']:.1e} "
        f"({dataset.accuracy['sample']} trajectories integrated again, more tightly)",
        soft_wrap=True,
    )
    if drift:
        out.print(
            f"  invariants     largest change, relative to the largest value: {drift}",
            soft_wrap=True,
        )
    if dataset.noise is not None and dataset.noise.any():
        noise = ", ".join(f"{value:.2g}" for value in dataset.noise)
        out.print(
            f"  noise          standard deviation {noise}, on what is trained on", soft_wrap=True
        )
    _written(dataset)


def report_imported(dataset: Dataset) -> None:
    """Of trajectories that existed before."""
    out = console()
    out.print(dataset.title, style="bold")
    recipe = read_toml(dataset.recipe, f"recipe in {dataset.path}")
    record, equations = recipe["imported"], recipe.get("equations", {})
    states = ", ".join(
        f"{name} [{unit}]" if unit else name
        for name, unit in zip_longest(dataset.system.components, record["units"])
    )
    out.print(f"  states         {states}", soft_wrap=True, markup=False)
    for text in record["guessed"]:
        out.print(f"  guessed        {text}", soft_wrap=True, markup=False)
    system = dataset.system.title
    if dataset.system.is_measured:
        system = "equations not known: what needs them is left out (--system gives them)"
    out.print(f"  system         {system}", soft_wrap=True)
    for name, (value, error) in equations.get("fitted", {}).items():
        out.print(f"  fitted         {name} = {_uncertain(value, error)}", soft_wrap=True)
    if equations:
        style = "bold red" if equations["fits"] == "no" else None
        text = f"  equations      {equations['said']}"
        out.print(text, soft_wrap=True, markup=False, style=style)
    _trajectories(dataset)
    if not dataset.is_complete:
        out.print(
            "  missing        some states were not observed; no window that lacks one is used",
            soft_wrap=True,
        )
    _written(dataset)


def _uncertain(value: float, error: float) -> str:
    """A value with as many digits as its standard error leaves."""
    if not 0 < error < float("inf"):
        return f"{value:.8g}"
    digits = max(1 - floor(log10(error)), 0)
    return f"{value:.{min(digits, 15)}f} +- {error:.2g} (standard error)"


def _trajectories(dataset: Dataset) -> None:
    console().print(f"  trajectories   {dataset.description}", soft_wrap=True)


def _written(dataset: Dataset) -> None:
    write_json(lambda: {"output": dataset.path, **dataset_results(dataset)})
    out, size = console(), _size(dataset.path.stat().st_size)
    out.print(f"  written to     {dataset.path} ({size})", soft_wrap=True)
    if "shards" in dataset.attributes:
        files = list(dataset.path.with_name(dataset.attributes["shards"]).glob("*.h5"))
        size = _size(sum(file.stat().st_size for file in files))
        out.print(
            f"                 with its {len(files)} shards in {dataset.attributes['shards']} "
            f"({size}), to be kept beside it",
            soft_wrap=True,
        )


def _size(bytes_: int) -> str:
    return f"{bytes_ / 2**20:.3g} MiB" if bytes_ < 2**30 else f"{bytes_ / 2**30:.3g} GiB"
