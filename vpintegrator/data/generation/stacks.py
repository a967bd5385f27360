"""Integration of trajectories in stacks, of similar difficulty if that saves time.

All trajectories of a stack take the same steps, so that the hardest sets the pace. Where
difficulties differ much (orbits of very different eccentricity), trajectories are sorted before
they are stacked; the order of the result is that of the initial states all the same. Everything
here follows from the recipe and the initial states alone, so that the numbers do not depend on who
computes them.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import scipy  # loads scipy.integrate when it is used

from vpintegrator.data.recipe import Recipe
from vpintegrator.dynamics.solve import LARGEST_BATCH, batch_size, stacked_field

MEMORY = 24 * 2**20  # bytes of states that are held at a time
_PILOT = 256  # trajectories from which the spread of difficulty is taken
_PILOT_TOLERANCE = 1e-3
_WORTH_SORTING = 3.0  # times the median; systems that gain nothing lie below 1.6


def stack_size(recipe: Recipe) -> int:
    """Return the number of trajectories that are integrated together."""
    trajectory = 8 * recipe.system.dim * (recipe.steps + 1)
    # a map computes each trajectory by itself, whatever the tolerance
    largest = LARGEST_BATCH if recipe.system.is_discrete else batch_size(recipe.method, recipe.rtol)
    return min(largest, max(MEMORY // trajectory, 1))


def is_uneven(recipe: Recipe, initial: np.ndarray, conditions: np.ndarray) -> bool:
    """Whether sorting pays: more than one stack, and trajectories of very different difficulty."""
    stack = stack_size(recipe)
    if recipe.system.is_discrete or stack == 1 or len(initial) <= stack:
        return False
    found = rates(recipe, initial[:_PILOT], conditions[:_PILOT])
    return bool(found.max() > _WORTH_SORTING * np.median(found))


def integrate(
    recipe: Recipe,
    initial: np.ndarray,
    conditions: np.ndarray,
    uneven: bool = False,
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
    uneven
        Whether to sort the trajectories by difficulty.
    progress
        Called now and then with the number of states found since the last call.

    Raises
    ------
    InputError
        If a solution does not reach the last time.
    """
    stack = stack_size(recipe)
    order = np.arange(len(initial))
    if uneven:
        stack = max(stack // 2, 1)  # fewer are alike
        parts = [slice(k, k + stack) for k in range(0, len(initial), stack)]
        found = [rates(recipe, initial[part], conditions[part]) for part in parts]
        order = np.argsort(np.concatenate(found), kind="stable")
    states = np.empty((len(initial), recipe.steps + 1, recipe.system.dim))
    for start in range(0, len(initial), stack):
        rows = order[start : start + stack]
        states[rows] = recipe.solve(initial[rows], conditions[rows], progress=progress)
    return states


def rates(recipe: Recipe, initial: np.ndarray, conditions: np.ndarray) -> np.ndarray:
    """Return the largest rate of change of each trajectory's velocity, (trajectory,).

    A rough integration of all trajectories together finds max |df/dt| / |f|. The inverse is the
    time scale that an accurate integration has to resolve. The unit of time is one step if steps
    vary.
    """
    flow, time = recipe.flow(conditions), recipe.duration
    shape = (flow.dim, len(initial))
    field = stacked_field(flow, len(initial))
    largest = np.zeros(len(initial))
    tolerance = _PILOT_TOLERANCE
    with np.errstate(all="ignore"):  # the accurate integration reports solutions that blow up
        solver = scipy.integrate.RK45(
            field, 0.0, initial.T.ravel(), time, rtol=tolerance, atol=tolerance
        )
        while solver.status == "running":
            before = np.array(solver.f).reshape(shape)
            solver.step()
            after = solver.f.reshape(shape)
            change = np.linalg.norm(after - before, axis=0) / solver.step_size
            speed = (np.linalg.norm(after, axis=0) + np.linalg.norm(before, axis=0)) / 2
            largest = np.fmax(largest, change / speed)
    return largest
