"""How invariants of the system change along trajectories."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from vpintegrator.dynamics import System
from vpintegrator.rollout.diagnostics.drift import DriftAccumulator, DriftFit, fit_drift
from vpintegrator.rollout.diagnostics.trajectory_error import infinite_where_nan

__all__ = [
    "DriftAccumulator",
    "DriftFit",
    "InvariantError",
    "invariant_errors",
    "is_relative",
    "series_names",
]

_VANISHING = 1e-10  # an invariant this much smaller than elsewhere in the ensemble counts as zero


@dataclass(frozen=True)
class InvariantError:
    """How an invariant I changes along trajectories.

    Attributes
    ----------
    error
        (I(z_t) - I(z_0)) / |I(z_0)|, or I(z_t) - I(z_0) where I(z_0) vanishes,
        (trajectory, time).
    relative
        Which of the two it is, for each trajectory.
    drift
        Straight line fitted to the error; NaN where no times were given.
    """

    error: np.ndarray
    relative: np.ndarray
    drift: DriftFit

    def __repr__(self) -> str:
        largest = self.largest.max(initial=0.0)
        return f"<InvariantError: {self.kind}, at most {largest:.1e} on {len(self.error)} orbits>"

    @property
    def kind(self) -> str:
        """``relative``, ``absolute``, or ``mixed`` for the ensemble."""
        if self.relative.all():
            return "relative"
        return "mixed" if self.relative.any() else "absolute"

    @property
    def largest(self) -> np.ndarray:
        """Largest absolute value over the times, infinite after a divergence, (trajectory,)."""
        return infinite_where_nan(np.abs(self.error).max(axis=-1, initial=0.0))


def invariant_errors(
    system: System, states: np.ndarray, times: np.ndarray | None = None
) -> dict[str, InvariantError]:
    """Errors of all invariants of the system along states (trajectory, time, dim).

    With ``times`` (time,) the drift of each is fitted too.
    """
    result = {}
    for name, invariant in system.invariants.items():
        with np.errstate(all="ignore"):
            values = np.asarray(invariant(states), dtype=np.float64)
            first = values[:, 0]
            relative = is_relative(first)
            error = (values - first[:, None]) / np.where(relative, np.abs(first), 1.0)[:, None]
        unknown = np.full(len(error), np.nan)
        drift = DriftFit(unknown, unknown) if times is None else fit_drift(times, error)
        result[name] = InvariantError(error, relative, drift)
    return result


def is_relative(first: np.ndarray) -> np.ndarray:
    """Whether an invariant's first values (trajectory,) are large enough to divide by.

    A value that is tiny beside those of the rest of the ensemble is zero but for rounding.
    """
    size = np.abs(first)
    return size > _VANISHING * size.max(initial=0.0)


def series_names(invariants: Iterable[str]) -> dict[str, str]:
    """What the series of each invariant are called in files: its name, or a number.

    Some names cannot be those of arrays in a file; and the drift of ``error_x`` would have the name
    of the error of the drift of ``x``.
    """
    names = list(invariants)
    fit = {name for name in names if re.fullmatch(r"[^/\x00]{1,200}", name)}
    fit -= {f"error_{name}" for name in fit}
    numbers = map(str, itertools.count(1))
    free = (number for number in numbers if not {number, f"error_{number}"} & fit)
    return {name: name if name in fit else next(free) for name in names}
