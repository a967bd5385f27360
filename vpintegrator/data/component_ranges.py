"""Ranges of a dataset's components, over as many states as can be read quickly."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from vpintegrator.arguments import of_kind
from vpintegrator.data.dataset import Dataset

_MOST_BYTES = 1 << 24  # bytes of states that are read
_PART_BYTES = 1 << 20  # bytes of neighbouring states that are read together


@dataclass(frozen=True)
class Ranges:
    """Ranges of the components of a dataset.

    Attributes
    ----------
    low, high
        Range of each component over the finite states looked at, (dim,); NaN if there are none.
    looked, states
        Numbers of states that were read, and of all states.
    """

    low: np.ndarray
    high: np.ndarray
    looked: int
    states: int

    @property
    def are_all(self) -> bool:
        """Whether every state was looked at."""
        return self.looked == self.states


def ranges(dataset: Dataset, most_bytes: int = _MOST_BYTES) -> Ranges:
    """Return ranges over all states, or over parts that are spread evenly through a larger dataset.

    Parameters
    ----------
    dataset
        Any.
    most_bytes
        Limit of the bytes of states that are read.

    Raises
    ------
    InputError
        If the file is gone or damaged.

    Examples
    --------
    >>> dataset = vp.generate("pendulum", "pendulum.h5", count=10, steps=5, overwrite=True)
    >>> found = vp.data.ranges(dataset)
    >>> found.low.shape, found.looked, found.are_all
    ((2,), 60, True)
    """
    of_kind("dataset", dataset, Dataset, "a dataset, as vp.open_dataset gives it")
    low, high = np.full(dataset.dim, np.inf), np.full(dataset.dim, -np.inf)
    states = {name: shape[0] * shape[1] for name, shape in dataset.shapes.items()}
    total, looked = sum(states.values()), 0
    for name, (count, length, dim) in dataset.shapes.items():
        if not states[name]:
            continue
        share = most_bytes * states[name] / total
        times = max(1, min(length, _PART_BYTES // (8 * dim)))
        rows = max(1, min(count, _PART_BYTES // (8 * dim * times)))
        with dataset.open_states(name) as stored:
            for row, time in _places(count, length, rows, times, share / (8 * dim)):
                part = stored[row : row + rows, time : time + times]
                finite = np.isfinite(part)
                looked += part.shape[0] * part.shape[1]
                low = np.minimum(low, np.where(finite, part, np.inf).min(axis=(0, 1)))
                high = np.maximum(high, np.where(finite, part, -np.inf).max(axis=(0, 1)))
    empty = ~np.isfinite(low)
    return Ranges(np.where(empty, np.nan, low), np.where(empty, np.nan, high), looked, total)


def _places(count: int, length: int, rows: int, times: int, most: float) -> list[tuple[int, int]]:
    """Return the first trajectory and time of the parts of a group, all or evenly spread ones."""
    across, along = -(-count // rows), -(-length // times)
    parts = across * along
    taken = min(parts, max(1, int(most / (rows * times))))
    chosen = np.unique(np.linspace(0, parts - 1, taken).round().astype(int))
    return [(int(n // along) * rows, int(n % along) * times) for n in chosen]
