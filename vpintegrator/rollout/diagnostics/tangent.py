"""Tangent vectors along trajectories: first windows, phase-space volume, Lyapunov exponents."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
import scipy  # loads scipy.integrate when it is used

from vpintegrator.dynamics import System, solve
from vpintegrator.dynamics.solve import SMALLEST_TOLERANCE
from vpintegrator.dynamics.structure import affordable, component_scales
from vpintegrator.errors import InputError
from vpintegrator.maps import Map
from vpintegrator.rollout.diagnostics.diagnostic import Column, Diagnostic, Ensemble
from vpintegrator.rollout.diagnostics.drift import variance_of_fit
from vpintegrator.rollout.results import Results, Run
from vpintegrator.rollout.variables import Variable
from vpintegrator.storage.reading import StoredGroup

_GROUPINGS = (1, 2, 4)
_ENTRIES = 1_000_000  # entries of the Jacobians computed at a time
_PART = 1024  # steps in a chunk
_FEWEST = 10  # steps that tell more than one of them does

_TOLERANCE = 1e-13
_BATCH = 16  # trajectories in one solution: as many as the smallest tolerance of SciPy allows
_WINDOW_ENTRIES = 100_000  # entries of the derivatives in memory


@dataclass(frozen=True)
class TangentHistory:
    r"""Deformation of phase space along trajectories.

    Attributes
    ----------
    times
        (time,), from 0.
    log_determinant
        :math:`\log |\det \partial z_k / \partial z_0|`, the logarithm of the volume of a small set
        of initial states relative to its start, (trajectory, time).
    log_stretch
        Logarithm of the length of a tangent vector relative to its start, (trajectory, time).
    """

    times: np.ndarray
    log_determinant: np.ndarray
    log_stretch: np.ndarray


class TangentMap:
    r"""Follows the derivative by the initial state along trajectories that come in parts.

    A one-step method :math:`\Phi` maps phase space, and the derivative is the product of those of
    its steps,

    .. math:: \frac{\partial z_k}{\partial z_0} = D\Phi(z_{k-1}) \cdots D\Phi(z_1)\, D\Phi(z_0).

    A model of windows of w states maps the product space :math:`\mathbb{R}^{w \cdot \text{dim}}`;
    its map of phase space is a composition: :math:`z_0 \mapsto (z_0, \dots, z_{w-1})` by the exact
    map, differentiated by the variational equation; the map of windows, iterated; the newest state
    of the window. So the tangent is a matrix Y of shape (w dim, dim), and the derivative its block
    of the state k. If ``prediction_window`` < w, the next window keeps its last states and takes
    only new states from the model; its derivative follows.

    All components are measured in their scales, so nothing depends on units. After every map
    :math:`Y = QR` is orthonormalised, the logarithms of diag(R) are added up, and Q
    goes on (Benettin, Galgani, Giorgilli, Strelcyn, Meccanica 15 (1980) 9-30; Wolf, Swift, Swinney,
    Vastano, Physica D 16 (1985) 285-317). A block of Y is that of Q times the product of all R, so
    :math:`\log |\det|` is exact to rounding however long the trajectory is. The first tangent
    vector is random with a fixed seed, so that it has a part along the direction of fastest growth.

    Parameters
    ----------
    map
        The map. It must have a derivative.
    initial
        Initial states, (trajectory, dim).
    scales
        Scale of each component, (dim,), in which tangent vectors are measured; by default that of
        the initial states.

    Raises
    ------
    InputError
        If the map has windows of several states and no system, or is no fixed map.

    Examples
    --------
    >>> map = vp.classical("rk4", vp.load_system("pendulum"), 0.1)
    >>> first = np.array([[1.0, 0.0]])
    >>> tangent = vp.rollout.diagnostics.TangentMap(map, first)
    >>> log_determinant, log_stretch = tangent.update(next(map.advance(first[:, None], 5)))
    >>> log_determinant.shape
    (1, 5)
    """

    def __init__(self, map: Map, initial: np.ndarray, scales: np.ndarray | None = None) -> None:
        self._map = map
        count, dim = np.shape(initial)
        scales = (
            component_scales(initial, (map.system or map).structure) if scales is None else scales
        )
        self._scales = np.tile(scales, map.window)
        start = np.linalg.qr(np.random.default_rng(0).standard_normal((dim, dim)))[0]
        first = first_window_derivative(map, initial, np.diag(scales), scales)
        first = first / scales[:, None] @ start
        self._tangent = first.reshape(count, map.window * dim, dim)
        self._log_volume = np.zeros(count)  # sums of the logarithms of all diag(R), and of r_11
        self._log_length = np.zeros(count)
        # values of states that are not reached yet
        self._waiting = np.stack(
            [_log_determinant(first), np.log(np.linalg.norm(first[..., 0], axis=-1))], axis=-1
        )
        self._before = np.empty((count, 0, dim))  # the states from the current window on

    def update(self, states: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return log-determinants and log-stretches at the next states (trajectory, count, dim).

        The first state fed is the initial one. Both have shape (trajectory, count).
        """
        map, count = self._map, states.shape[1]
        self._before = np.concatenate([self._before, states], axis=1)
        new = map.prediction_window
        maps = max(-(-(count - self._waiting.shape[1]) // new), 0)
        size = map.window * map.dim
        part = max(1, _ENTRIES // (len(states) * size**2))
        found = [
            self._follow(range(first, min(first + part, maps))) for first in range(0, maps, part)
        ]
        values = np.concatenate([self._waiting, *found], axis=1)
        self._waiting = values[:, count:].copy()
        self._before = self._before[:, maps * new :].copy()
        return values[:, :count, 0], values[:, :count, 1]

    def _follow(self, maps: range) -> np.ndarray:
        """Go through maps, the first of them from the window that starts at ``_before``."""
        map = self._map
        window, new, dim = map.window, map.prediction_window, map.dim
        starts = new * np.arange(maps.start, maps.stop)
        windows = self._before[:, starts[:, None] + np.arange(window)]
        trajectories = len(windows)
        derivative = iterated_derivative(map, windows.reshape(-1, window, dim))
        derivative = derivative * (self._scales / self._scales[:, None])
        derivative = derivative.reshape(trajectories, len(maps), window * dim, window * dim)
        basis = np.empty((trajectories, len(maps), window * dim, dim))
        growth = np.empty((trajectories, len(maps) + 1, dim))
        tangent = self._tangent
        with np.errstate(all="ignore"):
            for k in range(len(maps)):
                tangent, triangle = np.linalg.qr(derivative[:, k] @ tangent)
                basis[:, k] = tangent
                growth[:, k + 1] = np.log(np.abs(np.diagonal(triangle, axis1=1, axis2=2)))
            self._tangent = tangent
            # added one by one, so that it does not matter in which parts the states come
            volume, length = growth.sum(axis=-1), growth[..., 0]
            volume[:, 0], length[:, 0] = self._log_volume, self._log_length
            volume, length = np.cumsum(volume, axis=1), np.cumsum(length, axis=1)
            self._log_volume, self._log_length = volume[:, -1].copy(), length[:, -1].copy()
            newest = basis.reshape(trajectories, len(maps), window, dim, dim)[:, :, window - new :]
            values = np.empty((*newest.shape[:3], 2))
            values[..., 0] = volume[:, 1:, None] + _log_determinant(newest)
            lengths = np.linalg.norm(newest[..., 0], axis=-1)
            values[..., 1] = length[:, 1:, None] + np.log(lengths)
        return values.reshape(trajectories, -1, 2)


def iterated_derivative(map: Map, windows: np.ndarray) -> np.ndarray:
    """Return the derivative of the iterated map of windows, (n, window * dim, window * dim).

    The iterated map is ``map.map``, except for ``prediction_window`` < ``window``: then the old
    states that the next window keeps are copied and not predicted.
    """
    derivative = map.derivative(windows)
    kept = (map.window - map.prediction_window) * map.dim
    if kept:
        derivative = derivative.copy()
        derivative[:, :kept] = np.eye(map.window * map.dim)[-kept:]
    return derivative


def tangent_propagation(
    map: Map, first: np.ndarray, steps: int, scales: np.ndarray | None = None
) -> TangentHistory:
    """Follow phase-space volume and the growth of a tangent vector along trajectories of a map.

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
    first = np.asarray(first, dtype=np.float64)
    if first.ndim == 2:
        first = first_windows(map, first)
    count = steps + 1 - map.window
    if scales is None:
        begin = [first, *map.advance(first, min(count, _PART))]
        scales = component_scales(np.concatenate(begin, axis=1), (map.system or map).structure)
    tangent, done = TangentMap(map, first[:, 0], scales), 0
    log_determinant = np.empty((len(first), steps + 1))
    log_stretch = np.empty_like(log_determinant)
    for states in chain([first[:, : steps + 1]], map.advance(first, count, chunk=_PART)):
        part = slice(done, done := done + states.shape[1])
        log_determinant[:, part], log_stretch[:, part] = tangent.update(states)
    return TangentHistory(map.step * np.arange(steps + 1), log_determinant, log_stretch)


def tangent_history(ensemble: Ensemble) -> TangentHistory | None:
    """Return the tangent history of the first trajectories, or None if it cannot be computed."""
    map, plan = ensemble.map, ensemble.plan
    steps = min(plan.tangent_steps, ensemble.steps)
    # a window is made from its first state by the equations
    unknown = map.window > 1 and plan.system.is_measured
    if not map.differentiable or steps <= 0 or unknown:
        return None
    first = ensemble.first[: plan.tangent_trajectories]
    count = affordable(len(first) * steps, map.window * map.dim)
    if count < min(steps, _FEWEST):
        return None
    first = first[: max(1, count // steps)]
    return tangent_propagation(map, first, min(steps, count), plan.scales)


def _log_determinant(matrices: np.ndarray) -> np.ndarray:
    with np.errstate(all="ignore"):
        return np.linalg.slogdet(matrices)[1]


@dataclass(frozen=True)
class Lyapunov:
    """Estimates of the largest Lyapunov exponent.

    Attributes
    ----------
    exponent
        Per unit of time, (trajectory,).
    uncertainty
        Its standard error, (trajectory,), of two parts added in squares. The first part is
        statistical, from the scatter of the growth rate over batches of time. The second part is
        1/time: the norm of the tangent vector is arbitrary by a factor of order one. On regular
        motion, where the vector grows linearly, the estimate falls to zero like 1/time, too. An
        exponent of less than two or three times this is not told from zero.
    time
        Time over which the growth was averaged, without the first fifth of the whole.
    """

    exponent: np.ndarray
    uncertainty: np.ndarray
    time: float


def lyapunov_estimate(history: TangentHistory, most: int = 128, transient: float = 0.2) -> Lyapunov:
    """Return the mean growth of the tangent vector of a history.

    NaN before two times, or after a divergence.

    Parameters
    ----------
    history
        Growth of a tangent vector along trajectories.
    most
        Largest number of evenly spread times that are used.
    transient
        Share of the time in which the vector turns to the fastest growth.

    Examples
    --------
    >>> times = np.linspace(0, 10, 101)
    >>> history = vp.rollout.diagnostics.TangentHistory(times, 0 * times[None], 0.9 * times[None])
    >>> vp.rollout.diagnostics.lyapunov_estimate(history).exponent.round(12)
    array([0.9])
    """
    times, stretch = history.times, history.log_stretch
    while len(times) > most:
        times, stretch = times[::2], stretch[:, ::2]
    first = int(np.ceil(transient * (len(times) - 1)))
    times, stretch = times[first:], stretch[:, first:]
    if len(times) < 2:
        unknown = np.full(len(stretch), np.nan)
        return Lyapunov(unknown, unknown.copy(), 0.0)
    time = float(times[-1] - times[0])
    with np.errstate(all="ignore"):
        rates = np.diff(stretch, axis=1) / np.diff(times)
        variance = _variance_of_mean(rates)
        mean = rates.mean(axis=1)
        variance = np.fmax(variance, variance_of_fit(rates - mean[:, None], 0))
        return Lyapunov(mean, np.sqrt(variance + 1 / time**2), time)


def _variance_of_mean(rates: np.ndarray) -> np.ndarray:
    """Return the variance of the mean, the largest over batch sizes."""
    variance = np.full(rates.shape[:-1], np.nan)
    for size in _GROUPINGS:
        count = rates.shape[-1] // size
        if count < 2 or (size > 1 and count < 8):
            break
        groups = rates[..., rates.shape[-1] - count * size :]
        means = groups.reshape(*rates.shape[:-1], count, size).mean(axis=-1)
        variance = np.fmax(variance, means.var(axis=-1, ddof=1) / count)
    return variance


def lyapunov_exponent(map: Map, first: np.ndarray, steps: int) -> Lyapunov:
    r"""Return the largest Lyapunov exponent along trajectories of a map.

    .. math:: \lambda = \lim_{t \to \infty} \frac{1}{t} \log \frac{\|v(t)\|}{\|v(0)\|}

    of a tangent vector v, averaged over the time there is, without its first fifth.

    The arguments are those of :func:`tangent_propagation`.

    Parameters
    ----------
    map
        The map, which must have a derivative.
    first
        First windows (trajectory, window, dim), or initial states (trajectory, dim).
    steps
        Number of time steps.

    Examples
    --------
    >>> map = vp.classical("rk4", vp.load_system("henon-heiles"), 0.2)
    >>> first = np.array([[[0.0, 0.1, 0.49, 0.0]]])
    >>> vp.rollout.diagnostics.lyapunov_exponent(map, first, 200).exponent.shape
    (1,)
    """
    return lyapunov_estimate(tangent_propagation(map, first, steps))


class LyapunovExponent(Diagnostic):
    """The largest Lyapunov exponent over the time of the phase-space volume.

    The measurement is ``lyapunov``, a :class:`Lyapunov`. The summary has ``lyapunov`` and
    ``lyapunov_error``, the medians over the trajectories of the estimates and of their
    uncertainties.
    """

    def result(self) -> dict[str, Any]:
        history = self.ensemble.once(tangent_history)
        return {"lyapunov": None if history is None else lyapunov_estimate(history)}

    @classmethod
    def stored(cls, run: Run) -> Iterator[Variable]:
        found: Lyapunov | None = run.lyapunov
        if found is not None:
            title, dims = "largest Lyapunov exponent", ("phase_space_trajectory",)
            time = {"time": found.time}
            yield Variable("lyapunov_exponent", title, dims, values=found.exponent, attributes=time)
            title = f"uncertainty of the {title}"
            yield Variable("lyapunov_uncertainty", title, dims, values=found.uncertainty)

    @classmethod
    def read(cls, group: StoredGroup, system: System, sizes: Mapping[str, int]) -> dict[str, Any]:
        if "lyapunov_exponent" not in group:
            return {"lyapunov": None}
        exponent = group.array("lyapunov_exponent", (None,))
        uncertainty = group.array("lyapunov_uncertainty", exponent.shape)
        time = group.labelled("lyapunov_exponent").number("time")
        return {"lyapunov": Lyapunov(exponent, uncertainty, time)}

    @classmethod
    def summary(cls, run: Run, report: Results) -> dict[str, Any]:
        found: Lyapunov | None = run.lyapunov
        if found is None:
            return {"lyapunov": None, "lyapunov_error": None}
        return {
            "lyapunov": float(np.median(found.exponent)),
            "lyapunov_error": float(np.median(found.uncertainty)),
        }

    @classmethod
    def columns(cls, report: Results) -> list[Column]:
        title = "Lyapunov exponent"
        return [
            Column(title, lambda s: s.lyapunov, rank=3, beside=f"{title} ±"),
            Column(f"{title} ±", lambda s: s.lyapunov_error, "hidden"),
        ]


def first_windows(map: Map, initial: np.ndarray, system: System | None = None) -> np.ndarray:
    """Return windows (n, window, dim) of the exact flow from initial states (n, dim).

    Parameters
    ----------
    map
        Says the length of windows, the step and the system.
    initial
        Initial states, (n, dim).
    system
        System of the flow; by default that of the map.

    Raises
    ------
    InputError
        If ``window`` > 1 and no system is known, or the solution ends before the window does.

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
        batch = int(np.clip(_WINDOW_ENTRIES // first.size, 1, _BATCH))
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
