"""Integration of trajectories in stacks.

All trajectories of a stack take the same steps. Everything here follows from the recipe and the
initial states alone, so that the numbers do not depend on who computes them.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from vpintegrator.data.recipe import Recipe
from vpintegrator.dynamics.solve import LARGEST_BATCH, batch_size

MEMORY = 24 * 2**20  # bytes of states that are held at a time


def stack_size(recipe: Recipe) -> int:
    """Return the number of trajectories that are integrated together."""
    trajectory = 8 * recipe.system.dim * (recipe.steps + 1)
    # a map computes each trajectory by itself, whatever the tolerance
    largest = LARGEST_BATCH if recipe.system.is_discrete else batch_size(recipe.method, recipe.rtol)
    return min(largest, max(MEMORY // trajectory, 1))


def integrate(
    recipe: Recipe,
    initial: np.ndarray,
    conditions: np.ndarray,
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
        states[rows] = recipe.solve(initial[rows], conditions[rows], progress=progress)
    return states
