"""Angles as they were measured: reduced to one period, so that they jump where they leave it."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np


def unwrapped(states: np.ndarray, periods: Mapping[int, float]) -> tuple[np.ndarray, list[int]]:
    """States with their angles continued over the jumps from one end of a period to the other.

    An angle is taken to be reduced to one period if it stays within one, and if every change in a
    step is either a jump by more than 3/4 of the period or less than 1/4. Others are left as they
    are.

    Parameters
    ----------
    states
        Trajectories, shape (..., time, dim); NaN where nothing was observed.
    periods
        Periods of the components that are angles, by number.

    Returns
    -------
    states, continued
        The second names the components that jumped.
    """
    continued: list[int] = []
    for component, period in periods.items():
        angle = states[..., component]
        seen = np.isfinite(angle)
        changes = np.abs(np.diff(np.where(seen, angle, np.nan), axis=-1)) / period
        doubtful = ((changes > 1 / 4) & (changes < 3 / 4)).any()
        if not seen.any() or doubtful or np.ptp(angle[seen]) > period * (1 + 1e-6):
            continue
        # where nothing was observed, the last angle that was, and at the beginning the first
        last = np.maximum.accumulate(np.where(seen, np.arange(angle.shape[-1]), 0), axis=-1)
        held = np.take_along_axis(angle, last, axis=-1)
        first = np.take_along_axis(angle, np.argmax(seen, axis=-1)[..., None], axis=-1)
        held = np.nan_to_num(np.where(np.isfinite(held), held, first), posinf=0.0, neginf=0.0)
        turns = np.cumsum(-np.round(np.diff(held, axis=-1) / period), axis=-1)
        if turns.any():
            continued.append(component)
            states = states.copy()
            states[..., 1:, component] += period * turns
    return states, continued
