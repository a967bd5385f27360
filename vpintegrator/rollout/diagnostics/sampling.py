"""How many derivatives are computed of maps of many components."""

from __future__ import annotations

import numpy as np

_SIZE = 64  # up to here as many as are asked for


def affordable(wanted: int, size: int) -> int:
    """How many of ``wanted`` derivatives (size, size) are computed, at least one.

    All of them up to 64 rows, and then as many as cost the same: a determinant, as the stages of an
    implicit method, takes time in proportion to the cube of the rows.

    Parameters
    ----------
    wanted
        How many there are to compute.
    size
        Rows of each.

    Examples
    --------
    >>> vp.rollout.diagnostics.affordable(2400, 32), vp.rollout.diagnostics.affordable(2400, 256)
    (2400, 37)
    """
    return max(1, int(wanted * min(1.0, (_SIZE / size) ** 3)))


def fewer(values: np.ndarray, count: int) -> np.ndarray:
    """At most so many rows of an array, evenly chosen."""
    return values[np.linspace(0, len(values) - 1, min(count, len(values))).round().astype(int)]
