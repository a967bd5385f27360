"""The plan of a dataset: consecutive trajectories in shards, integrated in stacks.

All trajectories of a stack take the same steps. Everything here follows from the recipe and the
initial states alone, so that the numbers do not depend on who computes them.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from vpintegrator.data.recipe import Recipe
from vpintegrator.dynamics.solve import LARGEST_BATCH, batch_size

_MEMORY = 24 * 2**20  # bytes of states that are held at a time
_STACKS = 64  # in a shard at most, so that slow integrations are saved often


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
        initial, conditions = recipe.initial_states(), recipe.conditions()
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
        parts, end = {}, self.first + len(self.initial)
        for name, (which, times) in self.recipe.parts().items():
            start, stop = max(which.start, self.first), min(which.stop, end)
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
        recipe, stack = self.recipe, stack_size(self.recipe)
        states = np.empty((len(self.initial), recipe.steps + 1, recipe.system.dim))
        for start in range(0, len(states), stack):
            rows = slice(start, start + stack)
            initial, conditions = self.initial[rows], self.conditions[rows]
            states[rows] = recipe.solve(initial, conditions, progress=progress, sizes=self.sizes)
        return states


def stack_size(recipe: Recipe) -> int:
    """Return the number of trajectories that are integrated together."""
    # a map computes each trajectory by itself, whatever the tolerance
    largest = LARGEST_BATCH if recipe.system.is_discrete else batch_size(recipe.method, recipe.rtol)
    return min(largest, max(_MEMORY // _bytes(recipe), 1))


def _bytes(recipe: Recipe) -> int:
    """Return the bytes of a trajectory."""
    return 8 * recipe.system.dim * (recipe.steps + 1)
