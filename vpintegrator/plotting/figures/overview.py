"""Overview on one page: orbits early and late above, the growth of every error below."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import matplotlib.figure
import numpy as np
from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from vpintegrator.plotting.captions import closing, definitions, listed, long_steps
from vpintegrator.plotting.figures import error_curves, invariant_curves
from vpintegrator.plotting.figures.error_curves import draw_all_errors, has_errors
from vpintegrator.plotting.figures.invariant_curves import draw_invariant
from vpintegrator.plotting.figures.volume_errors import (
    draw_volume_error,
    volume_numbers,
    volumes_measured,
)
from vpintegrator.plotting.layout import (
    FigureDeclaration,
    columns_that_fit,
    entry,
    hide_inner_labels,
    legend_lines,
    new_figure,
    reference_line,
)
from vpintegrator.plotting.names import grouped, orbits, plain, shortened
from vpintegrator.plotting.portraits import (
    axes_of_portraits,
    draw_fate,
    end_of_early_part,
    last_in_common,
    orbits_shown,
    own_mark,
    pale,
    panel_title,
    portrait_kind,
    reference_mark,
)
from vpintegrator.plotting.scene import Scene

_PORTRAITS = 5
_FEW = 3  # portraits that would be stretched if they filled the width
_TITLE = 1.25  # letters of the title in an em of the figure's width
_PORTRAIT, _PANEL = 11.5, 18  # em: least widths


def portraits_shown(scene: Scene) -> list[str]:
    """Return the methods whose portraits fit, learned methods first."""
    fit = min(_PORTRAITS, columns_that_fit(scene.style, scene.style.wide, _PORTRAIT))
    return list(scene.looks)[:fit]


def panels_shown(scene: Scene) -> list[tuple[str, Callable[[Axes], None]]]:
    """Return the panels of errors, functions that draw them by title."""
    panels: list[tuple[str, Callable[[Axes], None]]] = []
    if has_errors(scene):
        panels.append(("trajectory", lambda axes: draw_all_errors(axes, scene)))
    first = next(iter(scene.system.invariants), None)
    if first is not None:
        title = plain(shortened(scene.labels[first]))
        panels.append((title, lambda axes: draw_invariant(axes, scene, first)))
    if "step" in volumes_measured(scene):
        panels.append(("volume of one step", lambda axes: draw_volume_error(axes, scene, "step")))
    return panels


def _draw(scene: Scene) -> matplotlib.figure.Figure:
    report, style = scene.report, scene.style
    names, panels = portraits_shown(scene), panels_shown(scene)
    columns = min(len(panels), columns_that_fit(style, style.wide, _PANEL))
    rows = -(-len(panels) // columns) if panels else 0
    kind = portrait_kind(scene)
    ranks = orbits_shown(scene)
    width = style.wide / style.em
    above = len(ranks) * min(0.86 * width / len(names), 15) + 3.5
    below = 18.5 * rows
    lines = [*legend_lines(scene), *reference_line(scene), *_times(scene)]
    figure = new_figure(style, style.wide, above + below, lines)
    heights = [above, below] if panels else [above]
    grid = figure.add_gridspec(len(heights), 1, height_ratios=heights)
    upper = grid[0].subgridspec(len(ranks), len(names))
    solid = {"projection": "3d"} if kind == "space" else {}
    for row, (orbit, rank) in enumerate(ranks.items()):
        for k, name in enumerate(names):
            axes = figure.add_subplot(upper[row, k], **solid)
            draw_fate(axes, scene, name, orbit, "" if k else rank)
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
    title = f"{plain(report.system.title)}: {orbits(len(report.reference))}"
    setting = f"to $t$ = {grouped(report.times[-1])}, step {report.step:g}"
    short = len(title) + len(setting) < _TITLE * width
    figure.suptitle(
        f"{title}{' ' if short else chr(10)}{setting}",
        fontsize=1.15 * style.letters,
        fontweight="bold",
    )
    return figure


def _times(scene: Scene) -> list[Line2D]:
    """Return legend entries for early and late times, and for the marks at the last time."""
    style = scene.style
    colours: dict[str, Any] = {"early": pale(style.foreground, style), "late": style.foreground}
    entries = [entry(label, color=colour, lw=1.2 * style.line) for label, colour in colours.items()]
    if _is_marked(scene):
        dot = own_mark(scene, style.foreground)
        entries.append(entry("at the last time", **dot))
        entries.append(entry("reference then", **reference_mark(scene)))
    return entries


def _is_marked(scene: Scene) -> bool:
    """Whether the positions at the last time are drawn anywhere."""
    names = portraits_shown(scene)
    pairs = ((name, orbit) for name in names for orbit in orbits_shown(scene))
    return any(last_in_common(scene, *pair) is not None for pair in pairs)


def _caption(scene: Scene) -> list[str]:
    names = [scene.runs[name].title for name in portraits_shown(scene)]
    errors = error_curves.curves_shown(scene)
    about = []
    first = next(iter(scene.system.invariants), None)
    if first is not None:
        about = [invariant_curves.CURVES, invariant_curves.invariant_numbers(scene, first)]
    return [
        f"Above: {_fates(scene)} of {listed(names)}.",
        *definitions(scene.system, axes_of_portraits(scene)),
        *([f"Below: {errors}."] if has_errors(scene) else []),
        *error_curves.error_numbers(scene),
        *about,
        *(text for kind in volumes_measured(scene) for text in volume_numbers(scene, kind)),
        *closing(scene, floor=True),
    ]


def _fates(scene: Scene) -> str:
    """Return a description of the portraits."""
    name = portraits_shown(scene)[0]
    span = (
        f"pale to t = {end_of_early_part(scene, name)}, in full colour at the end or before it "
        f"diverges{', with the reference in grey at these times' if scene.referenced else ''}"
        f"{long_steps(scene)}"
    )
    if _is_marked(scene):
        span += (
            "; a dot is where the method is at the last time, a ring where the reference is then"
        )
    if len(scene.report.reference) == 1:
        return f"the orbit ({span})"
    if scene.orbits:
        return f"the orbits {listed([str(orbit + 1) for orbit in scene.orbits])} ({span})"
    by = "error" if has_errors(scene) else "change of the first invariant"
    first = scene.runs[name].title
    return f"the orbit of median {by} of {first} and, below, its worst one ({span})"


OVERVIEW = FigureDeclaration("overview", _draw, _caption)
