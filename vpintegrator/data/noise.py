"""Noise of measured trajectories, estimated from the states alone.

A difference of order k of equidistant states removes a polynomial of degree k - 1. A smooth
trajectory leaves a part that falls with k, and independent noise of variance s^2 leaves s^2 for
weights of norm one. The estimate is the mean square of the differences of the smallest order from
which on it does not fall any more. Barycentric weights do the same for times of any distance.

Source: P. Hall, J. W. Kay, D. M. Titterington, "Asymptotically optimal difference-based estimation
of variance in nonparametric regression", Biometrika 77 (1990) 521, for differences of fixed order.
"""

from __future__ import annotations

import os
from dataclasses import dataclass

import numpy as np

from vpintegrator.data.dataset import Dataset, open_dataset
from vpintegrator.errors import InputError

_HIGHEST = 12  # order of differences; their rounding errors are below 1e-12 of the states
_FEWEST = 8  # differences of a component, so that the standard error is below a half
_OUTLIER = 8.0  # in units of the median size: 5.4 standard deviations of normal noise
_STATES = 1 << 22  # read at most, enough for an estimate to 0.1 percent
_ROUNDING = 1e-12  # noise, in units of the largest state, that rounding explains


@dataclass(frozen=True)
class Noise:
    """Estimated standard deviation of independent noise on the states.

    Attributes
    ----------
    level
        Standard deviation of each component, (dim,), in units of the component.
    standard_error
        Standard error of ``level``, (dim,), for normally distributed noise.
    order
        Order of the differences, (dim,). An order of 0 means that the mean square still fell at the
        highest order: the noise is at most ``level``, and may be zero.
    """

    level: np.ndarray
    standard_error: np.ndarray
    order: np.ndarray

    def texts(self) -> list[str]:
        """Return the estimate of each component in words, in the order of the components."""
        return [
            f"at most {level:.2g}" if order == 0 else f"{level:.3g} ± {error:.1g}"
            for level, error, order in zip(self.level, self.standard_error, self.order, strict=True)
        ]


def estimate_noise(dataset: Dataset | str | os.PathLike[str], group: str = "train") -> Noise | None:
    """Estimate the noise of the observed states of a dataset.

    The noise is taken for independent between times, and equal along trajectories. Noise that is
    correlated over several steps is not seen.

    Parameters
    ----------
    dataset
        A dataset, or the path of one.
    group
        ``train``, ``validation`` or ``test``.

    Returns
    -------
    Noise or None
        None if the trajectories are too short or too few: pairs of states, maps without
        trajectories.

    Raises
    ------
    InputError
        If there is no such dataset or group, or the dataset is damaged.

    Examples
    --------
    >>> import numpy as np
    >>> times = 0.1 * np.arange(400)
    >>> rng = np.random.default_rng(0)
    >>> states = np.stack([np.sin(times), np.cos(times)], axis=1)
    >>> noisy = states + 0.01 * rng.normal(size=states.shape)
    >>> dataset = vp.import_dataset(noisy, "noisy.h5", step=0.1)
    >>> vp.data.estimate_noise(dataset).texts()
    ['0.0106 ± 0.0006', '0.0106 ± 0.0006']
    """
    dataset = dataset if isinstance(dataset, Dataset) else open_dataset(dataset)
    times = dataset.times(group)
    count, length, dim = dataset.shapes[group]
    if count == 0 or length < 3 or dataset.system.is_discrete:
        return None
    read = max(1, _STATES // (length * dim))
    return noise_of_states(dataset.states(group, slice(0, read)), times)


def noise_of_states(states: np.ndarray, times: np.ndarray) -> Noise | None:
    """Estimate the noise of trajectories (trajectory, time, dim) at times (time,).

    States that are not finite, and outliers, are left out. Returns None if fewer than eight
    differences remain.

    Raises
    ------
    InputError
        If the times do not increase.
    """
    if not (np.diff(times) > 0).all():
        raise InputError("the times of trajectories must increase, so that noise can be estimated")
    states = np.where(np.isfinite(states), states, np.nan)
    squares, errors = [], []
    for order in range(1, min(_HIGHEST, states.shape[1] - 1) + 1):
        weights = _weights(times, order)
        differences = sum(
            states[:, k : k + len(weights)] * weights[:, k, None] for k in range(order + 1)
        )
        square, count = _mean_square(differences.reshape(-1, states.shape[2]))
        if (count < _FEWEST).any():
            break
        squares.append(square)
        errors.append(square * np.sqrt(2 * _correlation(weights) / count))
    if not squares:
        return None
    return _choose(
        np.array(squares), np.array(errors), _ROUNDING * np.nanmax(np.abs(states), (0, 1))
    )


def _mean_square(differences: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the mean square of each column without NaN and outliers, and the number of terms.

    A difference beyond eight times the median size is an outlier: one in 1e7 of normal noise.
    """
    sizes = np.abs(differences)
    if not np.isfinite(sizes).any(axis=0).all():
        return np.zeros(sizes.shape[1]), np.zeros(sizes.shape[1], int)
    limit = _OUTLIER * np.nanmedian(sizes, axis=0)
    kept = np.isfinite(sizes) & ((sizes <= limit) | (limit == 0))
    count = kept.sum(axis=0)
    return np.square(np.where(kept, sizes, 0.0)).sum(axis=0) / np.maximum(count, 1), count


def _weights(times: np.ndarray, order: int) -> np.ndarray:
    """Return the weights of differences, (window, order + 1), of norm one."""
    stretches = np.lib.stride_tricks.sliding_window_view(times, order + 1)
    distances = stretches[:, :, None] - stretches[:, None, :]
    distances /= np.abs(distances).max(axis=(1, 2), keepdims=True)
    distances[:, range(order + 1), range(order + 1)] = 1.0
    weights = 1.0 / distances.prod(axis=2)
    return np.asarray(weights / np.linalg.norm(weights, axis=1, keepdims=True))


def _correlation(weights: np.ndarray) -> float:
    """Return the sum of squared correlations of a difference with all others of its trajectory."""
    count, terms = weights.shape
    total = 0.0
    for shift in range(min(terms, count)):
        shared = (weights[: count - shift, shift:] * weights[shift:, : terms - shift]).sum(axis=1)
        total += (1.0 if shift == 0 else 2.0) * float(np.square(shared).sum())
    return total / count


def _choose(squares: np.ndarray, errors: np.ndarray, least: np.ndarray) -> Noise:
    """Take the lowest order whose mean square exceeds no later one by more than its error.

    ``squares`` and ``errors`` are (order, dim); ``least`` is the noise that rounding explains.
    """
    above = squares[:, None] > (squares + errors)[None]
    later = np.tri(len(squares), k=-1, dtype=bool).T[..., None]
    settled = ~(above & later).any(axis=1)
    chosen = settled.argmax(axis=0)
    columns = np.arange(squares.shape[1])
    level = np.sqrt(squares[chosen, columns])
    with np.errstate(invalid="ignore", divide="ignore"):
        error = np.where(level > 0, errors[chosen, columns] / (2 * level), 0.0)
    known = (chosen < len(squares) - 1) & (level > least)
    return Noise(level, error, np.where(known, chosen + 1, 0))
