"""Inspection of a dataset: ranges, missing and infinite values, changes of invariants.

Everything is computed from the states as they stand in the file, a part at a time.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from vpintegrator.data.dataset import Dataset, open_dataset
from vpintegrator.data.variation import STEP
from vpintegrator.dynamics.sizes import size_of

_JUDGED = 512  # states at which structure is measured
_ACCURACY = 1e-9  # of states whose accuracy is not known
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
    conditions
        Smallest and largest value in the group of each quantity that varies, by name; empty for a
        group without trajectories.
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
    conditions: dict[str, tuple[float, float]]
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


def _invariants(dataset: Dataset) -> tuple[Mapping[str, Callable[..., Any]], list[int]]:
    """Invariants, and which of the conditions they take beside states: the system's parameters."""
    system = dataset.system
    known = [name for name in dataset.varied if name != STEP and name in system.parameters]
    if not known:
        return system.invariants, []
    return system.with_open(known).invariants, [[*dataset.varied].index(n) for n in known]


def _look_through(dataset: Dataset, name: str) -> Group:
    count, length, dim = shape = dataset.shapes[name]
    times = dataset.times(name)
    low, high = np.full(dim, np.inf), np.full(dim, -np.inf)
    missing = infinite = 0
    invariants, chosen = _invariants(dataset)
    conditions = dataset.conditions(name)
    change = dict.fromkeys(invariants, 0.0)
    largest = dict.fromkeys(invariants, 0.0)
    part = max(1, _PART_BYTES // (8 * dim * max(length, 1)))
    for first in range(0, count, part):
        states = dataset.states(name, slice(first, first + part))
        unseen = np.isnan(states).any(axis=-1)
        missing += int(unseen.sum())
        infinite += int(np.isinf(states).any(axis=-1).sum())
        finite = np.isfinite(states)
        low = np.minimum(low, np.where(finite, states, np.inf).min(axis=(0, 1)))
        high = np.maximum(high, np.where(finite, states, -np.inf).max(axis=(0, 1)))
        begin = np.argmin(unseen, axis=1)  # the first that was observed
        own = conditions[first : first + part, chosen] if chosen else None
        for key, invariant in invariants.items():
            with np.errstate(all="ignore"):
                values = np.asarray(invariant(states, *(() if own is None else (own[:, None],))))
                since = np.abs(values - values[np.arange(len(values)), begin][:, None])
            change[key] = float(np.fmax.reduce(since, axis=None, initial=change[key]))
            size = max(largest[key], size_of(invariant, states[:, 0], own))
            largest[key] = float(np.fmax(size, np.fmax.reduce(np.abs(values), axis=None)))
    empty = ~np.isfinite(low)
    return Group(
        shape=shape,
        times=(float(times[0]), float(times[-1])) if length else (np.nan, np.nan),
        low=np.where(empty, np.nan, low),
        high=np.where(empty, np.nan, high),
        missing=missing,
        infinite=infinite,
        conditions={
            key: (float(column.min()), float(column.max()))
            for key, column in zip(dataset.varied, conditions.T, strict=True)
            if count
        },
        changes={key: size / (largest[key] or 1.0) for key, size in change.items()},
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
    system, broken = dataset.system.holding_at(states[chosen], accuracy)
    if not broken:
        return dataset
    warnings.warn(
        f"{dataset.path}: the training states do not have structure of {system.name}, which the "
        f"models leave out: {'; '.join(broken)}",
        stacklevel=2,
    )
    return dataset.attached(system)


def accuracy_text(error: str, accuracy: Mapping[str, Any]) -> str:
    """Return the error of generated states, and the way it was measured, in words."""
    again = f"{accuracy.get('sample', '?')} trajectories integrated again"
    return f"relative error about {error} ({again}, more tightly)"
