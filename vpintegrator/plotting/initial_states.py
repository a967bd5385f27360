"""Quantities of the trajectories of an ensemble over the initial states, as an image."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.image import AxesImage

from vpintegrator.plotting.ensemble_scene import EnsembleScene, strayed
from vpintegrator.rollout import EnsembleStatistics

_MOST, _IN_A_CELL = 400, 8  # cells on a side; trajectories wanted in one


class InitialCells:
    """The cells of a plane that hold the initial states of an ensemble.

    Attributes
    ----------
    count
        Number of initial states in each cell, (rows, columns).
    """

    def __init__(self, found: EnsembleStatistics) -> None:
        x, y = (found.initial[:, k] for k in found.plan.pair)
        columns, rows = _cells(x), _cells(y)
        self._shape = rows, columns
        self._extent = (x.min(), x.max(), y.min(), y.max())
        self._flat = _place(y, rows) * columns + _place(x, columns)
        self.count = self.total(np.ones(len(x)))

    @staticmethod
    def apply(found: EnsembleStatistics) -> bool:
        """Whether initial states lie on more than a line."""
        return all(np.ptp(found.initial[:, k]) > 0 for k in found.plan.pair)

    def total(self, values: np.ndarray, which: np.ndarray | None = None) -> np.ndarray:
        """Return sums (rows, columns) of values (some,) of all trajectories, or of some."""
        flat = self._flat if which is None else self._flat[which]
        found = np.bincount(flat, weights=values, minlength=self._shape[0] * self._shape[1])
        return found.reshape(self._shape)

    def mean(self, values: np.ndarray, which: np.ndarray) -> np.ndarray:
        """Return means (rows, columns); NaN for empty cells."""
        with np.errstate(all="ignore"):
            return self.total(values, which) / self.total(np.ones(len(values)), which)

    def outline(self, axes: Axes, scene: EnsembleScene, found: EnsembleStatistics) -> None:
        """Draw a dashed line round cells from which most trajectories leave the training domain.

        Trajectories that start outside do not count.
        """
        which = strayed(found)
        if not which.any():
            return
        rows, columns = self._shape
        left, right, low, high = self._extent
        x = left + (np.arange(columns) + 0.5) * (right - left) / columns
        y = low + (np.arange(rows) + 0.5) * (high - low) / rows
        share = self.mean(which[found.left != 0].astype(float), found.left != 0)
        if min(share.shape) > 1:
            axes.contour(
                x,
                y,
                np.ma.masked_invalid(share),
                levels=[0.5],
                colors=[scene.style.foreground],
                linestyles="--",
                linewidths=scene.style.line,
            )

    def draw(self, axes: Axes, scene: EnsembleScene, values: np.ndarray, **look: Any) -> AxesImage:
        """Draw an image of values (rows, columns), with NaN transparent."""
        x, y = scene.axes_names
        axes.grid(False)
        axes.set(xlabel=f"initial {x}", ylabel=f"initial {y}")
        return axes.imshow(
            np.ma.masked_invalid(values),
            origin="lower",
            extent=self._extent,
            aspect="auto",
            interpolation="nearest",
            rasterized=True,
            **look,
        )


def _cells(values: np.ndarray) -> int:
    """Return the number of cells on an axis: the values of a grid, or as many as are filled."""
    different = len(np.unique(values))
    if different**2 <= 2 * len(values):
        return min(different, _MOST)
    return int(np.clip(np.sqrt(len(values) / _IN_A_CELL), 4, _MOST))


def _place(values: np.ndarray, count: int) -> np.ndarray:
    """Return the number of the cell of each value."""
    part = (values - values.min()) / np.ptp(values)
    return np.clip(np.floor(part * count), 0, count - 1).astype(np.int64)
