"""Windows: what a model reads, and the window it should give back, cut from trajectories."""

from __future__ import annotations

import numpy as np

from vpintegrator.errors import InputError


def windows(
    states: np.ndarray, window: int, prediction_window: int | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Cut all pairs of windows out of trajectories.

    Parameters
    ----------
    states
        Trajectories, shape (trajectory, time, dim).
    window
        Number of states T in a window.
    prediction_window
        By how many steps the second window is later than the first; ``window`` by default, so that
        the second follows the first without overlap.

    Returns
    -------
    inputs, targets
        Shape (pair, T, dim) each: states t, ..., t+T-1 and t+P, ..., t+P+T-1.

    Raises
    ------
    InputError
        If the trajectories are too short to hold a pair.
    """
    shift = window if prediction_window is None else prediction_window
    if not 1 <= shift <= window:
        raise InputError(f"prediction_window = {shift} must lie between 1 and window = {window}")
    trajectories, length, dim = states.shape
    starts = length - window - shift + 1
    if starts < 1:
        raise InputError(
            f"a window of {window} states and its prediction need trajectories of "
            f"{window + shift} states, but these have {length}; "
            f"generate them with steps = {window + shift - 1} or more"
        )
    view = np.lib.stride_tricks.sliding_window_view(states, window, axis=1)
    view = view.swapaxes(2, 3)  # (trajectory, start, window, dim)
    inputs = view[:, :starts].reshape(trajectories * starts, window, dim)
    targets = view[:, shift : shift + starts].reshape(trajectories * starts, window, dim)
    return inputs, targets
