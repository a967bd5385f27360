"""Volume: of the map of a step, and of a small ball of trajectories."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from vpintegrator.dynamics import System
from vpintegrator.errors import InputError
from vpintegrator.rollout.classical.base import OneStepMethod
from vpintegrator.rollout.diagnostics.first_window import first_windows
from vpintegrator.rollout.flow import ClassicalFlow, NumericalFlow
from vpintegrator.rollout.neural import network_jacobian

if TYPE_CHECKING:
    from vpintegrator.models import Integrator

_ENTRIES = 1_000_000  # entries of the Jacobians computed at a time
_PART_VALUES = 1_000_000  # numbers in the states advanced at a time


def log_determinant(flow: NumericalFlow, windows: Any) -> np.ndarray:
    """log|det| of the derivative of a flow's map at windows (..., window, dim), shape (...).

    For a one-step method that is the volume of phase space. For a model of windows it is that of
    the product space R^(window * dim), and of the whole map: where ``prediction_window`` <
    ``window`` only a part of its result is used when it is iterated. :class:`TangentMap` tells what
    happens to phase space. NaN where the window is not finite or the step cannot be made.
    """
    windows = np.asarray(windows, dtype=np.float64)
    rows = windows.reshape(-1, flow.window, flow.dim)
    result = np.full(len(rows), np.nan)
    usable = np.flatnonzero(np.isfinite(rows).all(axis=(-2, -1)))
    part = max(1, _ENTRIES // (flow.window * flow.dim) ** 2)
    for start in range(0, len(usable), part):
        chosen = usable[start : start + part]
        result[chosen] = _log_determinant(flow.derivative(rows[chosen]))
    return result.reshape(windows.shape[:-2])


def step_log_determinant(
    method: OneStepMethod, system: System, states: np.ndarray, step: float
) -> np.ndarray:
    """log|det DPhi_h(z)| of a classical method's map at states (..., dim), shape (...).

    The derivative is that of the method's formulas with the system's exact Jacobian. NaN where the
    state is not finite or the step cannot be made.
    """
    states = np.asarray(states, dtype=np.float64)
    return log_determinant(ClassicalFlow(method, system, step), states[..., None, :])


def window_log_determinant(model: Integrator, windows: Any) -> np.ndarray:
    """log|det| of a model's map of windows (..., window, dim), shape (...).

    This is the volume of the product space R^(window * dim); for a one-step model it is that of
    phase space.
    """
    windows = np.asarray(windows, dtype=np.float64)
    rows = windows.reshape(-1, model.window, model.dim)
    result = np.full(len(rows), np.nan)
    usable = np.isfinite(rows).all(axis=(-2, -1))
    if usable.any():
        result[usable] = _log_determinant(network_jacobian(model, rows[usable]))
    return result.reshape(windows.shape[:-2])


def log_ball_volume(
    flow: NumericalFlow, initial: np.ndarray, radius: float, steps: int
) -> np.ndarray:
    """Logarithm of the volume of a small ball of trajectories, relative to its start.

    The ball about each initial state is spanned by the 2 dim states z_0 +- radius e_i, which are
    moved by the flow itself; its volume is that of the ellipsoid on the diameters
    (z_k(z_0 + radius e_i) - z_k(z_0 - radius e_i)) / 2. No derivative of the method enters, so this
    checks the phase-space determinant that :class:`TangentMap` follows. Their difference is of the
    size radius^2 (the curvature across the ball cancels) plus rounding divided by the radius, both
    multiplied by what the flow stretches.

    Parameters
    ----------
    flow
        The map, any.
    initial
        Centres, (trajectory, dim).
    radius
        Of the balls.
    steps
        Number of time steps.

    Returns
    -------
    numpy.ndarray
        (trajectory, steps + 1); NaN after one of the states of a ball has diverged.

    Raises
    ------
    InputError
        If the radius is not positive, or the flow has windows of several states and no system.
    """
    if not (np.isfinite(radius) and radius > 0):
        raise InputError(f"radius = {radius!r} must be a positive number")
    centres = np.asarray(initial, dtype=np.float64)
    count, dim = centres.shape
    offsets = radius * np.eye(dim)
    points = centres[:, None, None] + np.stack([offsets, -offsets])  # (trajectory, sign, i, dim)
    first = first_windows(flow, points.reshape(-1, dim))
    result = np.empty((count, steps + 1))
    cursor = flow.start(first)
    part = max(1, _PART_VALUES // points.size)
    done, states = 0, first[:, : steps + 1]
    while True:
        ends = states.reshape(count, 2, dim, states.shape[1], dim)
        with np.errstate(all="ignore"):
            diameters = (ends[:, 0] - ends[:, 1]).transpose(0, 2, 1, 3)
            result[:, done : done + states.shape[1]] = _log_determinant(diameters)
        done += states.shape[1]
        if done > steps:
            break
        states = cursor.advance(min(part, steps + 1 - done))
    with np.errstate(all="ignore"):
        return result - result[:, :1]  # the start as rounded, not the radius asked for


def _log_determinant(matrices: np.ndarray) -> np.ndarray:
    with np.errstate(all="ignore"):
        return np.where(
            np.isfinite(matrices).all(axis=(-2, -1)), np.linalg.slogdet(matrices)[1], np.nan
        )
