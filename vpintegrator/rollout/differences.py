"""Derivatives of maps by central differences of fourth order."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from vpintegrator.dynamics.sizes import component_scales

# offsets, and weights of the values there
_DIFFERENCES = ((1, 2 / 3), (-1, -2 / 3), (2, -1 / 12), (-2, 1 / 12))


def differences(
    function: Callable[[np.ndarray], np.ndarray], points: np.ndarray, size: float
) -> np.ndarray:
    """Return derivatives (n, dim, dim) of a map of points (n, dim), by fourth-order differences.

    ``size`` is the distance of the neighbours, relative to each component at points and images.
    """
    dim = points.shape[1]
    scales = component_scales(np.concatenate([points, function(points)]))
    distances = size * np.maximum(scales, np.abs(points))
    result = np.empty((len(points), dim, dim))
    for k in range(dim):
        total = np.zeros(points.shape)
        for place, weight in _DIFFERENCES:
            moved = points.copy()
            moved[:, k] += place * distances[:, k]
            total += weight * function(moved)
        result[:, :, k] = total / distances[:, k : k + 1]
    return result
