"""Inspection of a dataset: ranges, missing and infinite values, changes of invariants.

Everything is computed from the states as they stand in the file, a part at a time.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from vpintegrator.data.dataset import Dataset, open_dataset
from vpintegrator.data.generation.plan import invariant_changes, largest_changes
from vpintegrator.data.variation import STEP

_PART_BYTES = 1 << 24  # bytes of states that are read together
_JUDGED = 512  # states at which structure is measured
_ACCURACY = 1e-9  # of states whose accuracy is not known


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
    chosen = [[*dataset.varied].index(key) for key in known]
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
        own = conditions[rows, chosen] if chosen else None
        changes.append(invariant_changes(invariants, states, own))
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


def without_broken_structure(dataset: Dataset | str | os.PathLike[str]) -> Dataset:
    """Return a dataset whose system has the structure that holds at its training states.

    Structure that fails there by more than the accuracy of the states is left out with a warning.
    """
    dataset = dataset if isinstance(dataset, Dataset) else open_dataset(dataset)
    if dataset.is_family or dataset.system.is_measured:
        return dataset
    count = dataset.shapes["train"][0]
    few = np.unique(np.linspace(0, count - 1, min(count, _JUDGED)).astype(int))
    states = dataset.states("train", few).reshape(-1, dataset.dim)
    states = states[np.isfinite(states).all(axis=1)]
    chosen = np.random.default_rng(0).choice(len(states), min(len(states), _JUDGED), replace=False)
    accuracy = max(dataset.accuracy.get("estimated_error", 0.0), _ACCURACY)
    system = dataset.system.holding_at(states[chosen], accuracy)
    if system is dataset.system:
        return dataset
    warnings.warn(
        f"{dataset.path}: the training states do not have structure of {system.name}, which the "
        f"models leave out: {'; '.join(system.definition.broken)}",
        stacklevel=2,
    )
    return dataset.attached(system)


def accuracy_text(error: str, accuracy: Mapping[str, Any]) -> str:
    """Return the error of generated states, and the way it was measured, in words."""
    again = f"{accuracy.get('sample', '?')} trajectories integrated again"
    return f"relative error about {error} ({again}, more tightly)"
