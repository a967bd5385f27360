"""States on the way of a return map, on sections between: each part of the way keeps the form, too.

A stroboscopic map is that over parts of the period. Through a section of an angle it is from one
value of it to the next. Where the section's position oscillates, the sections between are rays in
the plane of that position and its momentum: on a ray dq dp of the two is 0, so that the other
components are canonical there as well.
"""

from __future__ import annotations

import numpy as np

from vpintegrator.dynamics.crossings import Goal, advance
from vpintegrator.dynamics.own_steps import OwnSteps
from vpintegrator.dynamics.returning import ReturnMap

_TOLERANCE = 1e-10  # the states lead to a beginning, not to a result
_FEWEST = 64  # times at which the angle of a ray is looked at
_NEWTON = 6
_MOST = 0.8  # fraction of the states that must return


def return_parts(
    returns: ReturnMap, states: np.ndarray, parameters: np.ndarray, parts: int
) -> tuple[np.ndarray, np.ndarray] | None:
    """Return states (part + 1, n, dim) on the way of states (n, dim), these first.

    With them, which of the states each is of, (n,): of a few there may be no way, as they are on
    the edge of the section, and others are taken in their place. None where there are no such
    sections: the flow has no Hamiltonian, or solutions do not turn steadily about the section.

    Parameters
    ----------
    returns
        The map.
    states, parameters
        (n, dim) and (n, name).
    parts
        Number of parts of the way.

    Examples
    --------
    >>> from vpintegrator.dynamics.return_parts import return_parts
    >>> poincare = vp.return_map("henon-heiles", "q[0] = 0", energy=0.1)
    >>> states = np.array([[0.1, 0.0], [0.2, 0.1]])
    >>> found, _ = return_parts(poincare.flow_back, states, np.empty((2, 0)), parts=4)
    >>> found.shape, bool(np.abs(found[-1] - poincare.map(states)).max() < 1e-8)
    ((5, 2, 2), True)
    """
    section = returns.section
    found: tuple[np.ndarray, np.ndarray] | None
    if section.conjugate is None and not section.stroboscopic:
        return None
    with np.errstate(all="ignore"):
        begin, columns = returns.lifted(states, parameters), parameters.T
        steps = returns.steps(_TOLERANCE, _TOLERANCE)
        goal = returns.goal(begin, columns)
        if goal.component is None:
            ways = [Goal(None, goal.value / parts)] * parts
            found = _one_after_another(steps, begin, columns, ways)
        elif goal.period < np.inf:
            if parts < goal.count:
                return None
            turns = goal.sign * goal.period * goal.count * np.arange(1, parts + 1) / parts
            ways = [Goal(goal.component, goal.value + t, goal.period, goal.sign) for t in turns]
            found = _one_after_another(steps, begin, columns, ways)
        else:
            found = _on_rays(returns, steps, begin, columns, parts)
    if found is None:
        return None
    way = found[0][:, section.kept].transpose(0, 2, 1)
    if section.return_times:
        way = np.concatenate([way, (states[:, -1] + found[1])[..., None]], axis=-1)
    way = np.concatenate([states[None], way])
    known = np.isfinite(way).all(axis=(0, 2))
    if not known.mean() > _MOST:
        return None
    rows = np.arange(len(states))
    rows[~known] = np.resize(rows[known], np.count_nonzero(~known))
    return way[:, rows], rows


def _one_after_another(
    steps: OwnSteps, begin: np.ndarray, columns: np.ndarray, ways: list[Goal]
) -> tuple[np.ndarray, np.ndarray]:
    """States of the flow (part, component, n) at the ends of each part, and when, (part, n)."""
    found, times = [], []
    for way in ways:
        begin, lasted = advance(steps, begin, way, columns)
        found.append(begin)
        times.append(lasted)
    return np.stack(found), np.cumsum(times, axis=0)


def _on_rays(
    returns: ReturnMap, steps: OwnSteps, begin: np.ndarray, columns: np.ndarray, parts: int
) -> tuple[np.ndarray, np.ndarray]:
    section, goal = returns.section, returns.goal(begin, columns)
    end, durations = advance(steps, begin, goal, columns)
    count = max(_FEWEST * goal.count, 4 * parts)
    ways = [Goal(None, durations / count)] * count
    way = np.concatenate([begin[None], _one_after_another(steps, begin, columns, ways)[0]])
    assert section.conjugate is not None
    plane = [section.component, section.conjugate]
    centre = np.stack([goal.value, np.zeros_like(goal.value)])[:, None]
    scale = np.nanmax(np.abs(way[:, plane].transpose(1, 0, 2) - centre), axis=(1, 2))

    def angle(state: np.ndarray) -> np.ndarray:
        x, y = (section.sign * (state[plane] - centre[:, 0]).T / scale).T
        return np.arctan2(x, y)

    angles = np.unwrap(np.stack([angle(state) for state in way]), axis=0)
    end = np.where((np.diff(angles, axis=0) > 0).all(axis=0), end, np.nan)
    found, times = np.empty((parts, *begin.shape)), np.empty((parts, begin.shape[1]))
    rows = np.arange(begin.shape[1])
    for k in range(1, parts):
        target = 2 * np.pi * goal.count * k / parts
        last = np.maximum(np.argmax(angles > target, axis=0) - 1, 0)
        start = way[last, :, rows].T
        rate = steps.field(start, columns)
        part = (target - angles[last, rows]) / (angles[last + 1, rows] - angles[last, rows])
        later = part * durations / count
        at = start
        for _ in range(_NEWTON):
            at = steps.states(start, rate, later, columns)
            speed = steps.field(at, columns)
            x, y = (section.sign * (at[plane] - centre[:, 0]).T / scale).T
            u, v = (section.sign * speed[plane].T / scale).T
            missed = np.remainder(angle(at) - target + np.pi, 2 * np.pi) - np.pi
            later = later - missed * (x * x + y * y) / (u * y - x * v)
        found[k - 1], times[k - 1] = at, last * durations / count + later
    found[-1], times[-1] = end, durations
    return found, times
