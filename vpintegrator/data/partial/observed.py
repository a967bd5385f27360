"""Observed linear combinations of the components of orbits, and smooth curves through them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy  # loads scipy.interpolate when it is used

from vpintegrator.errors import InputError

FEWEST = 8  # times of an orbit, from which a smoothing spline is meaningful


@dataclass(frozen=True)
class Observed:
    """Observations y = C z along orbits, with independent noise.

    Attributes
    ----------
    times
        (orbit, time); the last time is repeated where an orbit has fewer times than others.
    values
        (orbit, time, observation), NaN where nothing was observed.
    matrix
        C, (observation, dim).
    """

    times: np.ndarray
    values: np.ndarray
    matrix: np.ndarray

    @classmethod
    def of(
        cls,
        times: np.ndarray,
        values: np.ndarray,
        matrix: np.ndarray | None = None,
        where: str = "the data",
    ) -> Observed:
        """Return observations from padded arrays, whose times and numbers are checked.

        Raises
        ------
        InputError
            If an orbit has too few observations, or times that do not increase.
        """
        matrix = np.eye(values.shape[2]) if matrix is None else matrix
        seen = np.isfinite(values) & np.isfinite(times)[..., None]
        if short := np.flatnonzero((seen.sum(axis=1) < FEWEST).any(axis=1)).tolist():
            raise InputError(
                f"{where}: trajectory {short[0]} has fewer than {FEWEST} observations of a column; "
                "leave it out"
            )
        known = seen.any(axis=-1)
        order = np.argsort(~known, axis=1, kind="stable")  # what was observed comes first
        times, values = (
            np.take_along_axis(each, order.reshape(*order.shape, *(1,) * (each.ndim - 2)), axis=1)
            for each in (times, np.where(seen, values, np.nan))
        )
        count = known.sum(axis=1)
        last = np.take_along_axis(times, count[:, None] - 1, axis=1)
        times = np.where(np.arange(times.shape[1]) < count[:, None], times, last)
        most = int(count.max())
        rises = np.diff(times[:, :most], axis=1)
        if ((rises <= 0) & (np.arange(1, most) < count[:, None])).any():
            raise InputError(f"{where}: times do not increase along a trajectory")
        return cls(times[:, :most], values[:, :most], matrix)

    @property
    def median_step(self) -> float:
        """Median time between neighbouring observations, of six digits."""
        steps = np.diff(self.times, axis=1)
        return float(f"{np.median(steps[steps > 0]):.6g}")

    def orbits(self, rows: np.ndarray | slice) -> Observed:
        """Return the observations of some orbits."""
        return Observed(self.times[rows], self.values[rows], self.matrix)

    def segments(self, length: int) -> Observed:
        """Return segments of ``length`` times, one after the other, as orbits of their own."""
        more = -self.times.shape[1] % length
        padded = np.pad(self.times, ((0, 0), (0, more)), mode="edge")
        values = np.pad(self.values, ((0, 0), (0, more), (0, 0)), constant_values=np.nan)
        return Observed(
            padded.reshape(-1, length), values.reshape(-1, length, values.shape[-1]), self.matrix
        )

    @cached_property
    def curves(self) -> list[list[scipy.interpolate.BSpline]]:
        """Smoothing splines of each orbit, one for each observed column, by cross-validation."""
        found = []
        for time, values in zip(self.times, self.values, strict=True):
            kept = [np.isfinite(column) for column in values.T]
            found.append(
                [
                    scipy.interpolate.make_smoothing_spline(time[k], column[k])
                    for k, column in zip(kept, values.T, strict=True)
                ]
            )
        return found

    def smoothed(self) -> np.ndarray:
        """Return values and two derivatives of the splines, (derivative, orbit, time, column)."""
        found = [
            np.stack(
                [
                    [spline.derivative(k)(time) if k else spline(time) for spline in splines]
                    for k in range(3)
                ]
            )
            for time, splines in zip(self.times, self.curves, strict=True)
        ]
        return np.stack(found).transpose(1, 0, 3, 2)
