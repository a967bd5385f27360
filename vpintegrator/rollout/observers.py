"""What watches a rollout step by step, so that no more than a part of it is ever in memory.

An observer is fed with consecutive parts of the trajectories, (trajectory, count, dim), from step 0
on. What it keeps for every stored time goes into an array (time, trajectory, ...) that it is given;
the rest fits into a snapshot. Being fed with the same part twice, after an interruption, leaves the
arrays as they are.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from vpintegrator.dynamics import System
from vpintegrator.dynamics.region import TOLERANCE, Region
from vpintegrator.rollout.diagnostics import DriftAccumulator, is_relative

Snapshot = dict[str, np.ndarray]


class Observer(ABC):
    """Something that sees every step of a rollout."""

    @abstractmethod
    def update(self, start: int, states: np.ndarray) -> None:
        """The states of the steps ``start``, ``start`` + 1, ..., (trajectory, count, dim)."""

    def snapshot(self) -> Snapshot:
        """Copies of all that is not in the arrays given."""
        return {}

    def restore(self, snapshot: Mapping[str, np.ndarray]) -> None:  # noqa: B027 (few have one)
        """Go on from a snapshot."""


class StateKeeper(Observer):
    """Keeps the states at the stored times in ``kept`` (time, trajectory, dim)."""

    def __init__(self, stored: np.ndarray, kept: np.ndarray) -> None:
        self._stored, self.kept = stored, kept

    def update(self, start: int, states: np.ndarray) -> None:
        first, last = np.searchsorted(self._stored, [start, start + states.shape[1]])
        self.kept[first:last] = states[:, self._stored[first:last] - start].transpose(1, 0, 2)


class DivergenceObserver(Observer):
    """Finds the first step at which each trajectory is not finite, -1 if none."""

    def __init__(self, trajectories: int) -> None:
        self.index = np.full(trajectories, -1)

    def update(self, start: int, states: np.ndarray) -> None:
        # nothing comes back from NaN, so the end of a part tells whether there is anything to find
        with np.errstate(all="ignore"):
            if np.isfinite(states[:, -1].sum()):
                return
        bad = ~np.isfinite(states).all(axis=-1)
        new = bad.any(axis=1) & (self.index < 0)
        self.index[new] = start + bad[new].argmax(axis=1)

    def snapshot(self) -> Snapshot:
        return {"index": self.index.copy()}

    def restore(self, snapshot: Mapping[str, np.ndarray]) -> None:
        self.index = snapshot["index"].copy()


class ErrorObserver(Observer):
    """Distance from a reference: its largest values, its mean square, when it passes a threshold.

    Parameters
    ----------
    reference
        States of the first steps, (time, trajectory, dim); NaN where nothing is known.
    threshold
        Of the distance.
    stored
        Steps of the stored times.
    largest
        Receives the largest distance since the stored time before, (time, trajectory).
    given
        How many states after the initial one a method was given: no errors, and not in the mean.
    """

    def __init__(
        self,
        reference: np.ndarray,
        threshold: float,
        stored: np.ndarray,
        largest: np.ndarray,
        given: int = 0,
    ) -> None:
        self._reference, self._threshold = reference, threshold
        self._stored, self.largest = stored, largest
        trajectories = reference.shape[1]
        self.squares = np.zeros(trajectories)
        self.index = np.full(trajectories, -1)
        self._known = np.isfinite(reference).all(axis=-1).T  # (trajectory, time)
        self._given = given

    @property
    def root_mean_square(self) -> np.ndarray:
        """Over the steps at which the reference is known and the method was not given the state.

        And over all components; (trajectory,).
        """
        own = self._known.sum(axis=1) - self._known[:, 1 : self._given + 1].sum(axis=1)
        return np.sqrt(self.squares / (own * self._reference.shape[2]))

    @property
    def nothing_known(self) -> np.ndarray:
        """Whether the reference is unknown since the stored time before, (time, trajectory)."""
        steps = np.arange(self._known.shape[1])
        known = np.zeros((len(self._stored), len(self._known)), dtype=bool)
        np.logical_or.at(known, np.searchsorted(self._stored, steps), self._known.T)
        return ~known

    def update(self, start: int, states: np.ndarray) -> None:
        reference = self._reference[start : start + states.shape[1]]
        if not len(reference):
            return
        with np.errstate(all="ignore"):
            difference = states[:, : len(reference)] - reference.transpose(1, 0, 2)
            squares = np.einsum("ntd,ntd->nt", difference, difference)
            distance = np.sqrt(squares)
            # what has diverged is infinitely wrong
            distance[np.isnan(distance)] = np.inf
            squares[np.isnan(squares)] = np.inf
            unknown = ~self._known[:, start : start + len(reference)]
            squares[unknown], distance[unknown] = 0.0, 0.0
            self.squares += squares.sum(axis=1)
        if (distance.max(axis=1)[self.index < 0] > self._threshold).any():
            passed = distance > self._threshold
            new = passed.any(axis=1) & (self.index < 0)
            self.index[new] = start + passed[new].argmax(axis=1)
        _fold(np.maximum, start, distance, self._stored, self.largest)

    def snapshot(self) -> Snapshot:
        given = np.array(self._given)
        return {"squares": self.squares.copy(), "index": self.index.copy(), "given": given}

    def restore(self, snapshot: Mapping[str, np.ndarray]) -> None:
        self.squares, self.index = snapshot["squares"].copy(), snapshot["index"].copy()
        self._given = int(snapshot.get("given", 0))  # earlier versions took all into the mean


class InvariantObserver(Observer):
    """Change of an invariant: its largest values and its drift.

    Parameters
    ----------
    invariant
        Function of states (..., dim).
    initial
        Initial states, (trajectory, dim).
    step
        Time step.
    stored
        Steps of the stored times.
    largest
        Receives the change of largest size since the stored time before, (time, trajectory).
    """

    def __init__(
        self,
        invariant: Callable[[Any], Any],
        initial: np.ndarray,
        step: float,
        stored: np.ndarray,
        largest: np.ndarray,
    ) -> None:
        self._invariant, self._step = invariant, step
        self._stored, self.largest = stored, largest
        with np.errstate(all="ignore"):
            self._first = np.asarray(invariant(initial), dtype=np.float64)
        self.relative = is_relative(self._first)
        self._scale = np.where(self.relative, np.abs(self._first), 1.0)
        self.drift = DriftAccumulator(len(initial))

    def update(self, start: int, states: np.ndarray) -> None:
        with np.errstate(all="ignore"):
            change = (self._invariant(states) - self._first[:, None]) / self._scale[:, None]
            times = self._step * np.arange(start, start + states.shape[1])
            self.drift.update(times, change)
            _fold(_larger, start, change, self._stored, self.largest)

    def snapshot(self) -> Snapshot:
        return self.drift.snapshot()

    def restore(self, snapshot: Mapping[str, np.ndarray]) -> None:
        self.drift.restore(snapshot)


class RegionObserver(Observer):
    """Finds when trajectories leave a region, and how far they get.

    Attributes
    ----------
    region
        What of it the system has.
    index
        First step outside by more than the tolerance, -1 if none, (trajectory,).
    excess
        As in :class:`vpintegrator.dynamics.region.Departure`.
    """

    def __init__(self, region: Region, system: System, trajectories: int) -> None:
        self.region = region.within(system)
        self._quantities = self.region.quantities(system)
        self._scales = [*zip(self.region.bounds, self.region.units, strict=True)]
        self.index = np.full(trajectories, -1)
        self.excess = np.zeros((trajectories, len(self._quantities)))

    @np.errstate(all="ignore")
    def update(self, start: int, states: np.ndarray) -> None:
        outside: np.ndarray | None = None
        for k, (quantity, ((low, high), unit)) in enumerate(
            zip(self._quantities, self._scales, strict=True)
        ):
            values = quantity(states)
            top = np.maximum(low - values.min(axis=1), values.max(axis=1) - high) / unit
            top[np.isnan(top)] = np.inf
            self.excess[:, k] = np.maximum(self.excess[:, k], top)
            if (top[self.index < 0] > TOLERANCE).any():
                inside = np.maximum(low - values, values - high) <= TOLERANCE * unit
                outside = ~inside if outside is None else outside | ~inside
        if outside is not None:
            new = outside.any(axis=1) & (self.index < 0)
            self.index[new] = start + outside[new].argmax(axis=1)

    def snapshot(self) -> Snapshot:
        return {"index": self.index.copy(), "excess": self.excess.copy()}

    def restore(self, snapshot: Mapping[str, np.ndarray]) -> None:
        if "index" in snapshot:  # what an earlier version recorded has none
            self.index, self.excess = snapshot["index"].copy(), snapshot["excess"].copy()


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

    def snapshot(self) -> Snapshot:
        return {"windows": self.windows.copy(), "before": self._before.copy()}

    def restore(self, snapshot: Mapping[str, np.ndarray]) -> None:
        self.windows, self._before = snapshot["windows"].copy(), snapshot["before"].copy()


def _larger(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Of two numbers the one of larger size; NaN if one is."""
    return np.where(
        np.isnan(first) | np.isnan(second),
        np.nan,
        np.where(np.abs(first) >= np.abs(second), first, second),
    )


def _fold(
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
