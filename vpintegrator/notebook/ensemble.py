"""The statistics of an ensemble in a notebook: its numbers, and its density on the plane."""

from __future__ import annotations

import math

from vpintegrator.notebook.figures import drawn
from vpintegrator.notebook.page import facts, heading, whole
from vpintegrator.plotting.ensemble_scene import EnsembleScene
from vpintegrator.plotting.figures.ensemble_density import DENSITY
from vpintegrator.plotting.style import PAPER
from vpintegrator.rollout import EnsembleStatistics


def html(found: EnsembleStatistics) -> str:
    """Return HTML of an ensemble: trajectories that stay, times of leaving, rotation numbers."""
    row = found.table()[0]
    count, states = row["trajectories"], row["states"]
    title = f"{found.title}: {count:,} trajectories of {row['steps']:,} steps"
    facts_ = [
        ("system", f"{found.system.title} ({found.system.name})"),
        ("step", f"{found.step:g}"),
        ("states", f"{states:,}, {found.off:,} of them outside of the view"),
        ("confined", f"{100 * row['confined']:.4g} % to the end"),
        ("median step of leaving", _known(row["median_left"])),
    ]
    if found.domain_words:
        facts_.append(("training domain", found.domain_words))
    if "regular" in row:
        turns = f"{row['rotation_from']:.6g} to {row['rotation_to']:.6g}"
        regular = f"{100 * row['regular']:.4g} %; {found.length_words}"
        facts_ += [("turns per step", turns), ("regular", regular)]
    scene = EnsembleScene({found.name: found}, PAPER)
    return whole(heading(title), facts(facts_), drawn(DENSITY, scene, f"Density: {title}"))


def _known(value: float) -> str:
    return f"{value:g}" if math.isfinite(value) else "none left"
