"""Drift of a quantity: the slope of a fitted straight line, and its standard error.

A quantity that oscillates about a constant, like the energy of a symplectic method, has no drift,
but every finite piece of it has a slope. The residuals of such a series are strongly correlated, so
the textbook's standard error, which takes them for independent, is too small by orders of
magnitude. Here the residuals are gathered in batches, consecutive intervals of time, and only whole
batches are taken for independent (the method of batch means, Law, Simulation Modeling and Analysis,
section 9.5; for a regression it is the cluster-robust variance, Liang and Zeger, Biometrika 73
(1986) 13-22):

    slope - true slope = sum_b u_b / S,  u_b = sum_{i in b} (t_i - t) r_i,  S = sum_i (t_i - t)^2

with residuals r and mean time t has about the variance G/(G - 2) sum_b u_b^2 / S^2 for G batches.
The batches are 1/64 to 1/32 of the whole time, or two or four times as long, whichever gives the
largest variance. A steady oscillation whose period divides the batch leaves the same u_b in every
batch, and the batches are not independent. So the part of u_b from inside the batch is added in
full, as the square of the sum of its sizes. For noise this part is negligible.

Noise with a longer memory leaves neighbouring batches correlated. So the standard error is at least
that of a series of batch means whose noise is an AR(1) process, see
:func:`variance_of_fit` (Bence, Ecology 76 (1995) 628-639).

Variations with periods above 1/10 of the time cannot be told from a drift.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np

_FEWEST = 8
_RHOS = np.linspace(-0.5, 0.98, 75)


def variance_of_fit(residuals: np.ndarray, degree: int) -> np.ndarray:
    """Return the variance of the highest coefficient of a fitted polynomial, (series,).

    Parameters
    ----------
    residuals
        Residuals of the fit at places 0, 1, 2, ..., (series, place).
    degree
        0: a constant, whose variance is that of the mean; 1: a line, that of its slope.
    """
    count = residuals.shape[-1]
    if count < _FEWEST:
        return np.full(residuals.shape[:-1], np.nan)
    correlation, size, variance = _expected(count, degree)
    squares = np.sum(residuals**2, axis=-1)
    products = np.sum(residuals[..., 1:] * residuals[..., :-1], axis=-1)
    statistic = np.divide(products, squares, out=np.zeros_like(squares), where=squares > 0)
    rho = np.interp(statistic, correlation, _RHOS)
    return squares * np.exp(np.interp(rho, _RHOS, np.log(variance / size)))


@cache
def _expected(count: int, degree: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the expected statistics of residuals for unit noise, an entry for each rho.

    The statistics are the correlation of neighbouring residuals, their sum of squares, and the
    variance of the highest coefficient of the fit.
    """
    place = np.arange(count)
    design = np.vander(place - place.mean(), degree + 1)
    weights = np.linalg.pinv(design)
    left = np.eye(count) - design @ weights
    statistics = []
    for rho in _RHOS:
        noise = np.sign(rho) ** abs(place[:, None] - place) * abs(rho) ** abs(
            place[:, None] - place
        )
        of_residuals = left @ noise @ left
        size = np.trace(of_residuals)
        statistics.append((np.trace(of_residuals, 1) / size, size, weights[0] @ noise @ weights[0]))
    correlation, size, variance = np.array(statistics).T
    return np.maximum.accumulate(correlation), size, variance


_CAPACITY = 64  # batches; when they are full, neighbours are joined, so there are 32 or more
_GROUPINGS = (1, 2, 4)


@dataclass(frozen=True)
class DriftFit:
    r"""A straight line :math:`a + b t` fitted to a quantity by least squares, of slope b.

    Attributes
    ----------
    slope
        Per unit of time, (trajectory,); NaN for a trajectory that is not finite to the end.
    standard_error
        Its standard error, which allows for correlated residuals, (trajectory,); NaN for less than
        three times.
    """

    slope: np.ndarray
    standard_error: np.ndarray


