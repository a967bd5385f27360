"""Overview on one page: orbits early and late above, the growth of every error below."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import product
from typing import Any

import matplotlib.figure
import numpy as np
from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from vpintegrator.plotting.captions import (
    CURVES,
    TYPICAL,
    definitions,
    events,
    listed,
    long_steps,
    notes,
    reference,
)
from vpintegrator.plotting.figures import error_curves
from vpintegrator.plotting.figures.error_curves import draw_all_errors, has_errors
from vpintegrator.plotting.figures.invariant_curves import draw_invariant
from vpintegrator.plotting.figures.volume_errors import (
    draw_volume_error,
    volume_words,
    volumes_measured,
)
from vpintegrator.plotting.layout import (
    ROW,
    FigureDeclaration,
    columns_that_fit,
    entry,
    hide_inner_labels,
    legend_lines,
    legend_shape,
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
    portrait_kind,
    reference_mark,
    title_panel,
)
from vpintegrator.plotting.scene import Scene

_PORTRAITS = 5
_FEW = 3  # portraits that would be stretched if they filled the width
_TITLE = 1.25  # letters of the title in an em of the figure's width
_PORTRAIT, _PANEL = 11.5, 18  # em: least widths
_TALLEST = 71  # em: just below 8 inches in letters of 8 points
_TITLES = 5  # em
_LOW, _HIGH = 12, 18.5  # em: heights of a row of panels


def portraits_shown(scene: Scene) -> list[str]:
    """Return the methods whose portraits fit, learned methods first."""
    fit = min(_PORTRAITS, columns_that_fit(scene.style, scene.style.wide, _PORTRAIT))
    return list(scene.looks)[:fit]


def panels_shown(scene: Scene) -> list[tuple[str, str, Callable[[Axes], None]]]:
    """Return the panels of errors: title, label of the axis, and function that draws."""
    panels: list[tuple[str, str, Callable[[Axes], None]]] = []
    if has_errors(scene):
        panels.append(("trajectory", "error", lambda axes: draw_all_errors(axes, scene)))
    first = next(iter(scene.system.invariants), None)
    if first is not None:
        title = plain(shortened(scene.labels[first]))
        panels.append((title, "change", lambda axes: draw_invariant(axes, scene, first)))
    if "step" in volumes_measured(scene):
        title = f"{volume_words(scene)} of one step"
        panels.append((title, "", lambda axes: draw_volume_error(axes, scene, "step")))
    return panels


def orbits_drawn(scene: Scene) -> dict[int, str]:
    """Return the orbits drawn, each with its rank: as many as leave room for the panels below."""
    ranks = orbits_shown(scene)
    room = _room(scene) - _LOW * _rows(scene)
    return dict(list(ranks.items())[: max(int(room / _side(scene)), 1)])


def _rows(scene: Scene) -> int:
    return -(-len(panels_shown(scene)) // columns_that_fit(scene.style, scene.style.wide, _PANEL))


def _side(scene: Scene) -> float:
    """Return the height of a portrait in em."""
    return min(0.86 * scene.style.wide / scene.style.em / len(portraits_shown(scene)), 15)


def _room(scene: Scene) -> float:
    """Return the height in em that portraits and panels may have on a page, titles not counted."""
    rows = legend_shape(scene.style, scene.style.wide, _legend(scene))[0]
    return _TALLEST - _TITLES - ROW * rows


def _legend(scene: Scene) -> list[Line2D]:
    """Return entries for the methods, and where there is room for what the portraits show."""
    lines = [*legend_lines(scene), *reference_line(scene)]
    wide = columns_that_fit(scene.style, scene.style.wide, _PANEL) > 1
    return [*lines, *_times(scene)] if wide else lines


def _draw(scene: Scene) -> matplotlib.figure.Figure:
    report, style = scene.report, scene.style
    names, panels, ranks = portraits_shown(scene), panels_shown(scene), orbits_drawn(scene)
    columns = min(len(panels), columns_that_fit(style, style.wide, _PANEL))
    rows, kind = _rows(scene), portrait_kind(scene)
    above = len(ranks) * _side(scene)
    below = min((_room(scene) - above), _HIGH * rows)
    figure = new_figure(style, style.wide, above + below + _TITLES, _legend(scene))
    heights = [above + 1.5, below] if panels else [above]
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
                title_panel(axes, scene, name)
    if panels:
        lower = grid[1].subgridspec(rows, columns)
        places = list(np.ndindex(rows, columns))[: len(panels)]
        for place, (title, label, draw_panel) in zip(places, panels, strict=True):
            axes = figure.add_subplot(lower[place])
            draw_panel(axes)
            axes.set(title=title, ylabel=label or axes.get_ylabel())
            if columns == 1 and place != places[-1]:
                axes.set_xlabel("")
    title = f"{plain(report.system.title)}: {orbits(len(report.reference))}"
    setting = f"to $t$ = {grouped(report.times[-1])}, step {report.step:g}"
    short = len(title) + len(setting) < _TITLE * style.wide / style.em
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
    if _is_marked(scene, orbits_shown(scene)):
        dot = own_mark(scene, style.foreground)
        entries.append(entry("at the last time", **dot))
        entries.append(entry("reference then", **reference_mark(scene)))
    return entries


def _is_marked(scene: Scene, orbits: Iterable[int]) -> bool:
    """Whether the positions at the last time are drawn in a portrait of these orbits."""
    pairs = product(portraits_shown(scene), orbits)
    return any(last_in_common(scene, *pair) is not None for pair in pairs)


def _caption(scene: Scene) -> list[str]:
    below = [error_curves.curves_shown(scene)] if has_errors(scene) else []
    first = next(iter(scene.system.invariants), None)
    if first is not None:
        below.append(f"largest change of {scene.labels[first]} up to each time")
    if "step" in volumes_measured(scene):
        below.append(f"largest {volume_words(scene)} of one step")
    return [
        f"Above: {_fates(scene)}.",
        *([f"Below: {'; '.join(below)}."] if below else []),
        *events(scene, f"{TYPICAL}, {CURVES}"),
        *error_curves.final_errors(scene),
        *definitions(scene.system, axes_of_portraits(scene)),
        reference(scene),
        *notes(scene),
    ]


def _fates(scene: Scene) -> str:
    """Return a description of the portraits."""
    name = portraits_shown(scene)[0]
    grey = ", the reference in grey" if scene.referenced else ""
    start = end_of_early_part(scene, name)
    span = f"pale to t = {start}, full colour at the end{grey}{long_steps(scene)}"
    if _is_marked(scene, orbits_drawn(scene)):
        span += "; dot and ring: last states of method and reference"
    ranks = orbits_drawn(scene)
    if len(scene.report.reference) == 1:
        return f"the orbit ({span})"
    if scene.orbits:
        return f"orbit {listed([str(orbit + 1) for orbit in ranks])} ({span})"
    by = "error" if has_errors(scene) else "change of the first invariant"
    first = shortened(scene.runs[name].title)
    words = {"median": f"the orbit of median {by} of {first}", "worst": f"the worst of {first}"}
    return f"{listed([words[rank] for rank in ranks.values()])} ({span})"


OVERVIEW = FigureDeclaration("overview", _draw, _caption)
