"""The size that errors are relative to: how far states lie from their mean, where they move."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from vpintegrator.dynamics.system import System


def from_centre(system: System, states: np.ndarray) -> np.ndarray:
    """Return components that move (..., moving), positions less those of the bodies' centre.

    All other components are the same in every record, however long the motion is. Where all bodies
    may be moved alike, the centre's motion is no more than the frame of reference.
    """
    bodies = system.bodies
    if bodies is not None and bodies.translations:
        size = bodies.count * bodies.dimension
        positions = states[..., :size].reshape(*states.shape[:-1], bodies.count, bodies.dimension)
        positions = positions - positions.mean(-2, keepdims=True)
        rest = states[..., size:]
        states = np.concatenate([positions.reshape(*states.shape[:-1], size), rest], axis=-1)
    return states[..., system.moving]


def spread_of(system: System, deviation: np.ndarray) -> float:
    r"""Return the root of the sum of variances; that of an angle is at most a uniform one's.

    .. math:: \sqrt{\sum_i \min(\sigma_i^2, T_i^2 / 12)}

    Parameters
    ----------
    system
        System of the states.
    deviation
        Standard deviation of each component of :func:`from_centre`, (moving,).
    """
    period = np.array([system.periods.get(i, np.inf) for i in system.moving])
    return float(np.sqrt(np.sum(np.minimum(deviation**2, period**2 / 12))))
