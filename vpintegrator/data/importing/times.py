"""The regular grid that times of measurement lie on: its step, and what is missing on it."""

from __future__ import annotations

import numpy as np

from vpintegrator.errors import InputError

_ADVICE = (
    "--irregular pairs (irregular='pairs' in Python) takes each pair of neighbours with its own "
    "step, --irregular resample interpolates to equal steps"
)
_TOLERANCE = 1e-3  # in steps: allowed distance of times from the grid
_SMALL = 1_000_000  # times of all trajectories together that nobody minds
_MOST_GAPS = 1000  # beyond these, how many may be missing for each that is there
_GIVEN_TOLERANCE = 0.1  # the same where the step is given: times as written are rounded


def place_on_grid(
    states: np.ndarray,
    times: np.ndarray,
    lengths: np.ndarray,
    step: float | None,
    missing: bool,
    where: str,
) -> tuple[np.ndarray, float, float]:
    """Find the step between times, and put states where they belong.

    Parameters
    ----------
    states
        (trajectory, time, dim).
    times
        (trajectory, time).
    lengths
        Number of states in each trajectory, (trajectory,).
    step
        Step, or None to find it.
    missing
        Whether times may be missing.
    where
        The file's name, for messages.

    Returns
    -------
    states, step, first
        States (trajectory, time, dim), NaN where none was measured; the step; and the first time,
        0 where trajectories start at different times.

    Raises
    ------
    InputError
        If times do not increase, or steps are not equal.
    """
    known = np.arange(times.shape[1]) < lengths[:, None]
    check_increase(times, known, where)
    known_steps = known[:, 1:]
    differences = np.diff(times, axis=1)
    if step is None and not known_steps.any():
        raise InputError(f"{where}: a single time has no step; trajectories need two or more")
    found = float(np.median(differences[known_steps])) if step is None else step
    with np.errstate(over="ignore", invalid="ignore"):
        counts = np.where(known_steps, np.maximum(np.round(differences / found), 1), 0)
    longest = counts.sum(axis=1).max()
    if not longest < _SMALL / len(times) + _MOST_GAPS * times.shape[1]:  # infinite and NaN too
        raise InputError(
            f"{where}: the times span {longest:.3g} steps of {found:.3g}, of which "
            f"{times.shape[1]} or fewer are there; give --step, or leave out what lies far off"
        )
    tolerance = _GIVEN_TOLERANCE
    if step is None:
        # over the whole span, so that rounding of single times does not add up
        found = float(differences[known_steps].sum() / counts.sum())
        found = float(f"{found:.12g}")  # 0.05, not 0.04999999999999999
        tolerance = _TOLERANCE
    index = np.concatenate([np.zeros((len(times), 1)), np.cumsum(counts, axis=1)], axis=1)
    index = index.astype(np.int64)
    off = np.abs(differences - counts * found) > tolerance * found
    gaps = counts > (np.inf if missing else 1)
    wrong = np.argwhere(known_steps & (off | gaps))
    if len(wrong):
        row, k = wrong[0]
        odd = float(differences[row, k])
        advice = (
            "allow missing states with --missing (missing=True in Python)"
            if not (known_steps & off).any()
            else _ADVICE
            if step is not None
            else f"{_ADVICE}, or give --step if times are rounded as they were written"
        )
        raise InputError(
            f"{where}: steps are not equal, {odd:.6g} after t = {times[row, k]:g}"
            f"{_of(row, times)} where {found:.6g} is expected; {advice}"
        )
    placed = np.full((len(states), int(index[known].max()) + 1, states.shape[2]), np.nan)
    rows = np.broadcast_to(np.arange(len(states))[:, None], known.shape)
    placed[rows[known], index[known]] = states[known]
    starts = times[:, 0]
    first = float(starts[0]) if np.ptp(starts) <= tolerance * found else 0.0
    return placed, found, first


def step_between(steps: np.ndarray) -> float:
    """Return the step that equal ones have but for rounding: 0.05, not 0.04999999999999999."""
    return float(f"{steps.mean():.12g}")


def check_increase(times: np.ndarray, known: np.ndarray, where: str) -> None:
    """Raise InputError where a known time is no number, or not after the one before."""
    bad = np.argwhere(known & ~np.isfinite(times))
    if len(bad):
        row, k = bad[0]
        raise InputError(f"{where}: the time of row {k}{_of(row, times)} is not a number")
    back = np.argwhere(known[:, 1:] & ~(np.diff(times, axis=1) > 0))
    if not len(back):
        return
    row, k = back[0]
    if times[row, k + 1] == times[row, k]:
        raise InputError(
            f"{where}: the time {times[row, k]:g} stands twice{_of(row, times)}; rows of "
            "several trajectories need a column named trajectory that tells them apart"
        )
    raise InputError(
        f"{where}: times must increase, but {times[row, k + 1]:g} comes after "
        f"{times[row, k]:g}{_of(row, times)}"
    )


def _of(row: int, times: np.ndarray) -> str:
    return f" in trajectory {row}" if len(times) > 1 else ""
