"""Data shared by all figures of a rollout, and panels drawn into Axes of the caller."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np
from matplotlib.colors import to_hex

from vpintegrator.arguments import of_kind
from vpintegrator.errors import InputError, nearest
from vpintegrator.plotting.interpolation import COARSE, between, refinement, turning
from vpintegrator.plotting.names import plain, shortened
from vpintegrator.plotting.style import COLUMN, PAPER, Style, looks
from vpintegrator.plotting.views import ORBITS, POINTS, located
from vpintegrator.rollout import Report, Run, open_rollout

_CHOSEN = 4  # orbits of the overview
_BANDS = 6  # methods whose bands can be told apart
_JUMP = 0.5  # standard deviations of an orbit
_LONG = 1000.0  # steps from which on time axes are logarithmic


class Scene:
    """Data and style of the figures of a report.

    Parameters
    ----------
    report
        Report to draw.
    style
        Style of the figures.
    orbits
        Numbers, from 1, of the orbits of the portraits; the overview chooses them by their errors
        by default, and the others take the first.
    methods
        Names or titles of the methods to draw, by default all. A method looks the same beside
        others.

    Raises
    ------
    InputError
        If there is no such orbit or method, or there are too many orbits.

    Attributes
    ----------
    report, system, name, style, components
        Report, its system, the name of the system, the style, and the components of the system.
    coordinates
        Names of the components, and of the further coordinates of the system's pictures.
    orbits
        Indices of the orbits that were chosen, none by default.
    runs, looks, titles
        Run, line style and label of each method by its name.
    labels
        Label of each invariant by its name, no two alike.
    referenced
        Whether there is a reference beyond the initial states.
    scale
        States that determine the axes, (trajectory, time, dim): those of the reference. Without
        one, or where it is a single step, those of the method that stays nearest to the origin. A
        method that diverges must not change the scale.
    start
        Index of the stored time at which each method's error curves start: the first at which every
        compared method has computed the state itself.
    dots
        Whether stored states are drawn as dots, because states are thinned or those of a map that
        jumps.
    pieces
        Number of pieces of each step of the reference in a smooth curve; 1 for none.
    coarse
        Whether such steps are long nearly everywhere, so that methods are drawn as dots.
    bands
        Whether errors are drawn with a band from the least to the largest.
    long
        Whether the rollout is so long that its time axes are logarithmic.
    """

    def __init__(
        self,
        report: Report,
        style: Style = PAPER,
        orbits: Sequence[int] = (),
        methods: Sequence[str] = (),
    ) -> None:
        given = looks((name, run.kind, run.method) for name, run in report.runs.items())
        report = only(report, methods)
        count = len(report.reference)
        if len(orbits) > _CHOSEN or not all(1 <= number <= count for number in orbits):
            raise InputError(
                f"orbits = {', '.join(map(str, orbits))}: give up to {_CHOSEN} numbers from 1 to "
                f"{count}"
            )
        self.orbits = [number - 1 for number in orbits]
        self.report, self.system, self.style = report, report.system, style
        self.name, self.components = report.system.name, report.system.components
        self.coordinates = (*self.components, *self.system.coordinates)
        self.runs: dict[str, Run] = report.runs
        self.looks = {name: style.adapt(given[name]) for name in report.runs}
        self.titles = {name: plain(shortened(run.title)) for name, run in report.runs.items()}
        self.labels = report.invariant_labels
        # a model's first window is the reference's own, so errors start after the longest one
        own = {name: max(1, -(-run.window // report.every)) for name, run in report.runs.items()}
        common = max((own[name] for name in own if report.is_compared(name)), default=1)
        self.start = {name: max(start, common) for name, start in own.items()}
        self.referenced = report.reference.shape[1] > 1
        shows_motion = report.reference.shape[1] > 2  # pairs do not
        self.scale = report.reference if shows_motion else _calmest(report)
        self.dots = report.every > 1 or (
            self.system.is_measured and _jumps(self.moving(self.scale))
        )
        known = self.referenced and report.every == 1
        self.pieces = refinement(self.system, report.reference, report.step) if known else 1
        self.coarse = self.pieces > 1 and turning(self.moving(report.reference)) > COARSE
        self._curves: list[tuple[np.ndarray, np.ndarray, bool]] = []
        self.bands = len(report.runs) <= _BANDS and len(report.reference) > 1
        self.long = report.times[-1] > _LONG * report.step

    def colour(self, name: str) -> str:
        """Return the colour of a method's title; that of the reference is the text's."""
        return self.looks[name].colour if name in self.looks else self.style.foreground

    def measured(self, name: str) -> dict[str, Any]:
        """Return a measurement by name of the method, for all methods that have it.

        Not every measurement is defined for every method.
        """
        found = {method: run.measurements.get(name) for method, run in self.runs.items()}
        return {method: value for method, value in found.items() if value is not None}

    def moving(self, states: np.ndarray) -> np.ndarray:
        """Return states (..., dim) without a time component."""
        return states[..., : self.system.phase_dim]

    def chosen(self, states: np.ndarray) -> np.ndarray:
        """Return states (trajectory, time, dim) of the chosen orbits, by default of all."""
        return states[self.orbits] if self.orbits else states

    def located(self, states: np.ndarray) -> np.ndarray:
        """Return states (..., dim) with the further :attr:`coordinates` appended."""
        return located(self.system, states)

    def dotted(self, orbit: np.ndarray) -> bool:
        """Whether states (time, dim) of a method are drawn as dots.

        Dots replace a line that would look like a polygon: for long steps, or a method that
        oscillates from step to step.
        """
        return self.dots or self.coarse or turning(self.moving(orbit)) > COARSE

    @property
    def dots_of_reference(self) -> bool:
        """Whether the reference is drawn as dots, because no states are known between its own."""
        return self.dots or (self.pieces == 1 and turning(self.moving(self.scale)) > COARSE)

    def curve(self, states: np.ndarray) -> np.ndarray:
        """Return states (..., time, dim) of the reference, :attr:`pieces` points a step."""
        return self._solved_curve(states)[0]

    @property
    def solved(self) -> bool:
        """Whether that curve is the solution everywhere, and no interpolation."""
        return self._solved_curve(self.report.reference[:ORBITS, :POINTS])[1]

    def _solved_curve(self, states: np.ndarray) -> tuple[np.ndarray, bool]:
        """Return the curve and whether it is solved; recent curves are cached for other panels."""
        for known, curve, solved in self._curves:
            if np.array_equal(known, states, equal_nan=True):
                return curve, solved
        curve, solved = between(self.system, states, self.report.step, self.pieces)
        self._curves = [*self._curves[-3:], (states, curve, solved)]
        return curve, solved

    def first_failure(self, name: str) -> float:
        """Return the time at which the first trajectory of a method diverges, NaN if none does."""
        members = self.report.run(name).members
        times = np.stack([self.report.divergence_time(each.name) for each in members])
        return float(np.nanmin(times)) if np.isfinite(times).any() else float("nan")

    def legend_title(self, name: str) -> str:
        """Return a method's title, with the number of trajectories that diverged, if any."""
        diverged = self.report.diverged(name)
        count = len(self.report.reference) * len(self.report.run(name).members)
        if not diverged:
            return self.titles[name]
        share = "all" if diverged == count else f"{diverged} of {count}"
        return f"{self.titles[name]} ({share} diverged)"


