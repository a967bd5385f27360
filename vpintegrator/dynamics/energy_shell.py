"""States whose energy, or another invariant, lies between two limits."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from vpintegrator.dynamics.varying_numbers import VaryingNumbers, halves
from vpintegrator.errors import InputError

_PROPOSALS = 65_536  # at a time
_MAXIMUM_PROPOSALS = 5_000_000  # unless this part of them is accepted:
_LEAST_ACCEPTED = 1e-4
_LEAST_TOGETHER = 1024


Draw = Callable[[int, np.random.Generator, np.ndarray | None], np.ndarray]


@dataclass(frozen=True)
class EnergyShell:
    """States of a box whose invariant lies between two limits, by rejection."""

    box: VaryingNumbers
    limits: VaryingNumbers
    invariant: Callable[..., Any]
    with_time: Callable[[np.ndarray, np.random.Generator, np.ndarray | None], np.ndarray]
    where: str

    def draw(self, count: int, generator: np.random.Generator, _: np.ndarray | None) -> np.ndarray:
        """Draw states with the same box and limits."""
        (low, high), (lowest, highest) = halves(self.box(None)), self.limits(None)
        found: list[np.ndarray] = []
        missing, proposed = count, 0
        while missing > 0:
            size = int(np.clip(4 * missing, 1024, _PROPOSALS))
            proposals = generator.uniform(low, high, (size, len(low)))
            proposals = self.with_time(proposals, generator, None)
            value = self.invariant(proposals)
            accepted = proposals[(value >= lowest) & (value <= highest)][:missing]
            found.append(accepted)
            missing -= len(accepted)
            proposed += len(proposals)
            self._check(count - missing, proposed, missing, f"{lowest:g} and {highest:g}")
        none = np.empty((0, len(low)))
        return np.concatenate(found) if found else self.with_time(none, generator, None)

    def draw_each(
        self, count: int, generator: np.random.Generator, parameters: np.ndarray | None
    ) -> np.ndarray:
        """Draw one state for each row of parameters, (state, parameter)."""
        assert parameters is not None
        box, limits = self.box(parameters), self.limits(parameters)
        low, high = halves(np.broadcast_to(box, (count, box.shape[-1])))
        limits = np.broadcast_to(limits, (count, 2))
        found: list[np.ndarray] = []
        numbers: list[np.ndarray] = []
        missing, proposed = np.arange(count), 0
        while len(missing):
            owners = np.repeat(missing, max(4, _LEAST_TOGETHER // len(missing)))
            proposals = generator.uniform(low[owners], high[owners])
            proposals = self.with_time(proposals, generator, parameters[owners])
            with np.errstate(all="ignore"):
                value = self.invariant(proposals, parameters[owners])
            accepted = np.flatnonzero((value >= limits[owners, 0]) & (value <= limits[owners, 1]))
            done, first = np.unique(owners[accepted], return_index=True)
            numbers.append(done)
            found.append(proposals[accepted[first]])
            missing = np.setdiff1d(missing, done, assume_unique=True)
            proposed += len(proposals)
            between = "the limits that their parameters set"
            self._check(count - len(missing), proposed, len(missing), between)
        if not found:
            return self.with_time(low, generator, parameters)
        return np.concatenate(found)[np.argsort(np.concatenate(numbers))]

    def _check(self, found: int, proposed: int, missing: int, between: str) -> None:
        hopeless = found < _LEAST_ACCEPTED * proposed
        if proposed > _MAXIMUM_PROPOSALS and hopeless and missing > 0:
            raise InputError(
                f"{self.where}: only {found} of {proposed} states in the box "
                f"have an energy between {between}; "
                "change low and high, or energy"
            )
