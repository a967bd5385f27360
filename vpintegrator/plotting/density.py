"""Density plots of very many points in a plane, with single dots for few points.

A million dots hide islands and densities. So counts of many points have colours of a scale with
even lightness, on which a single point still stands out from the background.
"""

from __future__ import annotations

from typing import Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import Colormap, ListedColormap, LogNorm
from matplotlib.image import AxesImage

from vpintegrator.plotting.style import Style

FEW = 20_000  # points up to which each is a dot
_LEAST_SEEN = 0.28  # least contrast of a point, as a share of the colour scale
_ENDS = 0.02, 0.9995  # quantiles of the nonempty cells between which colours differ
_DOT = 900.0  # square points of all dots together


def scale_of_counts(style: Style, cut: float = _LEAST_SEEN) -> Colormap:
    """Return a colour map for counts, from near the background to the strongest contrast."""
    whole = matplotlib.colormaps["magma" if style.dark else "magma_r"]
    return ListedColormap(whole(np.linspace(cut, 1, 256)))  # masked values stay transparent


def coarser(counts: np.ndarray, most: int) -> np.ndarray:
    """Return counts (rows, columns) in larger cells, at most ``most`` on a side."""
    factor = max(-(-max(counts.shape) // max(most, 1)), 1)
    if factor == 1:
        return counts
    rows, columns = (-(-n // factor) * factor for n in counts.shape)
    padded = np.zeros((rows, columns), counts.dtype)
    padded[: counts.shape[0], : counts.shape[1]] = counts
    return padded.reshape(rows // factor, factor, columns // factor, factor).sum(axis=(1, 3))


def ends_of_scale(counts: list[np.ndarray]) -> tuple[float, float]:
    """Return the least and largest count on the colour scale of some panels."""
    seen = np.concatenate([np.asarray(each)[np.asarray(each) > 0] for each in counts])
    low, high = np.quantile(seen, _ENDS) if seen.size else (1.0, 1.0)
    return float(low), float(max(high, 2 * low))


def draw_counts(
    axes: Axes,
    counts: np.ndarray,
    view: tuple[tuple[float, float], tuple[float, float]],
    style: Style,
    ends: tuple[float, float],
) -> AxesImage | None:
    """Draw counts (rows, columns) in the cells of a view; return the image for a colour bar.

    Few points are dots at the middle of their cells, and give None.
    """
    (left, right), (low, high) = view
    axes.set(xlim=(left, right), ylim=(low, high))
    axes.grid(False)
    if counts.sum() <= FEW:
        rows, columns = np.nonzero(counts)
        x = left + (columns + 0.5) * (right - left) / counts.shape[1]
        y = low + (rows + 0.5) * (high - low) / counts.shape[0]
        draw_dots(axes, x, y, style.foreground, style)
        return None
    return axes.imshow(
        np.ma.masked_equal(counts, 0),
        origin="lower",
        extent=(left, right, low, high),
        aspect="auto",
        interpolation="nearest",
        cmap=scale_of_counts(style),
        norm=LogNorm(*ends),
        rasterized=True,
    )


def draw_dots(axes: Axes, x: np.ndarray, y: np.ndarray, colour: Any, style: Style) -> None:
    """Draw points (n,) as dots, smaller for more points."""
    axes.scatter(
        x,
        y,
        s=np.clip(_DOT / max(len(x), 1), 0.25, 4.0) * style.line**2,
        c=colour,
        linewidths=0,
        rasterized=True,
    )
