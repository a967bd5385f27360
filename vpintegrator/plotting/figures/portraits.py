"""Orbits of rollouts and datasets: portraits in views of their space, and components in time."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import matplotlib.figure
import numpy as np
from matplotlib.axes import Axes

from vpintegrator.arguments import one_of
from vpintegrator.data import Dataset
from vpintegrator.errors import InputError
from vpintegrator.plotting import views
from vpintegrator.plotting.figure import (
    Figure,
    Rollout,
    RolloutFigure,
    drawn_into,
    in_lines,
    own_scene,
)
from vpintegrator.plotting.scene import REFERENCE, Scene, turning
from vpintegrator.plotting.style import ORBIT_COLOURS, PAPER
from vpintegrator.plotting.text import grouped, listed, mathtext, orbits, plain

_ROWS = 5
_MANY = 20_000  # points: they make a vector file slow, so they go into it as an image
_TAILS = {
    "sphere": "the far side of the sphere is faint, and what leaves its neighbourhood is not drawn",
    "space": "what leaves the box is not drawn",
    "plane": "the reference lies below in grey",
}


class PhaseFigure(RolloutFigure):
    """Orbits of every method beside the reference, or over it in planes (``flat``)."""

    name = "phase"

    def __init__(self, scene: Scene, flat: bool = False) -> None:
        super().__init__(scene)
        self.flat = flat or scene.kind == "plane"

    @property
    def pairs(self) -> list[tuple[int, int]]:
        """Planes in the figure; fewer for many methods."""
        _, rows = self.grid(len(self.runs))
        return views.planes_of(self.scene.system)[: max(1, _ROWS // rows)]

    def shown(self, states: np.ndarray) -> np.ndarray:
        """Return the orbits and times of states (trajectory, time, dim) that are drawn."""
        if self.flat:
            return views.drawn_in_plane(states, len(self.scene.components), self.scene.dots)
        return views.shown(states[: views.ORBITS], self.scene.dots)

    @cached_property
    def reference_curve(self) -> np.ndarray:
        """Orbits of the reference, (trajectory, time, dim); empty where there is none."""
        states = self.shown(self.report.reference)
        return self.scene.curve(states) if self.scene.referenced else states[:0]

    def panel(self, axes: Any, name: str, pair: tuple[int, int] | None = None) -> None:
        """Draw orbits of a method, or of the ``reference``; ``pair`` asks for that plane."""
        scene = self.scene
        style = self.style
        states = self.shown(scene.states(name))
        view = scene.view(self.shown(scene.scale) if self.flat else scene.scale, pair)
        view.frame(axes)
        image = {"rasterized": states.shape[0] * states.shape[1] > _MANY}
        dotted = list(map(scene.dotted, states))
        for orbit in self.reference_curve if self.flat else ():
            look = views.stroke(style, scene.dots_of_reference, 1.8, len(orbit))
            view.draw(axes, orbit, color=style.reference, alpha=0.35, **image, **look)
        if name == REFERENCE:
            states = self.reference_curve
            dotted = [scene.dots_of_reference] * len(states)
        colours = [scene.looks[name].colour if name in self.runs else style.reference] * len(states)
        if view.projection == "3d" and len(states) > 1:
            # orbits in space cross one another in every view: each has a colour, as in a section
            colours = views.orbit_colours(len(states), style)
        alpha = {} if view.alpha is None else {"alpha": view.alpha}
        for orbit, colour, dots in zip(states, colours, dotted, strict=True):
            look = views.stroke(style, dots, view.width, len(orbit))
            view.draw(axes, orbit, color=colour, **alpha, **image, **look)
        self.title_panel(axes, name)

    def draw(self) -> matplotlib.figure.Figure:
        scene = self.scene
        names = list(self.runs)
        if scene.kind == "plane":
            blocks = [(pair,) for pair in self.pairs]
            legend = self.reference_line()
            return self.portraits(self.panel, names, blocks, legend=legend, shape=0.86)
        names = [REFERENCE, *names] if scene.referenced else names
        projection = scene.view(scene.scale).projection
        return self.portraits(self.panel, names, shape=1.0, projection=projection)

    def sentences(self) -> list[str]:
        scene = self.scene
        report = self.report
        every = views.planes_of(self.scene.system)
        count, points, _ = self.shown(next(iter(self.runs.values())).states).shape
        how = f"to t = {grouped(report.times[points - 1])}"
        how = f"{points} states of each as dots" if scene.dots else how
        words = f"Phase portraits: {count} of {orbits(len(report.reference))}, {how}"
        words += self.long_steps()
        if scene.kind != "plane" or scene.referenced:
            words += f"; {_TAILS[scene.kind]}"
        if scene.kind == "plane" and len(every) > 1:
            names = [f"({', '.join(scene.coordinates[k] for k in pair)})" for pair in self.pairs]
            words += f"; {len(names)} of {len(every)} planes, {listed(names)}"
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
    one_of("method", method, [REFERENCE, *scene.runs])
    if method == REFERENCE and not scene.referenced:
        raise InputError("portrait: this rollout has no reference; name a method")
    pair = None
    if plane is not None:
        if isinstance(plane, str) or len(plane) != 2:
            raise InputError(f"plane: {plane!r} is not two names, such as ('q', 'p')")
        known = scene.coordinates
        first, second = (known.index(one_of("plane", name, known)) for name in plane)
        pair = (first, second)
    projection = scene.view(scene.scale, pair).projection
    if ax is not None and (projection == "3d") != (ax.name == "3d"):
        raise InputError(f"ax: this portrait needs Axes with projection={projection!r}")
    panel = PhaseFigure(scene, flat=pair is not None).panel
    return drawn_into(ax, panel, method, pair, projection=projection)


_COMPONENTS = 6  # more do not fit on a page
_TIMES = 150  # stored times that a panel shows well
_TURNS = 12  # turns of an orbit that a panel shows well
_LEAST = 24  # stored times
_APART = 0.1  # part of a component's range by which two curves are seen to differ
_WHOLE = 2.5  # lengths of an interval that one panel shows
_PANEL = 20  # em: least width of a panel


class CoordinatesFigure(RolloutFigure):
    """Components of the first orbit in time, beside the reference."""

    name = "coordinates"

    @property
    def count(self) -> int:
        """Number of components drawn, without the time."""
        return min(self.scene.system.phase_dim, _COMPONENTS)

    def orbit(self, name: str = "") -> np.ndarray:
        """Return states (time, dim) of a method or the ``reference``, by default of the scale."""
        return (self.scene.states(name) if name else self.scene.scale)[0]

    @cached_property
    def departures(self) -> dict[str, int]:
        """The stored time at which each method leaves the others' curves, for those that do.

        It is then farther from the reference, or else from the method that sets the scale, than a
        tenth of the range of a component.
        """
        orbit = self.orbit()[:, : self.count]
        span = np.nanmax(orbit, axis=0) - np.nanmin(orbit, axis=0)
        times = {}
        for name in self.runs:
            states = self.orbit(name)[: len(orbit), : self.count]
            with np.errstate(all="ignore"):
                near = np.abs(states - orbit) <= _APART * span
            gone = (~near & ~np.isnan(orbit)).any(axis=-1)
            if gone.any():
                times[name] = int(gone.argmax())
        return times

    @cached_property
    def intervals(self) -> list[slice]:
        """The stored times drawn: the first ones, and those up to which methods differ.

        In a long run the oscillations of all of it would be one block of colour. The end is that of
        the orbit's reference at most.
        """
        scene = self.scene
        report = self.report
        count = scene.scale.shape[1]
        if scene.referenced and not report.is_reference_given:
            count = int(np.searchsorted(report.times, report.reference_ends[0])) + 1
        turns = _TURNS * 360 / max(turning(scene.moving(scene.scale)), 1.0)
        length = min(_TIMES, max(int(turns), _LEAST))
        last = max(self.departures.values(), default=0)
        end = min(max(last + length // 3, length), count)
        if end <= _WHOLE * length:
            return [slice(0, end)]
        late = slice(end - length, end)
        return [late] if self.columns(_PANEL) < 2 else [slice(0, length), late]

    def panel(self, axes: Axes, component: int, part: slice) -> None:
        """Draw one component in some of the stored times, for the reference and every method.

        A method is drawn until it has left the axes by half of their height.
        """
        scene = self.scene
        style = self.style
        times = self.report.times[part]
        low, high = views.limits(self.orbit()[:, component], 0.3)
        if scene.referenced:
            curve = scene.curve(self.orbit(REFERENCE)[part])
            along = np.interp(np.arange(len(curve)) / scene.pieces, np.arange(len(times)), times)
            grey: dict[str, Any] = {"color": style.reference, "lw": 2.6 * style.line, "alpha": 0.5}
            grey |= self._dots(1.8) if scene.dots_of_reference else {}
            axes.plot(along, curve[:, component], **grey)
        for name, look in scene.looks.items():
            states = self.orbit(name)[:, component]
            with np.errstate(all="ignore"):
                # a diverged curve would return as lines across the others
                inside = np.abs(states - (low + high) / 2) < high - low
            inside = np.append(True, np.logical_and.accumulate(inside)[:-1])
            line = self._dots(1.2) if scene.dotted(self.orbit(name)[part]) else {"ls": look.line}
            shown = np.where(inside, states, np.nan)[part]
            axes.plot(times, shown, color=look.colour, lw=0.6 * look.width, **line)
        axes.set(ylim=(low, high), xlim=(times[0], times[-1]))

    def _dots(self, size: float) -> dict[str, Any]:
        return {"ls": "none", "marker": ".", "mew": 0, "ms": size * self.style.mark}

    def draw(self) -> matplotlib.figure.Figure:
        scene = self.scene
        parts = self.intervals
        lines = [*self.legend(marked=False), *self.reference_line()]
        dotted = [all(scene.dotted(self.orbit(n)[part]) for part in parts) for n in self.runs]
        dotted += [scene.dots_of_reference] * scene.referenced
        for line, dots in zip(lines, dotted, strict=True):
            if dots:
                line.set(**self._dots(1.6))
        figure = self.new(self.style.wide, 9.5 * self.count + 2, lines)
        grid = figure.subplots(self.count, len(parts), sharex="col", sharey="row", squeeze=False)
        for k, row in enumerate(grid):
            row[0].set_ylabel(mathtext(scene.components[k]))
            for axes, part in zip(row, parts, strict=True):
                self.panel(axes, k, part)
        for axes in grid[-1]:
            axes.set_xlabel("time $t$")
        figure.align_ylabels(grid[:, 0])
        return figure

    def sentences(self) -> list[str]:
        times = self.report.times
        scene = self.scene
        ends = [(grouped(times[part][0]), grouped(times[part][-1])) for part in self.intervals]
        spans = " and ".join(f"from t = {first} to {last}" for first, last in ends)
        which = f"{self.count} of {scene.system.phase_dim} components"
        dots = " as dots, at the stored times" if scene.dots else self.long_steps(",")
        grey = "; the reference in grey" if scene.referenced else ""
        left = {name: times[index] for name, index in self.departures.items()}
        apart = self.by_method(left, "t = {:.4g}".format) if left else "no method"
        return [
            f"The first orbit, {which}{dots}, {spans}{grey}.",
            "A method is drawn until it has left the axes.",
            f"Apart by a tenth of a component's range: {apart}.",
            *self.closing(),
        ]


_LENGTH = 300  # times of a component's curve, so that its oscillations can be told apart
_TRAJECTORIES = 40  # in the portrait


class PreviewFigure(Figure):
    """The training group of a dataset: a phase portrait, the components of a trajectory."""

    name = "preview"
    style = PAPER

    def __init__(self, dataset: Dataset) -> None:
        self.dataset = dataset

    def draw(self) -> matplotlib.figure.Figure:
        dataset = self.dataset
        system = self.dataset.system
        colour = ORBIT_COLOURS[0]
        names = system.components[: min(system.phase_dim, _COMPONENTS)]
        plane = views.planes_of(system)[0]
        states = dataset.states("train", slice(_TRAJECTORIES))
        states = views.within_a_turn(system, states) if system.is_discrete else states
        dots = system.is_discrete or not np.isfinite(states).all()
        figure = self.new(PAPER.wide, max(6.5 * len(names), 21) + 6)
        grid = figure.add_gridspec(len(names), 2, width_ratios=[1, 1.25])
        drawn = views.drawn_in_plane(states, dataset.dim, dots)
        axes = figure.add_subplot(grid[:, 0])
        view = views.Plane(system, drawn, plane)
        view.frame(axes)
        for orbit in drawn:
            view.draw(axes, orbit, color=colour, **views.stroke(PAPER, dots))
        step = dataset.conditions("train")[0, 0] if "step" in dataset.varied else 1.0
        values = states[0, :_LENGTH]
        times = dataset.times("train")[: len(values)] * step
        look = views.stroke(PAPER, dots or len(values) < 2, 1.3)
        for k, name in enumerate(names):
            axes = figure.add_subplot(grid[k, 1], ylabel=mathtext(name))
            axes.plot(times, values[:, k], color=colour, **look)
            axes.tick_params(labelbottom=k == len(names) - 1)
        axes.set_xlabel("iteration" if system.is_discrete else "time $t$")
        title = f"{plain(dataset.title)}\n{plain(dataset.description)}"
        size = 1.2 * PAPER.letters
        figure.suptitle(in_lines(title, PAPER.wide, fontsize=size), fontsize=size)
        return figure

    def sentences(self) -> list[str]:
        return [self.dataset.description]
