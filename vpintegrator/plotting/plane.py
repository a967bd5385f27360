"""Orbits in the plane of two components, over those of the reference."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes

from vpintegrator.plotting.layout import rasterized_beyond
from vpintegrator.plotting.looks import Look
from vpintegrator.plotting.names import mathtext
from vpintegrator.plotting.orbits import ORBITS, limits, points_shown, shown, stroke
from vpintegrator.plotting.style import Style

PROJECTED = 150  # points of a line that is the projection of an orbit in more than two dimensions


def planes(components: tuple[str, ...], hamiltonian: bool) -> list[tuple[int, int]]:
    """Pairs of components worth drawing: (q_i, p_i), or neighbours."""
    dim = len(components)
    if hamiltonian:
        return [(i, i + dim // 2) for i in range(dim // 2)]
    return [(0, 0)] if dim == 1 else [(i, i + 1) for i in range(0, dim - 1, 2 if dim > 3 else 1)]


def draw_plane(
    axes: Axes,
    states: np.ndarray,
    reference: np.ndarray | None,
    scale: np.ndarray,
    look: Look,
    pair: tuple[int, int],
    components: tuple[str, ...],
    style: Style,
    dots: bool = False,
) -> None:
    """Orbits (trajectory, time, dim) in the plane of two components, over the reference.

    The axes are those of the states ``scale``.
    """
    i, j = pair
    # in more than two dimensions an orbit fills its projection: one is shown, and not for long
    filling = len(components) > 2
    count = 1 if filling else ORBITS
    part = (slice(count), slice(PROJECTED if filling and not dots else None))
    states, scale = states[part], scale[part]
    rasterized = rasterized_beyond(len(states) * points_shown(states.shape[1], dots))

    def draw(orbits: np.ndarray, **strokes: Any) -> None:
        for orbit in orbits:
            points = shown(orbit, dots)
            axes.plot(points[:, i], points[:, j], rasterized=rasterized, **strokes)

    if reference is not None:
        draw(reference[part], color=style.reference, alpha=0.35, **stroke(style, dots, 1.8))
    draw(states, color=look.colour, alpha=0.9, **stroke(style, dots))
    axes.set(xlim=limits(scale[..., i]), ylim=limits(scale[..., j]))
    axes.set(xlabel=mathtext(components[i]), ylabel=mathtext(components[j]))
