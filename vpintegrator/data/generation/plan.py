"""The plan of a dataset: consecutive trajectories in shards, integrated in stacks and measured.

All trajectories of a stack take the same steps. Everything here follows from the recipe and the
initial states alone, so that the numbers do not depend on who computes them.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from vpintegrator.data.recipe import Recipe
from vpintegrator.dynamics import System
from vpintegrator.dynamics.solve import LARGEST_BATCH, batch_size, bounded_sizes
from vpintegrator.dynamics.structure import ROUNDING, size_of, spread_of

_MEMORY = 24 * 2**20  # bytes of states that are held at a time
_STACKS = 64  # in a shard at most, so that slow integrations are saved often
_SAMPLE = 8  # trajectories of each part that are integrated a second time
_LOST = 0.01  # difference of two solutions, relative to the spread, at which both are lost
_EVERY = 4  # comparison at every fourth output time


@dataclass(frozen=True)
class ShardPlan:
    """Trajectories of a dataset, or of one of its shards.

    All shards but the last have the same size. The plan follows from the recipe alone: neither the
    number of workers nor an interruption changes which trajectories are integrated together, and so
    no bit of their states.

    Attributes
    ----------
    recipe
        The recipe of the dataset.
    initial
        Initial states of the trajectories, (trajectory, dim).
    conditions
        Step and parameters that vary, (trajectory, name).
    sizes
        Sizes of the components in all trajectories of the dataset, (dim,); None for a map.
    rows
        Trajectories of a shard.
    first
        Number of the first trajectory.
    """

    recipe: Recipe
    initial: np.ndarray
    conditions: np.ndarray
    sizes: np.ndarray | None
    rows: int
    first: int = 0

    @classmethod
    def of(cls, recipe: Recipe) -> ShardPlan:
        """Draw the initial states and lay out the shards."""
        initial = recipe.initial_states()
        conditions = recipe.conditions()
        stack = stack_size(recipe)
        stacks = min(max(_MEMORY // (stack * _bytes(recipe)), 1), _STACKS)
        sizes = recipe.sizes(initial, conditions)
        return cls(recipe, initial, conditions, sizes, stack * stacks)

    def part(self, rows: slice | np.ndarray) -> ShardPlan:
        """Return the plan of some of the trajectories."""
        return dataclasses.replace(
            self, initial=self.initial[rows], conditions=self.conditions[rows]
        )

    @property
    def shards(self) -> int:
        """Number of shards."""
        return -(-len(self.initial) // self.rows)

    def __iter__(self) -> Iterator[ShardPlan]:
        """Yield the plan of each shard."""
        for first in range(0, len(self.initial), self.rows):
            part = self.part(slice(first, first + self.rows))
            yield dataclasses.replace(part, first=first)

    def groups(self) -> dict[str, tuple[slice, slice, slice]]:
        """Return, for each group, slices of the rows here, of times, and of the group's rows."""
        parts = {}
        end = self.first + len(self.initial)
        for name, (which, times) in self.recipe.parts().items():
            start = max(which.start, self.first)
            stop = min(which.stop, end)
            if start < stop:
                rows = slice(start - self.first, stop - self.first)
                parts[name] = (rows, times, slice(start - which.start, stop - which.start))
        return parts

    def integrate(self, progress: Callable[[int], None] | None = None) -> np.ndarray:
        """Return the states (trajectory, time, dim).

        Parameters
        ----------
        progress
            Called now and then with the number of states found since the last call.

        Raises
        ------
        InputError
            If a solution does not reach the last time.
        """
        recipe = self.recipe
        stack = stack_size(self.recipe)
        states = np.empty((len(self.initial), recipe.steps + 1, recipe.system.dim))
        for start in range(0, len(states), stack):
            rows = slice(start, start + stack)
            initial = self.initial[rows]
            conditions = self.conditions[rows]
            states[rows] = recipe.solve(initial, conditions, progress=progress, sizes=self.sizes)
        return states


