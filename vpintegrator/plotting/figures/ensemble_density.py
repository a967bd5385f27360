"""Density of the states of an ensemble on a plane: counts in each cell."""

from __future__ import annotations

import matplotlib.figure
from matplotlib.axes import Axes

from vpintegrator.plotting.density import FEW, coarser, draw_counts, ends_of_scale
from vpintegrator.plotting.ensemble_scene import EnsembleScene
from vpintegrator.plotting.layout import (
    FigureDeclaration,
    colour_bar,
    draw_panels,
    hide_inner_labels,
)
from vpintegrator.plotting.names import grouped

_ROOM = 0.8  # share of a panel's width inside its axes
_ALONE = 0.75  # width of a single panel, as a share of the page


def _draw(scene: EnsembleScene) -> matplotlib.figure.Figure:
    style, ensembles = scene.style, scene.ensembles
    columns = min(len(ensembles), 2)
    rows = -(-len(ensembles) // columns)
    width = style.wide if columns > 1 else style.width or _ALONE * style.page
    most = int(_ROOM * width / columns * style.dots_per_inch)
    counts = {name: coarser(each.density, most) for name, each in ensembles.items()}
    ends, images = ends_of_scale(list(counts.values())), []

    def draw(axes: Axes, name: str) -> None:
        images.append(draw_counts(axes, counts[name], ensembles[name].plan.view, style, ends))
        x, y = scene.axes_names
        axes.set(xlabel=x, ylabel=y)
        scene.name_panel(axes, name)

    row = 0.8 * width / columns / style.em
    figure, panels = draw_panels(style, ensembles, draw, columns, width, row, 2)
    for k, axes in enumerate(panels):
        hide_inner_labels(axes, k, columns, rows)
    image = next(filter(None, images), None)
    if image is not None:
        every = figure.axes[: rows * columns]
        colour_bar(figure, image, every, "states in a cell", style, fraction=0.05)
    return figure


def _caption(scene: EnsembleScene) -> list[str]:
    plan = scene.first.plan
    sentences = [
        f"{scene.first.system.title}: states of {len(found.left)} trajectories of {plan.steps} "
        f"steps of {title}, {int(found.density.sum())} in the plane ({', '.join(plan.names)})"
        f"{f', {found.off} outside of it' if found.off else ''}."
        for found, title in ((each, each.title) for each in scene.ensembles.values())
    ]
    if any(each.density.sum() > FEW for each in scene.ensembles.values()):
        cells = f"{grouped(plan.columns)} by {grouped(plan.rows)} cells"
        sentences.append(f"The colour of a cell, one of {cells}, is how many are in it.")
    return [*sentences, *scene.domains]


DENSITY = FigureDeclaration("density", _draw, _caption)
