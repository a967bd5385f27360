"""Numbers made ready for an axis: thinned to what print can show, kept within sight."""

from __future__ import annotations

import numpy as np

SMALLEST = 1e-17  # where an error of exactly 0 is drawn on a logarithmic axis
LARGEST = 1e6  # a curve leaves the figure long before it
_POINTS = 800  # of a line; more cannot be told apart in print


def floored(values: np.ndarray) -> np.ndarray:
    """Absolute values for a logarithmic axis: zeros at :data:`SMALLEST`, infinities left out."""
    with np.errstate(all="ignore"):
        size = np.abs(values)
        return np.where(np.isfinite(size), np.clip(size, SMALLEST, LARGEST), np.nan)


def thinned(count: int, logarithmic: bool = False) -> np.ndarray:
    """Indices of at most some hundred of ``count`` points, evenly or logarithmically spaced."""
    if count <= _POINTS:
        return np.arange(count)
    if logarithmic:
        spaced = np.geomspace(1, count, _POINTS).astype(int) - 1
        return np.unique(np.concatenate([[0], spaced, [count - 1]]))
    return np.unique(np.linspace(0, count - 1, _POINTS).astype(int))


def largest_between(values: np.ndarray, chosen: np.ndarray) -> np.ndarray:
    """Largest of values (trajectory, time) after each chosen index up to the next, (.., chosen).

    So a thinned curve passes through every peak of the full one.
    """
    if len(chosen) == 0:
        return values[:, :0]
    begin = np.concatenate([chosen[:1], chosen[:-1] + 1])
    with np.errstate(all="ignore"):
        return np.maximum.reduceat(values[:, : chosen[-1] + 1], begin, axis=1)
