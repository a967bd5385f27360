"""The derivative of the map z_0 -> z_k of phase space along numerical trajectories."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from vpintegrator.dynamics.structure import affordable, component_scales
from vpintegrator.rollout.comparison import Ensemble
from vpintegrator.rollout.diagnostics.first_window import first_window_derivative, first_windows
from vpintegrator.rollout.flow import NumericalFlow, structure_of

_ENTRIES = 1_000_000  # entries of the Jacobians computed at a time
_PART = 1024  # steps between two calls of the flow's cursor
_FEWEST = 10  # steps that tell more than one of them does


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
    flow, differentiated by the variational equation; the map of windows, iterated; the newest state
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
    flow
        The map. It must have a derivative.
    initial
        Initial states, (trajectory, dim).
    scales
        Scale of each component, (dim,), in which tangent vectors are measured; by default that of
        the initial states.

    Raises
    ------
    InputError
        If the flow has windows of several states and no system, or is no fixed map.

    Examples
    --------
    >>> flow = vp.rollout.as_flow("rk4", vp.load_system("pendulum"), 0.1)
    >>> first = np.array([[1.0, 0.0]])
    >>> tangent = vp.rollout.diagnostics.TangentMap(flow, first)
    >>> log_determinant, log_stretch = tangent.update(flow.start(first[:, None]).advance(5))
    >>> log_determinant.shape
    (1, 5)
    """

    def __init__(
        self, flow: NumericalFlow, initial: np.ndarray, scales: np.ndarray | None = None
    ) -> None:
        self._flow = flow
        count, dim = np.shape(initial)
        scales = component_scales(initial, structure_of(flow)) if scales is None else scales
        self._scales = np.tile(scales, flow.window)
        start = np.linalg.qr(np.random.default_rng(0).standard_normal((dim, dim)))[0]
        first = first_window_derivative(flow, initial, np.diag(scales), scales)
        first = first / scales[:, None] @ start
        self._tangent = first.reshape(count, flow.window * dim, dim)
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
        flow, count = self._flow, states.shape[1]
        self._before = np.concatenate([self._before, states], axis=1)
        new = flow.prediction_window
        maps = max(-(-(count - self._waiting.shape[1]) // new), 0)
        size = flow.window * flow.dim
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
        flow = self._flow
        window, new, dim = flow.window, flow.prediction_window, flow.dim
        starts = new * np.arange(maps.start, maps.stop)
        windows = self._before[:, starts[:, None] + np.arange(window)]
        trajectories = len(windows)
        derivative = iterated_derivative(flow, windows.reshape(-1, window, dim))
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


def iterated_derivative(flow: NumericalFlow, windows: np.ndarray) -> np.ndarray:
    """Return the derivative of the iterated map of windows, (n, window * dim, window * dim).

    The iterated map is ``flow.map``, except for ``prediction_window`` < ``window``: then the old
    states that the next window keeps are copied and not predicted.
    """
    derivative = flow.derivative(windows)
    kept = (flow.window - flow.prediction_window) * flow.dim
    if kept:
        derivative = derivative.copy()
        derivative[:, :kept] = np.eye(flow.window * flow.dim)[-kept:]
    return derivative


def tangent_propagation(
    flow: NumericalFlow, first: np.ndarray, steps: int, scales: np.ndarray | None = None
) -> TangentHistory:
    """Follow phase-space volume and the growth of a tangent vector along trajectories of a flow.

    Parameters
    ----------
    flow
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
        If the flow has windows of several states and no system, or is no fixed map.

    Examples
    --------
    >>> flow = vp.rollout.as_flow("implicit-midpoint", vp.load_system("henon-heiles"), 0.2)
    >>> history = vp.rollout.diagnostics.tangent_propagation(flow, np.full((1, 4), 0.1), 50)
    >>> bool(np.abs(history.log_determinant).max() < 1e-12)
    True
    """
    first = np.asarray(first, dtype=np.float64)
    if first.ndim == 2:
        first = first_windows(flow, first)
    if scales is None:
        parts = flow.parts(first, min(steps, _PART), _PART)
        scales = component_scales(
            np.concatenate([part for _, part in parts], 1), structure_of(flow)
        )
    tangent = TangentMap(flow, first[:, 0], scales)
    log_determinant = np.empty((len(first), steps + 1))
    log_stretch = np.empty_like(log_determinant)
    for start, states in flow.parts(first, steps, _PART):
        part = slice(start, start + states.shape[1])
        log_determinant[:, part], log_stretch[:, part] = tangent.update(states)
    return TangentHistory(flow.step * np.arange(steps + 1), log_determinant, log_stretch)


def tangent_history(ensemble: Ensemble) -> TangentHistory | None:
    """Return the tangent history of the first trajectories, or None if it cannot be computed."""
    flow, comparison = ensemble.flow, ensemble.comparison
    steps = min(comparison.tangent_steps, ensemble.steps)
    # a window is made from its first state by the equations
    unknown = flow.window > 1 and comparison.system.is_measured
    if not flow.differentiable or steps <= 0 or unknown:
        return None
    first = ensemble.first[: comparison.tangent_trajectories]
    count = affordable(len(first) * steps, flow.window * flow.dim)
    if count < min(steps, _FEWEST):
        return None
    first = first[: max(1, count // steps)]
    return tangent_propagation(flow, first, min(steps, count), comparison.scales)


def _log_determinant(matrices: np.ndarray) -> np.ndarray:
    with np.errstate(all="ignore"):
        return np.linalg.slogdet(matrices)[1]
