"""Doubts about imported states that only the person who imports them can answer."""

from __future__ import annotations

import numpy as np
from scipy.spatial import cKDTree

from vpintegrator.data.importing.arrays import Arrays

_FEWEST = 50  # rows by which a trajectory is judged
_MOST = 5_000  # rows that are compared
_AS_LARGE = 0.8  # jumps, relative to those between states at random
_UNRELATED = 0.6  # the same, of the jumps between successors of neighbouring states


def questions(arrays: Arrays) -> list[str]:
    """Return questions about states (trajectory, time, dim), a sentence each.

    Rows of a single trajectory are unrelated if two conditions hold: jumps from row to row are as
    large as those between rows at random, and neighbouring states have distant successors.
    """
    states = arrays.states
    if len(states) != 1 or arrays.pairs or arrays.times is not None:
        return []
    rows = states[0][np.isfinite(states[0]).all(axis=-1)]
    if len(rows) < _FEWEST or not _are_unrelated(rows[:_MOST]):
        return []
    return [
        "each state is as far from the next one as from any other: are these pairs of states "
        "before and after a map? then use --pairs BEFORE,AFTER (vp.import_pairs in Python)"
    ]


def _are_unrelated(rows: np.ndarray) -> bool:
    spread = rows.std(axis=0)
    scaled = (rows[:, spread > 0] - rows.mean(axis=0)[spread > 0]) / spread[spread > 0]
    if not scaled.shape[1]:
        return False
    at_random = 2.0  # mean square of the distance of two states, for each component
    jumps = np.square(np.diff(scaled, axis=0)).mean()
    if jumps < _AS_LARGE * at_random:
        return False
    _, near = cKDTree(scaled[:-1]).query(scaled[:-1], k=2)
    apart = np.square(scaled[1:] - scaled[near[:, 1] + 1]).sum(axis=-1)
    return bool(np.median(apart) > _UNRELATED * at_random * scaled.shape[1] / 2)
