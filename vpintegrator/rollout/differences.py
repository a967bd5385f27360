"""Derivatives of maps by central differences of fourth order."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

# offsets, and weights of the values there
_DIFFERENCES = ((1, 2 / 3), (-1, -2 / 3), (2, -1 / 12), (-2, 1 / 12))


def differences(
    function: Callable[[np.ndarray], np.ndarray], points: np.ndarray, distances: np.ndarray
) -> np.ndarray:
    """Return derivatives (n, dim, dim) of a map of points (n, dim), by fourth-order differences.

    ``distances`` (n, dim) are those of the neighbours in each direction.
    """
    dim = points.shape[1]
    result = np.empty((len(points), dim, dim))
    for k in range(dim):
        total = np.zeros(points.shape)
        for place, weight in _DIFFERENCES:
            moved = points.copy()
            moved[:, k] += place * distances[:, k]
            total += weight * function(moved)
        result[:, :, k] = total / distances[:, k : k + 1]
    return result
