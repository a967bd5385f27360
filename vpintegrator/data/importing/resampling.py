"""States at irregular times, brought to equal steps by cubic splines, with the error told."""

from __future__ import annotations

import numpy as np
import scipy  # loads scipy.interpolate when it is used

from vpintegrator.data.importing.arrays import padded
from vpintegrator.errors import InputError

_FEWEST = 8  # times of a trajectory: half of them must make a spline
_LONGEST_GAP = 5  # median steps
_FINEST = 100  # states for each that was observed


def resample(
    states: np.ndarray, times: np.ndarray, lengths: np.ndarray, step: float | None, where: str
) -> tuple[np.ndarray, np.ndarray, np.ndarray, str]:
    """Interpolate each trajectory at equal steps from its first time on.

    Parameters
    ----------
    states, times, lengths
        Arguments of :func:`vpintegrator.data.importing.times.place_on_grid`; states that hold NaN
        are left out.
    step
        The step wanted; the median of those found by default.
    where
        The file's name, for messages.

    Returns
    -------
    states, times, lengths, said
        States, times and lengths at equal steps, and a sentence with the method and its error. The
        error is the difference of every second state from its interpolation by the others.

    Raises
    ------
    InputError
        If times do not increase, are too few, or too far apart.
    """
    rows = []
    for k, length in enumerate(lengths):
        kept = np.isfinite(states[k, :length]).all(axis=-1)
        rows.append((times[k, :length][kept], states[k, :length][kept]))
        time = rows[-1][0]
        if len(time) < _FEWEST or not (np.diff(time) > 0).all() or not np.isfinite(time).all():
            raise InputError(
                f"{where}: resampling needs {_FEWEST} times or more that increase, in every "
                f"trajectory; number {k} has not"
            )
    median = float(np.median(np.concatenate([np.diff(time) for time, _ in rows])))
    step = float(f"{median:.6g}") if step is None else step
    made, errors = [], []
    for time, values in rows:
        gap = float(np.diff(time).max())
        if gap > _LONGEST_GAP * median:
            raise InputError(
                f"{where}: nothing was observed for {gap:.6g} after t = "
                f"{time[np.diff(time).argmax()]:g}, which is too long to be interpolated where the "
                f"median step is {median:.6g}; cut the trajectory there, or fit orbits "
                "at any times (--positions-only, or --system with --observed)"
            )
        if np.ptp(time) / step > _FINEST * len(time):
            raise InputError(f"{where}: the step {step:g} is far below those of the times")
        grid = time[0] + step * np.arange(int(np.ptp(time) / step * (1 + 1e-12)) + 1)
        made.append((grid, scipy.interpolate.CubicSpline(time, values)(grid)))
        half = scipy.interpolate.CubicSpline(time[::2], values[::2])
        inner = slice(1, len(time) - 1 + len(time) % 2 - 1, 2)
        errors.append(half(time[inner]) - values[inner])
    spread = np.ptp(np.concatenate([values for _, values in rows]), axis=0)
    relative = np.abs(np.concatenate(errors)) / np.where(spread > 0, spread, 1.0)
    grids, placed = zip(*made, strict=True)
    said = (
        f"resampled by cubic splines to steps of {step:g}; every second state, left out and "
        f"interpolated from the others, differs by {np.median(relative):.1e} of the component's "
        f"range (median; worst {relative.max():.1e}), noise included"
    )
    return padded(placed), padded(grids), np.array([len(grid) for grid in grids]), said
