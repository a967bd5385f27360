"""Overview on one page: orbits early and late above, the growth of every error below."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from itertools import product
from typing import Any

import matplotlib.figure
import numpy as np
from matplotlib.lines import Line2D

from vpintegrator.plotting import views
from vpintegrator.plotting.figure import CURVES, ROW, TYPICAL, RolloutFigure, in_lines
from vpintegrator.plotting.figures.curves import ErrorsFigure, InvariantsFigure, VolumeFigure
from vpintegrator.plotting.scene import Scene
from vpintegrator.plotting.style import mixed
from vpintegrator.plotting.tables import spaces
from vpintegrator.plotting.text import grouped, listed, orbits, plain, shortened

_PORTRAITS = 5
_FEW = 3  # portraits that would be stretched if they filled the width
# em: least widths
_PORTRAIT = 11.5
_PANEL = 18
_TALLEST = 71  # em: just below 8 inches in letters of 8 points
_TITLES = 5  # em: those of the portraits, and a title of two lines
_LINE = 1.4  # em: height of a further line of the title
# em: heights of a row of panels
_LOW = 12
_HIGH = 18.5
_PALE = 0.6  # part of the background in the colour of what is early


class OverviewFigure(RolloutFigure):
    """Orbits of the methods early and late, and curves of their errors."""

    name = "overview"

    def __init__(self, scene: Scene) -> None:
        super().__init__(scene)
        self.methods = list(scene.runs)[: min(_PORTRAITS, self.columns(_PORTRAIT))]
        self.errors = ErrorsFigure(scene)
        self.volume = VolumeFigure(scene)
        # title, label of the axis, function that draws, its key, and words of the caption
        self.curves: list[tuple[str, str, Callable[..., None], str, str]] = []
        if self.errors.applies():
            words = self.errors.words
            self.curves.append(("trajectory", "error", self.errors.panel, "errors", words))
        invariants = InvariantsFigure(scene)
        for invariant in invariants.keys[:1]:
            title = plain(shortened(scene.labels[invariant]))
            panel = invariants.panel
            words = f"largest change of {scene.labels[invariant]} up to each time"
            self.curves.append((title, "change", panel, invariant, words))
        if "step" in self.volume.keys:
            title = f"{self.volume.words} of one step"
            words = f"largest {title} {spaces(self.report)}"
            self.curves.append((title, "", self.volume.panel, "step", words))
        self.rows = -(-len(self.curves) // self.columns(_PANEL))
        self.side = min(0.86 * self.style.wide / self.style.em / len(self.methods), 15)  # em

    def ranked(self, name: str) -> np.ndarray:
        """Return the orbits of a method from the best to the worst.

        Diverged orbits come last, the earliest divergence at the end. Other orbits are sorted by
        root mean square error, or by their size if there is no reference.
        """
        run = self.runs[name]
        score = run.root_mean_square_error
        if not (self.report.is_compared(name) and np.isfinite(score).any()):
            score = np.abs(run.states).max(axis=(1, 2))
        diverged = self.report.divergence_time(name)
        lasting = np.where(np.isfinite(diverged), diverged, np.inf)
        return np.lexsort((np.where(np.isfinite(score), score, np.inf), -lasting))

    @cached_property
    def every_orbit(self) -> dict[int, str]:
        """The median and the worst orbit of the first method."""
        order = self.ranked(self.methods[0])
        return {int(order[(len(order) - 1) // 2]): "median", int(order[-1]): "worst"}

    @cached_property
    def entries(self) -> list[Line2D]:
        """Entries of the legend: the methods, and where there is room what the portraits show."""
        lines = [*self.legend(), *self.reference_line()]
        style = self.style
        if self.columns(_PANEL) == 1:
            return lines
        for label, colour in (("early", self.pale(style.foreground)), ("late", style.foreground)):
            lines.append(Line2D([], [], label=label, color=colour, lw=1.2 * style.line))
        if self.is_marked(self.every_orbit):
            dot, ring = self.marks(style.foreground)
            lines.append(Line2D([], [], label="at the last time", **dot))
            lines.append(Line2D([], [], label="reference then", **ring))
        return lines

    @cached_property
    def room(self) -> float:
        """Height in em that portraits and panels may have on a page, titles not counted."""
        lines = self.heading.count("\n") + 1
        above = _TITLES + _LINE * max(lines - 2, 0)
        return _TALLEST - above - ROW * self.legend_rows(self.style.wide, self.entries)

    @cached_property
    def heading(self) -> str:
        """Title, number of orbits, time and step, in as many lines as the width takes."""
        report = self.report
        letters = 1.15 * self.style.letters
        setting = f"to $t$ = {grouped(report.times[-1])}, step {report.step:g}"
        title = f"{plain(report.system.title)}: {orbits(len(report.reference))}"
        font: dict[str, Any] = {"fontsize": letters, "weight": "bold"}
        line = in_lines(f"{title} {setting}", self.style.wide, **font)
        return in_lines(f"{title}\n{setting}", self.style.wide, **font) if "\n" in line else line

    @property
    def orbits(self) -> dict[int, str]:
        """Orbits drawn, each with its rank: as many as leave room for the panels below."""
        fit = max(int((self.room - _LOW * self.rows) / self.side), 1)
        return dict(list(self.every_orbit.items())[:fit])

    def spans(self, name: str, orbit: int) -> tuple[slice, slice]:
        """Return the stored times of an orbit drawn pale, and those in full colour.

        The first and the last of them, the latter before it diverges.
        """
        times = self.report.times
        failure = self.report.divergence_time(name)[orbit]
        end = int(np.searchsorted(times, failure)) if np.isfinite(failure) else len(times)
        most = len(views.shown(times[:, None], True)) if self.scene.dots else views.PROJECTED
        length = min(most, max(end // 2, 1))
        return slice(0, length), slice(max(end - length, 0), end)

    def pale(self, colour: str) -> str:
        """Return a colour mixed with the background."""
        return mixed(colour, self.style.background, _PALE)

    def marks(self, colour: str) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return the looks of the dot at a method's last state, and of the reference's ring."""
        size = self.style.mark
        look = {"ls": "none", "marker": "o"}
        dot = {"ms": 1.3 * size, "color": colour, "mec": self.style.background}
        ring = {"ms": 2.2 * size, "mew": 1.2, "mfc": "none", "color": self.style.reference}
        return look | dot, look | ring

    def last(self, name: str, orbit: int) -> int | None:
        """Return the index of the last time drawn of an orbit, if the reference is known then."""
        last = self.spans(name, orbit)[1].stop - 1
        states = self.report.reference
        known = self.scene.referenced and 0 < last < states.shape[1]
        return last if known and np.isfinite(states[orbit, last]).all() else None

    def is_marked(self, ranks: dict[int, str]) -> bool:
        """Whether the positions at the last time are drawn in a portrait of these orbits."""
        return any(self.last(*pair) is not None for pair in product(self.methods, ranks))

    def portrait(self, axes: Any, name: str, orbit: int, rank: str = "") -> None:
        """Draw one orbit of a method, early and late, over the reference at the same times.

        The panel states the number of the orbit, and when the orbit diverged or left the picture.
        Two marks show the method and the reference at the last time, because only they show an
        error of the phase.
        """
        scene = self.scene
        style = self.style
        look = self.scene.looks[name]
        early, late = self.spans(name, orbit)
        known = scene.report.reference[orbit]
        path = self.runs[name].states[orbit]
        view = scene.view(scene.scale[orbit] if scene.kind == "space" else scene.scale, alone=True)
        view.frame(axes)
        for part in (early, late) if scene.referenced else ():
            curve = scene.curve(views.shown(known[part], scene.dots))
            strokes = views.stroke(style, scene.dots_of_reference, 2.2, len(curve))
            view.draw(axes, curve, color=style.reference, alpha=0.35, **strokes)
        pale = self.pale(look.colour)
        for part, colour, width in ((early, pale, 1.0), (late, look.colour, 0.75)):
            states = views.shown(path[part], scene.dots)
            strokes = views.stroke(style, scene.dotted(states), width, len(states))
            view.draw(axes, states, color=colour, **strokes)
        last = self.last(name, orbit)
        if last is not None:
            dot, ring = self.marks(look.colour)
            view.draw(axes, known[last : last + 1], alpha=1.0, **ring)
            view.draw(axes, path[last : last + 1], alpha=1.0, **dot)
        text = f"{rank}: orbit {orbit + 1}".removeprefix(": ") if len(scene.scale) > 1 else ""
        text = "\n".join(filter(None, [text, self._ending(name, orbit, view.holds(path), late)]))
        below = isinstance(view, views.Sphere)  # in it stand the names of the axes
        place = (0.5, 0.0) if below else (0.03, 0.97)
        align = {"ha": "center" if below else "left", "va": "top", "size": 0.85 * style.letters}
        box = {"fc": style.background, "ec": "none", "alpha": 0.75, "pad": 1.0}
        if text:
            write = getattr(axes, "text2D", axes.text)
            write(*place, text, transform=axes.transAxes, zorder=6, bbox=box, **align)

    def _ending(self, name: str, orbit: int, inside: np.ndarray, late: slice) -> str:
        """Return the time at which an orbit diverged or left the picture, in words."""
        failure = self.report.divergence_time(name)[orbit]
        if np.isfinite(failure):
            return f"diverged at $t$ = {failure:.4g}"
        if inside[late].any():
            return ""
        seen = np.flatnonzero(inside)
        last = self.report.times[seen[-1]] if len(seen) else 0.0
        return f"out of sight from $t$ = {last:.4g}"

    def draw(self) -> matplotlib.figure.Figure:
        style = self.style
        scene = self.scene
        above = len(self.orbits) * self.side
        below = min(self.room - above, _HIGH * self.rows)
        titles = _TITLES + _LINE * max(self.heading.count("\n") - 1, 0)
        figure = self.new(style.wide, above + below + titles, self.entries)
        grid = figure.add_gridspec(2, 1, height_ratios=[above + 1.5, max(below, 0.01)])
        upper = grid[0].subgridspec(len(self.orbits), len(self.methods))
        solid = {"projection": "3d"} if scene.kind == "space" else {}
        for row, (orbit, rank) in enumerate(self.orbits.items()):
            for k, name in enumerate(self.methods):
                axes = figure.add_subplot(upper[row, k], **solid)
                self.portrait(axes, name, orbit, "" if k else rank)
                if scene.kind == "plane":
                    axes.label_outer()
                    if len(self.methods) < _FEW and not scene.system.plot.equal:
                        axes.set_box_aspect(0.75)
                if row == 0:
                    self.title_panel(axes, name)
        columns = min(len(self.curves), self.columns(_PANEL))
        lower = grid[1].subgridspec(max(self.rows, 1), max(columns, 1))
        for place, (title, label, panel, key, _) in enumerate(self.curves):
            axes = figure.add_subplot(lower[divmod(place, columns)])
            panel(axes, key)
            axes.set(title=title, ylabel=label or axes.get_ylabel())
            if columns == 1 and place < len(self.curves) - 1:
                axes.set_xlabel("")
        figure.suptitle(self.heading, size=1.15 * style.letters, weight="bold")
        return figure

    def sentences(self) -> list[str]:
        return [
            f"Above: {self._portraits()}.",
            f"Below: {'; '.join(curve[-1] for curve in self.curves)}." if self.curves else "",
            *self.events(f"{TYPICAL}, {CURVES}"),
            self.errors.final(),
            self.reference(),
            *self.notes(),
        ]

    def _portraits(self) -> str:
        """Return a description of the portraits."""
        name = self.methods[0]
        ranks = self.orbits
        grey = ", the reference in grey" if self.scene.referenced else ""
        end = max(self.spans(name, next(iter(self.every_orbit)))[0].stop - 1, 0)
        start = grouped(self.report.times[end])
        span = f"pale to t = {start}, full colour at the end{grey}{self.long_steps()}"
        if self.is_marked(ranks):
            span += "; dot and ring: last states of method and reference"
        if len(self.report.reference) == 1:
            return f"the orbit ({span})"
        by = "error" if self.errors.applies() else "size"
        which = listed([f"the {rank} orbit" for rank in ranks.values()])
        return f"{which} of {shortened(self.runs[name].title)} by {by} ({span})"
