"""Windows cut from trajectories: input of a model, and the window it should return."""

from __future__ import annotations

import numpy as np

from vpintegrator.arguments import real_array, whole_number
from vpintegrator.errors import InputError


def windows(
    states: np.ndarray, window: int, prediction_window: int | None = None, horizon: int = 1
) -> tuple[np.ndarray, np.ndarray]:
    r"""Cut all pairs of windows out of trajectories.

    .. math:: (z_t, \dots, z_{t+T-1}) \quad \text{and} \quad (z_{t+P}, \dots, z_{t+P+T-1})

    Parameters
    ----------
    states
        Trajectories, shape (trajectory, time, dim).
    window
        Number of states T in a window.
    prediction_window
        Shift of the second window in steps; ``window`` by default, so that the second window
        follows the first without overlap.
    horizon
        Number of predictions in the second window. Each prediction after the first makes the second
        window longer by ``prediction_window`` states.

    Returns
    -------
    inputs, targets
        Shapes (pair, T, dim) and (pair, T + (horizon - 1) P, dim): states t, ..., t+T-1 and t+P,
        ..., t+T-1 + horizon P, with P the ``prediction_window``. Pairs with a state that was not
        observed (NaN) are left out.

    Raises
    ------
    InputError
        If the trajectories are too short to hold a pair, or too many states are missing.

    Examples
    --------
    >>> inputs, targets = vp.windows(np.arange(6.0).reshape(1, 6, 1), 3, 1)
    >>> inputs[0, :, 0], targets[0, :, 0]
    (array([0., 1., 2.]), array([1., 2., 3.]))
    """
    states = real_array("states", states, ("trajectory", "time", "dim"))
    shift = window if prediction_window is None else prediction_window
    trajectories, length, dim = states.shape
    starts = count_starts(length, window, shift, horizon)

    def cut(first: int, size: int) -> np.ndarray:
        view = np.lib.stride_tricks.sliding_window_view(states, size, axis=1).swapaxes(2, 3)
        pairs = view[:, first : first + starts].reshape(trajectories * starts, size, dim)
        # a single trajectory needs no copy to be reshaped, and a view is read-only
        return pairs if pairs.flags.writeable else pairs.copy()

    inputs, targets = cut(0, window), cut(shift, window + (horizon - 1) * shift)
    if not np.isnan(states).any():
        return inputs, targets
    whole = observed_starts(states, window + horizon * shift)
    if not len(whole):
        raise InputError(
            f"no {window + horizon * shift} consecutive states are all observed, as a window of "
            f"{window} states and what follows need"
        )
    return inputs[whole], targets[whole]


def count_starts(length: int, window: int, shift: int, horizon: int) -> int:
    """Return the number of pairs of windows in a trajectory of ``length`` states.

    Raises
    ------
    InputError
        If there is none.
    """
    window, horizon = whole_number("window", window, 1), whole_number("horizon", horizon, 1)
    if not 1 <= shift <= window:
        raise InputError(f"prediction_window = {shift} must lie between 1 and window = {window}")
    starts = length - window - horizon * shift + 1
    if starts < 1:
        needed = window + horizon * shift
        ahead = "its prediction" if horizon == 1 else f"{horizon} predictions"
        raise InputError(
            f"a window of {window} states and {ahead} need trajectories of {needed} states, but "
            f"these have {length}; generate them with steps = {needed - 1} or more"
        )
    return starts


def observed_starts(states: np.ndarray, size: int) -> np.ndarray:
    """Return the numbers of the runs of ``size`` consecutive observed states."""
    seen = ~np.isnan(states).any(axis=-1)
    runs = np.lib.stride_tricks.sliding_window_view(seen, size, axis=1).all(axis=-1)
    return np.flatnonzero(runs)
