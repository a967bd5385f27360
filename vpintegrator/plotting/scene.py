"""A report made ready for drawing: its methods with their looks and names, and its orbits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any, Literal

import numpy as np

from vpintegrator.arguments import one_of
from vpintegrator.compiled import integrate
from vpintegrator.dynamics import System
from vpintegrator.plotting import views
from vpintegrator.plotting.style import PAPER, Style, looks
from vpintegrator.plotting.text import plain, shortened
from vpintegrator.rollout import Report, Run

REFERENCE = "reference"
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
    methods
        Names or titles of the methods to draw, by default all. A method looks the same beside
        others.

    Raises
    ------
    InputError
        If there is no such method.

    Attributes
    ----------
    report, system, name, style, components
        Report, its system, the name of the system, the style, and the components of the system.
    coordinates
        Names of the components, and of the further coordinates of the system's pictures.
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
    dots_of_reference
        Whether the reference is drawn as dots, because no states are known between its own.
    bands
        Whether errors are drawn with a band from the least to the largest.
    long
        Whether the rollout is so long that its time axes are logarithmic.
    """

    def __init__(self, report: Report, style: Style = PAPER, methods: Sequence[str] = ()) -> None:
        given = looks((name, run.kind, run.method) for name, run in report.runs.items())
        report = only(report, methods)
        self.report = report
        self.system = report.system
        self.style = style
        self.name = report.system.name
        self.components = report.system.components
        self.coordinates = (*self.components, *self.system.coordinates)
        self.runs: dict[str, Run] = report.runs
        self.looks = {name: style.adapt(given[name]) for name in report.runs}
        self.titles = {name: plain(shortened(run.title)) for name, run in report.runs.items()}
        self.labels = report.invariant_labels
        # a model's first window is the reference's own, so errors start after the longest one
        starts = {name: max(1, -(-run.window // report.every)) for name, run in report.runs.items()}
        common = max((starts[name] for name in starts if report.is_compared(name)), default=1)
        self.start = {name: max(start, common) for name, start in starts.items()}
        self.referenced = report.reference.shape[1] > 1
        shows_motion = report.reference.shape[1] > 2  # pairs do not
        states = (run.states for run in report.runs.values())
        self.scale = report.reference if shows_motion else min(states, key=_largest)
        jumps = self.system.is_measured and _jumps(self.moving(self.scale))
        self.dots = report.every > 1 or jumps
        known = self.referenced and report.every == 1
        self.pieces = refinement(self.system, report.reference) if known else 1
        sharp = turning(self.moving(self.scale)) > COARSE
        self.coarse = self.pieces > 1 and sharp
        self.dots_of_reference = self.dots or (self.pieces == 1 and sharp)
        self.bands = len(report.runs) <= _BANDS and len(report.reference) > 1
        self.long = report.times[-1] > _LONG * report.step

    def colour(self, name: str) -> str:
        """Return the colour of a method's title; that of the reference is the text's."""
        return self.looks[name].colour if name in self.looks else self.style.foreground

    def measured(self, name: str) -> dict[str, Any]:
        """Return a measurement by name of the method, for all methods that have it.

        Not every measurement is defined for every method.
        """
        measurements = {method: run.measurements.get(name) for method, run in self.runs.items()}
        return {method: value for method, value in measurements.items() if value is not None}

    def states(self, name: str) -> np.ndarray:
        """Return states (trajectory, time, dim) of a method, or of the ``reference``."""
        return self.report.reference if name == REFERENCE else self.runs[name].states

    def moving(self, states: np.ndarray) -> np.ndarray:
        """Return states (..., dim) without a time component."""
        return states[..., : self.system.phase_dim]

    def dotted(self, orbit: np.ndarray) -> bool:
        """Whether states (time, dim) of a method are drawn as dots.

        Dots replace a line that would look like a polygon: for long steps, or a method that
        oscillates from step to step.
        """
        return self.dots or self.coarse or turning(self.moving(orbit)) > COARSE

    def curve(self, states: np.ndarray) -> np.ndarray:
        """Return states (..., time, dim) of the reference, :attr:`pieces` points a step."""
        return between(self.system, states, self.report.step, self.pieces)[0]

    @cached_property
    def solved(self) -> bool:
        """Whether that curve is the solution everywhere, and no interpolation."""
        states = self.report.reference[: views.ORBITS, : views.POINTS]
        return between(self.system, states, self.report.step, self.pieces)[1]

    @cached_property
    def sphere(self) -> tuple[list[int], float] | None:
        """Components of the sphere that orbits are drawn on, and its radius; None for no sphere.

        The components are those that the system file names, or all three if the reference stays on
        a sphere.
        """
        named = self.system.plot.sphere
        indices = [self.components.index(name) for name in named or self.components]
        if named is None and (len(indices) != 3 or self.system.explicit_time is not None):
            return None
        radius = views.on_sphere(self.scale[..., indices])
        return None if radius is None else (indices, radius)

    @property
    def kind(self) -> Literal["sphere", "space", "plane"]:
        """Kind of view of the orbits."""
        if self.sphere:
            return "sphere"
        flat = self.system.plot.planes or self.system.explicit_time is not None
        return "space" if len(self.components) == 3 and not flat else "plane"

    def view(
        self, scale: np.ndarray, pair: tuple[int, int] | None = None, alone: bool = False
    ) -> views.View:
        """Return the view for orbits; ``pair``, if given, asks for that plane.

        The axes contain the states ``scale`` (..., dim); ``alone`` is passed to a :class:`Sphere`.
        """
        if pair is None and self.sphere:
            indices, radius = self.sphere
            names = [self.components[k] for k in indices]
            return views.Sphere(indices, names, radius, self.style, alone)
        if pair is None and self.kind == "space":
            return views.Space(scale, self.components, self.style)
        return views.Plane(self.system, scale, pair or views.planes_of(self.system)[0])

    def first_failure(self, name: str) -> float:
        """Return the time at which the first trajectory of a method diverges, NaN if none does."""
        members = self.report.run(name).members
        times = np.stack([self.report.divergence_time(each.name) for each in members])
        return float(np.nanmin(times)) if np.isfinite(times).any() else float("nan")

    def diverged(self, name: str) -> str:
        """Return the number of trajectories that diverged, in brackets; empty for none."""
        diverged = self.report.diverged(name)
        count = len(self.report.reference) * len(self.report.run(name).members)
        share = "all" if diverged == count else f"{diverged} of {count}"
        return f"({share} diverged)" if diverged else ""

    def legend_title(self, name: str) -> str:
        """Return a method's title, with the number of trajectories that diverged, if any."""
        return f"{self.titles[name]} {self.diverged(name)}".rstrip()


def only(report: Report, methods: Sequence[str]) -> Report:
    """Return the report of some of its methods, by their names or titles; all by default."""
    known = {run.title.lower(): name for name, run in report.runs.items()}
    known |= {name.lower(): name for name in report.runs}
    kept = {known[one_of("methods", method.lower(), known)] for method in methods} or {*report.runs}
    runs, studies = (
        {name: each for name, each in every.items() if name in kept}
        for every in (report.runs, report.work_precision)
    )
    return replace(report, runs=runs, work_precision=studies)


def _jumps(states: np.ndarray) -> bool:
    """Whether one state is so far from the next that a line between them says nothing.

    A circle passed in less than a dozen steps is drawn as dots.
    """
    with np.errstate(all="ignore"):
        steps = np.linalg.norm(np.diff(states, axis=1), axis=-1)
        spread = np.sqrt(np.nansum(np.nanvar(states, axis=1), axis=-1, keepdims=True))
        ratio = (steps / spread)[np.isfinite(steps / spread)]
    return bool(ratio.size and np.median(ratio) > _JUMP)


def _largest(states: np.ndarray) -> float:
    """Return the largest component, infinity for a method that diverges."""
    return float(np.nan_to_num(np.abs(states), nan=np.inf).max())


# Smooth curves through states at long steps. If a method takes few steps in a turn, a polygon
# through its states would be misleading. Its states are then drawn as dots, over a curve through
# the states of the reference: the solution, computed anew within every step. Where it is too much
# work or misses the next state, as in noisy data, the curve is a straight line.
COARSE = 15.0  # degrees: with fewer than 24 steps a turn a polygon shows
_FAR = 72.0  # degrees: with fewer than 5 steps a turn dots are clearer than a curve
_FINE = 3.0  # degrees between the points of a curve
_SHARP = 0.99  # quantile of the angles that decides whether an orbit looks like a polygon
_MOST = 24  # points in place of one step
_PARTS = (1, 16)  # steps of the solver in a piece
_WORK = 10_000_000  # components of states on the way: a figure is drawn in seconds
_ARRIVED = 1e-6  # sizes of an orbit, the largest distance of a solution from the next state


def turning(orbits: np.ndarray, share: float = 0.5) -> float:
    """Return the median angle between steps of orbits (..., time, dim), in degrees.

    ``share`` is that of the angles which are at most as large, if it is not the median.
    """
    with np.errstate(all="ignore"):
        steps = np.diff(orbits, axis=-2)
        steps = steps / np.linalg.norm(steps, axis=-1, keepdims=True)
        cosine = (steps[..., 1:, :] * steps[..., :-1, :]).sum(axis=-1)
    known = cosine[np.isfinite(cosine)]
    least = np.clip(np.quantile(known, 1 - share), -1, 1) if known.size else 1.0
    return float(np.degrees(np.arccos(least)))


def refinement(system: System, orbits: np.ndarray) -> int:
    """Return the number of pieces of each step of orbits (trajectory, time, dim) in a smooth curve.

    The number is 1 if the orbits are smooth already, if their steps are too long, or if no
    equations are known between the states.
    """
    moving = orbits[..., : system.phase_dim]
    # the sharpest turns: an orbit that is smooth for the most part has its corners at a pericentre
    angle = turning(moving, _SHARP)
    known = not (system.is_measured or system.is_discrete)
    curved = known and angle > COARSE and turning(moving) <= _FAR
    return min(int(np.ceil(angle / _FINE)), _MOST) if curved else 1


def between(
    system: System, orbits: np.ndarray, step: float, pieces: int
) -> tuple[np.ndarray, bool]:
    """Return orbits (..., time, dim) with ``pieces`` points a step, and whether all are solved.

    The work is bounded, unlike that of a solver which makes its steps as small as it takes.
    """
    if pieces == 1 or orbits.shape[-2] < 2:
        return orbits, False
    starts = orbits[..., :-1, :]
    ends = orbits[..., 1:, :]
    along = np.arange(pieces)[:, None] / pieces
    # (..., time - 1, pieces, dim)
    curve = starts[..., None, :] + along * (ends - starts)[..., None, :]
    left = np.argwhere(np.isfinite(starts + ends).all(axis=-1))
    size = max(float(np.abs(orbits[np.isfinite(orbits)]).max(initial=0)), np.finfo(float).tiny)
    for parts in _PARTS:
        if not len(left) or len(left) * pieces * parts * system.dim > _WORK:
            break
        here = tuple(left.T)
        fine = step / (pieces * parts)
        states = integrate(system, "dormand-prince-8", starts[here], fine, pieces * parts)
        arrived = np.abs(states[:, -1] - ends[here]).max(axis=-1) <= _ARRIVED * size
        curve[tuple(left[arrived].T)] = states[arrived, :-1:parts]
        left = left[~arrived]
    inner = curve.reshape(*orbits.shape[:-2], -1, orbits.shape[-1])
    return np.concatenate([inner, orbits[..., -1:, :]], axis=-2), len(left) == 0
