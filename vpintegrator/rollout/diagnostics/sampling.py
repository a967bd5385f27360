"""Number of derivatives to compute for maps of many components."""

from __future__ import annotations

import numpy as np

_SIZE = 64  # up to here as many as are asked for


def affordable(wanted: int, size: int) -> int:
    """Return the number of derivatives (size, size) to compute out of ``wanted``, at least one.

    Matrices of up to 64 rows are all computed. For larger matrices the number falls with the cube
    of the rows, as the cost of a determinant grows.

    Parameters
    ----------
    wanted
        Number of derivatives asked for.
    size
        Rows of each.

    Examples
    --------
    >>> vp.rollout.diagnostics.affordable(2400, 32), vp.rollout.diagnostics.affordable(2400, 256)
    (2400, 37)
    """
    return max(1, int(wanted * min(1.0, (_SIZE / size) ** 3)))


def fewer(values: np.ndarray, count: int) -> np.ndarray:
    """Return a limited number of rows of an array, evenly chosen."""
    return values[np.linspace(0, len(values) - 1, min(count, len(values))).round().astype(int)]
