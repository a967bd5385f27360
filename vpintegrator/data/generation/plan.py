"""The plan of a dataset: which consecutive trajectories make a shard, whoever computes it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from vpintegrator.data.generation.stacks import MEMORY, stack_size
from vpintegrator.data.recipe import Recipe

_STACKS = 64  # in a shard at most, so that slow integrations are saved often


@dataclass(frozen=True)
class Plan:
    """Shards of a dataset, all of the same size but the last.

    It follows from the recipe alone: neither the number of workers nor an interruption changes
    which trajectories are integrated together, and so no bit of their states.

    Attributes
    ----------
    initial
        Initial states of all trajectories, (trajectory, dim).
    conditions
        Step and parameters that vary, (trajectory, name).
    rows
        Trajectories of a shard.
    """

    initial: np.ndarray
    conditions: np.ndarray
    rows: int

    @classmethod
    def of(cls, recipe: Recipe) -> Plan:
        """Draw the initial states and lay out the shards."""
        initial, conditions = recipe.initial_states(), recipe.conditions()
        stack = stack_size(recipe)
        trajectory = 8 * recipe.system.dim * (recipe.steps + 1)
        stacks = min(max(MEMORY // (stack * trajectory), 1), _STACKS)
        return cls(initial, conditions, stack * stacks)

    @property
    def shards(self) -> int:
        """Number of shards."""
        return -(-len(self.initial) // self.rows)

    def __iter__(self) -> Iterator[tuple[int, slice]]:
        """Yield the number and trajectories of each shard."""
        total = len(self.initial)
        for number, first in enumerate(range(0, total, self.rows)):
            yield number, slice(first, min(first + self.rows, total))
