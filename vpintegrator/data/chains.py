"""Order of pairs of states that follow one another."""

from __future__ import annotations

from collections import Counter

import numpy as np


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
    >>> from vpintegrator.data.chains import chains
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
    result, left = [], {*range(len(first))}
    while left:
        n = begins.pop(0) if begins else min(left)
        chain = []
        while n in left:
            chain.append(n)
            left.remove(n)
            n = following[n]
        result.append(np.array(chain))
    return result
