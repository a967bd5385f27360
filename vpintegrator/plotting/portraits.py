"""Portraits of orbits in a view, and single orbits early and late, the same for every method."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import to_rgb

from vpintegrator.plotting.layout import marker_size
from vpintegrator.plotting.names import grouped, plain, shortened
from vpintegrator.plotting.scene import Scene
from vpintegrator.plotting.style import Look, Style
from vpintegrator.plotting.views import (
    ORBITS,
    PROJECTED,
    Plane,
    Space,
    Sphere,
    drawn_in_plane,
    on_sphere,
    orbit_colours,
    planes_of,
    points_shown,
    shown,
    stroke,
)

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
    scene: Scene, scale: np.ndarray, pair: tuple[int, int] | None = None, alone: bool = False
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
    title_panel(axes, scene, name)


def title_panel(axes: Axes, scene: Scene, name: str) -> None:
    """Write the title of a method in short lines, one of them if part of it diverged."""
    lines = [name]
    if name in scene.looks:
        lines = [plain(line) for line in textwrap.wrap(shortened(scene.runs[name].title), _TITLE)]
        lines.append(scene.legend_title(name).removeprefix(scene.titles[name]).strip())
    title = "\n".join(filter(None, lines))
    axes.set_title(title, color=scene.colour(name), size=0.9 * scene.style.letters)


_TITLE = 18  # letters in a line
_DOT = 900.0  # square points of all dots together


def draw_dots(axes: Axes, x: np.ndarray, y: np.ndarray, colour: Any, style: Style) -> None:
    """Draw points (n,) as dots, smaller for more points."""
    axes.scatter(
        x,
        y,
        s=np.clip(_DOT / max(len(x), 1), 0.25, 4.0) * style.line**2,
        c=colour,
        linewidths=0,
        rasterized=True,
    )


_PALE = 0.6  # part of the background in the colour of what is early


def ranked(scene: Scene, name: str) -> np.ndarray:
    """Return the orbits of a method from the best to the worst.

    Diverged orbits come last, the earliest divergence at the end. Other orbits are sorted by root
    mean square error, or by the error of the first invariant if there is no reference.
    """
    run = scene.runs[name]
    score = run.root_mean_square_error
    if not (scene.report.is_compared(name) and np.isfinite(score).any()):
        first = next(iter(run.invariants.values()), None)
        with np.errstate(all="ignore"):
            size = np.abs(run.states).max(axis=(1, 2)) if first is None else first.largest
        score = np.asarray(size)
    score = np.where(np.isfinite(score), score, np.inf)
    diverged = scene.report.divergence_time(name)
    lasting = np.where(np.isfinite(diverged), diverged, np.inf)
    return np.lexsort((score, -lasting))


def orbits_shown(scene: Scene) -> dict[int, str]:
    """Return the orbits in the overview, each with its rank.

    The orbits are those chosen by the user. The default is the median and the worst orbit of the
    first method.
    """
    if scene.orbits:
        return dict.fromkeys(scene.orbits, "")
    order = ranked(scene, next(iter(scene.looks)))
    return {int(order[(len(order) - 1) // 2]): "median", int(order[-1]): "worst"}


def early_and_late(scene: Scene, name: str, orbit: int) -> tuple[slice, slice]:
    """Return the stored times of an orbit drawn pale, and those in full colour.

    The first and the last of them, the latter before it diverges.
    """
    times = scene.report.times
    failure = scene.report.divergence_time(name)[orbit]
    end = int(np.searchsorted(times, failure)) if np.isfinite(failure) else len(times)
    length = min(points_shown(len(times), True) if scene.dots else PROJECTED, max(end // 2, 1))
    return slice(0, length), slice(max(end - length, 0), end)


def pale(colour: str, style: Style) -> tuple[float, ...]:
    """Return a colour mixed with the background."""
    pairs = zip(to_rgb(style.background), to_rgb(colour), strict=True)
    return tuple(_PALE * behind + (1 - _PALE) * own for behind, own in pairs)


def draw_fate(axes: Any, scene: Scene, name: str, orbit: int, rank: str = "") -> None:
    """Draw one orbit of a method, early and late, over the reference at the same times.

    The panel states the number of the orbit, and when the orbit diverged or left the picture. Two
    marks show the method and the reference at the last time, because only they show an error of the
    phase.
    """
    style, look = scene.style, scene.looks[name]
    early, late = early_and_late(scene, name, orbit)
    scale = scene.scale[orbit] if portrait_kind(scene) == "space" else scene.scale
    view = view_of(scene, scale, alone=True)
    view.frame(axes)

    def draw(states: np.ndarray, dots: bool, width: float, **colour: Any) -> None:
        strokes = stroke(style, dots, width, len(states))
        view.draw(axes, scene.located(states), **colour, **strokes)

    if scene.referenced:
        for part in (early, late):
            curve = scene.curve(shown(scene.report.reference[orbit, part], scene.dots))
            draw(curve, scene.dots_of_reference, 2.2, color=style.reference, alpha=0.35)
    for part, colour, width in ((early, pale(look.colour, style), 1.0), (late, look.colour, 0.75)):
        own = shown(scene.runs[name].states[orbit, part], scene.dots)
        draw(own, scene.dotted(own), width, color=colour)
    last = last_in_common(scene, name, orbit)
    if last is not None:
        for states, mark in (
            (scene.report.reference, reference_mark(scene)),
            (scene.runs[name].states, own_mark(scene, look.colour)),
        ):
            view.draw(axes, scene.located(states[orbit, last : last + 1]), alpha=1.0, **mark)
    inside = view.holds(scene.located(scene.runs[name].states[orbit]))
    text = f"{rank}: orbit {orbit + 1}".removeprefix(": ")
    text = text if len(scene.report.reference) > 1 else ""
    text = "\n".join(filter(None, [text, _ending(scene, name, orbit, inside, late)]))
    if text:
        write = getattr(axes, "text2D", axes.text)
        below = isinstance(view, Sphere)  # in it stand the names of the axes
        write(
            0.5 if below else 0.03,
            0.0 if below else 0.97,
            text,
            transform=axes.transAxes,
            ha="center" if below else "left",
            va="top",
            fontsize=0.85 * style.letters,
            zorder=6,
            bbox={"fc": style.background, "ec": "none", "alpha": 0.75, "pad": 1.0},
        )


def _ending(scene: Scene, name: str, orbit: int, inside: np.ndarray, late: slice) -> str:
    """Return the time at which an orbit diverged or left the picture, in words."""
    failure = scene.report.divergence_time(name)[orbit]
    if np.isfinite(failure):
        return f"diverged at $t$ = {failure:.4g}"
    if inside[late].any():
        return ""
    seen = np.flatnonzero(inside)
    last = scene.report.times[seen[-1]] if len(seen) else 0.0
    return f"out of sight from $t$ = {last:.4g}"


def own_mark(scene: Scene, colour: str) -> dict[str, Any]:
    """Return the style of the dot at the last state of a method."""
    size = 1.3 * marker_size(scene)
    return {"ls": "none", "marker": "o", "ms": size, "color": colour, "mec": scene.style.background}


def reference_mark(scene: Scene) -> dict[str, Any]:
    """Return the style of the ring at the last state of the reference."""
    size, colour = 2.2 * marker_size(scene), scene.style.reference
    return {"ls": "none", "marker": "o", "ms": size, "mew": 1.2, "mfc": "none", "color": colour}


def last_in_common(scene: Scene, name: str, orbit: int) -> int | None:
    """Return the index of the last time drawn of an orbit, if the reference is known then."""
    last = early_and_late(scene, name, orbit)[1].stop - 1
    known = scene.referenced and 0 < last < scene.report.reference.shape[1]
    if not known or not np.isfinite(scene.report.reference[orbit, last]).all():
        return None
    return last


def end_of_early_part(scene: Scene, name: str) -> str:
    """Return the end of the pale part of the first orbit, as text for captions."""
    early, _ = early_and_late(scene, name, next(iter(orbits_shown(scene))))
    return grouped(scene.report.times[max(early.stop - 1, 0)])
