"""What vp-gen says about the catalogue."""

from __future__ import annotations

import itertools
from dataclasses import asdict
from typing import Any

from vpintegrator.cli.common import console
from vpintegrator.cli.output import write_json


def list_catalogue() -> None:
    """Print the datasets, and the systems under their subjects."""
    from rich.table import Column, Table
    from rich.text import Text

    from vpintegrator.catalogue import recipe_summaries, system_summaries

    out = console()
    look: dict[str, Any] = {
        "box": None,
        "pad_edge": False,
        "title_justify": "left",
        "title_style": "bold",
    }
    systems = Table(
        Column("system", no_wrap=True),
        Column("dim", no_wrap=True),
        Column("structure", no_wrap=True),
        "title",
        title="Systems (dim: with the parameter that sets it, as in -p n=16)",
        **look,
    )
    for subject, group in itertools.groupby(system_summaries(), key=lambda system: system.subject):
        systems.add_section()
        systems.add_row(Text(subject, style="italic"))
        for system in group:
            size = f" ({system.size})" if system.size else ""
            structure = system.structure.replace("not divergence-free", "neither")
            systems.add_row(system.name, f"{system.dim}{size}", structure, system.title)
    datasets = Table(
        Column("dataset", no_wrap=True),
        Column("trajectories", no_wrap=True),
        "title",
        title="Datasets (each system is one, too: 1,300 trajectories as it suggests)",
        **look,
    )
    for recipe in recipe_summaries():
        datasets.add_row(
            recipe.name,
            f"{recipe.count} of {recipe.steps} steps of {recipe.step:g}",
            recipe.title,
        )
    out.print(systems, "", datasets)
    write_json(
        lambda: {
            "systems": [asdict(system) for system in system_summaries()],
            "datasets": [asdict(recipe) for recipe in recipe_summaries()],
        }
    )
