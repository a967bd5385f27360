"""Phase portraits: on a sphere, in space, or in planes of two components."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import matplotlib.figure
import numpy as np

from vpintegrator.errors import InputError
from vpintegrator.plotting.figure import Rollout, RolloutFigure, choose, drawn_into, own_scene
from vpintegrator.plotting.scene import REFERENCE
from vpintegrator.plotting.text import grouped, listed
from vpintegrator.plotting.views import (
    ORBITS,
    drawn_in_plane,
    orbit_colours,
    planes_of,
    shown,
    stroke,
)

_ROWS = 5
_MANY = 20_000  # points: they make a vector file slow, so they go into it as an image
_TAILS = {
    "sphere": "the far side of the sphere is faint, and what leaves its neighbourhood is not drawn",
    "space": "what leaves the box is not drawn",
    "plane": "the reference lies below in grey",
}


class PhaseFigure(RolloutFigure):
    """Orbits of every method beside the reference, or over it in planes."""

    name = "phase"

    @property
    def pairs(self) -> list[tuple[int, int]]:
        """Planes in the figure; fewer for many methods."""
        _, rows = self.grid(len(self.runs))
        return planes_of(self.scene.system)[: max(1, _ROWS // rows)]

    def shown(self, states: np.ndarray, flat: bool) -> np.ndarray:
        """Return the orbits and times of states (trajectory, time, dim) that are drawn."""
        if flat:
            return drawn_in_plane(states, len(self.scene.components), self.scene.dots)
        return shown(states[:ORBITS], self.scene.dots)

    def panel(self, axes: Any, name: str, pair: tuple[int, int] | None = None) -> None:
        """Draw orbits of a method, or of the ``reference``; ``pair`` asks for that plane."""
        scene, style = self.scene, self.style
        flat = pair is not None or scene.kind == "plane"
        states = self.shown(scene.chosen(scene.states(name)), flat)
        view = scene.view(self.shown(scene.scale, flat) if flat else scene.scale, pair)
        view.frame(axes)
        image = {"rasterized": states.shape[0] * states.shape[1] > _MANY}
        dotted = list(map(scene.dotted, states))
        if scene.referenced and (flat or name == REFERENCE):
            known = scene.curve(self.shown(scene.chosen(scene.report.reference), flat))
            for orbit in known if flat else ():
                look = stroke(style, scene.dots_of_reference, 1.8, len(orbit))
                view.draw(axes, orbit, color=style.reference, alpha=0.35, **image, **look)
            if name == REFERENCE:
                states, dotted = known, [scene.dots_of_reference] * len(known)
        colours = [scene.looks[name].colour if name in self.runs else style.reference] * len(states)
        if view.projection == "3d" and len(states) > 1:
            # orbits in space cross one another in every view: each has a colour, as in a section
            colours = orbit_colours(len(states), style)
        alpha = {} if view.alpha is None else {"alpha": view.alpha}
        for orbit, colour, dots in zip(states, colours, dotted, strict=True):
            look = stroke(style, dots, view.width, len(orbit))
            view.draw(axes, orbit, color=colour, **alpha, **image, **look)
        self.title_panel(axes, name)

    def draw(self) -> matplotlib.figure.Figure:
        scene, names = self.scene, list(self.runs)
        if scene.kind == "plane":
            blocks = [(pair,) for pair in self.pairs]
            return self.portraits(self.panel, names, blocks, 0.0, self.reference_line(), shape=0.86)
        names = [REFERENCE, *names] if scene.referenced else names
        projection = scene.view(scene.scale).projection
        return self.portraits(self.panel, names, shape=1.0, projection=projection)

    def sentences(self) -> list[str]:
        scene, report, every = self.scene, self.report, planes_of(self.scene.system)
        some = scene.chosen(next(iter(self.runs.values())).states)
        orbits, points, _ = self.shown(some, scene.kind == "plane").shape
        which = "all orbits" if orbits == len(report.reference) else f"the first {orbits} orbits"
        if scene.orbits:
            chosen = [str(k + 1) for k in scene.orbits[:orbits]]
            which = f"orbit{'s' if len(chosen) > 1 else ''} {listed(chosen)}"
        elif orbits == 1:
            which = "the first orbit" if len(report.reference) > 1 else "the orbit"
        how = f"to t = {grouped(report.times[points - 1])}"
        if scene.dots:
            gap = report.every * report.step
            how = f"{points} states of each as dots, as states are stored {gap:g} in time apart"
        elif points == len(report.times):
            how = "at all times"
        words = f"Phase portraits: {which}, {how}{self.long_steps()}"
        if scene.kind != "plane" or scene.referenced:
            words += f"; {_TAILS[scene.kind]}"
        if scene.kind == "plane" and len(every) > 1:
            names = [f"({', '.join(scene.coordinates[k] for k in pair)})" for pair in self.pairs]
            left = "" if len(names) == len(every) else f" of {len(every)} such planes"
            words += f"; planes {listed(names)}{left}"
        return [f"{words}.", *self.closing()]


def portrait(
    report: Rollout, method: str = REFERENCE, plane: Sequence[str] | None = None, ax: Any = None
) -> Any:
    """Draw orbits of a method on a sphere, in space, or in a plane over the reference.

    Axes for orbits in space have ``projection="3d"``.

    Parameters
    ----------
    report
        A report, or the path of a rollout file.
    method
        Name of a method in the report, or ``"reference"``.
    plane
        The names of two components, or of the system's further coordinates, to draw a plane; by
        default what suits the system.
    ax
        Matplotlib's Axes; a new figure if None.

    Returns
    -------
    matplotlib.axes.Axes
        ``ax``.

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
    projection = scene.view(scene.scale, pair).projection
    if ax is not None and (projection == "3d") != (ax.name == "3d"):
        raise InputError(
            "ax: these orbits lie in space; make the Axes with projection='3d', or choose a plane"
            if projection == "3d"
            else "ax: this portrait is flat; make the Axes without a projection"
        )
    return drawn_into(ax, PhaseFigure(scene).panel, method, pair, projection=projection)
