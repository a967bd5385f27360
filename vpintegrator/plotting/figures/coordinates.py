"""Components of the state in time, beside the reference."""

from __future__ import annotations

from typing import Any

import matplotlib.figure
import numpy as np
from matplotlib.axes import Axes

from vpintegrator.plotting.captions import by_method, closing, long_steps
from vpintegrator.plotting.interpolation import turning
from vpintegrator.plotting.layout import (
    FigureDeclaration,
    columns_that_fit,
    legend_lines,
    marker_size,
    new_figure,
    reference_line,
)
from vpintegrator.plotting.names import grouped, mathtext
from vpintegrator.plotting.scene import Scene
from vpintegrator.plotting.views import limits

_COMPONENTS = 6  # more do not fit on a page
_TIMES = 150  # stored times that a panel shows well
_TURNS = 12  # turns of an orbit that a panel shows well
_LEAST = 24  # stored times
_APART = 0.1  # part of a component's range by which two curves are seen to differ
_WHOLE = 2.5  # lengths of an interval that one panel shows
_PANEL = 20  # em: least width of a panel


def departures(scene: Scene) -> dict[str, int]:
    """Return the stored time at which each method leaves the others' curves, for those that do.

    It is then farther from the reference, or else from the method that sets the scale, than a
    tenth of the range of a component.
    """
    orbit, dim = scene.chosen(scene.scale)[0], _shown(scene)
    span = np.nanmax(orbit[:, :dim], axis=0) - np.nanmin(orbit[:, :dim], axis=0)
    found = {}
    for name, run in scene.runs.items():
        states = scene.chosen(run.states)[0, : len(orbit), :dim]
        with np.errstate(all="ignore"):
            apart = np.abs(states - orbit[:, :dim]) > _APART * span
        gone = (apart | (np.isnan(states) & ~np.isnan(orbit[:, :dim]))).any(axis=-1)
        if gone.any():
            found[name] = int(gone.argmax())
    return found


def intervals(scene: Scene) -> list[slice]:
    """Return the stored times drawn: the first ones, and those up to which methods differ.

    In a long run the oscillations of all of it would be one block of colour. The end is that of the
    orbit's reference at most.
    """
    count = scene.scale.shape[1]
    if scene.referenced and not scene.report.is_reference_given:
        first = scene.chosen(scene.report.reference_ends)[0]
        count = int(np.searchsorted(scene.report.times, first)) + 1
    length = min(
        _TIMES, max(int(_TURNS * 360 / max(turning(scene.moving(scene.scale)), 1.0)), _LEAST)
    )
    last = max(departures(scene).values(), default=0)
    end = min(max(last + length // 3, length), count)
    if end <= _WHOLE * length:
        return [slice(0, end)]
    if columns_that_fit(scene.style, scene.style.wide, _PANEL) < 2:
        return [slice(end - length, end)]
    return [slice(0, length), slice(end - length, end)]


def draw_component(axes: Axes, scene: Scene, component: int, part: slice) -> None:
    """Draw one component of the first orbit, for the reference and for every method.

    A method is drawn until it has left the axes by half of their height.
    """
    style, times = scene.style, scene.report.times[part]
    low, high = limits(scene.chosen(scene.scale)[0, :, component], 0.3)
    dotted: dict[str, Any] = {"ls": "none", "marker": ".", "mew": 0}
    if scene.referenced:
        curve = scene.curve(scene.chosen(scene.report.reference)[0, part])
        axes.plot(
            np.interp(np.arange(len(curve)) / scene.pieces, np.arange(len(times)), times),
            curve[:, component],
            color=style.reference,
            lw=2.6 * style.line,
            alpha=0.5,
            **(dotted | {"ms": 1.8 * marker_size(scene)} if scene.dots_of_reference else {}),
        )
    for name, look in scene.looks.items():
        orbit = scene.chosen(scene.runs[name].states)[0]
        states, dots = orbit[:, component], scene.dotted(orbit[part])
        with np.errstate(all="ignore"):
            # a diverged curve would return as lines across the others
            gone = np.flatnonzero(~(np.abs(states - (low + high) / 2) < high - low))
        states = (
            np.where(np.arange(len(states)) <= gone[0], states, np.nan) if len(gone) else states
        )
        axes.plot(
            times,
            states[part],
            color=look.colour,
            lw=0.6 * look.width,
            **(dotted | {"ms": 1.2 * marker_size(scene)} if dots else {"ls": look.line}),
        )
    axes.set(ylim=(low, high), xlim=(times[0], times[-1]))


def _shown(scene: Scene) -> int:
    """Return the number of components drawn: a limited number, without the time."""
    return min(scene.system.phase_dim, _COMPONENTS)


def _dotted(scene: Scene, parts: list[slice]) -> list[bool]:
    """Whether each method is drawn as dots in all of the parts."""
    drawn = [scene.chosen(run.states)[0] for run in scene.runs.values()]
    return [all(scene.dotted(orbit[part]) for part in parts) for orbit in drawn]


def _draw(scene: Scene) -> matplotlib.figure.Figure:
    names, parts = scene.components[: _shown(scene)], intervals(scene)
    lines = [*legend_lines(scene, marked=False), *reference_line(scene)]
    dotted = [*_dotted(scene, parts), *([scene.dots_of_reference] if scene.referenced else [])]
    for line, dots in zip(lines, dotted, strict=True):
        if dots:
            line.set(ls="none", marker=".", markersize=1.6 * marker_size(scene), mew=0)
    figure = new_figure(scene.style, scene.style.wide, 9.5 * len(names) + 2, lines)
    grid = figure.subplots(len(names), len(parts), sharex="col", sharey="row", squeeze=False)
    for k, (row, name) in enumerate(zip(grid, names, strict=True)):
        row[0].set_ylabel(mathtext(name))
        for axes, part in zip(row, parts, strict=True):
            draw_component(axes, scene, k, part)
    for axes in grid[-1]:
        axes.set_xlabel("time $t$")
    figure.align_ylabels(grid[:, 0])
    return figure


def _caption(scene: Scene) -> list[str]:
    times = scene.report.times
    spans = [
        f"from t = {grouped(times[part][0])} to {grouped(times[part][-1])}"
        for part in intervals(scene)
    ]
    shown = _shown(scene)
    which = "Components" if shown == scene.system.phase_dim else f"The first {shown} components"
    dots = " as dots, at the stored times" if scene.dots else long_steps(scene, ",")
    orbit = f"orbit {scene.orbits[0] + 1}" if scene.orbits else "the first orbit"
    left = {name: times[index] for name, index in departures(scene).items()}
    apart = by_method(scene, left, "t = {:.4g}".format) if left else "no method"
    return [
        f"{which} of {orbit}{dots}, {' and '.join(spans)}"
        f"{'; the reference in grey' if scene.referenced else ''}. A method is drawn until it has "
        "left the axes.",
        f"Apart by a tenth of a component's range: {apart}.",
        *closing(scene),
    ]


COORDINATES = FigureDeclaration("coordinates", _draw, _caption)
