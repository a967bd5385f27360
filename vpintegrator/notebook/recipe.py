"""A recipe in a notebook: its trajectories, solver and text."""

from __future__ import annotations

from vpintegrator.data import Recipe
from vpintegrator.notebook.dataset import about
from vpintegrator.notebook.page import facts, folded, heading, whole


def html(recipe: Recipe) -> str:
    """Return HTML of a recipe: trajectories, steps, solver and seed; the TOML text folded."""
    count = ", ".join(f"{number:,} {group}" for group, number in recipe.trajectories.items())
    solver = "none: iterated by formula"
    if recipe.is_solved:
        solver = f"{recipe.method}, relative tolerance {recipe.rtol:g}, absolute {recipe.atol:g}"
    varied = {} if recipe.vary is None else recipe.vary.ranges
    return whole(
        heading(recipe.title or recipe.system.title, about(recipe.system)),
        facts(
            [
                ("trajectories", count),
                ("steps", f"{recipe.steps:,} of {recipe.step:g}"),
                *((name, f"{range.low:g} to {range.high:g}") for name, range in varied.items()),
                ("solver", solver),
                ("seed", recipe.seed),
            ]
        ),
        folded("as TOML", recipe.text),
    )
