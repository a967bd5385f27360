"""Phase portraits: on a sphere, in space, or in planes of two components."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import matplotlib.figure
from matplotlib.axes import Axes

from vpintegrator.errors import InputError
from vpintegrator.plotting.captions import closing, definitions, listed, long_steps
from vpintegrator.plotting.layout import (
    PORTRAIT_COLUMNS,
    FigureDeclaration,
    grid_of_portraits,
    hide_inner_labels,
    hide_unused,
    new_figure,
    reference_line,
)
from vpintegrator.plotting.names import grouped
from vpintegrator.plotting.portraits import (
    REFERENCE,
    axes_of_portraits,
    draw_portrait,
    portrait_kind,
    view_of,
)
from vpintegrator.plotting.scene import Rollout, Scene, choose, drawn_into, own_scene, takes_axes
from vpintegrator.plotting.views import ORBITS, PROJECTED, planes_of, points_shown

_ROWS = 5


@takes_axes
def portrait(
    report: Rollout, method: str = REFERENCE, plane: Sequence[str] | None = None, ax: Any = None
) -> Any:
    """Draw orbits of a method on a sphere, in space, or in a plane over the reference.

    Axes for orbits in space have ``projection="3d"``.

    Parameters
    ----------
    {report}
    method
        Name of a method in the report, or ``"reference"``.
    plane
        The names of two components, or of the system's further coordinates, to draw a plane; by
        default what suits the system.
    {ax}

    Raises
    ------
    InputError
        If the file is no rollout, a name is none, there is no reference, or the Axes do not suit.

    Examples
    --------
    ::

        vp.plotting.portrait(report, "rk4", ax=ax)
        vp.plotting.portrait(report, "rk4", plane=("q[0]", "p[0]"), ax=other)

    >>> report = vp.compare(None, "rk4", system="pendulum", step=0.1, steps=20)
    >>> axes = vp.plotting.portrait(report, "rk4")
    """
    scene = own_scene(report, ax)
    choose("method", method, [REFERENCE, *scene.runs])
    if method == REFERENCE and not scene.referenced:
        raise InputError("portrait: this rollout has no reference; name a method")
    pair = None
    if plane is not None:
        if isinstance(plane, str) or len(plane) != 2:
            raise InputError(f"plane: {plane!r} is not two names, such as ('q', 'p')")
        for name in plane:
            choose("plane", name, scene.coordinates)
        pair = (scene.coordinates.index(plane[0]), scene.coordinates.index(plane[1]))
    projection = view_of(scene, scene.scale, pair).projection
    if ax is not None and (projection == "3d") != (ax.name == "3d"):
        raise InputError(
            "ax: these orbits lie in space; make the Axes with projection='3d', or choose a plane"
            if projection == "3d"
            else "ax: this portrait is flat; make the Axes without a projection"
        )
    return drawn_into(ax, draw_portrait, scene, method, pair, projection=projection)


def pairs_drawn(scene: Scene) -> list[tuple[int, int]]:
    """Return the planes in the figure of phase portraits; fewer for many methods."""
    _, rows = grid_of_portraits(scene.style, len(scene.looks))
    pairs = planes_of(scene.system)
    return pairs[: max(1, _ROWS // rows)]


def _draw(scene: Scene) -> matplotlib.figure.Figure:
    """Draw every method beside the reference, or over it in plane portraits."""
    plane = portrait_kind(scene) == "plane"
    names, width = list(scene.looks), scene.style.wide
    if not plane and scene.referenced:
        names = [REFERENCE, *names]
    columns, rows = grid_of_portraits(scene.style, len(names))
    if plane and columns < 3 and not scene.style.width:
        width *= columns / PORTRAIT_COLUMNS
    side = width / scene.style.em / columns
    pairs: Sequence[tuple[int, int] | None] = pairs_drawn(scene) if plane else [None]
    height = len(pairs) * rows * (0.86 * side + 1.5 if plane else side + 2.2)
    figure = new_figure(scene.style, width, height, reference_line(scene) if plane else ())
    keywords = {"projection": view_of(scene, scene.scale).projection}
    grid = figure.subplots(len(pairs) * rows, columns, squeeze=False, subplot_kw=keywords)
    for block, pair in enumerate(pairs):
        panels: list[Axes] = list(grid[block * rows : (block + 1) * rows].flat)
        for k, (axes, name) in enumerate(zip(panels, names, strict=False)):
            draw_portrait(axes, scene, name, pair)
            if plane:
                hide_inner_labels(axes, k, columns, rows)
        hide_unused(panels, len(names))
    return figure


def _caption(scene: Scene) -> list[str]:
    words, axes = _portraits(scene), axes_of_portraits(scene)
    if portrait_kind(scene) == "plane":
        pairs = [f"({scene.coordinates[i]}, {scene.coordinates[j]})" for i, j in pairs_drawn(scene)]
        axes = list(
            dict.fromkeys(scene.coordinates[k] for pair in pairs_drawn(scene) for k in pair)
        )
        every = planes_of(scene.system)
        of = "" if len(pairs) == len(every) else f" of {len(every)} such planes"
        words += f"; planes {listed(pairs)}{of}" if len(every) > 1 else ""
    return [
        f"Phase portraits: {words}.",
        *definitions(scene.system, axes),
        *closing(scene),
    ]


def _portraits(scene: Scene) -> str:
    """Return a description of the portraits, and of the orbits and points left out."""
    kind, report = portrait_kind(scene), scene.report
    stored = len(report.times)
    orbits = min(len(report.reference), ORBITS)
    points = points_shown(stored, scene.dots)
    if kind == "plane" and len(scene.components) > 2:
        orbits, points = 1, points if scene.dots else min(stored, PROJECTED)
    which = "all orbits" if orbits == len(report.reference) else f"the first {orbits} orbits"
    if scene.orbits:
        chosen = [str(k + 1) for k in scene.orbits[:orbits]]
        which = f"orbit{'s' if len(chosen) > 1 else ''} {listed(chosen)}"
    elif orbits == 1:
        which = "the first orbit" if len(report.reference) > 1 else "the orbit"
    if scene.dots:
        gap = report.every * report.step
        how = f"{points} states of each as dots, as states are stored {gap:g} in time apart"
    elif points < stored:
        how = f"to t = {grouped(report.times[points - 1])}"
    else:
        how = "at all times"
    how += long_steps(scene)
    tail = {
        "sphere": "the far side of the sphere is faint, and what leaves its neighbourhood is not "
        "drawn",
        "space": "what leaves the box is not drawn",
        "plane": "the reference lies below in grey",
    }[kind]
    if kind == "plane" and not scene.referenced:
        return f"{which}, {how}"
    return f"{which}, {how}; {tail}"


PHASE = FigureDeclaration("phase", _draw, _caption)
