"""Times at which orbits diverge: overflow, distance from the reference, change of invariants."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from vpintegrator.dynamics.magnitude import size_of

FAR = 10.0  # extents of the reference
CHANGED = 100.0  # sizes of an invariant


def divergence_times(
    times: np.ndarray,
    failure_time: np.ndarray,
    error: np.ndarray,
    extent: float,
    changes: Mapping[str, Any],
    invariants: Mapping[str, Callable[[np.ndarray], Any]],
    initial: np.ndarray,
) -> np.ndarray:
    """Return the time at which each orbit has diverged, NaN if it has not, (trajectory,).

    An orbit has diverged where a state is not finite, where it is farther from the reference than
    :data:`FAR` times the reference's extent, or where an invariant has changed by more than
    :data:`CHANGED` times its size: what explodes slowly is as useless as what overflows.

    Parameters
    ----------
    times
        Stored times, (time,).
    failure_time
        First time at which a state is not finite, NaN if none, (trajectory,).
    error
        Distance from the reference, NaN where that is not known, (trajectory, time).
    extent
        Extent of the reference, see :func:`extent_of`; distances are not used if it is 0.
    changes
        Changes of the invariants along the orbits, an ``InvariantError`` by name.
    invariants
        The invariants as functions of states (..., dim).
    initial
        Initial states, (trajectory, dim).
    """
    with np.errstate(all="ignore"):
        beyond = error > FAR * extent if extent > 0 else np.zeros(error.shape, dtype=bool)
        for name, change in changes.items():
            size = 1.0 if change.relative else size_of(invariants[name], initial)
            if size > 0:
                beyond = beyond | (np.abs(change.error) > CHANGED * size)
    found = np.where(beyond.any(axis=1), times[beyond.argmax(axis=1)], np.nan)
    return np.fmin(found, failure_time)


def extent_of(reference: np.ndarray) -> float:
    """Return the largest distance of a state (trajectory, time, dim) from the mean, or NaN."""
    known = reference[np.isfinite(reference).all(axis=-1)]
    if not len(known):
        return float("nan")
    return float(np.linalg.norm(known - known.mean(axis=0), axis=-1).max())
