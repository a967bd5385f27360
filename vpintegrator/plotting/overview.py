"""One page that tells the story: orbits early and late above, the growth of every error below."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import matplotlib.figure
import numpy as np
from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from vpintegrator.plotting.errors import draw_all_errors, has_errors
from vpintegrator.plotting.fates import draw_fate, pale, typical_and_worst
from vpintegrator.plotting.invariants import draw_invariant
from vpintegrator.plotting.layout import (
    columns_that_fit,
    hide_inner_labels,
    legend_lines,
    new_figure,
)
from vpintegrator.plotting.names import grouped, shortened
from vpintegrator.plotting.phase import panel_title, portrait_kind
from vpintegrator.plotting.scene import Scene
from vpintegrator.plotting.volume import draw_volume_error, volumes_measured

_PORTRAITS = 5
_FEW = 3  # portraits that would be stretched if they filled the width
_TITLE = 1.25  # letters of the title in an em of the figure's width
_PORTRAIT, _PANEL = 11.5, 18  # em: least widths


def portraits_shown(scene: Scene) -> list[str]:
    """The methods whose portraits fit, learned ones first."""
    fit = min(_PORTRAITS, columns_that_fit(scene, scene.style.wide, _PORTRAIT))
    return list(scene.looks)[:fit]


def panels_shown(scene: Scene) -> list[tuple[str, Callable[[Axes], None]]]:
    """The titles of the panels of errors, and what draws each."""
    panels: list[tuple[str, Callable[[Axes], None]]] = []
    if has_errors(scene):
        panels.append(("trajectory", lambda axes: draw_all_errors(axes, scene)))
    first = next(iter(scene.system.invariants), None)
    if first is not None:
        title = scene.text(shortened(scene.labels[first]))
        panels.append((title, lambda axes: draw_invariant(axes, scene, first)))
    if "step" in volumes_measured(scene):
        panels.append(("volume of one step", lambda axes: draw_volume_error(axes, scene, "step")))
    return panels


def overview(scene: Scene) -> matplotlib.figure.Figure:
    """For the first methods a typical orbit and the worst one; errors of all of them."""
    report, style = scene.report, scene.style
    names, panels = portraits_shown(scene), panels_shown(scene)
    columns = min(len(panels), columns_that_fit(scene, style.wide, _PANEL))
    rows = -(-len(panels) // columns) if panels else 0
    kind = portrait_kind(scene)
    orbits_of = {name: typical_and_worst(scene, name) for name in names}
    ranks = ["typical", "worst"][: len(report.reference)]
    width = style.wide / style.em
    above = len(ranks) * min(0.86 * width / len(names), 15) + 3.5
    below = 18.5 * rows
    lines = [*legend_lines(scene, reference=True), *_stretches(scene)]
    figure = new_figure(scene, style.wide, above + below, lines)
    heights = [above, below] if panels else [above]
    grid = figure.add_gridspec(len(heights), 1, height_ratios=heights)
    upper = grid[0].subgridspec(len(ranks), len(names))
    solid = {"projection": "3d"} if kind == "space" else {}
    for row, rank in enumerate(ranks):
        for k, name in enumerate(names):
            axes = figure.add_subplot(upper[row, k], **solid)
            draw_fate(axes, scene, name, orbits_of[name][row], rank)
            if kind == "plane" and len(names) < _FEW and not scene.system.plot.equal:
                axes.set_box_aspect(0.75)
            if kind == "plane":
                hide_inner_labels(axes, row * len(names) + k, len(names), len(ranks))
            if row == 0:
                axes.set_title(panel_title(scene, name), color=scene.looks[name].colour)
    if panels:
        lower = grid[1].subgridspec(rows, columns)
        for place, (title, draw_panel) in zip(np.ndindex(rows, columns), panels, strict=False):
            axes = figure.add_subplot(lower[place])
            draw_panel(axes)
            axes.set_title(title)
    orbits = "orbit" if len(report.reference) == 1 else "orbits"
    title = f"{scene.text(report.system.title)}: {len(report.reference)} {orbits}"
    setting = f"to $t$ = {grouped(report.times[-1])}, step {report.step:g}"
    short = len(title) + len(setting) < _TITLE * width
    figure.suptitle(
        f"{title}{' ' if short else chr(10)}{setting}",
        fontsize=1.15 * style.letters,
        fontweight="bold",
    )
    return figure


def _stretches(scene: Scene) -> list[Line2D]:
    """The legend's entries of what is early and what is late."""
    style = scene.style
    colours: dict[str, Any] = {"early": pale(style.foreground, style), "late": style.foreground}
    return [
        Line2D([], [], color=colour, lw=1.2 * style.line, label=label)
        for label, colour in colours.items()
    ]
