"""All states of the orbits of a map on a plane, with islands and chaos, for each method."""

from __future__ import annotations

from typing import Any

import matplotlib
import matplotlib.figure
import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import ListedColormap, LogNorm, to_rgb
from matplotlib.image import AxesImage

from vpintegrator.plotting.captions import events
from vpintegrator.plotting.layout import (
    FigureDeclaration,
    colour_bar,
    grid_of_portraits,
    orbit_legend,
    panels_of_portraits,
    width_of_portraits,
)
from vpintegrator.plotting.names import mathtext
from vpintegrator.plotting.portraits import REFERENCE, draw_dots, title_panel
from vpintegrator.plotting.scene import Scene
from vpintegrator.plotting.style import Style
from vpintegrator.plotting.views import limits, orbit_colours, planes_of, within_a_turn

_ROOM = 0.75  # share of a panel inside its axes
_LEAST = 2000  # states of all orbits: fewer are in the phase portraits
_MOST = 1024  # cells on a side
_FEW = 20_000  # points up to which each is a dot
_LEAST_SEEN = 0.28  # least contrast of a point, as a share of the colour scale
_ENDS = 0.02, 0.9995  # quantiles of the nonempty cells between which colours differ


def _pair(scene: Scene) -> tuple[int, int]:
    pairs = [pair for pair in planes_of(scene.system) if max(pair) < scene.system.dim]
    return pairs[0] if pairs else (0, 1)


def _states(scene: Scene) -> dict[str, np.ndarray]:
    """Return coordinates (trajectory, time, 2) in the plane, with angles within a turn."""
    pair = list(_pair(scene))
    known = {REFERENCE: scene.report.reference} if scene.referenced else {}
    found = {}
    for name, states in (known | {name: run.states for name, run in scene.runs.items()}).items():
        found[name] = within_a_turn(scene.system, states)[..., pair]
    return found


def _draw(scene: Scene) -> matplotlib.figure.Figure:
    """Draw the portraits, with axes that fit the reference, or else the first method."""
    drawn, style, pair = _states(scene), scene.style, _pair(scene)
    many = max(map(_count, drawn.values())) > _FEW
    first = next(iter(drawn.values()))
    (left, right), (low, high) = (limits(first[..., k].ravel(), 0.05) for k in range(2))
    view = ((float(left), float(right)), (float(low), float(high)))
    columns, _ = grid_of_portraits(style, len(drawn))
    width = width_of_portraits(style, columns)
    cells = min(int(_ROOM * width / columns * style.dots_per_inch), _MOST)
    counts = {name: _counts(points, view, cells) for name, points in drawn.items()} if many else {}
    ends = _ends_of_scale([*counts.values()]) if many else (1.0, 2.0)
    images = []

    def draw(axes: Axes, name: str) -> None:
        if many:
            images.append(_draw_counts(axes, counts[name], view, style, ends))
        else:
            _dots(axes, scene, drawn[name])
            axes.set(xlim=view[0], ylim=view[1])
        x, y = (mathtext(scene.components[k]) for k in pair)
        axes.set(xlabel=x, ylabel=y)
        title_panel(axes, scene, name)

    legend = [] if many else orbit_legend(scene)
    figure, panels = panels_of_portraits(style, drawn, draw, 1, legend)
    image = next(filter(None, images), None)
    if image is not None:
        every = figure.axes[: -(-len(panels) // columns) * columns]
        colour_bar(figure, image, every, "states in a cell", style, fraction=0.05)
    return figure


def _dots(axes: Axes, scene: Scene, points: np.ndarray) -> None:
    """Draw points, a colour for each orbit."""
    colours = np.array([to_rgb(c) for c in orbit_colours(len(points), scene.style)])
    each = np.repeat(np.arange(len(points)), points.shape[1])
    flat = points.reshape(-1, 2)
    known = np.isfinite(flat).all(axis=1)
    draw_dots(axes, flat[known, 0], flat[known, 1], colours[each[known]], scene.style)


def _counts(points: np.ndarray, view: Any, cells: int) -> np.ndarray:
    flat = points.reshape(-1, 2)
    flat = flat[np.isfinite(flat).all(axis=1)]
    return np.histogram2d(flat[:, 0], flat[:, 1], cells, view)[0].T


def _ends_of_scale(counts: list[np.ndarray]) -> tuple[float, float]:
    """Return the least and largest count on the colour scale of some panels."""
    seen = np.concatenate([np.asarray(each)[np.asarray(each) > 0] for each in counts])
    low, high = np.quantile(seen, _ENDS) if seen.size else (1.0, 1.0)
    return float(low), float(max(high, 2 * low))


def _draw_counts(
    axes: Axes,
    counts: np.ndarray,
    view: tuple[tuple[float, float], tuple[float, float]],
    style: Style,
    ends: tuple[float, float],
) -> AxesImage | None:
    """Draw counts (rows, columns) in the cells of a view; return the image for a colour bar.

    Few points are dots at the middle of their cells, and give None.
    """
    (left, right), (low, high) = view
    axes.set(xlim=(left, right), ylim=(low, high))
    axes.grid(False)
    if counts.sum() <= _FEW:
        rows, columns = np.nonzero(counts)
        x = left + (columns + 0.5) * (right - left) / counts.shape[1]
        y = low + (rows + 0.5) * (high - low) / counts.shape[0]
        draw_dots(axes, x, y, style.foreground, style)
        return None
    # counts have colours of even lightness, on which a single point stands out from the background
    scale = matplotlib.colormaps["magma" if style.dark else "magma_r"]
    colours = ListedColormap(scale(np.linspace(_LEAST_SEEN, 1, 256)))
    return axes.imshow(
        np.ma.masked_equal(counts, 0),
        origin="lower",
        extent=(left, right, low, high),
        aspect="auto",
        interpolation="nearest",
        cmap=colours,
        norm=LogNorm(*ends),
        rasterized=True,
    )


def _count(points: np.ndarray) -> int:
    return points.shape[0] * points.shape[1]


def _caption(scene: Scene) -> list[str]:
    pair, drawn = _pair(scene), _states(scene)
    names = ", ".join(scene.components[k] for k in pair)
    number, most = len(scene.report.reference), max(map(_count, drawn.values()))
    how = (
        "The colour of a cell is how many states are in it"
        if most > _FEW
        else "Each orbit has a colour of its own, the same in all panels"
    )
    thin = f" (one in {scene.report.every})" if scene.report.every > 1 else ""
    return [
        f"States{thin} of {number} orbits of the map in the plane ({names}), {most} of a method. "
        f"{how}.",
        *events(scene),
    ]


def _applies(scene: Scene) -> bool:
    system = scene.system
    return (
        system.is_discrete and system.dim > 1 and max(map(_count, _states(scene).values())) > _LEAST
    )


MAP = FigureDeclaration("map", _draw, _caption, _applies)
