"""Windows cut from trajectories, the pairs that a model learns, and trajectories of pairs."""

from __future__ import annotations

from collections import Counter

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
    first, shift, size = pair_starts(states, window, prediction_window, horizon)
    pairs = states.reshape(-1, states.shape[2])[first[:, None] + np.arange(size)]
    return pairs[:, :window].copy(), pairs[:, shift:].copy()


def pair_starts(
    states: np.ndarray,
    window: int,
    prediction_window: int | None,
    horizon: int,
    where: str = "the states",
) -> tuple[np.ndarray, int, int]:
    """Return the first state of each pair of windows, (pair,), the shift, and the size of a pair.

    States (trajectory, time, dim) are numbered one trajectory after the other. Pairs with a state
    that was not observed (NaN) are left out.

    Raises
    ------
    InputError
        If there is no pair.
    """
    shift = window if prediction_window is None else prediction_window
    window = whole_number("window", window, 1)
    horizon = whole_number("horizon", horizon, 1)
    if not 1 <= shift <= window:
        raise InputError(f"prediction_window = {shift} must lie between 1 and window = {window}")
    length = states.shape[1]
    size = window + horizon * shift
    if length < size:
        ahead = "its prediction" if horizon == 1 else f"{horizon} predictions"
        raise InputError(
            f"a window of {window} states and {ahead} need trajectories of {size} states, but "
            f"these have {length}; generate them with steps = {size - 1} or more"
        )
    seen = ~np.isnan(states).any(axis=-1)
    runs = np.lib.stride_tricks.sliding_window_view(seen, size, axis=1).all(axis=-1)
    trajectory, time = np.nonzero(runs)
    if not len(time):
        raise InputError(
            f"{where}: no {size} consecutive states are all observed, as a window of {window} "
            "states and what follows need"
        )
    return trajectory * length + time, shift, size


def chains(before: np.ndarray, after: np.ndarray) -> list[np.ndarray]:
    """Return the numbers of the pairs of each chain, in which a pair begins where one ends.

    States are compared bit by bit. A state that is before or after several pairs joins none. A
    closed chain begins at its first pair.

    Parameters
    ----------
    before, after : (pair, dim)
        States before and after a step.

    Examples
    --------
    >>> from vpintegrator.data.windows import chains
    >>> z = np.arange(5.0)[:, None]
    >>> [chain.tolist() for chain in chains(z[[3, 0, 2]], z[[4, 1, 3]])]
    [[1], [2, 0]]
    """
    first, last = (  # zeros with a minus sign are zeros
        [row.tobytes() for row in np.asarray(states, dtype=float) + 0.0]
        for states in (before, after)
    )
    places = {key: n for n, key in enumerate(first)}
    often = {key for keys in (first, last) for key, count in Counter(keys).items() if count > 1}
    following = [-1 if key in often else places.get(key, -1) for key in last]
    begins = sorted({*range(len(first))} - {*following})
    result = []
    left = {*range(len(first))}
    while left:
        n = begins.pop(0) if begins else min(left)
        chain = []
        while n in left:
            chain.append(n)
            left.remove(n)
            n = following[n]
        result.append(np.array(chain))
    return result
