"""The plan of a dataset: consecutive trajectories in shards, integrated in stacks.

All trajectories of a stack take the same steps. Everything here follows from the recipe and the
initial states alone, so that the numbers do not depend on who computes them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from vpintegrator.data.recipe import Recipe
from vpintegrator.dynamics.solve import LARGEST_BATCH, batch_size

_MEMORY = 24 * 2**20  # bytes of states that are held at a time
_STACKS = 64  # in a shard at most, so that slow integrations are saved often


@dataclass(frozen=True)
class ShardPlan:
    """Shards of a dataset, all of the same size but the last.

    It follows from the recipe alone: neither the number of workers nor an interruption changes
    which trajectories are integrated together, and so no bit of their states.

    Attributes
    ----------
    initial
        Initial states of all trajectories, (trajectory, dim).
    conditions
        Step and parameters that vary, (trajectory, name).
    sizes
        Sizes of the components, (dim,); None for a map.
    rows
        Trajectories of a shard.
    """

    initial: np.ndarray
    conditions: np.ndarray
    sizes: np.ndarray | None
    rows: int

    @classmethod
    def of(cls, recipe: Recipe) -> ShardPlan:
        """Draw the initial states and lay out the shards."""
        initial, conditions = recipe.initial_states(), recipe.conditions()
        stack = stack_size(recipe)
        trajectory = 8 * recipe.system.dim * (recipe.steps + 1)
        stacks = min(max(_MEMORY // (stack * trajectory), 1), _STACKS)
        sizes = recipe.sizes(initial, conditions)
        return cls(initial, conditions, sizes, stack * stacks)

    def part(self, rows: slice) -> ShardPlan:
        """Return the plan of some of the trajectories."""
        initial, conditions = self.initial[rows], self.conditions[rows]
        return ShardPlan(initial, conditions, self.sizes, len(initial))

    @property
    def shards(self) -> int:
        """Number of shards."""
        return -(-len(self.initial) // self.rows)

    def __iter__(self) -> Iterator[tuple[int, slice]]:
        """Yield the number and trajectories of each shard."""
        total = len(self.initial)
        for number, first in enumerate(range(0, total, self.rows)):
            yield number, slice(first, min(first + self.rows, total))


def stack_size(recipe: Recipe) -> int:
    """Return the number of trajectories that are integrated together."""
    trajectory = 8 * recipe.system.dim * (recipe.steps + 1)
    # a map computes each trajectory by itself, whatever the tolerance
    largest = LARGEST_BATCH if recipe.system.is_discrete else batch_size(recipe.method, recipe.rtol)
    return min(largest, max(_MEMORY // trajectory, 1))


def integrate(
    recipe: Recipe,
    initial: np.ndarray,
    conditions: np.ndarray,
    sizes: np.ndarray | None,
    progress: Callable[[int], None] | None = None,
) -> np.ndarray:
    """Return states (trajectory, time, dim) from initial states (trajectory, dim).

    Parameters
    ----------
    recipe
        System, times, solver and tolerances.
    initial
        Initial states of the trajectories.
    conditions
        Step and parameters that vary, (trajectory, name).
    sizes
        Sizes of the components in all trajectories of the dataset, (dim,).
    progress
        Called now and then with the number of states found since the last call.

    Raises
    ------
    InputError
        If a solution does not reach the last time.
    """
    stack = stack_size(recipe)
    states = np.empty((len(initial), recipe.steps + 1, recipe.system.dim))
    for start in range(0, len(initial), stack):
        rows = slice(start, start + stack)
        states[rows] = recipe.solve(initial[rows], conditions[rows], progress=progress, sizes=sizes)
    return states
