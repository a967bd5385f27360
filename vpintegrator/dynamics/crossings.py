"""Crossings of a section, or states after a given time, for many trajectories at once.

A crossing lies in a step of DOP853 over which the component passes its value. One step of the same
formulas leads from the beginning of that step to any time in it. Its error is no larger than the
error of the whole step. Newton's method finds the time at which the step ends on the section. A
crossing is therefore as accurate as the solution itself; nothing is interpolated.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from vpintegrator.dynamics.own_steps import OwnSteps

_MOST_STEPS = 20_000  # steps after which a solution counts as not returning
_SMALLEST = 1e-14  # step, of the time or of one
_NEWTON = 8  # iterations at most; from the cubic's root two or three are enough
_HALVINGS = 45  # bisections of the step, for the root of the cubic


@dataclass(frozen=True)
class Goal:
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

    def of(self, rows: np.ndarray) -> Goal:
        """Return the goal restricted to the trajectories ``rows``."""
        return Goal(self.component, self.value[rows], self.period, self.sign, self.count)

    def height(self, state: np.ndarray) -> np.ndarray:
        """Return the signed distance of states (dim, trajectory) beyond the section."""
        assert self.component is not None
        return self.sign * (state[self.component] - self.value)

    def level(self, height: np.ndarray) -> np.ndarray:
        """Number of the last passage of an angle below a height; 0 above the section, else -1."""
        return np.floor(height / self.period) if self.period < np.inf else (height >= 0) - 1.0


def advance(
    formulas: OwnSteps, state: np.ndarray, goal: Goal, parameters: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """States at the ends of solutions, (dim, trajectory), and how long that takes, (trajectory,).

    NaN where a solution does not come back: it grows without bound, or 20,000 steps are too few.

    Parameters
    ----------
    formulas
        Formulas of the steps.
    state
        Initial states of the solutions, (dim, trajectory).
    goal
        Goal at which solutions end.
    parameters
        Parameters of each trajectory, (name, trajectory).
    """
    ends, durations = np.full(state.shape, np.nan), np.full(state.shape[1], np.nan)
    rows = np.flatnonzero(np.isfinite(state).all(axis=0))
    state, parameters, goal = state[:, rows], parameters[:, rows], goal.of(rows)
    rate = formulas.field(state, parameters)
    time, passed = np.zeros(len(rows)), np.zeros(len(rows), dtype=int)
    step = formulas.first_step(state, rate, parameters)
    for _ in range(_MOST_STEPS * goal.count):
        if not len(rows):
            break
        if goal.component is None:
            last = step >= goal.value - time
            step = np.where(last, goal.value - time, step)
        new, new_rate, error = formulas.step(state, rate, step, parameters)
        accepted = error <= 1  # and so finite
        if goal.component is None:
            done = accepted & last
            ends[:, rows[done]], durations[rows[done]] = new[:, done], goal.value[done]
        else:
            found = _passage(goal, state, rate, new, new_rate, step) & accepted
            passed += found
            done = found & (passed == goal.count)
            if done.any():
                which = np.flatnonzero(done)
                at, later = _located(
                    formulas,
                    goal.of(which),
                    (state[:, which], rate[:, which], new[:, which], new_rate[:, which]),
                    step[which],
                    parameters[:, which],
                )
                ends[:, rows[which]], durations[rows[which]] = at, time[which] + later
        state = np.where(accepted, new, state)
        rate = np.where(accepted, new_rate, rate)
        time = np.where(accepted, time + step, time)
        step = formulas.changed(step, error)
        lost = ~(step > _SMALLEST * np.maximum(time, 1)) | ~np.isfinite(time)
        keep = ~(done | lost)
        if not keep.all():
            rows, time, step, passed = rows[keep], time[keep], step[keep], passed[keep]
            state, rate, parameters = state[:, keep], rate[:, keep], parameters[:, keep]
            goal = goal.of(keep)
    return ends, durations


def _passage(
    goal: Goal,
    state: np.ndarray,
    rate: np.ndarray,
    new: np.ndarray,
    new_rate: np.ndarray,
    step: np.ndarray,
) -> np.ndarray:
    """Whether the section is passed in a step, (trajectory,), upwards in the goal's direction."""
    before, after = goal.height(state), goal.height(new)
    passed = goal.level(after) > goal.level(before)
    if goal.period == np.inf:
        # both ends on one side, and beyond the section between: the cubic says so
        slopes = [goal.sign * step * each[goal.component] for each in (rate, new_rate)]
        doubtful = (before * after > 0) & (slopes[0] * slopes[1] < 0) & (before * slopes[0] < 0)
        if doubtful.any():
            which = np.flatnonzero(doubtful)
            cubic = _Cubic(before[which], after[which], slopes[0][which], slopes[1][which])
            passed[which] = cubic.at(cubic.turn) * before[which] < 0
    return passed


def _located(
    formulas: OwnSteps,
    goal: Goal,
    ends: tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray],
    step: np.ndarray,
    parameters: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """Return states on the section, and when in the step."""
    state, rate, new, new_rate = ends
    component, sign = goal.component, goal.sign
    assert component is not None
    before, after = goal.height(state), goal.height(new)
    if goal.period < np.inf:
        level = goal.level(after) * goal.period
    else:
        level = np.zeros_like(before)
    target = goal.value + sign * level
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
