"""Points in a plane: Poincare sections of flows, and all states of maps."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cached_property
from typing import Any

import matplotlib.figure
import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import to_rgb

from vpintegrator.errors import InputError
from vpintegrator.plotting.figure import Rollout, RolloutFigure, choose, drawn_into, own_scene
from vpintegrator.plotting.scene import REFERENCE
from vpintegrator.plotting.text import listed, mathtext
from vpintegrator.plotting.views import (
    limits,
    orbit_colours,
    planes,
    planes_of,
    within,
    within_a_turn,
)
from vpintegrator.rollout.diagnostics.poincare import Section, poincare_section

_SAME = 0.01  # relative difference of energies at one level
_POINTS = 30_000  # points of a method; more make no clearer picture
_LEAST = 2000  # states of all orbits of a map: fewer are in the phase portraits
_AREA = 900.0  # square points of all dots together


class PointFigure(RolloutFigure):
    """A figure of points in a plane, each orbit in the same colour in all panels."""

    def dots(
        self, axes: Axes, name: str, points: np.ndarray, orbits: np.ndarray, pair: tuple[int, int]
    ) -> None:
        """Draw points (n, dim) of orbits (n,) as dots, smaller for more points."""
        colours = np.array([to_rgb(c) for c in orbit_colours(len(self.scene.scale), self.style)])
        chosen = slice(None, None, max(-(-len(points) // _POINTS), 1))
        x, y = points[chosen, pair[0]], points[chosen, pair[1]]
        size = np.clip(_AREA / max(len(x), 1), 0.25, 4.0) * self.style.line**2
        axes.scatter(x, y, s=size, c=colours[orbits[chosen]], linewidths=0, rasterized=True)
        names = [mathtext(self.scene.components[k]) for k in pair]
        axes.set(xlabel=names[0], ylabel=names[1])
        self.title_panel(axes, name)


class PoincareFigure(PointFigure):
    """Crossings of orbits with a hyperplane."""

    name = "poincare"

    @cached_property
    def pair(self) -> tuple[int, int] | None:
        """Components on the axes, or None if no section fills a plane.

        A pair that the section's own component is not part of: the first that the system file
        names, a conjugate one, or the first two.
        """
        plane, system = self.report.section_plane, self.report.system
        if plane is None or system.dim < 3:
            return None
        cut = system.components.index(plane[0])
        for pair in [*planes_of(system), *planes(system)]:
            if cut not in pair and max(pair) < system.dim:
                return pair
        first, second = [k for k in range(system.dim) if k != cut][:2]
        return first, second

    @cached_property
    def reference_section(self) -> Section | None:
        """Points of the reference, if its states are close enough in time."""
        report, scene = self.report, self.scene
        if report.section_plane is None or report.every > 1 or not scene.referenced:
            return None
        component, value, direction = report.section_plane
        cut = scene.components.index(component)
        period, parts = scene.system.periods.get(cut), []
        for k, states in enumerate(report.reference):
            known = np.isfinite(states).all(axis=-1)
            length = known.sum()  # up to the end of the orbit's reference
            if length and known[:length].all():
                orbit = states[None, :length]
                part = poincare_section(orbit, report.step, cut, value, direction, period)
                parts.append(replace(part, trajectory=part.trajectory + k))
        return Section.joined(parts) if parts else None

    @cached_property
    def level(self) -> tuple[list[int], np.ndarray]:
        """The orbits at one level of the energy, and their energies; all if there is none.

        Orbits of other energies would cross theirs in the plane. The level is that of most orbits,
        or of the first that the user chose.
        """
        every = np.arange(len(self.report.reference))
        energy = self.report.system.invariants.get("energy")
        plane = self.report.section_plane
        if energy is None or plane is None or plane[0] == self.report.system.time:
            return list(every), np.empty(0)
        values = np.asarray(energy(self.report.reference[:, 0]))
        near = np.abs(values - values[:, None]) <= _SAME * np.abs(values[:, None])
        best = self.scene.orbits[0] if self.scene.orbits else int(near.sum(axis=1).argmax())
        return list(every[near[best]]), values[near[best]]

    @cached_property
    def sections(self) -> dict[str, Section]:
        """Nonempty sections of the reference and the methods, with angles within a turn."""
        sections = {}
        found = {REFERENCE: self.reference_section} | self.scene.measured("section")
        for name, whole in found.items():
            kept = np.isin(whole.trajectory, self.level[0]) if whole else np.empty(0, dtype=bool)
            if kept.any():
                points = within_a_turn(self.report.system, whole.points[kept])
                sections[name] = Section(points, whole.trajectory[kept], whole.time[kept])
        return sections

    @cached_property
    def box(self) -> np.ndarray:
        """Limits (component, low or high) that show the points of all panels, but of those far off.

        Sections that exceed the reference's by more than its width on a side do not count: the
        other orbits would be too small. Without a reference, the smallest section takes its place.
        """
        pair = self.pair or ()
        boxes = {
            name: np.array([limits(found.points[:, k], 0.08) for k in pair])
            for name, found in self.sections.items()
        }
        narrowest = min(boxes, key=lambda name: float(np.ptp(boxes[name], axis=1).prod()))
        first = boxes.get(REFERENCE, boxes[narrowest])
        largest = first + np.ptp(first, axis=1)[:, None] * [-1, 1]
        kept = np.array([first, *(box for box in boxes.values() if within(box.T, largest).all())])
        return np.stack([kept[..., 0].min(axis=0), kept[..., 1].max(axis=0)], axis=1)

    def beyond(self, name: str) -> int:
        """Return the number of points outside the box."""
        points = self.sections[name].points[:, list(self.pair or ())]
        return int((~within(points, self.box)).sum())

    def words(self, form: Callable[[str], str] = str) -> str:
        """Return ``section q[0] = 0, upwards``; ``form`` gives the label of a component."""
        component, value, direction = self.report.section_plane or ("", 0.0, 0)
        way = {1: ", upwards", -1: ", downwards"}.get(int(direction), "")
        way = ", once in a period" if component == self.report.system.time else way
        return f"section {form(component)} = {value:g}{way}"

    def applies(self) -> bool:
        return self.pair is not None and any(name in self.runs for name in self.sections)

    def panel(self, axes: Axes, name: str) -> None:
        """Draw the points of a method or the reference."""
        found = self.sections[name]
        self.dots(axes, name, found.points, found.trajectory, self.pair or (0, 1))

    def draw(self) -> matplotlib.figure.Figure:
        def draw(axes: Axes, name: str) -> None:
            self.panel(axes, name)
            axes.set(xlim=self.box[0], ylim=self.box[1])
            if beyond := self.beyond(name):
                look: dict[str, Any] = {"va": "top", "size": 0.85 * self.style.letters}
                axes.text(0.03, 0.97, f"{beyond} beyond", transform=axes.transAxes, **look)

        orbits, energies = self.level
        legend = self.orbit_legend(orbits)
        figure = self.portraits(draw, self.sections, further=2, legend=legend)
        energy = f", energy {energies.mean():.4g}" if energies.size else ""
        self.title(figure, self.words(mathtext) + energy)
        return figure

    def sentences(self) -> list[str]:
        counts = {n: len(found.points) for n, found in self.sections.items() if n in self.runs}
        axes = ", ".join(self.scene.components[k] for k in self.pair or ())
        far = {name: missed for name in counts if (missed := self.beyond(name))}
        thin = f"; at most {_POINTS} of them are drawn, evenly chosen"
        thin *= max(counts.values()) > _POINTS
        return [
            f"Poincare {self.words()}, in the plane ({axes}); each orbit in a colour of its own, "
            "the same in all panels.",
            *self._energies(),
            f"Number of points: {self.by_method(counts, str)}{thin}.",
            *([f"Beyond the axes: {self.by_method(far, str)}."] if far else []),
            *self.events(),
        ]

    def _energies(self) -> list[str]:
        """Return a sentence on the level of the energy and the orbits at it."""
        orbits, energies = self.level
        if not energies.size:
            return []
        spread = f" within {np.ptp(energies):.0e}" if np.ptp(energies) else ""
        others, which, left = len(self.report.reference) - len(orbits), "all orbits", ""
        if others:
            which = f"orbit{'s' if len(orbits) > 1 else ''} {listed([str(k + 1) for k in orbits])}"
            left = f"; the other {others} have other energies and are left out"
        return [f"One level of the energy, {energies.mean():.4g}{spread}: {which}{left}."]


def section(report: Rollout, method: str = REFERENCE, ax: Any = None) -> Any:
    """Draw the Poincare section of a method, a colour for each orbit.

    Parameters
    ----------
    report
        A report, or the path of a rollout file.
    method
        Name of a method in the report, or ``"reference"``.
    ax
        Matplotlib's Axes; a new figure if None.

    Returns
    -------
    matplotlib.axes.Axes
        ``ax``.

    Raises
    ------
    InputError
        If the file is no rollout, has no such method, or no section with points of it.

    Examples
    --------
    ::

        vp.plotting.section("henon-heiles-rollout.h5", "rk4", ax=ax)

    >>> report = vp.compare(None, "rk4", system="henon-heiles", steps=100)
    >>> axes = vp.plotting.section(report, "rk4")
    """
    figure = PoincareFigure(own_scene(report, ax))
    choose("method", method, [REFERENCE, *figure.runs])
    if figure.pair is None or method not in figure.sections:
        raise InputError(f"section: this rollout has no Poincare section with points of '{method}'")
    return drawn_into(ax, figure.panel, method)


class MapFigure(PointFigure):
    """All states of the orbits of a map on a plane, with islands and chaos, for each method."""

    name = "map"

    @property
    def pair(self) -> tuple[int, int]:
        """Components on the axes."""
        pairs = planes_of(self.scene.system)
        return next((pair for pair in pairs if max(pair) < self.scene.system.dim), (0, 1))

    @cached_property
    def states(self) -> dict[str, np.ndarray]:
        """States (orbit and time, dim) of the reference and the methods, angles within a turn."""
        names = [*([REFERENCE] if self.scene.referenced else []), *self.runs]
        return {
            name: within_a_turn(self.scene.system, self.scene.states(name)).reshape(
                -1, self.scene.system.dim
            )
            for name in names
        }

    def applies(self) -> bool:
        system = self.scene.system
        most = max(map(len, self.states.values()))
        return system.is_discrete and system.dim > 1 and most > _LEAST

    def draw(self) -> matplotlib.figure.Figure:
        """Draw the portraits, with axes that fit the reference, or else the first method."""
        first = next(iter(self.states.values()))
        box = [limits(first[:, k], 0.05) for k in self.pair]

        def draw(axes: Axes, name: str) -> None:
            states, count = self.states[name], len(self.report.reference)
            orbits = np.repeat(np.arange(count), len(states) // count)
            known = np.isfinite(states).all(axis=1)
            self.dots(axes, name, states[known], orbits[known], self.pair)
            axes.set(xlim=box[0], ylim=box[1])

        return self.portraits(draw, self.states, further=1, legend=self.orbit_legend())

    def sentences(self) -> list[str]:
        names = ", ".join(self.scene.components[k] for k in self.pair)
        thin = f" (one in {self.report.every})" if self.report.every > 1 else ""
        most = max(map(len, self.states.values()))
        shown = f", at most {_POINTS} of them evenly chosen" if most > _POINTS else ""
        return [
            f"States{thin} of {len(self.report.reference)} orbits of the map in the plane "
            f"({names}), {most} of a method{shown}. Each orbit has a colour of its own, the same "
            "in all panels.",
            *self.events(),
        ]
