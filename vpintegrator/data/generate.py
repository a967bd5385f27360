"""Generating a dataset: initial states, their trajectories by SciPy, and how accurate they are."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import numpy as np

from vpintegrator.data.recipe import GROUPS, Recipe, load_recipe
from vpintegrator.data.store import Dataset, save_dataset
from vpintegrator.dynamics import InitialConditions, System, solve
from vpintegrator.dynamics.solve import SMALLEST_TOLERANCE
from vpintegrator.files import check_output

_SAMPLE = 8  # trajectories that are integrated a second time, at tighter tolerance


def generate(
    source: str | os.PathLike[str] | Recipe,
    path: str | os.PathLike[str],
    *,
    overwrite: bool = False,
    progress: Callable[[int, int], None] | None = None,
    **overrides: Any,
) -> Dataset:
    """Generate a dataset and write it to a file.

    Parameters
    ----------
    source
        A recipe or a system: a name in the catalogue, a path, TOML text or a :class:`Recipe`.
    path
        The HDF5 file to write.
    overwrite
        Whether a file of that name may be replaced.
    progress
        Called with the numbers of states found and wanted.
    **overrides
        ``count``, ``step``, ``steps``, ``seed``, ``parameters``, ``method``, ``rtol``, ``atol``,
        ...: see :func:`load_recipe`.

    Returns
    -------
    Dataset
        Opened. Its ``accuracy`` holds, as measured: ``invariant_drift``, for each invariant the
        largest change along a trajectory divided by the largest value of the invariant anywhere;
        ``estimated_error``, the largest difference in any component from a sample of trajectories
        integrated again one by one at the tightest tolerance; ``sample``, their number.

    Raises
    ------
    InputError
        If the input is wrong, or a solution does not reach the last time.

    Examples
    --------
    >>> dataset = generate("rigid-body", "rigid-body.h5", count=100)  # doctest: +SKIP
    """
    check_output(path, overwrite)
    recipe = load_recipe(source, **overrides)
    initial = _initial_states(recipe)
    times = recipe.step * np.arange(recipe.steps + 1)
    total = len(initial) * len(times)
    done = 0

    def advance(states: int) -> None:
        nonlocal done
        done += states
        if progress:
            progress(done, total)

    states = solve(recipe.system, initial, times, recipe.method, recipe.rtol, recipe.atol, advance)
    groups: dict[str, np.ndarray] = {}
    start = 0
    for group in GROUPS:
        count = recipe.trajectories.get(group, 0)
        groups[group] = states[start : start + count]
        start += count
    save_dataset(path, recipe, groups, measure_accuracy(recipe, states, times), overwrite)
    return Dataset(path)


def _initial_states(recipe: Recipe) -> np.ndarray:
    system = recipe.system
    conditions = (
        InitialConditions(system, recipe.initial_conditions, recipe.source)
        if recipe.initial_conditions
        else system.initial_conditions
    )
    return conditions.sample(recipe.count, np.random.default_rng(recipe.seed))


def measure_accuracy(recipe: Recipe, states: np.ndarray, times: np.ndarray) -> dict[str, Any]:
    """Errors of the states, from the invariants and from a second, more accurate integration."""
    chosen = np.unique(np.linspace(0, len(states) - 1, _SAMPLE).astype(int))
    difference = 0.0
    for k in chosen:
        # one at a time, so that nothing is shared with the run that is being judged
        again = solve(
            recipe.system,
            states[k : k + 1, 0],
            times,
            "DOP853",
            SMALLEST_TOLERANCE,
            min(recipe.atol, 1e-15),
        )
        difference = max(difference, float(np.abs(again[0] - states[k]).max()))
    return {
        "invariant_drift": invariant_drift(recipe.system, states),
        "estimated_error": difference,
        "sample": len(chosen),
    }


def invariant_drift(system: System, states: np.ndarray) -> dict[str, float]:
    """For each invariant, its largest change along a trajectory, relative to its largest value."""
    drift = {}
    for name, invariant in system.invariants.items():
        values = invariant(states)
        scale = np.abs(values).max() or 1.0
        drift[name] = float(np.abs(values - values[:, :1]).max() / scale)
    return drift
