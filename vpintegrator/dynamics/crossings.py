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

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import scipy  # loads scipy.integrate when it is used

Field = Callable[[np.ndarray, np.ndarray], np.ndarray]  # components and parameters, by trajectory
_SAFETY, _LEAST, _MOST = 0.9, 0.2, 10.0  # safety factor, and bounds of the change of a step
_ORDER = 8
_MOST_STEPS = 20_000  # steps after which a solution counts as not returning
_SMALLEST = 1e-14  # step, of the time
_NUDGE = 1e-8  # relative change of components that shows the terms of the field
_COARSE, _COARSE_STEPS = 1e-6, 6  # tolerance and steps of solutions that show sizes
_NEWTON = 8  # iterations at most; from the cubic's root two or three are enough
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
    >>> formulas.states(state, state, np.array([0.1, 0.2]), none)[0]
    array([1.10517..., 1.22140...])
    """

    def __init__(
        self, field: Field, rtol: float, atol: float, sizes: np.ndarray | float = 0.0
    ) -> None:
        self.field, self._rtol, self._atol = field, rtol, atol
        self._sizes = np.reshape(sizes, (-1, 1))
        method = scipy.integrate.DOP853
        self._a = [method.A[s, :s] for s in range(method.n_stages)]
        self._b, self._e3, self._e5 = method.B, method.E3, method.E5

    def states(
        self, state: np.ndarray, rate: np.ndarray, step: np.ndarray, parameters: np.ndarray
    ) -> np.ndarray:
        """States (dim, trajectory) after steps (trajectory,); ``rate`` is f at the beginning."""
        return self._stages(state, rate, step, parameters)[1]

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
        stages, new = self._stages(state, rate, step, parameters)
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
        found = np.abs(nudged - rate) / _NUDGE
        return np.where(np.isfinite(found), found, 0.0)

    def _scale(self, largest: np.ndarray, size: np.ndarray) -> np.ndarray:
        size = np.maximum(np.maximum(size, largest), self._sizes)
        return self._atol * size + self._rtol * largest

    @staticmethod
    def changed(step: np.ndarray, error: np.ndarray) -> np.ndarray:
        """Return the next steps, from the errors of these; shorter where an error is not finite."""
        factor = _SAFETY * np.maximum(error, 1e-30) ** (-1 / _ORDER)
        factor = np.where(error > 1, np.minimum(factor, 1.0), factor)
        return step * np.where(np.isfinite(error), np.clip(factor, _LEAST, _MOST), _LEAST)

    def _stages(
        self, state: np.ndarray, rate: np.ndarray, step: np.ndarray, parameters: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
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


def largest_values(
    field: Field, state: np.ndarray, duration: float, parameters: np.ndarray
) -> np.ndarray:
    """Return the largest absolute values of the components in some steps, (dim, trajectory).

    The steps, with a coarse tolerance, take about a period of the motion. A solution that grows
    without bound is not much larger after them.

    Parameters
    ----------
    field
        f of components (dim, trajectory) and parameters (name, trajectory).
    state
        Initial states, (dim, trajectory).
    duration
        Length of the solutions, if that is shorter than the steps.
    parameters
        Parameters of each trajectory, (name, trajectory).
    """
    formulas = AdaptiveSteps(field, _COARSE, _COARSE)
    rate, size, left = field(state, parameters), np.abs(state), np.full(state.shape[1], duration)
    terms = formulas.terms(state, rate, parameters)
    step = np.minimum(formulas.first_step(state, rate, parameters), left)
    for _ in range(_COARSE_STEPS):
        new, new_rate, error = formulas.step(state, rate, step, parameters, size)
        accepted = error <= 1
        state, rate = np.where(accepted, new, state), np.where(accepted, new_rate, rate)
        size = np.maximum(size, np.abs(state))
        size = np.where(accepted, np.maximum(size, step * terms), size)
        left = np.where(accepted, left - step, left)
        if not left.any():
            break
        step = np.minimum(formulas.changed(step, error), left)
    return size


@dataclass(frozen=True)
class Event:
    """Crossing of a section, or time, at which a solution ends.

    Attributes
    ----------
    component
        Number of the component that passes a value; None for a given time.
    value, period
        Value of the component at the section, (trajectory,), or the time without a component; and
        the period of the component if it is an angle, else infinity.
    sign
        1 for passages upwards, -1 downwards.
    count
        Number of the passage at which the solution ends.
    """

    component: int | None
    value: np.ndarray
    period: float = np.inf
    sign: int = 1
    count: int = 1

    def of(self, rows: np.ndarray) -> Event:
        """Return the event restricted to the trajectories ``rows``."""
        return replace(self, value=self.value[rows])

    def height(self, state: np.ndarray) -> np.ndarray:
        """Return the signed distance of states (dim, trajectory) beyond the section."""
        assert self.component is not None
        return self.sign * (state[self.component] - self.value)

    def level(self, height: np.ndarray) -> np.ndarray:
        """Number of the last passage of an angle below a height; 0 above the section, else -1."""
        return np.floor(height / self.period) if self.period < np.inf else (height >= 0) - 1.0


def follow(
    formulas: AdaptiveSteps, state: np.ndarray, event: Event, parameters: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """States at the ends of solutions, (dim, trajectory), and how long that takes, (trajectory,).

    NaN where a solution does not come back: it grows without bound, or 20,000 steps are too few.

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
    """
    ends, durations = np.full(state.shape, np.nan), np.full(state.shape[1], np.nan)
    rows = np.flatnonzero(np.isfinite(state).all(axis=0))
    state, parameters, event = state[:, rows], parameters[:, rows], event.of(rows)
    rate = formulas.field(state, parameters)
    time, passed = np.zeros(len(rows)), np.zeros(len(rows), dtype=int)
    step = formulas.first_step(state, rate, parameters)
    size, terms = np.abs(state), formulas.terms(state, rate, parameters)
    for _ in range(_MOST_STEPS * event.count):
        if not len(rows):
            break
        if event.component is None:
            last = step >= event.value - time
            step = np.where(last, event.value - time, step)
        new, new_rate, error = formulas.step(state, rate, step, parameters, size)
        accepted = error <= 1  # and so finite
        if event.component is None:
            done = accepted & last
            ends[:, rows[done]], durations[rows[done]] = new[:, done], event.value[done]
        else:
            found = _passage(event, state, rate, new, new_rate, step) & accepted
            passed += found
            done = found & (passed == event.count)
            if done.any():
                which = np.flatnonzero(done)
                at, later = _located(
                    formulas,
                    event.of(which),
                    (state[:, which], rate[:, which], new[:, which], new_rate[:, which]),
                    step[which],
                    parameters[:, which],
                )
                ends[:, rows[which]], durations[rows[which]] = at, time[which] + later
        state = np.where(accepted, new, state)
        rate = np.where(accepted, new_rate, rate)
        size = np.maximum(np.maximum(size, np.abs(state)), step * terms * accepted)
        time = np.where(accepted, time + step, time)
        step = formulas.changed(step, error)
        lost = ~(step > _SMALLEST * time) | ~np.isfinite(time)
        keep = ~(done | lost)
        if not keep.all():
            rows, time, step, passed = rows[keep], time[keep], step[keep], passed[keep]
            state, rate, parameters = state[:, keep], rate[:, keep], parameters[:, keep]
            size, terms = size[:, keep], terms[:, keep]
            event = event.of(keep)
    return ends, durations


def _passage(
    event: Event,
    state: np.ndarray,
    rate: np.ndarray,
    new: np.ndarray,
    new_rate: np.ndarray,
    step: np.ndarray,
) -> np.ndarray:
    """Whether the section is passed in a step, (trajectory,), upwards in the event's direction."""
    before, after = event.height(state), event.height(new)
    passed = event.level(after) > event.level(before)
    if event.period == np.inf:
        # both ends on one side, and beyond the section between: the cubic says so
        slopes = [event.sign * step * each[event.component] for each in (rate, new_rate)]
        doubtful = (before * after > 0) & (slopes[0] * slopes[1] < 0) & (before * slopes[0] < 0)
        if doubtful.any():
            which = np.flatnonzero(doubtful)
            cubic = _Cubic(before[which], after[which], slopes[0][which], slopes[1][which])
            passed[which] = cubic.at(cubic.turn) * before[which] < 0
    return passed


