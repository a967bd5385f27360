"""Orbits in a portrait: on a sphere, in space, or in the plane of two components."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from vpintegrator.plotting.looks import Look
from vpintegrator.plotting.orbits import ORBITS, orbit_colours, shown, stroke
from vpintegrator.plotting.plane import Plane, drawn_in_plane, planes_of
from vpintegrator.plotting.scene import Scene
from vpintegrator.plotting.space import Space
from vpintegrator.plotting.sphere import Sphere, on_sphere
from vpintegrator.plotting.style import Style

REFERENCE = "reference"
_MANY = 20_000  # points: they make a vector file slow, so they go into it as an image
View = Sphere | Space | Plane


def sphere_of(scene: Scene) -> tuple[list[int], float] | None:
    """Return the components of the sphere that orbits are drawn on, and its radius.

    The components are those that the system file names, or all three if the reference stays on a
    sphere. None if there is no sphere.
    """
    named = scene.system.plot.sphere
    indices = [scene.components.index(name) for name in named or scene.components]
    if named is None and (len(indices) != 3 or scene.system.explicit_time is not None):
        return None
    radius = on_sphere(scene.scale[..., indices])
    return None if radius is None else (indices, radius)


def portrait_kind(scene: Scene) -> str:
    """Return ``sphere``, ``space`` or ``plane``."""
    if sphere_of(scene):
        return "sphere"
    plane = scene.system.plot.planes or scene.system.explicit_time is not None
    return "space" if len(scene.components) == 3 and not plane else "plane"


def axes_of_portraits(scene: Scene) -> list[str]:
    """Return the names of the coordinates on the axes of single portraits."""
    if portrait_kind(scene) != "plane":
        return list(scene.components)
    return [scene.coordinates[k] for k in planes_of(scene.system)[0]]


def view_of(
    scene: Scene,
    scale: np.ndarray,
    pair: tuple[int, int] | None = None,
    alone: bool = False,
) -> View:
    """Return the view for the orbits of a scene; ``pair``, if given, asks for that plane.

    The axes contain the states ``scale`` (..., dim); ``alone`` is passed to a :class:`Sphere`.
    """
    sphere = None if pair else sphere_of(scene)
    if sphere is not None:
        indices, radius = sphere
        names = [scene.components[k] for k in indices]
        return Sphere(indices, names, radius, scene.style, alone)
    if pair is None and portrait_kind(scene) == "space":
        return Space(scale, scene.components, scene.style)
    pair = pair or planes_of(scene.system)[0]
    return Plane(scene.located(scale), pair, scene.coordinates, scene.system.plot.equal)


def draw_orbits(
    axes: Any,
    view: View,
    orbits: np.ndarray,
    colours: Sequence[str],
    dotted: Sequence[bool],
    style: Style,
) -> None:
    """Draw orbits (trajectory, time, dim), each in its colour, as a line or as dots."""
    rasterized = len(orbits) * orbits.shape[1] > _MANY
    for orbit, colour, dots in zip(orbits, colours, dotted, strict=True):
        strokes = stroke(style, dots, view.width, len(orbit)) | {"rasterized": rasterized}
        alpha = {} if view.alpha is None else {"alpha": view.alpha}
        view.draw(axes, orbit, color=colour, **strokes, **alpha)


def draw_portrait(axes: Any, scene: Scene, name: str, pair: tuple[int, int] | None = None) -> None:
    """Draw orbits of a method, or of the ``reference``, with its name as the title.

    If ``pair`` is given, the plane of these two coordinates is drawn.
    """
    report, style = scene.report, scene.style
    flat = pair is not None or portrait_kind(scene) == "plane"

    def drawn(orbits: np.ndarray) -> np.ndarray:
        if flat:
            return drawn_in_plane(orbits, len(scene.components), scene.dots)
        return shown(orbits[:ORBITS], scene.dots)

    is_reference = name == REFERENCE
    part = drawn(scene.chosen(report.reference if is_reference else scene.runs[name].states))
    dotted = [scene.dots_of_reference if is_reference else scene.dotted(orbit) for orbit in part]
    if is_reference:
        part = scene.curve(part)
    view = view_of(scene, drawn(scene.scale) if flat else scene.scale, pair)
    view.frame(axes)
    if flat and scene.referenced:
        below = scene.located(scene.curve(drawn(scene.chosen(report.reference))))
        strokes = stroke(style, scene.dots_of_reference, 1.8, below.shape[1])
        rasterized = len(part) * part.shape[1] > _MANY
        for orbit in below:
            view.draw(
                axes, orbit, color=style.reference, alpha=0.35, rasterized=rasterized, **strokes
            )
    look = scene.looks.get(name, Look(style.reference, "-", ""))
    colours = [look.colour] * len(part)
    if view.projection == "3d" and len(part) > 1:
        # orbits in space cross one another in every view: each has a colour, as in a section
        colours = orbit_colours(len(part), style)
    draw_orbits(axes, view, scene.located(part), colours, dotted, style)
    colour = look.colour if name in scene.looks else style.foreground
    axes.set_title(panel_title(scene, name), color=colour)


def panel_title(scene: Scene, name: str) -> str:
    """Return the title of a method's panel, with a second line if part of it diverged."""
    if name not in scene.looks:
        return name
    title = scene.titles[name]
    return title + scene.legend_title(name).removeprefix(title).replace(" (", "\n(")