def stack_size(recipe: Recipe) -> int:
    """Return the number of trajectories that are integrated together."""
    # a map computes each trajectory by itself, whatever the tolerance
    largest = LARGEST_BATCH
    if not recipe.system.is_discrete:
        largest = batch_size(recipe.method, recipe.rtol, recipe.system.smallest_tolerance)
    return min(largest, max(_MEMORY // _bytes(recipe), 1))


def _bytes(recipe: Recipe) -> int:
    """Return the bytes of a trajectory."""
    return 8 * recipe.system.dim * (recipe.steps + 1)


@dataclass(frozen=True)
class Accuracy:
    """Accuracy measured on a sample of the trajectories of a dataset.

    Attributes
    ----------
    changes
        Of each invariant: the largest change along a trajectory, and the largest value.
    difference
        Largest difference in any component from the second integration, relative to the size of
        the component: its largest absolute value, and the period of an angle at most.
    sample
        Number of trajectories that were integrated a second time; 0 for states that are exact.
    steps
        Steps after which every one of these trajectories is still known: the two solutions differ
        by less than a hundredth of the spread of the states.
    """

    changes: dict[str, tuple[float, float]]
    difference: float
    sample: int
    steps: int

    def summary(self) -> dict[str, Any]:
        """Return the ``accuracy`` of a dataset, see :func:`vpintegrator.generate`."""
        drift = {name: change / (size or 1.0) for name, (change, size) in self.changes.items()}
        known = {"estimated_error": self.difference, "sample": self.sample}
        return {"invariant_drift": drift} | (known if self.sample else {})


def measure_accuracy(plan: ShardPlan, states: np.ndarray) -> Accuracy:
    """Errors of states (trajectory, time, dim), from the invariants and a second integration.

    The sample is a stack of its own, solved at a tolerance ten times tighter. Its steps end at
    other times, so that the solutions differ even where the output times set the steps.
    """
    recipe = plan.recipe
    system = plan.recipe.system
    parameters = recipe.parameters(plan.conditions)
    changes = invariant_changes(recipe.varied.invariants, states, parameters)
    if not recipe.is_solved:
        return Accuracy(changes, 0.0, 0, recipe.steps)
    sample = _sample(len(states))
    at = np.unique(np.append(np.arange(0, recipe.steps, _EVERY), recipe.steps))
    conditions = plan.conditions[sample]
    again = recipe.solve(states[sample, 0], conditions, at, method="DOP853", tighter=10)
    difference = again - states[np.ix_(sample, at)]
    ratio = np.abs(difference).max((0, 1)) / bounded_sizes(system, np.abs(states).max((0, 1)))
    wrong = float(ratio[system.moving].max(initial=0.0))
    known = _known_steps(system, difference, at, states)
    return Accuracy(changes, wrong, len(sample), known)


def invariant_changes(
    invariants: Mapping[str, Callable[..., np.ndarray]],
    states: np.ndarray,
    parameters: np.ndarray | None = None,
) -> dict[str, tuple[float, float]]:
    """Return of each invariant the largest change along a trajectory, and the largest value.

    Parameters
    ----------
    invariants
        Functions of states, and of parameters where these vary.
    states
        (trajectory, time, dim), NaN where they were not observed; changes are those since the first
        state that was.
    parameters
        (trajectory, name).

    Returns
    -------
    dict
        The largest value is that of the terms of an invariant where they cancel.
    """
    begin = np.argmin(np.isnan(states).any(axis=-1), axis=1)
    result = {}
    for name, invariant in invariants.items():
        with np.errstate(all="ignore"):
            arguments = () if parameters is None else (parameters[:, None],)
            values = np.asarray(invariant(states, *arguments))  # (trajectory, time)
            since = np.abs(values - values[np.arange(len(values)), begin][:, None])
        size = np.fmax.reduce(np.abs(values), axis=None, initial=0.0)
        size = np.fmax(size, size_of(invariant, states[:, 0], parameters))
        result[name] = float(np.fmax.reduce(since, axis=None, initial=0.0)), float(size)
    return result


def largest_changes(
    parts: Sequence[Mapping[str, tuple[float, float]]],
) -> dict[str, tuple[float, float]]:
    """Return the changes of invariants in all parts together."""
    names = parts[0] if parts else ()
    both = {name: zip(*(part[name] for part in parts), strict=True) for name in names}
    return {name: (max(changes), max(sizes)) for name, (changes, sizes) in both.items()}


def _known_steps(
    system: System, difference: np.ndarray, steps: np.ndarray, states: np.ndarray
) -> int:
    """Return the steps up to which the differences (trajectory, step, dim) are small.

    A comparison counts a tenth of the spread as failure, and its reference ends at a tenth of that.
    """
    spread = spread_of(system, states[..., system.moving].std(axis=(0, 1)))
    size = np.linalg.norm(np.abs(states).max(axis=(0, 1))[system.moving])
    distance = np.linalg.norm(difference[..., system.moving], axis=-1).max(axis=0)
    lost = np.flatnonzero(~(distance <= max(_LOST * spread, ROUNDING * size)))
    return int(steps[max(lost[0] - 1, 0)] if len(lost) else steps[-1])


def known_steps(plan: ShardPlan) -> int:
    """Return the steps up to which solutions of a sample of the trajectories are known."""
    if not plan.recipe.is_solved:
        return plan.recipe.steps
    sample = plan.part(_sample(len(plan.initial)))
    return measure_accuracy(sample, sample.integrate()).steps


def combine(parts: Sequence[Accuracy]) -> Accuracy:
    """Return the accuracy of all parts together."""
    return Accuracy(
        largest_changes([part.changes for part in parts]),
        max(part.difference for part in parts),
        sum(part.sample for part in parts),
        min(part.steps for part in parts),
    )


def _sample(count: int) -> np.ndarray:
    return np.unique(np.linspace(0, count - 1, _SAMPLE).astype(int))
