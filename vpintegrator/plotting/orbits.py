"""Which orbits, and which of their points, a phase portrait shows."""

from __future__ import annotations

from typing import Any

import numpy as np

from vpintegrator.plotting.style import Style

ORBITS = 40  # more on one portrait cannot be told apart
POINTS = 4000  # of one orbit
_DOTS = 1500  # of one orbit
_LARGEST = 1e30  # component that an axis can show


def shown(orbit: np.ndarray, dots: bool) -> np.ndarray:
    """The first points of an orbit (time, dim), or dots spread over all of its time."""
    if not dots:
        return orbit[:POINTS]
    if len(orbit) <= _DOTS:
        return orbit
    return orbit[np.linspace(0, len(orbit) - 1, _DOTS).astype(int)]


def points_shown(count: int, dots: bool) -> int:
    """Number of points of an orbit of ``count`` that are drawn."""
    return min(count, _DOTS if dots else POINTS)


def stroke(style: Style, dots: bool, width: float = 0.75) -> dict[str, Any]:
    """How an orbit is drawn: as a thin line, or as dots."""
    if dots:
        return {"ls": "none", "marker": "o", "ms": 1.2 * width * style.line, "mew": 0}
    return {"ls": "-", "lw": width * style.line}


def limits(values: np.ndarray, margin: float = 0.25) -> tuple[float, float]:
    """An axis that shows all values with a margin on both sides, a part of their range.

    It is made for the reference: a method that runs away must not push the rest into a corner.
    """
    values = values[np.abs(values) < _LARGEST]
    if not values.size:
        return -1.0, 1.0
    low, high = float(values.min()), float(values.max())
    size = max(abs(low), abs(high), 1.0)
    space = margin * max(high - low, 1e-12 * size)
    return low - space, high + space
