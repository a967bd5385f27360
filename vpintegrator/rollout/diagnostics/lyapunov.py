"""The largest Lyapunov exponent: the mean rate at which neighbouring states part."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from vpintegrator.dynamics import System
from vpintegrator.rollout.comparison import Ensemble
from vpintegrator.rollout.diagnostics.diagnostic import Column, Diagnostic
from vpintegrator.rollout.diagnostics.drift import variance_of_fit
from vpintegrator.rollout.diagnostics.tangent import (
    TangentHistory,
    tangent_history,
    tangent_propagation,
)
from vpintegrator.rollout.flow import NumericalFlow
from vpintegrator.rollout.results import Results, Run
from vpintegrator.rollout.variables import Variable
from vpintegrator.storage.reading import StoredGroup

_CAPACITY = 128  # times kept; when they are full every other one is dropped
_TRANSIENT = 0.2  # share of the time in which the tangent vector turns to the fastest growth
_GROUPINGS = (1, 2, 4)


@dataclass(frozen=True)
class Lyapunov:
    """Estimates of the largest Lyapunov exponent.

    Attributes
    ----------
    exponent
        Per unit of time, (trajectory,).
    uncertainty
        Its standard error, (trajectory,), of two parts added in squares. The first part is
        statistical, from the scatter of the growth rate over batches of time. The second part is
        1/time: the norm of the tangent vector is arbitrary by a factor of order one. On regular
        motion, where the vector grows linearly, the estimate falls to zero like 1/time, too. An
        exponent of less than two or three times this is not told from zero.
    time
        Time over which the growth was averaged, without the first fifth of the whole.
    """

    exponent: np.ndarray
    uncertainty: np.ndarray
    time: float


class LyapunovAccumulator:
    """Averages the growth of a tangent vector that comes in parts.

    The accumulator keeps the logarithm of the stretch at no more than 128 evenly spread times.

    Parameters
    ----------
    count
        Number of trajectories.

    Examples
    --------
    >>> growth = vp.rollout.diagnostics.LyapunovAccumulator(1)
    >>> times = np.linspace(0, 10, 101)
    >>> growth.update(times, 0.9 * times[None])
    >>> growth.estimate().exponent.round(12)
    array([0.9])
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
        """Return the mean growth so far; NaN before two times, or after a divergence."""
        first = int(np.ceil(_TRANSIENT * (len(self._times) - 1)))
        times, stretch = self._times[first:], self._stretch[:, first:]
        if len(times) < 2:
            unknown = np.full(len(stretch), np.nan)
            return Lyapunov(unknown, unknown.copy(), 0.0)
        time = float(times[-1] - times[0])
        with np.errstate(all="ignore"):
            rates = np.diff(stretch, axis=1) / np.diff(times)
            variance = _variance_of_mean(rates)
            mean = rates.mean(axis=1)
            variance = np.fmax(variance, variance_of_fit(rates - mean[:, None], 0))
            uncertainty = np.sqrt(variance + 1 / time**2)
            return Lyapunov(mean, uncertainty, time)


def _variance_of_mean(rates: np.ndarray) -> np.ndarray:
    """Return the variance of the mean, the largest over batch sizes."""
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
    r"""Return the largest Lyapunov exponent along trajectories of a flow.

    .. math:: \lambda = \lim_{t \to \infty} \frac{1}{t} \log \frac{\|v(t)\|}{\|v(0)\|}

    of a tangent vector v, averaged over the time there is, without its first fifth.

    The arguments are those of :func:`tangent_propagation`.

    Parameters
    ----------
    flow
        The map, which must have a derivative.
    first
        First windows (trajectory, window, dim), or initial states (trajectory, dim).
    steps
        Number of time steps.

    Examples
    --------
    >>> flow = vp.rollout.as_flow("rk4", vp.load_system("henon-heiles"), 0.2)
    >>> first = np.array([[[0.0, 0.1, 0.49, 0.0]]])
    >>> vp.rollout.diagnostics.lyapunov_exponent(flow, first, 200).exponent.shape
    (1,)
    """
    return _estimate(tangent_propagation(flow, first, steps))


def _estimate(history: TangentHistory) -> Lyapunov:
    accumulator = LyapunovAccumulator(len(history.log_stretch))
    accumulator.update(history.times, history.log_stretch)
    return accumulator.estimate()


class LyapunovDiagnostic(Diagnostic):
    """The largest Lyapunov exponent over the time of the phase-space volume.

    The measurement is ``lyapunov``, a :class:`Lyapunov`. The summary has ``lyapunov`` and
    ``lyapunov_error``, the medians over the trajectories of the estimates and of their
    uncertainties.
    """

    def measure(self, ensemble: Ensemble) -> dict[str, Any]:
        history = ensemble.once(tangent_history)
        return {"lyapunov": None if history is None else _estimate(history)}

    def stored(self, run: Run) -> Iterator[Variable]:
        found: Lyapunov | None = run.lyapunov
        if found is not None:
            title, dims = "largest Lyapunov exponent", ("phase_space_trajectory",)
            time = {"time": found.time}
            yield Variable("lyapunov_exponent", title, dims, values=found.exponent, attributes=time)
            title = f"uncertainty of the {title}"
            yield Variable("lyapunov_uncertainty", title, dims, values=found.uncertainty)

    def read(self, group: StoredGroup, system: System, sizes: Mapping[str, int]) -> dict[str, Any]:
        if "lyapunov_exponent" not in group:
            return {"lyapunov": None}
        exponent = group.array("lyapunov_exponent", (None,))
        uncertainty = group.array("lyapunov_uncertainty", exponent.shape)
        time = group.labelled("lyapunov_exponent").number("time")
        return {"lyapunov": Lyapunov(exponent, uncertainty, time)}

    def summary(self, run: Run, report: Results) -> dict[str, Any]:
        found: Lyapunov | None = run.lyapunov
        if found is None:
            return {"lyapunov": None, "lyapunov_error": None}
        return {
            "lyapunov": float(np.median(found.exponent)),
            "lyapunov_error": float(np.median(found.uncertainty)),
        }

    def columns(self, report: Results) -> list[Column]:
        title = "Lyapunov exponent"
        return [
            Column(title, lambda s: s.lyapunov, rank=3, beside=f"{title} ±"),
            Column(f"{title} ±", lambda s: s.lyapunov_error, "hidden"),
        ]


LYAPUNOV = LyapunovDiagnostic()