def only(report: Report, methods: Sequence[str]) -> Report:
    """Return the report of some of its methods, by their names or titles; all by default."""
    known = {
        label.lower(): name for name, run in report.runs.items() for label in (run.title, name)
    }
    for method in methods:
        if method.lower() not in known:
            raise InputError(
                f"methods: '{method}' is none of {', '.join(report.runs)}{nearest(method, known)}"
            )
    kept = {known[method.lower()] for method in methods} or {*report.runs}
    return replace(
        report,
        runs={name: run for name, run in report.runs.items() if name in kept},
        work_precision={n: study for n, study in report.work_precision.items() if n in kept},
    )


def _jumps(states: np.ndarray) -> bool:
    """Whether one state is so far from the next that a line between them says nothing.

    A circle passed in less than a dozen steps is drawn as dots.
    """
    with np.errstate(all="ignore"):
        steps = np.linalg.norm(np.diff(states, axis=1), axis=-1)
        spread = np.sqrt(np.nansum(np.nanvar(states, axis=1), axis=-1, keepdims=True))
        ratio = (steps / spread)[np.isfinite(steps / spread)]
    return bool(ratio.size and np.median(ratio) > _JUMP)


def _calmest(report: Report) -> np.ndarray:
    """Return the states of the method with the smallest largest component."""
    sizes = {
        name: np.nan_to_num(np.abs(run.states), nan=np.inf).max()
        for name, run in report.runs.items()
    }
    return report.runs[min(sizes, key=lambda name: sizes[name])].states


_HEIGHT = 0.75  # height of a single panel, relative to its width
_WORDS = {
    "{report}": "report\n        A report, or the path of a rollout file.",
    "{ax}": "ax\n        Matplotlib's Axes; a new figure if None.\n\n"
    "    Returns\n    -------\n    matplotlib.axes.Axes\n        ``ax``.",
}
Rollout = Report | str | os.PathLike[str]
Function = TypeVar("Function", bound=Callable[..., Any])


def takes_axes(function: Function) -> Function:
    """Write out, in its docstring, the arguments that all functions of a panel share."""
    for mark, words in _WORDS.items():
        function.__doc__ = (function.__doc__ or "").replace(mark, words)
    return function


def own_scene(report: Rollout, ax: Any) -> Scene:
    """Return the scene of a rollout in the style of given Axes, or of new Axes if None.

    Raises
    ------
    InputError
        If the file is no rollout.
    """
    if not isinstance(report, Report):
        kinds, words = (str, os.PathLike), "a report, or the path of a rollout file"
        report = open_rollout(of_kind("report", report, kinds, words))
    return Scene(report, own_style(ax))


def own_style(ax: Any) -> Style:
    """Return a style with the font size and colours of given Axes, or of new Axes if None."""
    return Style.current() if ax is None else Style.current(background=to_hex(ax.get_facecolor()))


def drawn_into(
    ax: Any, draw: Callable[..., None], *arguments: Any, projection: str | None = None
) -> Any:
    """Call ``draw(ax, *arguments)`` and return the Axes, in a new figure if ``ax`` is None."""
    if ax is None:
        from matplotlib import pyplot

        size = (1.4 * COLUMN, 1.4 * COLUMN * _HEIGHT)
        figure = pyplot.figure(figsize=size, layout="constrained")
        ax = figure.add_subplot(projection=projection)
    draw(ax, *arguments)
    return ax


def choose(what: str, name: str, names: Iterable[str]) -> None:
    """Refuse a name that is none of the names."""
    if name not in names:
        raise InputError(f"{what}: '{name}' is none of {', '.join(names)}")
