"""Poincare sections: where orbits pass through a hyperplane."""

from __future__ import annotations

import matplotlib.figure
import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import to_rgb

from vpintegrator.plotting.layout import (
    grid_of_portraits,
    hide_inner_labels,
    hide_unused,
    new_figure,
)
from vpintegrator.plotting.names import mathtext
from vpintegrator.plotting.orbits import limits
from vpintegrator.plotting.phase import panel_title
from vpintegrator.plotting.plane import pair_of_section
from vpintegrator.plotting.scene import Scene

POINTS = 30_000  # of one method; more make no clearer picture


def plane_of_section(scene: Scene) -> tuple[int, int] | None:
    """Components on the axes, or None where there is no section that fills a plane.

    A pair that the section's own component is not part of, conjugate if there is one.
    """
    plane = scene.report.section_plane
    if plane is None or len(scene.components) < 3:
        return None
    return pair_of_section(scene.system, plane[0])


def poincare(scene: Scene) -> matplotlib.figure.Figure | None:
    """The section of every method, in axes of one size, or None if nothing passed through it."""
    pair = plane_of_section(scene)
    names = [
        name
        for name, run in scene.runs.items()
        if run.section is not None and len(run.section.points)
    ]
    if pair is None or not names:
        return None
    width = scene.style.wide
    columns, rows = grid_of_portraits(scene, len(names))
    if columns < 3 and scene.style.width is None:
        width *= max(columns / 3, 0.5)
    side = width / scene.style.em / columns
    figure = new_figure(scene, width, rows * (0.9 * side + 2))
    panels = list(figure.subplots(rows, columns, squeeze=False).flat)
    # the axes are the reference's: a method that wanders off must not blow them up
    for k, (axes, name) in enumerate(zip(panels, names, strict=False)):
        draw_section(axes, scene, name, pair)
        axes.set_xlim(limits(scene.scale[..., pair[0]], 0.15))
        axes.set_ylim(limits(scene.scale[..., pair[1]], 0.15))
        hide_inner_labels(axes, k, columns, rows)
    hide_unused(panels, len(names))
    return figure


def draw_section(axes: Axes, scene: Scene, name: str, pair: tuple[int, int]) -> None:
    """A method's points, each orbit in a shade of the method's colour."""
    section, style = scene.runs[name].section, scene.style
    if section is None or not len(section.points):
        return
    shades = np.array(_shades(scene.looks[name].colour, len(scene.runs[name].states)))
    chosen = slice(None, None, -(-len(section.points) // POINTS))
    points = section.points[chosen]
    axes.scatter(
        points[:, pair[0]],
        points[:, pair[1]],
        s=np.clip(900 / len(points), 0.15, 3.0) * style.line**2,
        c=shades[section.trajectory[chosen]],
        linewidths=0,
        rasterized=True,
    )
    axes.set(xlabel=mathtext(scene.components[pair[0]]), ylabel=mathtext(scene.components[pair[1]]))
    axes.set_title(panel_title(scene, name), color=scene.looks[name].colour)


def _shades(colour: str, count: int) -> list[tuple[float, ...]]:
    """From a darker to a lighter shade of a colour; neighbours differ, as they are interleaved."""
    mixtures = np.linspace(-0.45, 0.5, count)
    order = np.argsort([k * 0.618034 % 1 for k in range(count)])
    shades = []
    for mixture in mixtures[np.argsort(order)]:
        target = 1.0 if mixture > 0 else 0.0
        rgb = np.array(to_rgb(colour))
        shades.append(tuple(rgb + abs(mixture) * (target - rgb)))
    return shades
