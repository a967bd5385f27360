"""Poincare sections: crossings of trajectories with a surface g(z) = c, such as a plane z_i = c."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from vpintegrator.arguments import real_array, real_values
from vpintegrator.dynamics import System
from vpintegrator.errors import InputError
from vpintegrator.maps import find_method
from vpintegrator.rollout.diagnostics.diagnostic import Diagnostic, Ensemble
from vpintegrator.rollout.variables import Measurement, Variable

POINTS = 10  # states that the interpolation polynomial goes through
_BEFORE = POINTS // 2 - 1  # points before the interval of the crossing
_QUARTER = 0.25  # turn in a step from which on the nearer side is doubtful
_HALF = 0.5  # turn in a step from which on states are too far apart for an interpolation


@dataclass(frozen=True)
class Section:
    """Crossings of a surface, ordered by trajectory and then by time.

    Attributes
    ----------
    points
        States on the surface, (crossing, dim).
    trajectory
        Number of the trajectory, (crossing,).
    time
        (crossing,).
    """

    points: np.ndarray
    trajectory: np.ndarray
    time: np.ndarray


@dataclass(eq=False)
class SectionObserver:
    r"""Finds the crossings of a plane :math:`z_i = c` in trajectories that come in parts.

    A trajectory crosses upwards from a state below the plane to the next state on or above it, and
    downwards likewise. A trajectory that touches the plane between two states is not seen. The
    crossing is that of the polynomial of degree 9 through the ten states nearest to it. For a
    solution of angular frequency :math:`\omega` its error is about :math:`2 \cdot 10^{-4} (\omega
    h)^{10}` amplitudes, 3e-11 at :math:`\omega h = 0.2`. At the ends of a trajectory the error is
    up to 50 times as large. With the system of a flow it is refined to rounding: the flow goes from
    the state before to the surface, in four steps of Dormand and Prince's method of order 8. A
    learned map has no such flow.

    Parameters
    ----------
    surface, value
        Number of a component, or a function g from states (..., dim) to (...), and c.
    direction
        1 for crossings upwards, -1 downwards, 0 both.
    step
        Time step of the trajectories.
    period
        Period of g: of an angle, or of the time in periodic equations. The surfaces c + period, c +
        2 period, ... are then the same, and each that is passed counts. Where the states about a
        step lie in one period, an angle may have been put back into it: a change by half a period
        or more is continued by the nearer side there. :meth:`warn` tells of angles that turn fast.
    system
        The system of which the trajectories are solutions; None for other maps.

    Examples
    --------
    >>> observer = SectionObserver(0, 0.0, direction=1, step=0.1)
    >>> times = 0.1 * np.arange(100)
    >>> observer.observe(0, np.stack([np.sin(times), np.cos(times)], axis=-1)[None])
    >>> observer.section.time.round(6)
    array([6.283185])
    """

    surface: int | Callable[[np.ndarray], np.ndarray]
    value: float
    direction: int
    step: float
    period: float | None = None
    system: System | None = None

    def __post_init__(self) -> None:
        if self.direction not in (-1, 0, 1):
            raise InputError(f"direction = {self.direction!r} must be 1 (up), -1 (down) or 0")
        if self.system is not None:
            self.system.require_vector_field("a refined section")
        self._states: np.ndarray = np.empty(0)  # the last few, (trajectory, count, dim)
        # step of the first of them, and first step after which crossings are still to be sought
        self._start = self._next = 0
        self._found: list[Section] = []
        # largest changes in a step, in periods: of all, and of those by the nearer side
        self._turns = self._nearer = 0.0

    @property
    def section(self) -> Section:
        """All crossings so far; there are states."""
        end = self._start + self._states.shape[1] - 1
        parts = [vars(each).values() for each in (*self._found, self._search(self._states, end))]
        points, trajectory, time = (np.concatenate(part) for part in zip(*parts, strict=True))
        order = np.lexsort((time, trajectory))
        return Section(points[order], trajectory[order], time[order])

    def _height(self, states: np.ndarray) -> np.ndarray:
        """Return g at states (..., dim)."""
        if callable(self.surface):
            name = getattr(self.surface, "__name__", type(self.surface).__name__)
            return real_values(name, self.surface(states))
        return states[..., self.surface]

    def observe(self, start: int, states: np.ndarray) -> None:
        """Take in states (trajectory, count, dim) from step ``start`` on."""
        if self._states.ndim != 3:  # the first part
            dim = states.shape[2]
            if not callable(self.surface) and self.surface not in range(dim):
                raise InputError(f"there is no component {self.surface!r} of {dim}")
            if self._height(states[:, :1]).shape != (len(states), 1):
                raise InputError("the function of a section must map states (..., dim) to (...)")
            self._states = states[:, :0]
            self._start = start
            self._next = start
        joined = np.concatenate([self._states, states], axis=1)
        # a crossing waits until all the states round it are there
        end = self._start + joined.shape[1] - (POINTS - 1 - _BEFORE)
        if joined.shape[1] >= POINTS and end > self._next:
            self._found.append(self._search(joined, end))
            self._next = end
        first = max(self._next - (POINTS - 2), self._start)
        self._states = joined[:, first - self._start :].copy()
        self._start = first

    def _search(self, states: np.ndarray, end: int) -> Section:
        """Return crossings between the states of the steps from ``_next`` to ``end``."""
        count, dim = states.shape[1:]
        first = self._next - self._start
        heights = self._height(states) - self.value  # (trajectory, count)
        finite = np.isfinite(states).all(axis=-1)
        known = np.where(finite.all(axis=1), count, (~finite).argmax(axis=1))  # of each trajectory
        height = heights[:, first : end - self._start + 1]
        before = height[:, :-1]
        after = height[:, 1:]
        if self.period is not None:
            after = self._continued(heights, before, after, first, known)
        plane, passes = np.zeros((2, *after.shape))  # offset of the last plane, and their number
        way = np.sign(after - before)
        for sign in (1, -1):
            last = np.zeros_like(after)
            number = np.ones_like(after)
            if self.period is not None:
                turns = np.floor(sign * after / self.period)
                last = self.period * turns
                number = turns - np.floor(sign * before / self.period)
            passed = (sign * before < last) & (sign * after >= last) & (sign * self.direction >= 0)
            plane = np.where(passed, sign * last, plane)
            passes = np.where(passed, number, passes)
        trajectory, index = np.nonzero(passes)
        numbers = passes[trajectory, index].astype(int)
        earlier = np.arange(numbers.sum()) - np.repeat(np.cumsum(numbers) - numbers, numbers)
        trajectory = np.repeat(trajectory, numbers)
        index = np.repeat(index, numbers)
        value = self.value + plane[trajectory, index]
        if self.period is not None:
            value -= way[trajectory, index] * self.period * earlier
        index += first
        points = min(POINTS, count)
        last = known[trajectory]
        begin = np.clip(index - _BEFORE, 0, np.maximum(last - points, 0))
        usable = (begin + points <= last) & (index + 1 < last)
        trajectory = trajectory[usable]
        index = index[usable]
        begin = begin[usable]
        value = value[usable]
        if not len(index):
            return Section(np.empty((0, dim)), index, value)
        near = states[trajectory[:, None], begin[:, None] + np.arange(points)]
        turned = np.zeros(len(index), dtype=bool)  # crossings among states put back into a period
        if self.period is not None:
            rows = heights[trajectory[:, None], begin[:, None] + np.arange(points)]
            jumps = np.abs(np.diff(rows, axis=1)).max(axis=1) >= self.period / 2
            turned = jumps & (np.ptp(rows, axis=1) <= self.period)
            if not callable(self.surface) and turned.any():
                column = np.unwrap(near[turned][..., self.surface], period=self.period, axis=1)
                at = np.flatnonzero(turned)
                place = (index - begin)[at]
                given = near[at, place, self.surface]
                column += (given - column[np.arange(len(at)), place])[:, None]
                near[at, :, self.surface] = column
        # polynomials through the points, in a variable that is 0 in their middle: small powers
        powers = np.linalg.inv(np.vander(np.arange(points) - (points - 1) / 2))
        # sums in one order, whatever the number of crossings: einsum's would depend on it
        coefficients = sum(column[:, None, None] * near[:, k] for k, column in enumerate(powers.T))
        low = index - begin - (points - 1) / 2

        def height_at(place: np.ndarray, crossing: np.ndarray) -> np.ndarray:
            rows = crossing.astype(int)
            near = np.polyval(coefficients[:, rows], place[:, None])
            return self._nearest(self._height(near) - value[rows], turned[rows])

        place = _root(height_at, low, low + 1)
        crossing = np.polyval(coefficients, place[:, None])
        if self.system is not None:
            every = np.arange(len(place))
            near = 1e-3
            slope = height_at(place + near, every) - height_at(place - near, every)
            slope /= 2 * near * self.step
            before = states[trajectory, index]
            time = self.step * (place - low)
            for _ in range(3):  # with this slope each iteration gains seven digits
                crossing = _flow(self.system, before, time)
                time = time - self._nearest(self._height(crossing) - value, turned) / slope
            place = low + time / self.step
        if not callable(self.surface):
            crossing[:, self.surface] = self.value
        time = self.step * (self._start + begin + (points - 1) / 2 + place)
        return Section(crossing, trajectory, time)

    def _nearest(self, height: np.ndarray, turned: np.ndarray) -> np.ndarray:
        """Return heights above the nearest of the equal surfaces where g is put back."""
        if self.period is None or not turned.any() or not callable(self.surface):
            return height
        return np.where(turned, height - self.period * np.rint(height / self.period), height)

    def _continued(
        self,
        heights: np.ndarray,
        before: np.ndarray,
        after: np.ndarray,
        first: int,
        known: np.ndarray,
    ) -> np.ndarray:
        """Return heights after steps, continued where they are put back into a period.

        ``heights`` are (trajectory, count), and those before and after steps are
        (trajectory, step), from place ``first`` on.
        """
        assert self.period is not None
        after = after.copy()
        change = after - before
        trajectory, index = np.nonzero(np.abs(change) >= self.period / 2)
        if len(index):
            points = min(POINTS, heights.shape[1])
            begin = np.clip(index + first - _BEFORE, 0, np.maximum(known[trajectory] - points, 0))
            about = heights[trajectory[:, None], begin[:, None] + np.arange(points)]
            put_back = np.ptp(about, axis=1) <= self.period  # (step,) of those
            trajectory = trajectory[put_back]
            index = index[put_back]
            jump = change[trajectory, index]
            change[trajectory, index] = jump - self.period * np.rint(jump / self.period)
            after[trajectory, index] = before[trajectory, index] + change[trajectory, index]
            turns = np.abs(change[trajectory, index]).max(initial=0.0) / self.period
            self._nearer = max(self._nearer, float(turns))
        self._turns = max(self._turns, float(np.nanmax(np.abs(change), initial=0.0) / self.period))
        return after

    def warn(self) -> None:
        """Warn where an angle turns so far in a step that points of the section are inaccurate."""
        if self._nearer > _QUARTER or self._turns >= _HALF:
            turns = max(self._nearer, self._turns)
            nearer = ", and each step goes by the nearer side" if self._nearer > _QUARTER else ""
            warnings.warn(
                f"the angle of the section turns by up to {turns:.2g} of its period in a step: "
                f"points between such states are interpolated{nearer}; take a shorter step",
                stacklevel=4,
            )


def poincare_section(
    states: np.ndarray,
    step: float,
    component: int | Callable[[np.ndarray], np.ndarray],
    value: float = 0.0,
    direction: int = 1,
    period: float | None = None,
    system: System | None = None,
) -> Section:
    """Return the crossings of a plane, or another surface, in trajectories.

    The arguments are those of :class:`SectionObserver`, which does the same for parts of them.

    Parameters
    ----------
    states
        States of trajectories, (trajectory, time, dim).
    step
        Time step of the trajectories.
    component, value
        The plane: the number of a component and its value; or the surface: a function of states
        (..., dim) and its value.
    direction
        1 for crossings upwards, -1 downwards, 0 both.
    period
        Period of the component, if it is an angle or the time of periodic equations.
    system
        The system of which the trajectories are solutions: crossings are refined to rounding.

    Raises
    ------
    InputError
        If the states have another shape, there is no such component, the function returns another
        shape, or the system has no vector field.

    Examples
    --------
    >>> times = 0.1 * np.arange(200)
    >>> states = np.stack([np.sin(times), np.cos(times)], axis=-1)[None]
    >>> section = vp.rollout.diagnostics.poincare_section(states, 0.1, component=0)
    >>> (section.time / (2 * np.pi)).round(8)  # upwards, once a turn
    array([1., 2., 3.])
    """
    observer = SectionObserver(component, value, direction, step, period, system)
    observer.observe(0, real_array("states", states, ("trajectory", "time", "dim")))
    section = observer.section
    observer.warn()
    return section


def _flow(system: System, states: np.ndarray, times: np.ndarray, parts: int = 4) -> np.ndarray:
    """Return states (n, dim) after a time of each (n,), in equal steps of a method of order 8."""
    method: Any = find_method("dormand-prince-8")
    rows = np.ascontiguousarray(states.T)
    for _ in range(parts):
        rows = rows + method.increment(system, rows, times / parts)
    return np.ascontiguousarray(rows.T)


def _root(
    function: Callable[[np.ndarray, np.ndarray], np.ndarray], low: np.ndarray, high: np.ndarray
) -> np.ndarray:
    """Return roots of a function of places and of the numbers of their crossings, in brackets.

    A root does not depend on the other roots, to the last bit. A bracket whose ends have one sign,
    by rounding, ends in a state on the surface; this end is returned.
    """
    from scipy.optimize.elementwise import find_root  # slow to load, and few rollouts need it

    with np.errstate(all="ignore"):
        every = np.arange(len(low), dtype=np.float64)
        solution = find_root(function, (low, high), args=(every,))
        lower = np.abs(function(low, every)) <= np.abs(function(high, every))
    return np.where(solution.success, solution.x, np.where(lower, low, high))


_STORED = (
    Variable("points", "state on the Poincare section", ("crossing", "component"), "section_state"),
    Variable("time", "time of the crossing", ("crossing",), "section_time"),
    Variable("trajectory", "its trajectory", ("crossing",), "section_trajectory", whole=True),
)


class PoincareSection(Diagnostic):
    """Points of the Poincare section, if one was asked for.

    The measurement is ``section``, a :class:`Section`.
    """

    variables = (Measurement("section", _STORED, Section),)
    needs = ("section_plane",)

    def __init__(self, ensemble: Ensemble) -> None:
        super().__init__(ensemble)
        assert self.plan.section_plane is not None
        component, value, direction = self.plan.section_plane
        index = self.plan.system.components.index(component)
        period = self.plan.system.periods.get(index)
        self._observer = SectionObserver(index, value, direction, self.plan.step, period)

    def observe(self, start: int, states: np.ndarray) -> None:
        self._observer.observe(start, states)

    def result(self) -> dict[str, Any]:
        section = self._observer.section
        self._observer.warn()
        return {"section": section}
