"""The plan of a dataset: which consecutive trajectories make a shard, whoever computes it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from vpintegrator.data.generation.stacks import MEMORY, is_varied, stack_size
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
    rows
        Trajectories of a shard.
    varied
        Whether they are sorted by difficulty before they are stacked.
    """

    initial: np.ndarray
    rows: int
    varied: bool

    @classmethod
    def of(cls, recipe: Recipe) -> Plan:
        """Draw the initial states and lay out the shards."""
        initial, stack = recipe.initial_states(), stack_size(recipe)
        trajectory = 8 * recipe.system.dim * (recipe.steps + 1)
        stacks = min(max(MEMORY // (stack * trajectory), 1), _STACKS)
        return cls(initial, stack * stacks, is_varied(recipe, initial))

    @property
    def shards(self) -> int:
        """Their number."""
        return -(-len(self.initial) // self.rows)

    def __iter__(self) -> Iterator[tuple[int, int, np.ndarray]]:
        """Number, first trajectory and initial states of each shard."""
        for number, first in enumerate(range(0, len(self.initial), self.rows)):
            yield number, first, self.initial[first : first + self.rows]
