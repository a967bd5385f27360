"""Errors of the invariants in time."""

from __future__ import annotations

import matplotlib.figure
import numpy as np
from matplotlib.axes import Axes

from vpintegrator.plotting.curves import cut, draw_curve, time_axis
from vpintegrator.plotting.layout import columns_that_fit, hide_unused, legend_lines, new_figure
from vpintegrator.plotting.names import shortened
from vpintegrator.plotting.scene import Scene
from vpintegrator.plotting.series import thinned

_PANEL = 24  # em: least width of a panel


def draw_largest_so_far(axes: Axes, scene: Scene, name: str, invariant: str) -> None:
    """Largest error of an invariant on any trajectory of a method up to each time.

    The raw error of a bounded oscillation falls to zero twice a period; its running maximum is flat
    where there is no drift and rises where there is one.
    """
    report, start = scene.report, scene.start[name]
    with np.errstate(all="ignore"):
        size = np.abs(report.invariant_errors(name)[invariant].error).max(axis=0)
        envelope = np.maximum.accumulate(np.where(np.isnan(size), np.inf, size))
    chosen = thinned(len(report.times) - start, logarithmic=True) + start
    draw_curve(axes, scene, name, report.times[chosen], envelope[chosen])


def draw_invariant(axes: Axes, scene: Scene, invariant: str) -> None:
    """The error of one invariant for every method."""
    kinds = set()
    for name in scene.looks:
        draw_largest_so_far(axes, scene, name, invariant)
        kinds.add(scene.report.invariant_errors(name)[invariant].kind)
    kind = kinds.pop() if len(kinds) == 1 else "mixed"
    label = {"relative": "largest relative change", "absolute": "largest change"}
    time_axis(axes)
    axes.set(yscale="log", ylabel=label.get(kind, "largest change"))
    axes.set_title(scene.text(shortened(scene.labels[invariant])))
    cut(axes)


def invariants(scene: Scene) -> matplotlib.figure.Figure | None:
    """Errors of every invariant, if the system has any."""
    names = list(scene.system.invariants)
    if not names:
        return None
    style = scene.style
    width = style.narrow if len(names) == 1 else style.wide
    columns = min(len(names), 2, columns_that_fit(scene, width, _PANEL))
    rows = -(-len(names) // columns)
    figure = new_figure(scene, width, 21 * rows, legend_lines(scene))
    panels = list(figure.subplots(rows, columns, squeeze=False).flat)
    for axes, invariant in zip(panels, names, strict=False):
        draw_invariant(axes, scene, invariant)
    hide_unused(panels, len(names))
    return figure
