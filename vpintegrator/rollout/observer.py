"""Observers of a rollout, fed part by part so that memory holds only one part at a time.

An observer is fed with consecutive parts of the trajectories, (trajectory, count, dim), from step 0
on. Values for every stored time go into an array (time, trajectory, ...) that is given to the
observer.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable

import numpy as np


class Observer(ABC):
    """Something that sees every step of a rollout."""

    @abstractmethod
    def update(self, start: int, states: np.ndarray) -> None:
        """Observe the states of steps ``start``, ``start`` + 1, ..., (trajectory, count, dim)."""


class StateKeeper(Observer):
    """Keeps the states at the stored times in ``kept`` (time, trajectory, dim)."""

    def __init__(self, stored: np.ndarray, kept: np.ndarray) -> None:
        self._stored, self.kept = stored, kept

    def update(self, start: int, states: np.ndarray) -> None:
        first, last = np.searchsorted(self._stored, [start, start + states.shape[1]])
        self.kept[first:last] = states[:, self._stored[first:last] - start].transpose(1, 0, 2)


class WindowSampler(Observer):
    """Keeps windows of consecutive states that end at given steps.

    Attributes
    ----------
    windows
        (sample, trajectory, window, dim).
    """

    def __init__(self, ends: np.ndarray, window: int, trajectories: int, dim: int) -> None:
        self._ends = ends
        self._before = np.empty((trajectories, 0, dim))
        self.windows = np.full((len(ends), trajectories, window, dim), np.nan)

    def update(self, start: int, states: np.ndarray) -> None:
        trajectories, window = self.windows.shape[1:3]
        states = np.concatenate([self._before, states[:trajectories]], axis=1)
        start -= self._before.shape[1]
        first, last = np.searchsorted(self._ends, [start, start + states.shape[1]])
        for sample in range(first, last):
            end = self._ends[sample] - start + 1
            if end >= window:  # else it was there already, in the part before
                self.windows[sample] = states[:, end - window : end]
        self._before = states[:, states.shape[1] - min(window - 1, states.shape[1]) :].copy()


def first_step(index: np.ndarray, start: int, found: np.ndarray) -> None:
    """Set ``index``, initially -1, to the first step at which a trajectory satisfies a condition.

    ``found`` (trajectory, count) says it of the steps from ``start`` on.
    """
    new = found.any(axis=1) & (index < 0)
    index[new] = start + found[new].argmax(axis=1)


def larger(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Return elementwise the number of larger absolute value, NaN if either is NaN."""
    return np.where(
        np.isnan(first) | np.isnan(second),
        np.nan,
        np.where(np.abs(first) >= np.abs(second), first, second),
    )


def fold(
    larger: Callable[[np.ndarray, np.ndarray], np.ndarray],
    start: int,
    values: np.ndarray,
    stored: np.ndarray,
    largest: np.ndarray,
) -> None:
    """Take values (trajectory, count) of steps from ``start`` into (time, trajectory) maxima.

    A step belongs to the first stored time at or after it.
    """
    owner = np.searchsorted(stored, np.arange(start, start + values.shape[1]))
    first, last = owner[0], owner[-1] + 1
    begins = np.searchsorted(owner, np.arange(first, last))
    top = np.maximum.reduceat(values, begins, axis=1)
    if larger is not np.maximum:
        top = larger(top, np.minimum.reduceat(values, begins, axis=1))
    largest[first:last] = larger(largest[first:last], top.T)
