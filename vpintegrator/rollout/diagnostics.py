"""What is measured on trajectories: errors, invariants, volume.

Functions of states alone; ``trajectory`` stands for any number of leading dimensions. A trajectory
that has diverged is NaN from there on; it has an infinite error in every summary.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from vpintegrator.dynamics import System
from vpintegrator.rollout.classical.base import OneStepMethod

if TYPE_CHECKING:
    from vpintegrator.models import Integrator

_VANISHING = 1e-10  # an invariant this much smaller than elsewhere in the ensemble counts as zero
_CHUNK = 4096  # states or windows differentiated at a time


def trajectory_error(states: np.ndarray, reference: np.ndarray) -> np.ndarray:
    """Euclidean distance from the reference at each time, (trajectory, time)."""
    with np.errstate(all="ignore"):
        return np.linalg.norm(states - reference, axis=-1)


def root_mean_square_error(states: np.ndarray, reference: np.ndarray) -> np.ndarray:
    """Root mean square of the error over times and components, (trajectory,)."""
    with np.errstate(all="ignore"):
        error = np.sqrt(np.mean((states - reference) ** 2, axis=(-2, -1)))
    return _infinite_where_nan(error)


@dataclass(frozen=True)
class InvariantError:
    """How an invariant I changes along trajectories.

    Attributes
    ----------
    error
        (I(z_t) - I(z_0)) / |I(z_0)|, or I(z_t) - I(z_0) where I(z_0) vanishes,
        (trajectory, time).
    relative
        Which of the two it is, for each trajectory.
    """

    error: np.ndarray
    relative: np.ndarray

    @property
    def kind(self) -> str:
        """``relative``, ``absolute``, or ``mixed`` for the ensemble."""
        if self.relative.all():
            return "relative"
        return "mixed" if self.relative.any() else "absolute"

    @property
    def largest(self) -> np.ndarray:
        """Largest absolute value over the times, infinite after a divergence, (trajectory,)."""
        return _infinite_where_nan(np.abs(self.error).max(axis=-1))


def invariant_errors(system: System, states: np.ndarray) -> dict[str, InvariantError]:
    """Errors of all invariants of the system along states (trajectory, time, dim)."""
    result = {}
    for name, invariant in system.invariants.items():
        with np.errstate(all="ignore"):
            values = invariant(states)
            first = values[:, :1]
            size = np.abs(first)
            relative = size > _VANISHING * size.max(initial=0.0)
            error = (values - first) / np.where(relative, size, 1.0)
        result[name] = InvariantError(error, relative[:, 0])
    return result


def failure_index(states: np.ndarray) -> np.ndarray:
    """Index of the first time at which a trajectory is not finite, -1 if none, (trajectory,)."""
    bad = ~np.isfinite(states).all(axis=-1)
    return np.where(bad.any(axis=-1), bad.argmax(axis=-1), -1)


def step_log_determinant(
    method: OneStepMethod, system: System, states: np.ndarray, step: float
) -> np.ndarray:
    """log|det DPhi_h(z)| of a classical method's map at states (..., dim), shape (...).

    The derivative is that of the method's formulas with the system's exact Jacobian. NaN where the
    state is not finite or the step cannot be made.
    """
    states = np.asarray(states, dtype=np.float64)
    rows = states.reshape(-1, system.dim)
    result = np.full(len(rows), np.nan)
    usable = np.flatnonzero(np.isfinite(rows).all(axis=-1))
    with np.errstate(all="ignore"):
        for start in range(0, len(usable), _CHUNK):
            part = usable[start : start + _CHUNK]
            result[part] = _log_determinant(method.derivative(system, rows[part], step))
    return result.reshape(states.shape[:-1])


def window_log_determinant(model: Integrator, windows: Any) -> np.ndarray:
    """log|det| of the model's map of windows (..., window, dim), shape (...).

    This is the volume of the product space R^(window * dim); for a one-step model it is that of
    phase space. The Jacobian of the whole map is made by forward-mode differentiation.
    """
    import torch

    like = next(iter([*model.parameters(), *model.buffers()]), torch.empty(0, dtype=torch.float64))
    windows = np.asarray(windows, dtype=np.float64)
    size = model.window * model.dim
    rows = windows.reshape(-1, model.window, model.dim)
    result = np.full(len(rows), np.nan)
    usable = np.flatnonzero(np.isfinite(rows).all(axis=(-2, -1)))
    chunk = max(1, min(_CHUNK, 200_000 // size**2))
    derivative = torch.func.vmap(torch.func.jacfwd(model))
    with torch.no_grad():
        for start in range(0, len(usable), chunk):
            part = usable[start : start + chunk]
            window = torch.from_numpy(rows[part]).to(like)
            jacobian = derivative(window).reshape(len(part), size, size)
            result[part] = _log_determinant(jacobian.double().cpu().numpy())
    return result.reshape(windows.shape[:-2])


def _log_determinant(matrices: np.ndarray) -> np.ndarray:
    finite = np.isfinite(matrices).all(axis=(-2, -1))
    result = np.full(len(matrices), np.nan)
    result[finite] = np.linalg.slogdet(matrices[finite])[1]
    return result


def _infinite_where_nan(values: np.ndarray) -> np.ndarray:
    return np.where(np.isnan(values), np.inf, values)
