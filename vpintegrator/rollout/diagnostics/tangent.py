"""Tangent vectors along trajectories: first windows of the exact flow, phase-space volume."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import scipy  # loads scipy.integrate when it is used

from vpintegrator.arguments import real_array
from vpintegrator.dynamics import System, solve
from vpintegrator.dynamics.structure import component_scales, iterated_derivative
from vpintegrator.dynamics.system import SMALLEST_TOLERANCE
from vpintegrator.errors import InputError
from vpintegrator.maps import Map

_ENTRIES = 1_000_000  # entries of the Jacobians computed at a time
_TOLERANCE = 1e-13
_OF_SLOPES = (
    100  # rounding errors of derivatives over those of values, of functions that are called
)
_BATCH = 16  # trajectories in one solution: as many as the smallest tolerance of SciPy allows
_WINDOW_ENTRIES = 100_000  # entries of the derivatives in memory


@dataclass(frozen=True)
class TangentHistory:
    r"""Volume of phase space along trajectories.

    Attributes
    ----------
    times
        (time,), from 0.
    log_determinant
        :math:`\log |\det \partial z_k / \partial z_0|`, the logarithm of the volume of a small set
        of initial states relative to its start, (trajectory, time).
    """

    times: np.ndarray
    log_determinant: np.ndarray


def tangent_propagation(
    map: Map, first: np.ndarray, steps: int, scales: np.ndarray | None = None
) -> TangentHistory:
    r"""Follow phase-space volume along trajectories of a map.

    A one-step method :math:`\Phi` maps phase space, and the derivative is the product of those of
    its steps,

    .. math:: \frac{\partial z_k}{\partial z_0} = D\Phi(z_{k-1}) \cdots D\Phi(z_1)\, D\Phi(z_0).

    A model of windows of w states maps the product space :math:`\mathbb{R}^{w \cdot \text{dim}}`;
    its map of phase space is a composition: :math:`z_0 \mapsto (z_0, \dots, z_{w-1})` by the exact
    map, differentiated by the variational equation; the map of windows, iterated; the newest state
    of the window. So the tangent is a matrix Y of shape (w dim, dim), and the derivative its block
    of the state k.

    All components are measured in their scales, so nothing depends on units. After every map
    :math:`Y = QR` is orthonormalised, the logarithms of diag(R) are added up, and Q goes on
    (Benettin, Galgani, Giorgilli, Strelcyn, Meccanica 15 (1980) 9-30). A block of Y is that of Q
    times the product of all R, so :math:`\log |\det|` is exact to rounding however long the
    trajectory is.

    Parameters
    ----------
    map
        The map. It must have a derivative.
    first
        First windows (trajectory, window, dim) on solutions of the system, or initial states
        (trajectory, dim), from which the exact flow makes such windows.
    steps
        Number of time steps after the first state.
    scales
        Scale of each component, (dim,); by default that of the first states of the trajectories.

    Raises
    ------
    InputError
        If the map has windows of several states and no system, or is no fixed map.

    Examples
    --------
    >>> map = vp.classical("implicit-midpoint", vp.load_system("henon-heiles"), 0.2)
    >>> history = vp.rollout.diagnostics.tangent_propagation(map, np.full((1, 4), 0.1), 50)
    >>> bool(np.abs(history.log_determinant).max() < 1e-12)
    True
    """
    first = first_windows(map, first)
    trajectories, window, dim = first.shape
    count = steps + 1 - window
    if scales is None:
        scales = scales_of_motion(map, first, count)
    start = first_window_derivative(map, first[:, 0], np.diag(scales), scales) / scales[:, None]
    tangent = start.reshape(trajectories, window * dim, dim)
    ratios = np.tile(scales, window) / np.tile(scales, window)[:, None]
    values = [_log_determinant(start)]
    volume = np.zeros(trajectories)
    before = first
    new = map.prediction_window
    chunk = new * max(1, _ENTRIES // (trajectories * (window * dim) ** 2))
    for states in map.advance(first, count, chunk=chunk):
        joined = np.concatenate([before, states], axis=1)
        starts = new * np.arange(-(-states.shape[1] // new))
        windows = joined[:, starts[:, None] + np.arange(window)]  # (trajectory, map, window, dim)
        derivative = iterated_derivative(map, windows.reshape(-1, window, dim)) * ratios
        derivative = derivative.reshape(trajectories, len(starts), *ratios.shape)
        with np.errstate(all="ignore"):
            for k in range(len(starts)):
                tangent, triangle = np.linalg.qr(derivative[:, k] @ tangent)
                volume = volume + np.log(np.abs(np.diagonal(triangle, 0, 1, 2))).sum(axis=-1)
                newest = tangent.reshape(trajectories, window, dim, dim)[:, window - new :]
                values.append(volume[:, None] + _log_determinant(newest))
        before = joined[:, -window:]
    log_determinant = np.concatenate(values, axis=1)[:, : steps + 1]
    return TangentHistory(map.step * np.arange(steps + 1), log_determinant)


def scales_of_motion(map: Map, windows: np.ndarray, steps: int, most: int = 1024) -> np.ndarray:
    """Return scales of the components (dim,) over the next steps from windows, at most ``most``."""
    states = np.concatenate([windows, *map.advance(windows, min(steps, most))], axis=1)
    return component_scales(states, (map.system or map).structure)


def _log_determinant(matrices: np.ndarray) -> np.ndarray:
    with np.errstate(all="ignore"):
        return np.linalg.slogdet(matrices)[1]


def first_windows(map: Map, initial: Any, system: System | None = None) -> np.ndarray:
    """Return windows (n, window, dim) of the exact flow from initial states (n, dim).

    Parameters
    ----------
    map
        Says the length of windows, the step and the system.
    initial
        Initial states, (n, dim), or windows (n, window, dim), which are returned.
    system
        System of the flow; by default that of the map.

    Raises
    ------
    InputError
        If the shape is another one, ``window`` > 1 and no system is known, or the solution ends
        before the window does.

    Examples
    --------
    >>> map = vp.classical("rk4", vp.load_system("pendulum"), 0.1)
    >>> vp.rollout.diagnostics.first_windows(map, np.ones((3, 2))).shape
    (3, 1, 2)
    """
    initial = real_array("states", initial, None)
    if initial.ndim == 2 and map.window == 1:
        initial = initial[:, None]
    if initial.ndim not in (2, 3) or not initial.size or initial.shape[-1] != map.dim:
        raise InputError(
            f"states of shape {initial.shape} are neither (n, {map.dim}) nor windows "
            f"(n, {map.window}, {map.dim}) of {map.name}"
        )
    if initial.ndim == 3:
        return initial
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
    initial = real_array("initial", initial, None)
    first = np.eye(initial.shape[-1]) if directions is None else directions
    scales = component_scales(initial, (map.system or map).structure) if scales is None else scales
    result = np.full((len(initial), map.window, *first.shape), np.nan)
    usable = np.flatnonzero(np.isfinite(initial).all(axis=-1))
    result[usable, 0] = first
    solve_from = partial(_solve_variational, map, first, scales)
    batch = int(np.clip(_WINDOW_ENTRIES // first.size, 1, _BATCH))
    for start in range(0, len(usable) if map.window > 1 else 0, batch):
        part = usable[start : start + batch]
        solution = solve_from(initial[part])
        if not np.isfinite(solution).all():  # a trajectory that fails stops all of them
            solution = np.concatenate([solve_from(initial[[i]]) for i in part])
        result[part] = solution
    return result


def system_of(map: Map) -> System:
    """Return the system of a map, or raise InputError if it has none."""
    if map.system is None:
        raise InputError(f"{map.name} does not know its system, which makes the first window")
    return map.system


def _solve_variational(
    map: Map, first: np.ndarray, scales: np.ndarray, initial: np.ndarray
) -> np.ndarray:
    """Return Y at the times of a window, (n, window, dim, k); NaN if a solution fails."""
    system = system_of(map)
    (count, dim) = initial.shape
    result = np.full((count, map.window, *first.shape), np.nan)
    result[:, 0] = first
    states = count * dim
    # so that the error of each is below the tolerance, not only the mean of all
    tolerance = max(_TOLERANCE / math.sqrt(count), SMALLEST_TOLERANCE)
    if (least := system.smallest_tolerance) > SMALLEST_TOLERANCE:
        tolerance = max(tolerance, _OF_SLOPES * least)

    def field(_: float, y: np.ndarray) -> np.ndarray:
        z = y[:states].reshape(count, dim)
        tangent = y[states:].reshape(count, *first.shape)
        slope = system.jacobian(z) @ tangent
        return np.concatenate([system.vector_field(z).ravel(), slope.ravel()])

    y = np.concatenate([initial.ravel(), result[:, 0].ravel()])
    largest = np.abs(first / scales[:, None]).max(axis=0)  # of each tangent vector
    sizes = [np.tile(scales, count), np.tile(np.outer(scales, largest).ravel(), count)]
    absolute = tolerance * np.concatenate(sizes)
    with np.errstate(all="ignore"):
        for k in range(1, map.window):
            # it ends a step at each time: more accurate than its interpolation
            solution = scipy.integrate.solve_ivp(
                field, (0.0, map.step), y, method="DOP853", rtol=tolerance, atol=absolute
            )
            y = solution.y[:, -1]
            if not solution.success or not np.isfinite(y).all():
                break
            result[:, k] = y[states:].reshape(count, *first.shape)
    return result
