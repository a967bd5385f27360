"""How far a trajectory is from the reference, and when it has become useless."""

from __future__ import annotations

import numpy as np


def trajectory_error(states: np.ndarray, reference: np.ndarray) -> np.ndarray:
    """Euclidean distance from the reference at each time, (trajectory, time).

    Infinite where a state is not finite although the reference is; NaN where the reference is not.
    """
    known = np.isfinite(reference).all(axis=-1)
    with np.errstate(all="ignore"):
        error = infinite_where_nan(np.linalg.norm(states - reference, axis=-1))
    return np.where(known, error, np.nan)


def root_mean_square_error(states: np.ndarray, reference: np.ndarray) -> np.ndarray:
    """Root mean square of the error over times and components, (trajectory,).

    Infinite for a trajectory that has diverged.
    """
    with np.errstate(all="ignore"):
        error = np.sqrt(np.mean((states - reference) ** 2, axis=(-2, -1)))
    return infinite_where_nan(error)


def failure_index(states: np.ndarray) -> np.ndarray:
    """Index of the first time at which a trajectory is not finite, -1 if none, (trajectory,)."""
    bad = ~np.isfinite(states).all(axis=-1)
    return np.where(bad.any(axis=-1), bad.argmax(axis=-1), -1)


def time_to_failure(times: np.ndarray, error: np.ndarray, threshold: float) -> np.ndarray:
    """First time at which the error passes a threshold, NaN if none, (trajectory,).

    Parameters
    ----------
    times
        (time,).
    error
        (trajectory, time), as :func:`trajectory_error` gives it. Where it is NaN nothing is known
        of it, and nothing is concluded from it.
    threshold
        What the error must exceed.
    """
    passed = error > threshold
    return np.where(passed.any(axis=-1), np.asarray(times)[passed.argmax(axis=-1)], np.nan)


def infinite_where_nan(values: np.ndarray) -> np.ndarray:
    """The values with infinity for NaN: what has diverged is infinitely wrong."""
    return np.where(np.isnan(values), np.inf, values)
