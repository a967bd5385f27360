"""Linear least squares for the coefficients of a potential, from smooth curves through positions.

The weak form of m q'' = -grad V: two partial integrations move the derivatives to test functions
(1 - x^2)^3 of compact support, so noise is not differentiated (Messenger and Bortz, Multiscale
Model. Simul. 19 (2021) 1474-1497).
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from vpintegrator.data.partial.observed import Observed
from vpintegrator.data.partial.potential import PotentialBasis

_WINDOW = 0.25  # half width of test functions, in characteristic times
_POINTS = 16  # quadrature points in a half width
_RIDGE = 1e-9  # relative


class WeakForm:
    """Integrals along observed orbits.

    Parameters
    ----------
    observed
        Observations of all positions.
    masses
        Mass of each position, (position,).
    unit
        Characteristic time of the motion.
    """

    def __init__(self, observed: Observed, masses: np.ndarray, unit: float) -> None:
        self._parts = list(_integrals(observed, masses, _WINDOW * unit))

    def solve(self, basis: PotentialBasis) -> tuple[np.ndarray, float]:
        """Return coefficients, and the sum of squares of orbits that are left out of them."""
        systems = []
        for q, weights, right in self._parts:
            rows = np.einsum("wt,tdk->wdk", weights, basis.derivatives(q)[0])
            A, b = rows.reshape(-1, rows.shape[2]), right.ravel()
            systems.append((A, b, A.T @ A, A.T @ b))
        normal, right = (sum(np.stack([each[k] for each in systems])) for k in (2, 3))
        found = _solved(normal, right)
        score = 0.0
        for A, b, own, own_right in systems:
            without = _solved(normal - own, right - own_right) if len(systems) > 1 else found
            score += float(np.square(A @ without - b).sum())
        return found, score


def _integrals(
    observed: Observed, masses: np.ndarray, half: float
) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """Positions on a grid, integrals of test functions, and -int w'' m q, of each orbit."""
    for time, splines in zip(observed.times, observed.curves, strict=True):
        span = float(np.ptp(time))
        own = min(half, span / 4)
        grid = np.linspace(time[0], time[-1], int(span / own * _POINTS) + 1)
        q = np.stack([spline(grid) for spline in splines], axis=1)
        centres = np.arange(time[0] + own, time[-1] - own * (1 - 1e-9), own / 2)
        x = (grid - centres[:, None]) / own
        inside = np.maximum(1 - x**2, 0.0)
        second = (24 * x**2 * inside - 6 * inside**2) / own**2
        dt = grid[1] - grid[0]
        yield q, inside**3 * dt, -(second * dt) @ (q * masses)


def _solved(normal: np.ndarray, right: np.ndarray) -> np.ndarray:
    size = np.sqrt(np.maximum(np.diag(normal), 1e-300))
    scaled = normal / np.outer(size, size) + _RIDGE * np.eye(len(size))
    return np.asarray(np.linalg.solve(scaled, right / size) / size)
