"""Fixed and periodic points of a map by Newton's method."""

from __future__ import annotations

import numpy as np

from vpintegrator.arguments import of_kind, real_array
from vpintegrator.errors import InputError
from vpintegrator.rollout.flow import NumericalFlow

_ITERATIONS = 50
_TOLERANCE = 1e-12  # relative to the size of the state
_STARTS = 16  # states from which an elliptic point is looked for
_SPIRAL, _NEUTRAL = 0.1, 1e-6  # growth of an elliptic point, of its turn, as of rk4; rounding
_SMALLEST = 2.0**-10  # part of a Newton step


class NoPeriodicPoint(InputError):
    """Newton's method finds none from there."""


def periodic_point(flow: NumericalFlow, guess: np.ndarray, period: int = 1) -> np.ndarray:
    r"""Return a point that a flow of single states maps to itself after ``period`` steps.

    .. math:: \Phi^n(z) = z, \qquad n = \text{period}

    Parameters
    ----------
    flow
        The map; it must have a derivative.
    guess
        A state near it, (dim,).
    period
        Number of steps.

    Returns
    -------
    numpy.ndarray
        The point, (dim,); components that are angles return up to whole periods.

    Raises
    ------
    InputError
        If the damped Newton iteration does not converge.

    Examples
    --------
    >>> flow = vp.rollout.as_flow("rk4", vp.load_system("pendulum"), 0.1)
    >>> vp.rollout.periodic_point(flow, np.array([0.2, 0.1])).round(10) + 0.0
    array([0., 0.])
    """
    of_kind("flow", flow, NumericalFlow, "a flow, as vp.rollout.as_flow gives it")
    if not flow.differentiable:
        raise NoPeriodicPoint(f"{flow.name} has no derivative, which Newton's method needs")
    point = real_array("guess", guess, ("dim",)).copy()
    if len(point) != flow.dim:
        raise InputError(f"guess has {len(point)} components, and states of {flow.name} {flow.dim}")
    gap, slope = displacement(flow, point, period)
    for _ in range(_ITERATIONS):
        size = np.linalg.norm(gap)
        if not np.isfinite(size):
            break
        if size <= _TOLERANCE * max(1.0, float(np.linalg.norm(point))):
            return point
        change = np.linalg.lstsq(slope - np.eye(len(point)), -gap, rcond=None)[0]
        part = 1.0
        while part >= _SMALLEST:
            new = point + part * change
            new_gap, new_slope = displacement(flow, new, period)
            if np.linalg.norm(new_gap) < size:
                break
            part /= 2
        else:
            break
        point, gap, slope = new, new_gap, new_slope
    raise NoPeriodicPoint(
        f"no point of period {period} of {flow.name} was found near {np.asarray(guess).tolist()}"
    )


def elliptic_point(flow: NumericalFlow, states: np.ndarray) -> np.ndarray | None:
    """Return a fixed point of a flow about which states turn; None if none is found.

    Newton's method starts from the mean of the states and then from some of them. The result is the
    elliptic point found from the mean, or else the one nearest to the mean.

    Parameters
    ----------
    flow
        The map.
    states
        States round it, (state, dim).
    """
    middle, found = states.mean(axis=0), []
    chosen = np.linspace(0, len(states) - 1, min(_STARTS, len(states))).astype(int)
    for guess in (middle, *states[chosen]):
        try:
            point = periodic_point(flow, guess)
        except NoPeriodicPoint:
            continue
        if _is_elliptic(displacement(flow, point, 1)[1]):
            found.append(point)
            if guess is middle:
                break
    if not found:
        return None
    return min(found, key=lambda point: float(np.linalg.norm(point - middle)))


def _is_elliptic(slope: np.ndarray) -> bool:
    """Whether states beside a fixed point turn about it many times before they leave."""
    values = np.linalg.eigvals(slope)
    growth = np.abs(np.log(np.abs(values)))
    return bool((growth <= np.maximum(_SPIRAL * np.abs(values.imag), _NEUTRAL)).all()) and bool(
        (np.abs(values.imag) > _NEUTRAL).any()
    )


def displacement(
    flow: NumericalFlow, point: np.ndarray, period: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return the displacement of a point in ``period`` steps, and its derivative.

    Whole periods of angles are subtracted.
    """
    state, slope = point[None, None], np.eye(len(point))
    for _ in range(period):
        slope = flow.derivative(state)[0] @ slope
        state = flow.map(state)
    gap = state[0, 0] - point
    for k, turn in ({} if flow.system is None else flow.system.periods).items():
        gap[k] -= turn * np.round(gap[k] / turn)
    return gap, slope
