"""The largest Lyapunov exponent: the mean rate at which neighbouring states part."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from vpintegrator.rollout.flow import NumericalFlow

_CAPACITY = 128  # times kept; when they are full every other one is dropped
_TRANSIENT = 0.2  # of the time, in which the tangent vector turns to the fastest growth
_GROUPINGS = (1, 2, 4)


@dataclass(frozen=True)
class Lyapunov:
    """Estimates of the largest Lyapunov exponent.

    Attributes
    ----------
    exponent
        Per unit of time, (trajectory,).
    uncertainty
        Its standard error, (trajectory,), of two parts added in squares. One is statistical, from
        the scatter of the growth rate over batches of time. The other is 1/time: the length of the
        tangent vector depends by a factor of order one on where and how it is measured, and where
        it grows only linearly, on regular motion, the estimate falls to zero like 1/time as well.
        An exponent of less than two or three times this is not told from zero.
    time
        Time over which the growth was averaged, without the first fifth of the whole.
    """

    exponent: np.ndarray
    uncertainty: np.ndarray
    time: float


class LyapunovAccumulator:
    """Averages the growth of a tangent vector that comes in parts.

    It keeps the logarithm of the stretch at no more than 128 evenly spread times.

    Parameters
    ----------
    count
        Number of trajectories.
    """

    def __init__(self, count: int) -> None:
        self._every = 1
        self._seen = 0
        self._times = np.empty(0)
        self._stretch = np.empty((count, 0))

    def update(self, times: np.ndarray, log_stretch: np.ndarray) -> None:
        """Take in the logarithm of the stretch (trajectory, count) at the next times (count,)."""
        first = -self._seen % self._every
        self._times = np.append(self._times, times[first :: self._every])
        self._stretch = np.append(self._stretch, log_stretch[:, first :: self._every], axis=1)
        self._seen += len(times)
        while len(self._times) > _CAPACITY:
            self._every *= 2
            self._times, self._stretch = self._times[::2], self._stretch[:, ::2]

    def estimate(self) -> Lyapunov:
        """The mean growth so far; NaN before there are two times, or for what has diverged."""
        first = int(np.ceil(_TRANSIENT * (len(self._times) - 1)))
        times, stretch = self._times[first:], self._stretch[:, first:]
        if len(times) < 2:
            unknown = np.full(len(stretch), np.nan)
            return Lyapunov(unknown, unknown.copy(), 0.0)
        time = float(times[-1] - times[0])
        with np.errstate(all="ignore"):
            rates = np.diff(stretch, axis=1) / np.diff(times)
            uncertainty = np.sqrt(_variance_of_mean(rates) + 1 / time**2)
            return Lyapunov(rates.mean(axis=1), uncertainty, time)

    def snapshot(self) -> dict[str, np.ndarray]:
        """All that is needed to go on."""
        return {
            "every": np.array(self._every),
            "seen": np.array(self._seen),
            "times": self._times.copy(),
            "stretch": self._stretch.copy(),
        }

    def restore(self, snapshot: Mapping[str, Any]) -> None:
        """Go on from a snapshot."""
        self._every, self._seen = int(snapshot["every"]), int(snapshot["seen"])
        self._times, self._stretch = np.array(snapshot["times"]), np.array(snapshot["stretch"])


def _variance_of_mean(rates: np.ndarray) -> np.ndarray:
    """Variance of the mean over batches (..., batch), of the size that gives the largest."""
    variance = np.full(rates.shape[:-1], np.nan)
    for size in _GROUPINGS:
        count = rates.shape[-1] // size
        if count < 2 or (size > 1 and count < 8):
            break
        groups = rates[..., rates.shape[-1] - count * size :]
        means = groups.reshape(*rates.shape[:-1], count, size).mean(axis=-1)
        variance = np.fmax(variance, means.var(axis=-1, ddof=1) / count)
    return variance


def lyapunov_exponent(flow: NumericalFlow, first: np.ndarray, steps: int) -> Lyapunov:
    """Largest Lyapunov exponent along trajectories of a flow.

    The arguments are those of :func:`tangent_propagation`, which gives it beside the volume.
    """
    from vpintegrator.rollout.diagnostics.tangent import tangent_propagation

    return tangent_propagation(flow, first, steps).lyapunov
