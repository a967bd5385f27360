"""Orbits in the plane of two components, over those of the reference."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes

from vpintegrator.dynamics import System
from vpintegrator.plotting.layout import rasterized_beyond
from vpintegrator.plotting.looks import Look
from vpintegrator.plotting.names import mathtext
from vpintegrator.plotting.orbits import ORBITS, limits, shown, stroke
from vpintegrator.plotting.style import Style

_MARGIN, _EQUAL_MARGIN = 0.25, 0.15
PROJECTED = 150  # points of a line that is the projection of an orbit in more than two dimensions


def planes(components: tuple[str, ...], hamiltonian: bool) -> list[tuple[int, int]]:
    """Pairs of components worth drawing: (q_i, p_i), or neighbours."""
    dim = len(components)
    if hamiltonian:
        return [(i, i + dim // 2) for i in range(dim // 2)]
    return [(0, 0)] if dim == 1 else [(i, i + 1) for i in range(0, dim - 1, 2 if dim > 3 else 1)]


def planes_of(system: System) -> list[tuple[int, int]]:
    """The planes that the system file names, as indices of components and then coordinates.

    Where it names none, those of :func:`planes`.
    """
    names = [*system.components, *system.coordinates]
    named = [(names.index(x), names.index(y)) for x, y in system.plot.planes]
    return named or planes(system.components, system.is_hamiltonian)


def pair_of_section(system: System, component: str) -> tuple[int, int]:
    """The components on the axes of a Poincare section of at least three dimensions.

    A pair that the section's own component is not part of: the first that the system file names,
    a conjugate one, or the first two.
    """
    cut = system.components.index(component)
    pairs = [*planes_of(system), *planes(system.components, system.is_hamiltonian)]
    for pair in pairs:
        if cut not in pair and max(pair) < system.dim:
            return pair
    first, second = [k for k in range(system.dim) if k != cut][:2]
    return first, second


def draw_plane(
    axes: Axes,
    states: np.ndarray,
    reference: np.ndarray | None,
    scale: np.ndarray,
    look: Look,
    pair: tuple[int, int],
    components: tuple[str, ...],
    style: Style,
    dotted: Sequence[bool] = (),
    dots_of_reference: bool = False,
    equal: bool = False,
) -> None:
    """Orbits (trajectory, time, dim) in the plane of two components, over the reference.

    The axes are those of the states ``scale``; ``equal`` gives both one scale. ``dotted`` says of
    each orbit whether it is drawn as dots.
    """
    i, j = pair
    rasterized = rasterized_beyond(len(states) * states.shape[1])
    if reference is not None:
        strokes = stroke(style, dots_of_reference, 1.8, reference.shape[1])
        for orbit in reference:
            colour = style.reference
            axes.plot(
                orbit[:, i], orbit[:, j], c=colour, alpha=0.35, rasterized=rasterized, **strokes
            )
    for orbit, dots in zip(states, dotted or [False] * len(states), strict=True):
        strokes = stroke(style, dots, count=len(orbit))
        colour = look.colour
        axes.plot(orbit[:, i], orbit[:, j], c=colour, alpha=0.9, rasterized=rasterized, **strokes)
    frame_plane(axes, scale, pair, components, equal)


def drawn_in_plane(states: np.ndarray, dim: int, dots: bool) -> np.ndarray:
    """Of states (trajectory, time, dim) the orbits and times that a plane shows.

    In more than two dimensions an orbit fills its projection: one is shown, and not for long.
    """
    if dim <= 2:
        return shown(states[:ORBITS], dots)
    return shown(states[:1], dots) if dots else states[:1, :PROJECTED]


def frame_plane(
    axes: Axes,
    scale: np.ndarray,
    pair: tuple[int, int],
    components: tuple[str, ...],
    equal: bool = False,
) -> None:
    """Limits that hold the states ``scale`` (..., dim), and labels."""
    box = box_of_plane(scale, pair, equal)
    axes.set(xlim=box[0], ylim=box[1])
    axes.set(xlabel=mathtext(components[pair[0]]), ylabel=mathtext(components[pair[1]]))
    if equal:
        axes.set_box_aspect(1)


def box_of_plane(scale: np.ndarray, pair: tuple[int, int], equal: bool) -> np.ndarray:
    """Limits that hold states (..., dim): (component, low or high), of one length if ``equal``."""
    box = np.array([limits(scale[..., k], _EQUAL_MARGIN if equal else _MARGIN) for k in pair])
    if equal:
        half = (box[:, 1] - box[:, 0]).max() / 2
        middle = box.mean(axis=1)
        box = np.stack([middle - half, middle + half], axis=1)
    return box
