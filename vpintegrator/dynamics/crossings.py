"""Crossings of a section, or states after a given time, for many trajectories at once.

Each trajectory of autonomous equations has steps of DOP853 of its own. Where it ends when it comes
back to a section, all end at other times; then none has to wait for another, and none is integrated
beyond its end. The formulas and the control of steps are those of Hairer, Norsett, Wanner, Solving
ODEs I, II.10, as in :class:`scipy.integrate.DOP853`.

A crossing lies in a step of DOP853 over which the component passes its value. One step of the same
formulas leads from the beginning of that step to any time in it. Its error is no larger than the
error of the whole step. Newton's method finds the time at which the step ends on the section. A
crossing is therefore as accurate as the solution itself; nothing is interpolated.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np
import scipy  # loads scipy.integrate when it is used

from vpintegrator.runtime.interrupts import check_time

Field = Callable[[np.ndarray, np.ndarray], np.ndarray]  # components and parameters, by trajectory
# safety factor, and bounds of the change of a step
_SAFETY = 0.9
_LEAST = 0.2
_MOST = 10.0
_ORDER = 8
_MOST_STEPS = 20_000  # steps after which a solution counts as not returning
_SMALLEST = 1e-14  # step, of the time
_NUDGE = 1e-8  # relative change of components that shows the terms of the field
_NEWTON = 8  # iterations at most; from the cubic's root two or three are enough
_TURN = 0.5  # of the period of an angle that a step is foreseen to cover at most
_FAR = 0.75  # the same of a step that counts
_HALVINGS = 45  # bisections of the step, for the root of the cubic


class AdaptiveSteps:
    """Steps of DOP853 with their errors, for states (dim, trajectory).

    Parameters
    ----------
    field
        f of components (dim, trajectory) and parameters (name, trajectory).
    rtol, atol
        Tolerances of the local error of every single trajectory: relative to the component, and to
        its size along the trajectory.
    sizes
        Sizes of the components in their domain, (dim,), which count where a trajectory is smaller:
        beside a fixed point at 0 the field consists of rounding errors.

    Examples
    --------
    >>> from vpintegrator.dynamics.crossings import AdaptiveSteps
    >>> formulas = AdaptiveSteps(lambda z, _: z, 1e-12, 1e-12)
    >>> state, none = np.ones((1, 2)), np.empty((0, 2))
    >>> formulas.stages(state, state, np.array([0.1, 0.2]), none)[1][0]
    array([1.10517..., 1.22140...])
    """

    def __init__(
        self, field: Field, rtol: float, atol: float, sizes: np.ndarray | float = 0.0
    ) -> None:
        self.field = field
        self._rtol = rtol
        self._atol = atol
        self._sizes = np.reshape(sizes, (-1, 1))
        method = scipy.integrate.DOP853
        self._a = [method.A[s, :s] for s in range(method.n_stages)]
        self._b = method.B
        self._e3 = method.E3
        self._e5 = method.E5

    def step(
        self,
        state: np.ndarray,
        rate: np.ndarray,
        step: np.ndarray,
        parameters: np.ndarray,
        size: np.ndarray,
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return states after a step, f there, and errors (trajectory,), accepted up to 1.

        ``size`` (dim, trajectory) are the sizes of the components before the step.
        """
        stages, new = self.stages(state, rate, step, parameters)
        stages[-1] = self.field(new, parameters)
        scale = self._scale(np.maximum(np.abs(state), np.abs(new)), size)
        rows = stages.reshape(len(stages), -1)
        fifth = (_ratio((self._e5 @ rows).reshape(state.shape), scale) ** 2).sum(axis=0)
        third = (_ratio((self._e3 @ rows).reshape(state.shape), scale) ** 2).sum(axis=0)
        weight = np.sqrt((fifth + 0.01 * third) * len(state))
        error = np.abs(step) * np.divide(fifth, weight, out=np.zeros_like(fifth), where=weight != 0)
        return new, stages[-1].copy(), error

    def first_step(self, state: np.ndarray, rate: np.ndarray, parameters: np.ndarray) -> np.ndarray:
        """Return steps to begin with (Hairer, Norsett, Wanner, II.4)."""
        scale = self._scale(np.abs(state), np.zeros_like(state))
        size, speed = (np.sqrt((_ratio(v, scale) ** 2).mean(axis=0)) for v in (state, rate))
        guess = np.where((size < 1e-5) | (speed < 1e-5), 1e-6, 0.01 * size / speed)
        ahead = self.field(state + guess * rate, parameters)
        bend = np.sqrt((_ratio(ahead - rate, scale) ** 2).mean(axis=0)) / guess
        largest = np.maximum(speed, bend)
        second = (0.01 / np.maximum(largest, 1e-300)) ** (1 / _ORDER)
        return np.minimum(100 * guess, np.where(largest <= 1e-15, np.maximum(1e-6, guess), second))

    def terms(self, state: np.ndarray, rate: np.ndarray, parameters: np.ndarray) -> np.ndarray:
        """Return sizes of the terms of f at states (dim, trajectory), also where these cancel.

        A component whose terms cancel consists of their rounding errors: relative to its own size
        no step is accurate.
        """
        signs = np.random.default_rng(0).choice([-1.0, 1.0], state.shape)
        nudged = self.field(state * (1 + _NUDGE * signs), parameters)
        sizes = np.abs(nudged - rate) / _NUDGE
        return np.where(np.isfinite(sizes), sizes, 0.0)

    def _scale(self, largest: np.ndarray, size: np.ndarray) -> np.ndarray:
        size = np.maximum(np.maximum(size, largest), self._sizes)
        return self._atol * size + self._rtol * largest

    @staticmethod
    def changed(step: np.ndarray, error: np.ndarray) -> np.ndarray:
        """Return the next steps, from the errors of these; shorter where an error is not finite."""
        factor = _SAFETY * np.maximum(error, 1e-30) ** (-1 / _ORDER)
        factor = np.where(error > 1, np.minimum(factor, 1.0), factor)
        return step * np.where(np.isfinite(error), np.clip(factor, _LEAST, _MOST), _LEAST)

    def stages(
        self, state: np.ndarray, rate: np.ndarray, step: np.ndarray, parameters: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return stages (stage, dim, trajectory) of steps (trajectory,), and states after them.

        ``rate`` is f at the beginning.
        """
        count = len(self._a)
        stages = np.empty((count + 1, *state.shape))
        rows = stages.reshape(count + 1, -1)
        stages[0] = rate
        for s in range(1, count):
            moved = (self._a[s] @ rows[:s]).reshape(state.shape)
            moved *= step
            moved += state
            stages[s] = self.field(moved, parameters)
        return stages, state + step * (self._b @ rows[:count]).reshape(state.shape)


def _ratio(values: np.ndarray, scale: np.ndarray) -> np.ndarray:
    """Return values over their scale; 0 for components that are zero before and after a step."""
    return np.divide(values, scale, out=np.zeros_like(values), where=scale > 0)


def coarse_states(
    field: Callable[[np.ndarray], np.ndarray],
    state: np.ndarray,
    duration: float,
    steps: int,
    tolerance: float,
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield states at the ends of some steps, (dim, trajectory), and largest sizes so far.

    A solution that grows without bound is not much larger after a few steps.

    Parameters
    ----------
    field
        f of components (dim, trajectory).
    state
        Initial states, (dim, trajectory).
    duration
        Length of the solutions, if that is shorter than the steps.
    steps, tolerance
        Number of steps at most, and the relative tolerance of each.
    """
    formulas = AdaptiveSteps(lambda state, _: field(state), tolerance, tolerance)
    none = np.empty((0, state.shape[1]))
    rate = field(state)
    size = np.abs(state)
    left = np.full(state.shape[1], duration)
    terms = formulas.terms(state, rate, none)
    step = np.minimum(formulas.first_step(state, rate, none), left)
    yield state, size
    for _ in range(steps):
        new, new_rate, error = formulas.step(state, rate, step, none, size)
        accepted = error <= 1
        state = np.where(accepted, new, state)
        rate = np.where(accepted, new_rate, rate)
        size = np.maximum(size, np.abs(state))
        size = np.where(accepted, np.maximum(size, step * terms), size)
        yield state, size
        left = np.where(accepted, left - step, left)
        if not left.any():
            break
        step = np.minimum(formulas.changed(step, error), left)


@dataclass(frozen=True)
class Event:
    """A plane that a solution passes, or a time, at which the solution ends.

    Attributes
    ----------
    until
        The time, (trajectory,). A solution that does not pass its plane until then is lost.
    normal, value
        The plane ``normal @ state == value``, passed with growing ``normal @ state``: (dim,) and
        (trajectory,); None and anything for a time.
    period
        Distance of planes that are equal, of an angle, else infinity.
    count
        Number of the passage at which the solution ends.
    """

    until: np.ndarray
    normal: np.ndarray | None = None
    value: np.ndarray | float = 0.0
    period: float = np.inf
    count: int = 1

    def of(self, rows: np.ndarray) -> Event:
        """Return the event restricted to the trajectories ``rows``."""
        value = np.broadcast_to(self.value, self.until.shape)
        return replace(self, until=self.until[rows], value=value[rows])

    def level(self, height: np.ndarray) -> np.ndarray:
        """Number of the last of the equal planes below a height; 0 above a single one, else -1."""
        return np.floor(height / self.period) if self.period < np.inf else (height >= 0) - 1.0


def follow(
    formulas: AdaptiveSteps,
    state: np.ndarray,
    event: Event,
    parameters: np.ndarray,
    most_steps: int = _MOST_STEPS,
) -> tuple[np.ndarray, np.ndarray]:
    """States at the ends of solutions, (dim, trajectory), and how long that takes, (trajectory,).

    NaN where a solution does not come back: it grows without bound, or the steps are too few.

    Parameters
    ----------
    formulas
        Formulas of the steps.
    state
        Initial states of the solutions, (dim, trajectory).
    event
        Event at which solutions end.
    parameters
        Parameters of each trajectory, (name, trajectory).
    most_steps
        Number of steps to one passage after which a solution counts as not returning.
    """
    ends = np.full(state.shape, np.nan)
    durations = np.full(state.shape[1], np.nan)
    rows = np.flatnonzero(np.isfinite(state).all(axis=0))
    state = state[:, rows]
    parameters = parameters[:, rows]
    event = event.of(rows)
    rate = formulas.field(state, parameters)
    time = np.zeros(len(rows))
    passed = np.zeros(len(rows), dtype=int)
    step = formulas.first_step(state, rate, parameters)
    size = np.abs(state)
    terms = formulas.terms(state, rate, parameters)
    for _ in range(most_steps * event.count):
        if not len(rows):
            break
        if event.normal is not None and event.period < np.inf:
            # a step over several turns would count as one
            speed = np.abs(event.normal @ rate)
            far = step * speed > _TURN * event.period
            step[far] = _TURN * event.period / speed[far]
        check_time()
        last = step >= event.until - time
        step = np.where(last, event.until - time, step)
        new, new_rate, error = formulas.step(state, rate, step, parameters, size)
        if event.normal is None:
            accepted = error <= 1  # and so finite
            done = accepted & last
            ends[:, rows[done]] = new[:, done]
            durations[rows[done]] = event.until[done]
        else:
            before, after = (event.normal @ z - event.value for z in (state, new))
            error[np.abs(after - before) > _FAR * event.period] = np.inf
            accepted = error <= 1
            slopes = [step * (event.normal @ z) for z in (rate, new_rate)]
            passes, level = _passage(event, before, after, *slopes)
            passed += passes & accepted
            done = accepted & (passed == event.count)
            if len(which := np.flatnonzero(done)):
                cubic = _Cubic(*(each[which] for each in (before - level, after - level, *slopes)))
                ends[:, rows[which]], later = _located(
                    formulas,
                    replace(event, value=event.value + level).of(which),
                    (state[:, which], rate[:, which], parameters[:, which]),
                    (cubic.root() * step[which], step[which]),
                )
                durations[rows[which]] = time[which] + later
        state = np.where(accepted, new, state)
        rate = np.where(accepted, new_rate, rate)
        size = np.maximum(np.maximum(size, np.abs(state)), step * terms * accepted)
        time = np.where(accepted, time + step, time)
        step = formulas.changed(step, error)
        lost = ~(step > _SMALLEST * time) | ~np.isfinite(time) | (accepted & last)
        keep = ~(done | lost)
        if not keep.all():
            rows = rows[keep]
            time = time[keep]
            step = step[keep]
            passed = passed[keep]
            state = state[:, keep]
            rate = rate[:, keep]
            parameters = parameters[:, keep]
            size = size[:, keep]
            terms = terms[:, keep]
            event = event.of(keep)
    return ends, durations


def _passage(
    event: Event,
    before: np.ndarray,
    after: np.ndarray,
    slope: np.ndarray,
    last_slope: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """Return whether a plane is passed in a step, and its height, (trajectory,) each.

    ``before``, ``after``, ``slope`` and ``last_slope`` are heights and slopes at the ends.
    """
    first = event.level(before)
    last = event.level(after)
    passed = last > first
    height = np.zeros_like(after)
    if event.period < np.inf:
        # the next of the equal planes on the way
        height = np.where(passed, last, first + (slope > 0)) * event.period
        before = before - height
        after = after - height
    # both ends on one side, and beyond the plane between: the cubic says so
    doubtful = (before * after > 0) & (slope * last_slope < 0) & (before * slope < 0)
    if len(which := np.flatnonzero(doubtful)):
        cubic = _Cubic(before[which], after[which], slope[which], last_slope[which])
        passed[which] = cubic.at(cubic.turn()) * before[which] < 0
    return passed, height


def _located(
    formulas: AdaptiveSteps,
    event: Event,
    begin: tuple[np.ndarray, np.ndarray, np.ndarray],
    times: tuple[np.ndarray, np.ndarray],
) -> tuple[np.ndarray, np.ndarray]:
    """Return states on the plane, and when in the step: by Newton's method.

    ``begin`` has states, rates and parameters at the beginning of the step, ``times`` a first guess
    of the time and the length of the step.
    """
    (state, rate, parameters) = begin
    (later, step) = times
    normal = event.normal
    assert normal is not None
    for _ in range(_NEWTON):
        at = formulas.stages(state, rate, later, parameters)[1]
        slope = normal @ formulas.field(at, parameters)
        change = (normal @ at - event.value) / np.where(slope == 0, np.inf, slope)
        if (np.abs(change) <= 4e-16 * step).all() or not np.isfinite(change).any():
            break
        later = np.clip(later - change, 0.0, step)
        if (np.abs(change) <= 1e-9 * step).all():  # the next would be nothing but rounding
            at = formulas.stages(state, rate, later, parameters)[1]
            break
    return at - np.outer(normal / (normal @ normal), normal @ at - event.value), later


class _Cubic:
    """The polynomials on [0, 1] with given values and slopes at both ends."""

    def __init__(
        self, first: np.ndarray, last: np.ndarray, slope: np.ndarray, last_slope: np.ndarray
    ) -> None:
        self._first = first
        self._last = last
        self._slope = slope
        self._c2 = 3 * (last - first) - 2 * slope - last_slope
        self._c3 = 2 * (first - last) + slope + last_slope

    def at(self, s: np.ndarray) -> np.ndarray:
        return self._first + s * (self._slope + s * (self._c2 + s * self._c3))

    def turn(self) -> np.ndarray:
        """Return the zero of the slope, between slopes of opposite signs at the ends."""

        def is_before(s: np.ndarray) -> np.ndarray:
            return (self._slope + s * (2 * self._c2 + 3 * s * self._c3)) * self._slope > 0

        return _bisected(is_before, np.zeros_like(self._first), np.ones_like(self._first))

    def root(self) -> np.ndarray:
        """Return the upward zero of the cubic; the zero beyond the turn if both ends are above."""
        low = np.zeros_like(self._first)
        high = np.ones_like(self._first)
        above = (self._first > 0) & (self._last > 0)
        below = (self._first < 0) & (self._last < 0)
        if (above | below).any():
            turn = self.turn()
            low = np.where(above, turn, low)
            high = np.where(below, turn, high)
        return _bisected(lambda s: self.at(s) < 0, low, high)


def _bisected(
    is_before: Callable[[np.ndarray], np.ndarray], low: np.ndarray, high: np.ndarray
) -> np.ndarray:
    """Return the places between low and high before which something holds, and not beyond."""
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        before = is_before(middle)
        low = np.where(before, middle, low)
        high = np.where(before, high, middle)
    return (low + high) / 2
