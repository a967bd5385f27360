"""Inspection of a dataset: ranges, missing and infinite values, changes of invariants.

Everything is computed from the states as they stand in the file, a part at a time.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from vpintegrator.data.dataset import Dataset, open_dataset
from vpintegrator.data.generation.plan import invariant_changes, largest_changes
from vpintegrator.data.variation import STEP

_PART_BYTES = 1 << 24  # bytes of states that are read together


@dataclass(frozen=True)
class Group:
    """Statistics of one group of a dataset.

    Attributes
    ----------
    shape
        (trajectory, time, dim).
    times
        First and last time; the unit is one step if steps vary.
    low, high
        Range of each component over the states observed, (dim,); NaN if there are none.
    missing, infinite
        Numbers of states that were not observed (NaN), and of infinite states.
    changes
        Largest change of each invariant along a trajectory since the first observed state, divided
        by the largest value of the invariant in the group.
    """

    shape: tuple[int, ...]
    times: tuple[float, float]
    low: np.ndarray
    high: np.ndarray
    missing: int
    infinite: int
    changes: dict[str, float]


def inspect_dataset(dataset: Dataset | str | os.PathLike[str]) -> dict[str, Group]:
    """Look through every group of a dataset.

    Raises
    ------
    InputError
        If there is no such dataset, or it is damaged.
    """
    dataset = dataset if isinstance(dataset, Dataset) else open_dataset(dataset)
    return {name: _look_through(dataset, name) for name in dataset.shapes}


def _look_through(dataset: Dataset, name: str) -> Group:
    count, length, dim = shape = dataset.shapes[name]
    times = dataset.times(name)
    conditions = dataset.conditions(name)
    system = dataset.system
    known = [key for key in dataset.varied if key != STEP and key in system.parameters]
    places = [[*dataset.varied].index(key) for key in known]
    invariants = (system.with_open(known) if known else system).invariants
    low = np.full(dim, np.inf)
    high = np.full(dim, -np.inf)
    missing = 0
    infinite = 0
    changes = []
    part = max(1, _PART_BYTES // (8 * dim * max(length, 1)))
    for first in range(0, count if length else 0, part):
        rows = slice(first, first + part)
        states = dataset.states(name, rows)
        missing += int(np.isnan(states).any(axis=-1).sum())
        infinite += int(np.isinf(states).any(axis=-1).sum())
        finite = np.isfinite(states)
        low = np.minimum(low, np.where(finite, states, np.inf).min(axis=(0, 1)))
        high = np.maximum(high, np.where(finite, states, -np.inf).max(axis=(0, 1)))
        parameters = conditions[rows, places] if places else None
        changes.append(invariant_changes(invariants, states, parameters))
    empty = ~np.isfinite(low)
    sizes = largest_changes(changes) if changes else dict.fromkeys(invariants, (0.0, 0.0))
    return Group(
        shape=shape,
        times=(float(times[0]), float(times[-1])) if length else (np.nan, np.nan),
        low=np.where(empty, np.nan, low),
        high=np.where(empty, np.nan, high),
        missing=missing,
        infinite=infinite,
        changes={key: change / (size or 1.0) for key, (change, size) in sizes.items()},
    )


def accuracy_text(error: str, accuracy: Mapping[str, Any]) -> str:
    """Return the error of generated states, and the way it was measured, in words."""
    again = f"{accuracy.get('sample', '?')} trajectories integrated again"
    return f"relative error about {error} ({again}, more tightly)"