class DriftAccumulator:
    """Fits straight lines to series that come in parts.

    The accumulator keeps centred moments of at most 64 batches, updated and joined as in Chan,
    Golub and LeVeque (Amer. Statist. 37 (1983) 242-247), so it is as accurate after millions of
    times as at once: the slope is that of :func:`scipy.stats.linregress` on the whole series.

    Parameters
    ----------
    count
        Number of series.

    Examples
    --------
    >>> drift = DriftAccumulator(1)
    >>> for start in (0.0, 50.0):  # in parts
    ...     times = start + np.arange(50.0)
    ...     drift.update(times, 1e-9 * times[None])
    >>> float(drift.fit().slope[0].round(12))
    1e-09
    """

    def __init__(self, count: int) -> None:
        self._length = 1  # samples in a full batch
        # of each batch and series: samples, mean time, sum of (t - mean)^2, mean value x, sum of
        # (t - mean)(x - mean)
        self._moments = np.zeros((5, _CAPACITY, count))

    def update(self, times: np.ndarray, values: np.ndarray) -> None:
        """Take in the values (series, count) at the next times (count,), which increase."""
        done = 0
        with np.errstate(all="ignore"):
            while done < len(times):
                batch = self._open_batch()
                room = self._length - int(self._moments[0, batch, 0])
                part = slice(done, done + room)
                self._extend(batch, times[part], values[:, part])
                done += room

    def fit(self) -> DriftFit:
        """Return the lines fitted to all values so far."""
        used = int(np.count_nonzero(self._moments[0, :, 0]))
        samples, mean_time, square = self._moments[:3, :used, 0].copy()  # contiguous: sums round so
        mean_value, product = self._moments[3:, :used]
        with np.errstate(all="ignore"):
            weight = samples / samples.sum()
            time = mean_time - weight @ mean_time
            value = mean_value - weight @ mean_value
            whole = np.sum(square + samples * time**2)
            slope = (product.sum(axis=0) + (samples * time) @ value) / whole
            inside = product - np.outer(square, slope)
            moment = inside + (samples * time)[:, None] * (value - np.outer(time, slope))
            variance = _variance_of_sum(moment) + np.abs(inside).sum(axis=0) ** 2
            error = np.sqrt(variance) / whole
            full = int(np.count_nonzero(samples == self._length))
            if full >= 2:  # neighbouring batches may be correlated, too
                residuals = (value - np.outer(time, slope))[:full].T
                length = (time[full - 1] - time[0]) / (full - 1)
                error = np.fmax(error, np.sqrt(variance_of_fit(residuals, 1)) / length)
            return DriftFit(slope, error)

    def _open_batch(self) -> int:
        """Return the number of a batch with room in it; join neighbours if there is none."""
        samples = self._moments[0, :, 0]
        half = _CAPACITY // 2
        batch = int(np.searchsorted(-samples, -self._length, side="right"))
        if batch < _CAPACITY:
            return batch
        even = self._moments[:, ::2]
        odd = self._moments[:, 1::2]
        count, mean_time, square, mean_value, product = even.copy()
        time = odd[1] - mean_time
        value = odd[3] - mean_value
        weight = self._length / 2  # n m / (n + m) for n = m
        square = square + odd[2] + weight * time**2
        product = product + odd[4] + weight * time * value
        joined = [2.0 * count, mean_time + time / 2, square, mean_value + value / 2, product]
        self._moments[:, :half] = joined
        self._moments[:, half:] = 0.0
        self._length *= 2
        return half

    def _extend(self, batch: int, times: np.ndarray, values: np.ndarray) -> None:
        """Add new samples to a batch."""
        moments = self._moments[:, batch]
        old = moments[0, 0]
        new = len(times)
        mean_time = times.mean()
        mean_value = values.mean(axis=1)
        offset = times - mean_time
        time = mean_time - moments[1]
        value = mean_value - moments[3]
        weight = old * new / (old + new)
        moments[2] += offset @ offset + weight * time**2
        # the values are centred too, or rounding would count a large constant as a product
        moments[4] += (values - mean_value[:, None]) @ offset + weight * time * value
        moments[1] += time * (new / (old + new))
        moments[3] += value * (new / (old + new))
        moments[0] += new


def fit_drift(times: np.ndarray, values: np.ndarray) -> DriftFit:
    """Fit straight lines to values (series, time) at increasing times (time,).

    Parameters
    ----------
    times
        Increasing, (time,).
    values
        The series, (series, time).

    Examples
    --------
    >>> times = np.linspace(0, 10, 101)
    >>> fit = vp.rollout.diagnostics.fit_drift(times, 3 * times[None])
    >>> fit.slope.round(12)
    array([3.])
    """
    accumulator = DriftAccumulator(len(values))
    accumulator.update(np.asarray(times, dtype=np.float64), np.asarray(values, dtype=np.float64))
    return accumulator.fit()


def _variance_of_sum(terms: np.ndarray) -> np.ndarray:
    """Return the variance of the sum over terms (term, ...), from groups of several sizes."""
    variance = np.full(terms.shape[1:], np.nan)
    for size in _GROUPINGS:
        groups = np.add.reduceat(terms, np.arange(0, len(terms), size), axis=0)
        count = len(groups)
        if count < 3 or (size > 1 and count < 8):
            break
        variance = np.fmax(variance, count / (count - 2) * np.sum(groups**2, axis=0))
    return variance
