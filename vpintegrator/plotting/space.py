"""Orbits in three dimensions that do not lie on a sphere."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.ticker import MaxNLocator

from vpintegrator.plotting.layout import rasterized_beyond
from vpintegrator.plotting.names import mathtext
from vpintegrator.plotting.orbits import limits, stroke
from vpintegrator.plotting.style import Style


def draw_space(
    axes: Any,
    states: np.ndarray,
    scale: np.ndarray,
    colours: Sequence[str],
    components: tuple[str, ...],
    style: Style,
    dotted: Sequence[bool] = (),
) -> None:
    """Orbits (trajectory, time, 3) in a box that holds those of ``scale``, in 3D axes.

    Each has its colour, and whether it is drawn as dots. What leaves the box is not drawn.
    """
    box = box_of(scale)
    rasterized = rasterized_beyond(len(states) * states.shape[1])
    for orbit, colour, dots in zip(states, colours, dotted or [False] * len(states), strict=True):
        strokes = stroke(style, dots, 0.6, len(orbit))
        draw_in_box(axes, orbit, box, color=colour, rasterized=rasterized, **strokes)
    frame_space(axes, box, components, style)


def box_of(scale: np.ndarray) -> np.ndarray:
    """Limits of the box that holds states (..., 3): (component, low or high)."""
    return np.array([limits(scale[..., k], 0.1) for k in range(3)])


def draw_in_box(axes: Any, points: np.ndarray, box: np.ndarray, **strokes: Any) -> None:
    """An orbit (time, 3) without what leaves the box."""
    with np.errstate(all="ignore"):
        outside = ((points < box[:, 0]) | (points > box[:, 1])).any(axis=-1, keepdims=True)
    x, y, z = np.where(outside, np.nan, points).T
    axes.plot(x, y, z, **strokes)


def frame_space(axes: Any, box: np.ndarray, components: tuple[str, ...], style: Style) -> None:
    """The box, its labels and the view."""
    axes.set(xlim=box[0], ylim=box[1], zlim=box[2])
    axes.set_box_aspect((1, 1, 1), zoom=0.8)
    axes.patch.set_visible(False)  # it would hide labels of the panel to the left
    axes.view_init(elev=22, azim=-58)
    near = -0.35 * style.letters
    for axis, component in zip((axes.xaxis, axes.yaxis, axes.zaxis), components, strict=True):
        axis.set_major_locator(MaxNLocator(3))
        axis.set_tick_params(pad=near, labelsize=0.75 * style.letters)
        axis.set_label_text(mathtext(component))
        axis.labelpad = 2 * near
        axis.set_pane_color((0, 0, 0, 0))
    axes.zaxis.labelpad = 1.5 * near  # its numbers are the longest
