"""First windows by the exact map, and their derivatives with respect to the first state."""

from __future__ import annotations

import math

import numpy as np
import scipy  # loads scipy.integrate when it is used

from vpintegrator.dynamics import System, solve
from vpintegrator.dynamics.solve import SMALLEST_TOLERANCE
from vpintegrator.dynamics.structure import component_scales
from vpintegrator.errors import InputError
from vpintegrator.maps import Map

_TOLERANCE = 1e-13
_BATCH = 16  # trajectories in one solution: as many as the smallest tolerance of SciPy allows
_ENTRIES = 100_000  # entries of the derivatives in memory


def first_windows(map: Map, initial: np.ndarray, system: System | None = None) -> np.ndarray:
    """Return windows (n, window, dim) of the exact flow from initial states (n, dim).

    Parameters
    ----------
    map
        Says the length of windows, the step and the system.
    initial
        Initial states, (n, dim).

    Raises
    ------
    InputError
        If ``window`` > 1 and the flow has no system, or the solution ends before the window does.

    Examples
    --------
    >>> map = vp.classical("rk4", vp.load_system("pendulum"), 0.1)
    >>> vp.rollout.diagnostics.first_windows(map, np.ones((3, 2))).shape
    (3, 1, 2)
    """
    initial = np.asarray(initial, dtype=np.float64)
    if map.window == 1:
        return initial[:, None]
    times = map.step * np.arange(map.window)
    return solve(system or system_of(map), initial, times, rtol=_TOLERANCE, atol=_TOLERANCE)


def first_window_derivative(
    map: Map,
    initial: np.ndarray,
    directions: np.ndarray | None = None,
    scales: np.ndarray | None = None,
) -> np.ndarray:
    r"""Return derivatives of first windows by their first state, (n, window, dim, dim).

    With ``directions`` (dim, k), only derivatives along these are returned, (n, window, dim, k).

    The solution Y of the variational equation

    .. math:: \dot Y = Df(z)\, Y, \quad Y(0) = I, \qquad \text{beside} \quad \dot z = f(z),

    at the times of the window (Hairer, Norsett, Wanner, Solving Ordinary Differential Equations I,
    section I.14). NaN where it cannot be solved.

    Parameters
    ----------
    map
        Says the length of windows, the step and the system.
    initial
        Initial states, (n, dim).
    directions
        Tangent vectors of the first state, (dim, k); all of them if None.
    scales
        Scale of each component, (dim,), that the tolerance is relative to; by default that of the
        initial states.

    Raises
    ------
    InputError
        If ``window`` > 1 and the flow has no system.

    Examples
    --------
    >>> map = vp.classical("rk4", vp.load_system("pendulum"), 0.1)
    >>> vp.rollout.diagnostics.first_window_derivative(map, np.ones((1, 2)))
    array([[[[1., 0.],
             [0., 1.]]]])
    """
    initial = np.asarray(initial, dtype=np.float64)
    first = np.eye(initial.shape[-1]) if directions is None else directions
    scales = component_scales(initial, (map.system or map).structure) if scales is None else scales
    result = np.full((len(initial), map.window, *first.shape), np.nan)
    usable = np.flatnonzero(np.isfinite(initial).all(axis=-1))
    result[usable, 0] = first
    if map.window > 1:
        system, step, window = system_of(map), map.step, map.window
        batch = int(np.clip(_ENTRIES // first.size, 1, _BATCH))
        for start in range(0, len(usable), batch):
            part = usable[start : start + batch]
            solution = _solve_variational(system, initial[part], first, step, window, scales)
            if not np.isfinite(solution).all():  # a trajectory that fails stops all of them
                each = [
                    _solve_variational(system, initial[i : i + 1], first, step, window, scales)
                    for i in part
                ]
                solution = np.concatenate(each)
            result[part] = solution
    return result


def system_of(map: Map) -> System:
    """Return the system of a map, or raise InputError if it has none."""
    if map.system is None:
        raise InputError(f"{map.name} does not know its system, which makes the first window")
    return map.system


def _solve_variational(
    system: System,
    initial: np.ndarray,
    first: np.ndarray,
    step: float,
    window: int,
    scales: np.ndarray,
) -> np.ndarray:
    """Return Y at the times of a window, (n, window, dim, k); NaN if a solution fails."""
    count, dim = initial.shape
    result = np.full((count, window, *first.shape), np.nan)
    result[:, 0] = first
    states = count * dim
    # so that the error of each is below the tolerance, not only the mean of all
    tolerance = max(_TOLERANCE / math.sqrt(count), SMALLEST_TOLERANCE)

    def field(_: float, y: np.ndarray) -> np.ndarray:
        z, tangent = y[:states].reshape(count, dim), y[states:].reshape(count, *first.shape)
        slope = system.jacobian(z) @ tangent
        return np.concatenate([system.vector_field(z).ravel(), slope.ravel()])

    y = np.concatenate([initial.ravel(), result[:, 0].ravel()])
    largest = np.abs(first / scales[:, None]).max(axis=0)  # of each tangent vector
    sizes = [np.tile(scales, count), np.tile(np.outer(scales, largest).ravel(), count)]
    absolute = tolerance * np.concatenate(sizes)
    with np.errstate(all="ignore"):
        for k in range(1, window):
            # it ends a step at each time: more accurate than its interpolation
            solution = scipy.integrate.solve_ivp(
                field, (0.0, step), y, method="DOP853", rtol=tolerance, atol=absolute
            )
            y = solution.y[:, -1]
            if not solution.success or not np.isfinite(y).all():
                break
            result[:, k] = y[states:].reshape(count, *first.shape)
    return result
