"""Choice of the orbits and points in a phase portrait, and of their colours."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import matplotlib
import numpy as np
from matplotlib.colors import to_hex

from vpintegrator.plotting.looks import ORBIT_COLOURS, Look
from vpintegrator.plotting.style import Style

ORBITS = 40  # more on one portrait cannot be told apart
POINTS = 4000  # points of an orbit
_DOTS = 1500  # dots of an orbit
_FEW = 400  # dots of one orbit
_LARGEST = 1e30  # component that an axis can show


def shown(orbits: np.ndarray, dots: bool) -> np.ndarray:
    """Return the first points of orbits (..., time, dim), or dots spread over all times."""
    count = orbits.shape[-2]
    if not dots:
        return orbits[..., :POINTS, :]
    if count <= _DOTS:
        return orbits
    return orbits[..., np.linspace(0, count - 1, _DOTS).astype(int), :]


def points_shown(count: int, dots: bool) -> int:
    """Return the number of points drawn of an orbit of ``count`` points."""
    return min(count, _DOTS if dots else POINTS)


def stroke(style: Style, dots: bool, width: float = 0.75, count: int = _DOTS) -> dict[str, Any]:
    """Return the line style of an orbit: a thin line, or dots, larger for a small ``count``."""
    if dots:
        size = 1.2 if count > _FEW else 2.4
        return {"ls": "none", "marker": "o", "ms": size * width * style.line, "mew": 0}
    return {"ls": "-", "lw": width * style.line}


def orbit_colours(count: int, style: Style) -> list[str]:
    """Return a colour for each orbit: distinct colours for few, a whole range for many."""
    if count <= len(ORBIT_COLOURS):
        chosen = ORBIT_COLOURS[:count]
    else:  # neighbours differ, as the range is passed in steps of the golden ratio
        places = 0.05 + 0.9 * (np.arange(count) * 0.618034 % 1)
        chosen = tuple(to_hex(colour) for colour in matplotlib.colormaps["turbo"](places))
    return [style.adapt(Look(colour, "-", "")).colour for colour in chosen]


def shared_limits(boxes: Sequence[np.ndarray], first: np.ndarray) -> np.ndarray:
    """Return a box (component, low or high) of ``first`` and the boxes not much larger.

    Boxes that exceed ``first`` by more than its width on a side do not count: the other orbits
    would be too small.
    """
    largest = first + np.ptp(first, axis=1)[:, None] * [-1, 1]
    kept = np.array([first, *(box for box in boxes if within(box.T, largest).all())])
    return np.stack([kept[..., 0].min(axis=0), kept[..., 1].max(axis=0)], axis=1)


def limits(values: np.ndarray, margin: float = 0.25) -> tuple[float, float]:
    """Return limits of an axis that shows all values, with a margin relative to their range.

    Pass the values of the reference, because a method that diverges must not set the scale.
    """
    values = values[np.abs(values) < _LARGEST]
    if not values.size:
        return -1.0, 1.0
    low, high = float(values.min()), float(values.max())
    size = max(abs(low), abs(high), 1.0)
    space = margin * max(high - low, 1e-12 * size)
    return low - space, high + space


def within(points: np.ndarray, box: np.ndarray) -> np.ndarray:
    """Return a mask of the points (..., component) in a box (component, low or high)."""
    with np.errstate(all="ignore"):
        return np.asarray(((points >= box[:, 0]) & (points <= box[:, 1])).all(axis=-1))
