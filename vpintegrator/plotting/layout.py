"""Layout of figures in em: number of panels in a width, and room for a legend below."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import matplotlib.figure
import numpy as np
from matplotlib.axes import Axes

from vpintegrator.plotting.legend import ROW, Legend, LegendEntry, marker_size
from vpintegrator.plotting.model_scene import ModelScene
from vpintegrator.plotting.scene import Scene

_MARKS = 4  # on a line
_PORTRAIT, _CURVES = 12.5, 24  # em: least widths of panels
PORTRAIT_COLUMNS, _MANY = 4, 12


def columns_that_fit(scene: Scene | ModelScene, width: float, panel: float) -> int:
    """Return the number of panels, at least ``panel`` em wide, that fit in ``width`` inches."""
    return max(1, int(width / (panel * scene.style.em)))


def grid_of_portraits(scene: Scene, count: int) -> tuple[int, int]:
    """Return columns and rows for a number of portraits; rows are longer for many."""
    most = PORTRAIT_COLUMNS if count <= _MANY else PORTRAIT_COLUMNS + 1
    columns = min(count, most, columns_that_fit(scene, scene.style.wide, _PORTRAIT))
    rows = -(-count // columns)
    return -(-count // rows), rows


def panels_of_curves(
    scene: Scene,
    kinds: Sequence[str],
    draw: Callable[[Axes, Scene, str], None],
    height: float,
    legend: Sequence[LegendEntry],
) -> matplotlib.figure.Figure:
    """Return a figure with a panel for each kind, ``height`` em high, in up to two columns."""
    width = scene.style.narrow if len(kinds) == 1 else scene.style.wide
    columns = min(len(kinds), 2, columns_that_fit(scene, width, _CURVES))
    rows = -(-len(kinds) // columns)
    figure = new_figure(scene, width, height * rows, legend)
    panels = list(figure.subplots(rows, columns, squeeze=False).flat)
    for axes, kind in zip(panels, kinds, strict=False):
        draw(axes, scene, kind)
    hide_unused(panels, len(kinds))
    return figure


def new_figure(
    scene: Scene, width: float, height: float, legend: Sequence[LegendEntry] = ()
) -> matplotlib.figure.Figure:
    """Return a figure ``width`` inches wide, with ``height`` em for panels and a legend below."""
    em = scene.style.em
    below = Legend(legend, width / em)
    figure = matplotlib.figure.Figure(
        figsize=(width, em * (height + ROW * below.rows)), layout="constrained"
    )
    below.draw(figure)
    return figure


def hide_inner_labels(axes: Axes, place: int, columns: int, rows: int) -> None:
    """Hide axis labels in a grid with shared limits, except in the left column and lowest row."""
    if place % columns:
        axes.set_ylabel("")
        axes.tick_params(labelleft=False)
    if place // columns < rows - 1:
        axes.set_xlabel("")
        axes.tick_params(labelbottom=False)


def hide_unused(panels: Sequence[Axes], used: int) -> None:
    """Empty the panels of a grid beyond the first ``used``."""
    for axes in panels[used:]:
        axes.axis("off")


def marks(scene: Scene, name: str, times: np.ndarray, logarithmic: bool) -> dict[str, Any]:
    """Return markers on a method's line through times, at other places than other methods."""
    place = (list(scene.looks).index(name) + 0.5) / len(scene.looks)
    along = np.log(np.maximum(times, times[1] / 2)) if logarithmic and len(times) > 1 else times
    wanted = (np.arange(_MARKS) + place) / _MARKS
    where = along[0] + (along[-1] - along[0]) * wanted if len(along) else along
    indices = np.clip(np.searchsorted(along, where), 0, max(len(along) - 1, 0))
    return {
        "marker": scene.looks[name].marker,
        "ms": marker_size(scene),
        "markevery": sorted({int(index) for index in indices}),
    }
