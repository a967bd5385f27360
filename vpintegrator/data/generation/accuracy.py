"""How accurate generated states are, measured part by part."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from vpintegrator.data.recipe import Recipe
from vpintegrator.dynamics import System, solve
from vpintegrator.dynamics.magnitude import size_of
from vpintegrator.dynamics.solve import SMALLEST_TOLERANCE

_SAMPLE = 8  # trajectories of each part that are integrated a second time, more tightly
_EVERY = 4  # of their output times, at which both are compared
_ROWS = 1024  # trajectories whose invariants are computed at a time


@dataclass(frozen=True)
class Accuracy:
    """What was measured on some of a dataset's trajectories.

    Attributes
    ----------
    change, largest
        For each invariant, its largest change along a trajectory, and its largest value (that of
        its terms where these cancel).
    difference
        Largest difference in any component from the second integration.
    sample
        Number of trajectories that were integrated a second time.
    """

    change: dict[str, float]
    largest: dict[str, float]
    difference: float
    sample: int

    def summary(self) -> dict[str, Any]:
        """As a dataset's ``accuracy``, see :func:`vpintegrator.generate`."""
        return {
            "invariant_drift": {
                name: change / (self.largest[name] or 1.0) for name, change in self.change.items()
            },
            "estimated_error": self.difference,
            "sample": self.sample,
        }


def measure_accuracy(recipe: Recipe, states: np.ndarray) -> Accuracy:
    """Errors of states (trajectory, time, dim), from the invariants and a second integration.

    Nothing is shared with the run that is judged: the sample is a stack of its own, at a tolerance
    ten times tighter, whose steps end at other times, so that they differ even where the output
    times set the steps.
    """
    change, largest = _invariants(recipe.system, states)
    chosen = np.unique(np.linspace(0, len(states) - 1, _SAMPLE).astype(int))
    at = np.unique(np.append(np.arange(0, recipe.steps, _EVERY), recipe.steps))
    again = solve(
        recipe.system,
        states[chosen, 0],
        recipe.step * at,
        "DOP853",
        max(recipe.rtol / 10, SMALLEST_TOLERANCE),
        recipe.atol / 10,
    )
    difference = float(np.abs(again - states[np.ix_(chosen, at)]).max())
    return Accuracy(change, largest, difference, len(chosen))


def combine(parts: Iterable[Accuracy]) -> Accuracy:
    """The accuracy of all parts together."""
    parts = list(parts)
    return Accuracy(
        {name: max(part.change[name] for part in parts) for name in parts[0].change},
        {name: max(part.largest[name] for part in parts) for name in parts[0].largest},
        max(part.difference for part in parts),
        sum(part.sample for part in parts),
    )


def _invariants(system: System, states: np.ndarray) -> tuple[dict[str, float], dict[str, float]]:
    change, largest = (dict.fromkeys(system.invariants, 0.0) for _ in range(2))
    for start in range(0, len(states), _ROWS):
        part = states[start : start + _ROWS]
        for name, invariant in system.invariants.items():
            values = invariant(part)
            change[name] = max(change[name], float(np.abs(values - values[:, :1]).max()))
            size = size_of(invariant, part[:, 0])
            largest[name] = max(largest[name], float(np.abs(values).max()), size)
    return change, largest
