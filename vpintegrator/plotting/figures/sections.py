"""Points in a plane: Poincare sections of flows, states of maps and their rotation numbers."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from itertools import combinations
from typing import Any

import matplotlib.figure
import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import to_rgb

from vpintegrator.arguments import one_of
from vpintegrator.errors import InputError
from vpintegrator.plotting import views
from vpintegrator.plotting.figure import Rollout, RolloutFigure, drawn_into, own_scene
from vpintegrator.plotting.figures.curves import SMALLEST
from vpintegrator.plotting.scene import REFERENCE
from vpintegrator.plotting.text import listed, mathtext
from vpintegrator.rollout.diagnostics.poincare import Section, poincare_section
from vpintegrator.rollout.diagnostics.rotation import RotationNumbers

_SAME = 0.01  # relative difference of energies at one level
_POINTS = 30_000  # points of a method; more make no clearer picture
_LEAST = 2000  # states of all orbits of a map: fewer are in the phase portraits
_AREA = 900.0  # square points of all dots together


class PoincareFigure(RolloutFigure):
    """Crossings of orbits with a hyperplane, each orbit in the same colour in all panels."""

    name = "poincare"

    @cached_property
    def pair(self) -> tuple[int, int] | None:
        """Components on the axes, or None if no section fills a plane.

        A pair that the section's own component is not part of: the first that the system file
        names, a conjugate one, or the first two.
        """
        plane = self.report.section_plane
        system = self.report.system
        if plane is None or system.dim < 3:
            return None
        cut = system.components.index(plane[0])
        pairs = [*views.planes_of(system), *views.planes(system), *combinations(range(cut + 3), 2)]
        return next(pair for pair in pairs if cut not in pair and max(pair) < system.dim)

    @cached_property
    def reference_section(self) -> Section | None:
        """Points of the reference, if its states are close enough in time."""
        report = self.report
        scene = self.scene
        if report.section_plane is None or report.every > 1 or not scene.referenced:
            return None
        component, value, direction = report.section_plane
        cut = scene.components.index(component)
        period = scene.system.periods.get(cut)
        return poincare_section(report.reference, report.step, cut, value, direction, period)

    @cached_property
    def level(self) -> tuple[list[int], np.ndarray]:
        """The orbits at one level of the energy, and their energies; all if there is none.

        Orbits of other energies would cross theirs in the plane. The level is that of most orbits.
        """
        every = np.arange(len(self.report.reference))
        energy = self.report.system.invariants.get("energy")
        plane = self.report.section_plane
        if energy is None or plane is None or plane[0] == self.report.system.time:
            return list(every), np.empty(0)
        values = np.asarray(energy(self.report.reference[:, 0]))
        near = np.abs(values - values[:, None]) <= _SAME * np.abs(values[:, None])
        best = int(near.sum(axis=1).argmax())
        return list(every[near[best]]), values[near[best]]

    @cached_property
    def points(self) -> dict[str, tuple[np.ndarray, np.ndarray]]:
        """Points (n, dim) of reference and methods, and the numbers (n,) of their orbits.

        They are nonempty sections, with angles within a turn.
        """
        points = {}
        system = self.report.system
        every = {REFERENCE: self.reference_section} | self.scene.measured("section")
        for name, section in every.items():
            kept = (
                np.isin(section.trajectory, self.level[0]) if section else np.zeros(0, dtype=bool)
            )
            if kept.any():
                inside = views.within_a_turn(system, section.points[kept])
                points[name] = (inside, section.trajectory[kept])
        return points

    @cached_property
    def box(self) -> np.ndarray:
        """Limits (component, low or high) that show the points of all panels, but of those far off.

        Sections that exceed the reference's by more than its width on a side do not count: the
        other orbits would be too small. Without a reference, the smallest section takes its place.
        """
        boxes = {
            name: np.array([views.limits(points[:, k], 0.08) for k in self.pair or ()])
            for name, (points, _) in self.points.items()
        }
        narrowest = min(boxes, key=lambda name: float(np.ptp(boxes[name], axis=1).prod()))
        first = boxes.get(REFERENCE, boxes[narrowest])
        largest = first + np.ptp(first, axis=1)[:, None] * [-1, 1]
        near = [box for box in boxes.values() if views.within(box.T, largest).all()]
        low, high = np.moveaxis(np.array([first, *near]), -1, 0)
        return np.stack([low.min(axis=0), high.max(axis=0)], axis=1)

    def beyond(self, name: str) -> int:
        """Return the number of points outside the box."""
        points = self.points[name][0][:, list(self.pair or ())]
        return int((~views.within(points, self.box)).sum())

    def words(self, form: Callable[[str], str] = str) -> str:
        """Return ``section q[0] = 0, upwards``; ``form`` gives the label of a component."""
        component, value, direction = self.report.section_plane or ("", 0.0, 0)
        way = {1: ", upwards", -1: ", downwards"}.get(int(direction), "")
        way = ", once in a period" if component == self.report.system.time else way
        return f"section {form(component)} = {value:g}{way}"

    def applies(self) -> bool:
        return self.pair is not None and any(name in self.runs for name in self.points)

    def panel(self, axes: Axes, name: str) -> None:
        """Draw the points of a method or the reference as dots, smaller for more points."""
        colours = views.orbit_colours(len(self.scene.scale), self.style)
        points, orbits = self.points[name]
        x, y = self.pair or (0, 1)
        some = slice(None, None, max(-(-len(points) // _POINTS), 1))
        points = points[some]
        look = np.array(list(map(to_rgb, colours)))[orbits[some]]
        size = np.clip(_AREA / max(len(points), 1), 0.25, 4.0) * self.style.line**2
        axes.scatter(points[:, x], points[:, y], size, look, linewidths=0, rasterized=True)
        first, second = (mathtext(self.scene.components[k]) for k in (x, y))
        axes.set(xlabel=first, ylabel=second)
        self.title_panel(axes, name)

    def boxed(self, axes: Axes, name: str) -> None:
        """Draw the points in the box, and tell how many lie beyond."""
        self.panel(axes, name)
        axes.set(xlim=self.box[0], ylim=self.box[1])
        if beyond := self.beyond(name):
            look: dict[str, Any] = {"va": "top", "size": 0.85 * self.style.letters}
            axes.text(0.03, 0.97, f"{beyond} beyond", transform=axes.transAxes, **look)

    def draw(self) -> matplotlib.figure.Figure:
        orbits, energies = self.level
        legend = self.orbit_legend(orbits)
        figure = self.portraits(self.boxed, self.points, further=2, legend=legend)
        energy = f", energy {energies.mean():.4g}" if energies.size else ""
        self.title(figure, self.words(mathtext) + energy)
        return figure

    def sentences(self) -> list[str]:
        counts = {n: len(orbits) for n, (_, orbits) in self.points.items() if n in self.runs}
        axes = ", ".join(self.scene.components[k] for k in self.pair or ())
        far = {name: missed for name in counts if (missed := self.beyond(name))}
        thin = f"; at most {_POINTS} of them are drawn, evenly chosen"
        thin *= max(counts.values()) > _POINTS
        return [
            f"Poincare {self.words()}, in the plane ({axes}); each orbit in a colour of its own, "
            "the same in all panels.",
            self._energies(),
            f"Number of points: {self.by_method(counts, str)}{thin}.",
            f"Beyond the axes: {self.by_method(far, str)}." if far else "",
            *self.events(),
        ]

    def _energies(self) -> str:
        """Return a sentence on the level of the energy and the orbits at it."""
        orbits, energies = self.level
        if not energies.size:
            return ""
        spread = f" within {np.ptp(energies):.0e}" if np.ptp(energies) else ""
        which = "all orbits"
        if len(orbits) < len(self.report.reference):
            numbers = listed([str(k + 1) for k in orbits])
            which = f"orbits {numbers}; others have other energies and are left out"
        return f"One level of the energy, {energies.mean():.4g}{spread}: {which}."


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
    one_of("method", method, [REFERENCE, *figure.runs])
    if figure.pair is None or method not in figure.points:
        raise InputError(f"section: this rollout has no Poincare section with points of '{method}'")
    return drawn_into(ax, figure.panel, method)


class MapFigure(PoincareFigure):
    """All states of the orbits of a map on a plane, with islands and chaos, for each method."""

    name = "map"

    @cached_property
    def pair(self) -> tuple[int, int]:
        """Components on the axes."""
        pairs = views.planes_of(self.scene.system)
        return next((pair for pair in pairs if max(pair) < self.scene.system.dim), (0, 1))

    @cached_property
    def points(self) -> dict[str, tuple[np.ndarray, np.ndarray]]:
        """Finite states of the reference and the methods, with angles within a turn."""
        points = {}
        for name in [*[REFERENCE] * self.scene.referenced, *self.runs]:
            states = views.within_a_turn(self.scene.system, self.scene.states(name))
            known = np.isfinite(states).all(axis=-1)
            points[name] = (states[known], np.nonzero(known)[0])
        return points

    @cached_property
    def box(self) -> np.ndarray:
        """Limits that fit the reference, or else the first method."""
        points, _ = next(iter(self.points.values()))
        return np.array([views.limits(points[:, k], 0.05) for k in self.pair])

    @property
    def most(self) -> int:
        """Number of states of a method."""
        return int(next(iter(self.runs.values())).states[..., 0].size)

    def applies(self) -> bool:
        system = self.scene.system
        return system.is_discrete and system.dim > 1 and self.most > _LEAST

    def draw(self) -> matplotlib.figure.Figure:
        legend = self.orbit_legend(range(len(self.report.reference)))
        return self.portraits(self.boxed, self.points, further=1, legend=legend)

    def sentences(self) -> list[str]:
        names = ", ".join(self.scene.components[k] for k in self.pair)
        thin = f" (one in {self.report.every})" if self.report.every > 1 else ""
        shown = f", at most {_POINTS} of them evenly chosen" if self.most > _POINTS else ""
        return [
            f"States{thin} of {len(self.report.reference)} orbits of the map in the plane "
            f"({names}), {self.most} of a method{shown}. Each orbit has a colour of its own, the "
            "same in all panels.",
            *self.events(),
        ]


# em
_PROFILE = 16
_DIFFERENCE = 10


class RotationFigure(RolloutFigure):
    """Turns per step of the orbits of a map, beside those of the reference."""

    name = "rotation"

    @cached_property
    def found(self) -> dict[str, RotationNumbers]:
        """Rotation numbers of each method."""
        return self.scene.measured("rotation")

    def applies(self) -> bool:
        return bool(self.found)

    def places(self) -> tuple[str, np.ndarray]:
        """Return the label and the values of the horizontal axis.

        The axis shows the distance of the initial state from the centre. For turns of an angle it
        shows the other component.
        """
        initial = self.report.reference[:, 0]
        centre = next(iter(self.found.values())).centre
        if centre is not None:
            return "initial distance from the centre", np.linalg.norm(initial - centre, axis=1)
        k = next((k for k in range(2) if k not in self.scene.system.periods), 1)
        return f"initial {mathtext(self.scene.components[k])}", initial[:, k]

    def draw(self) -> matplotlib.figure.Figure:
        style = self.style
        (label, where) = self.places()
        dots: dict[str, Any] = {"ls": "", "marker": "o", "color": style.reference, "alpha": 0.5}
        dots["ms"] = 1.8 * style.mark
        legend = [*self.legend(), *self.reference_line(dots)]
        figure = self.new(style.narrow * 1.25, _PROFILE + _DIFFERENCE, legend)
        above, below = figure.subplots(2, 1, sharex=True, height_ratios=[_PROFILE, _DIFFERENCE])
        order = np.argsort(where, kind="stable")
        reference = next(iter(self.found.values())).reference.copy()
        # a single curve, also across half a turn
        reference[order] = np.unwrap(reference[order], period=1)
        above.plot(where, reference, mew=0, **dots)
        for name, rotation in self.found.items():
            look = self.scene.looks[name].strokes(style.mark) | {"ls": ""}
            # turns are known up to whole ones: take those nearest to the reference
            above.plot(where, rotation.number + np.round(reference - rotation.number), **look)
            values = np.maximum(rotation.difference, SMALLEST)
            for which, face in ((rotation.regular, look["color"]), (~rotation.regular, "none")):
                below.plot(where[which], values[which], mfc=face, **look)
        above.set_ylabel("turns per step")
        below.set(yscale="log", xlabel=label, ylabel="error")
        return figure

    def sentences(self) -> list[str]:
        some = next(iter(self.found.values()))
        errors = self.column("rotation error")
        about = "of the angle"
        if some.centre is not None:
            about = f"about ({', '.join(f'{x:.4g}' for x in some.centre)})"
        return [
            f"Turns per step {about} against where orbits start, up to whole turns, averaged with "
            "smooth weights over as many steps as the reference has, and their errors: filled on "
            f"the {int(some.regular.sum())} orbits of {len(some.number)} whose halves agree within "
            f"{some.tolerance:.0e} in the reference, open on others.",
            f"Largest error on these: {errors}." if errors else "",
        ]
