"""Phase portraits: on a sphere, in space, or in planes of two components."""

from __future__ import annotations

from typing import Any

import matplotlib.figure
import numpy as np
from matplotlib.axes import Axes

from vpintegrator.plotting.layout import (
    PORTRAIT_COLUMNS,
    grid_of_portraits,
    hide_inner_labels,
    hide_unused,
    new_figure,
    reference_line,
)
from vpintegrator.plotting.looks import Look
from vpintegrator.plotting.orbits import ORBITS, orbit_colours, shown
from vpintegrator.plotting.plane import draw_plane, drawn_in_plane, planes_of
from vpintegrator.plotting.scene import Scene
from vpintegrator.plotting.space import draw_space
from vpintegrator.plotting.sphere import draw_sphere, on_sphere

REFERENCE = "reference"
_ROWS = 5


def sphere_of(scene: Scene) -> tuple[list[int], float] | None:
    """The components whose sphere orbits are drawn on, and its radius; None if there is none.

    Those that the system file names, or all three, if the reference stays on a sphere.
    """
    named = scene.system.plot.sphere
    indices = [scene.components.index(name) for name in named or scene.components]
    if named is None and len(indices) != 3:
        return None
    radius = on_sphere(scene.scale[..., indices])
    return None if radius is None else (indices, radius)


def portrait_kind(scene: Scene) -> str:
    """``sphere``, ``space`` or ``plane``."""
    if sphere_of(scene):
        return "sphere"
    return "space" if len(scene.components) == 3 and not scene.system.plot.planes else "plane"


def draw_portrait(axes: Any, scene: Scene, name: str, pair: tuple[int, int] | None = None) -> None:
    """Orbits of a method, or of the ``reference``, titled with its name and in its colour.

    They are drawn in the plane of two coordinates if ``pair`` gives them.
    """
    report, style, components = scene.report, scene.style, scene.components
    grey = Look(style.reference, "-", "")
    look = scene.looks.get(name, grey)
    is_reference = name == REFERENCE
    states = report.reference if is_reference else scene.runs[name].states
    flat = pair is not None or portrait_kind(scene) == "plane"

    def drawn(orbits: np.ndarray) -> np.ndarray:
        if flat:
            return drawn_in_plane(orbits, len(components), scene.dots)
        return shown(orbits[:ORBITS], scene.dots)

    part = drawn(states)
    dotted = [scene.dots_of_reference if is_reference else scene.dotted(orbit) for orbit in part]
    if is_reference:
        part = scene.curve(part)
    if flat:
        below = scene.curve(drawn(report.reference)) if scene.referenced else None
        draw_plane(
            axes,
            scene.located(part),
            None if below is None else scene.located(below),
            scene.located(drawn(scene.scale)),
            look,
            pair or planes_of(scene.system)[0],
            scene.coordinates,
            style,
            dotted,
            scene.dots_of_reference,
            scene.system.plot.equal,
        )
    elif (sphere := sphere_of(scene)) is not None:
        indices, radius = sphere
        names = tuple(components[k] for k in indices)
        draw_sphere(axes, part[..., indices], look, radius, names, style, dotted)
    else:
        # orbits in space cross one another in every view: each has a colour, as in a section
        colours = orbit_colours(len(part), style) if len(part) > 1 else [look.colour]
        draw_space(axes, part, scene.scale, colours, components, style, dotted)
    colour = look.colour if name in scene.looks else style.foreground
    axes.set_title(panel_title(scene, name), color=colour)


def panel_title(scene: Scene, name: str) -> str:
    """A method's title above its panel, in two lines if part of it diverged."""
    if name not in scene.looks:
        return name
    title = scene.titles[name]
    return title + scene.legend_title(name).removeprefix(title).replace(" (", "\n(")


def phase(scene: Scene) -> matplotlib.figure.Figure:
    """Phase portraits of every method; beside the reference's, or over it where they are plane."""
    if portrait_kind(scene) == "plane":
        return _plane_figure(scene)
    names = [*([REFERENCE] if scene.referenced else []), *scene.looks]
    columns, rows = grid_of_portraits(scene, len(names))
    width = scene.style.wide
    side = width / scene.style.em / columns
    figure = new_figure(scene, width, rows * (side + 2.2))
    solid = portrait_kind(scene) == "space"
    keywords = {"projection": "3d"} if solid else {}
    grid = figure.subplots(rows, columns, squeeze=False, subplot_kw=keywords)
    panels = list(grid.flat)
    for axes, name in zip(panels, names, strict=False):
        draw_portrait(axes, scene, name)
    hide_unused(panels, len(names))
    return figure


def pairs_drawn(scene: Scene) -> list[tuple[int, int]]:
    """The planes of the figure of phase portraits; where there are many methods, fewer planes."""
    _, rows = grid_of_portraits(scene, len(scene.looks))
    pairs = planes_of(scene.system)
    return pairs[: max(1, _ROWS // rows)]


def _plane_figure(scene: Scene) -> matplotlib.figure.Figure:
    names = list(scene.looks)
    columns, rows = grid_of_portraits(scene, len(names))
    pairs = pairs_drawn(scene)
    width = scene.style.wide * (
        columns / PORTRAIT_COLUMNS if columns < 3 and not scene.style.width else 1
    )
    side = width / scene.style.em / columns
    height = len(pairs) * rows * (0.86 * side + 1.5)
    figure = new_figure(scene, width, height, reference_line(scene))
    grid = figure.subplots(len(pairs) * rows, columns, squeeze=False)
    for block, pair in enumerate(pairs):
        panels: list[Axes] = list(np.ravel(grid[block * rows : (block + 1) * rows]))
        for k, (axes, name) in enumerate(zip(panels, names, strict=False)):
            draw_portrait(axes, scene, name, pair)
            hide_inner_labels(axes, k, columns, rows)
        hide_unused(panels, len(names))
    return figure
