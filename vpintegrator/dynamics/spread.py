"""The size that errors are relative to: how far states lie from their mean, where they move."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from vpintegrator.dynamics.system import System

_AT_REST = 1e-6  # relative deviation of a component up to which it rests
ROUNDING = 1e-12  # error of a state, relative to its size, that no solution is without


def spread_of(system: System, deviation: np.ndarray) -> float:
    r"""Return the root of the sum of variances; that of an angle is at most a uniform one's.

    .. math:: \sqrt{\sum_i \min(\sigma_i^2, T_i^2 / 12)}

    Parameters
    ----------
    system
        System of the states.
    deviation
        Standard deviation of each component that moves, (moving,).
    """
    period = np.array([system.periods.get(i, np.inf) for i in system.moving])
    return float(np.sqrt(np.sum(np.minimum(deviation**2, period**2 / 12))))


def component_scales(states: np.ndarray, system: System | None = None) -> np.ndarray:
    """Return the scale of each component of states, (dim,), in which nothing depends on units.

    The scale is the standard deviation, for an angle at most that of a uniform one. A component
    that rests has the scale of its value. A component that rests at 0 has the mean scale of the
    others of its kind: of positions or momenta for a canonical system, else of all components.

    Parameters
    ----------
    states
        States (..., dim); states that are not finite do not count.
    system
        Their system, for its angles and its canonical form.

    Examples
    --------
    >>> from vpintegrator.dynamics.spread import component_scales
    >>> component_scales(np.array([[1e-9, 2.0, 0.0], [3e-9, 2.0, 0.0]]))[:2]
    array([1.e-09, 2.e+00])
    """
    dim = states.shape[-1]
    rows = states.reshape(-1, dim)
    rows = rows[np.isfinite(rows).all(axis=1)]
    size = np.abs(rows).max(axis=0, initial=0.0)
    if not size.any():
        return np.ones(dim)
    deviation = np.std(rows / np.where(size > 0, size, 1.0), axis=0)
    scales = size * np.where(deviation > _AT_REST, deviation, 1.0)
    for i, period in (system.periods if system is not None else {}).items():
        scales[i] = min(scales[i], period / math.sqrt(12))
    kind = np.zeros(dim, dtype=int)
    if system is not None and system.is_canonical:
        kind[system.equations.halves[1]] = 1
    for each in (0, 1):
        own = scales[kind == each]
        mean = math.exp(np.mean(np.log(own[own > 0]))) if own.any() else 1.0
        scales[(kind == each) & (scales == 0)] = mean
    return scales