def _located(
    formulas: AdaptiveSteps,
    event: Event,
    ends: tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray],
    step: np.ndarray,
    parameters: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """Return states on the section, and when in the step."""
    state, rate, new, new_rate = ends
    component, sign = event.component, event.sign
    assert component is not None
    before, after = event.height(state), event.height(new)
    if event.period < np.inf:
        level = event.level(after) * event.period
    else:
        level = np.zeros_like(before)
    target = event.value + sign * level
    slopes = [sign * step * each[component] for each in (rate, new_rate)]
    cubic = _Cubic(before - level, after - level, *slopes)
    later = cubic.root() * step
    at = state
    for _ in range(_NEWTON):
        at = formulas.states(state, rate, later, parameters)
        slope = formulas.field(at, parameters)[component]
        change = (at[component] - target) / np.where(slope == 0, np.inf, slope)
        if (np.abs(change) <= 4e-16 * step).all() or not np.isfinite(change).any():
            break
        later = np.clip(later - change, 0.0, step)
        if (np.abs(change) <= 1e-9 * step).all():  # the next would be nothing but rounding
            at = formulas.states(state, rate, later, parameters)
            break
    at[component] = target
    return at, later


class _Cubic:
    """The polynomials on [0, 1] with given values and slopes at both ends."""

    def __init__(
        self, first: np.ndarray, last: np.ndarray, slope: np.ndarray, last_slope: np.ndarray
    ) -> None:
        self._c0, self._c1 = first, slope
        self._c2 = 3 * (last - first) - 2 * slope - last_slope
        self._c3 = 2 * (first - last) + slope + last_slope
        self._first, self._last = first, last

    def at(self, s: np.ndarray) -> np.ndarray:
        return self._c0 + s * (self._c1 + s * (self._c2 + s * self._c3))

    @property
    def turn(self) -> np.ndarray:
        """Zero of the slope, between slopes of opposite signs at the ends."""
        low, high = np.zeros_like(self._c0), np.ones_like(self._c0)
        for _ in range(_HALVINGS):
            middle = (low + high) / 2
            slope = self._c1 + middle * (2 * self._c2 + 3 * middle * self._c3)
            same = slope * self._c1 > 0
            low, high = np.where(same, middle, low), np.where(same, high, middle)
        return (low + high) / 2

    def root(self) -> np.ndarray:
        """Return the upward zero of the cubic; the zero beyond the turn if both ends are above."""
        low, high = np.zeros_like(self._c0), np.ones_like(self._c0)
        above, below = (self._first > 0) & (self._last > 0), (self._first < 0) & (self._last < 0)
        if (above | below).any():
            turn = self.turn
            low, high = np.where(above, turn, low), np.where(below, turn, high)
        for _ in range(_HALVINGS):
            middle = (low + high) / 2
            under = self.at(middle) < 0
            low, high = np.where(under, middle, low), np.where(under, high, middle)
        return (low + high) / 2
