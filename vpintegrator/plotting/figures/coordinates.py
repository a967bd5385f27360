"""Components of the state in time, beside the reference."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import matplotlib.figure
import numpy as np
from matplotlib.axes import Axes

from vpintegrator.plotting.figure import RolloutFigure
from vpintegrator.plotting.interpolation import turning
from vpintegrator.plotting.scene import REFERENCE
from vpintegrator.plotting.text import grouped, mathtext
from vpintegrator.plotting.views import limits

_COMPONENTS = 6  # more do not fit on a page
_TIMES = 150  # stored times that a panel shows well
_TURNS = 12  # turns of an orbit that a panel shows well
_LEAST = 24  # stored times
_APART = 0.1  # part of a component's range by which two curves are seen to differ
_WHOLE = 2.5  # lengths of an interval that one panel shows
_PANEL = 20  # em: least width of a panel


class CoordinatesFigure(RolloutFigure):
    """Components of the first orbit, or the first that was chosen, in time."""

    name = "coordinates"

    @property
    def count(self) -> int:
        """Number of components drawn, without the time."""
        return min(self.scene.system.phase_dim, _COMPONENTS)

    def orbit(self, name: str = "") -> np.ndarray:
        """Return states (time, dim) of a method or the ``reference``, by default of the scale."""
        return self.scene.chosen(self.scene.states(name) if name else self.scene.scale)[0]

    @cached_property
    def departures(self) -> dict[str, int]:
        """The stored time at which each method leaves the others' curves, for those that do.

        It is then farther from the reference, or else from the method that sets the scale, than a
        tenth of the range of a component.
        """
        orbit = self.orbit()[:, : self.count]
        span = np.nanmax(orbit, axis=0) - np.nanmin(orbit, axis=0)
        found = {}
        for name in self.runs:
            states = self.orbit(name)[: len(orbit), : self.count]
            with np.errstate(all="ignore"):
                apart = np.abs(states - orbit) > _APART * span
            gone = (apart | (np.isnan(states) & ~np.isnan(orbit))).any(axis=-1)
            if gone.any():
                found[name] = int(gone.argmax())
        return found

    @cached_property
    def intervals(self) -> list[slice]:
        """The stored times drawn: the first ones, and those up to which methods differ.

        In a long run the oscillations of all of it would be one block of colour. The end is that of
        the orbit's reference at most.
        """
        scene, report = self.scene, self.report
        count = scene.scale.shape[1]
        if scene.referenced and not report.is_reference_given:
            end = scene.chosen(report.reference_ends)[0]
            count = int(np.searchsorted(report.times, end)) + 1
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
        scene, style, times = self.scene, self.style, self.report.times[part]
        low, high = limits(self.orbit()[:, component], 0.3)
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
        scene, parts = self.scene, self.intervals
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
        times, scene = self.report.times, self.scene
        spans = [
            f"from t = {grouped(times[part][0])} to {grouped(times[part][-1])}"
            for part in self.intervals
        ]
        every = self.count == scene.system.phase_dim
        which = "Components" if every else f"The first {self.count} components"
        dots = " as dots, at the stored times" if scene.dots else self.long_steps(",")
        orbit = f"orbit {scene.orbits[0] + 1}" if scene.orbits else "the first orbit"
        grey = "; the reference in grey" if scene.referenced else ""
        left = {name: times[index] for name, index in self.departures.items()}
        apart = self.by_method(left, "t = {:.4g}".format) if left else "no method"
        return [
            f"{which} of {orbit}{dots}, {' and '.join(spans)}{grey}. A method is drawn until it "
            "has left the axes.",
            f"Apart by a tenth of a component's range: {apart}.",
            *self.closing(),
        ]
