"""Initial states spread evenly over the energy, or another invariant.

    [stratified]
    invariant = "energy"        # the first one of the system by default
    strata = 20
    range = [0.1, 2.0]          # or
    quantiles = [0.01, 0.99]    # of the distribution of initial states

A random state of a box or of a sphere mostly has a middling energy; the least and the most
energetic orbits, about which a model has to learn as much, are rare among them. Here the range is
cut into ``strata`` of equal width, and each gets the same number of states of the distribution:
proposals are drawn until all have theirs (rejection sampling).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from vpintegrator.arguments import is_number
from vpintegrator.dynamics import InitialConditions
from vpintegrator.dynamics.properties import SystemProperties
from vpintegrator.errors import InputError, nearest
from vpintegrator.storage.toml import read_fields

_STRATA, _MOST_STRATA = 20, 1_000_000
_QUANTILES = (0.01, 0.99)
_PILOT = 10_000  # states from which quantiles are estimated
_PROPOSALS = 65_536  # at a time
_MOST_PROPOSALS = 100_000_000
_FRUITLESS = 4_000_000  # proposals in a row of which none is of use


@dataclass(frozen=True)
class Stratification:
    """Stratification of initial states over an invariant.

    Attributes
    ----------
    invariant
        Name of the invariant; None for the first of the system.
    strata
        Number of intervals.
    range
        Smallest and largest value; None to use the quantiles.
    quantiles
        Quantiles of the distribution of initial states that bound the range.

    Raises
    ------
    InputError
        If a value is wrong.

    Examples
    --------
    >>> vp.data.Stratification("energy", strata=10).strata
    10
    """

    invariant: str | None = None
    strata: int = _STRATA
    range: tuple[float, float] | None = None
    quantiles: tuple[float, float] = _QUANTILES

    def __post_init__(self) -> None:
        if type(self.strata) is not int or not 1 <= self.strata <= _MOST_STRATA:
            raise InputError(
                f"stratified, strata: expected a whole number from 1 to {_MOST_STRATA:,}, found "
                f"{self.strata!r}"
            )
        for key in ("range", "quantiles"):
            pair = getattr(self, key)
            if pair is None:
                continue
            if len(pair) != 2 or not all(is_number(p) for p in pair) or not pair[0] < pair[1]:
                raise InputError(
                    f"stratified, {key}: expected the least and the largest value, as in "
                    f"[0.1, 0.9], found {list(pair)}"
                )
        if not 0 <= self.quantiles[0] < self.quantiles[1] <= 1:
            raise InputError("stratified, quantiles: expected parts between 0 and 1")

    @classmethod
    def from_table(cls, table: Mapping[str, Any], where: str) -> Stratification:
        """Read the table ``[stratified]`` of a recipe."""
        if "range" in table and "quantiles" in table:
            raise InputError(f"{where}, [stratified]: give range or quantiles, not both")
        return read_fields(cls, table, f"{where}, [stratified]", ("range", "quantiles"))

    @property
    def table(self) -> dict[str, Any]:
        """The table that makes an equal stratification."""
        table: dict[str, Any] = {} if self.invariant is None else {"invariant": self.invariant}
        table["strata"] = self.strata
        if self.range is not None:
            return {**table, "range": list(self.range)}
        return {**table, "quantiles": list(self.quantiles)}

    def sample(
        self, conditions: InitialConditions, count: int, generator: np.random.Generator
    ) -> np.ndarray:
        """Draw ``count`` states (count, dim), as many of each stratum, in random order.

        Raises
        ------
        InputError
            If the system has no such invariant, or the distribution has no states in a stratum.
        """
        system = conditions.system
        invariant = system.invariants[self._name(system)]
        low, high = self._limits(conditions, invariant)
        wanted = np.full(self.strata, count // self.strata)
        wanted[: count % self.strata] += 1
        found: list[np.ndarray] = []
        missing, proposed, fruitless = wanted.copy(), 0, 0
        while missing.any():
            proposals = conditions.sample(self._batch(conditions), generator)
            stratum = self._strata(np.asarray(invariant(proposals)), low, high)
            accepted = []
            for k in np.flatnonzero(missing):
                chosen = np.flatnonzero(stratum == k)[: missing[k]]
                missing[k] -= len(chosen)
                accepted.append(chosen)
            kept = np.sort(np.concatenate(accepted))
            found.append(proposals[kept])
            proposed += len(proposals)
            fruitless = 0 if len(kept) else fruitless + len(proposals)
            listed = conditions.available is not None
            if missing.any() and (listed or fruitless >= _FRUITLESS or proposed > _MOST_PROPOSALS):
                raise InputError(self._empty(system, missing, low, high, proposed))
        states = np.concatenate(found) if found else np.empty((0, system.dim))
        return states[generator.permutation(len(states))]

    def _name(self, system: SystemProperties) -> str:
        if not system.invariants:
            raise InputError(f"stratified: {system.name} has no invariant to spread states over")
        if self.invariant is None:
            return next(iter(system.invariants))
        if self.invariant not in system.invariants:
            known = ", ".join(system.invariants)
            raise InputError(
                f"stratified, invariant: {system.name} has no invariant '{self.invariant}'"
                f"{nearest(self.invariant, system.invariants) or f' (it has: {known})'}"
            )
        return self.invariant

    def _limits(self, conditions: InitialConditions, invariant: Any) -> tuple[float, float]:
        if self.range is not None:
            return self.range
        # numbers of their own, so that the states drawn later do not depend on this choice
        pilot = conditions.sample(
            _PILOT if conditions.available is None else conditions.available,
            np.random.default_rng(0),
        )
        low, high = np.quantile(np.asarray(invariant(pilot)), self.quantiles)
        if not low < high:
            raise InputError(
                "stratified: all initial states have the same value of the invariant "
                f"{self._name(conditions.system)}, {low:g}; there is nothing to spread"
            )
        return float(low), float(high)

    def _batch(self, conditions: InitialConditions) -> int:
        return _PROPOSALS if conditions.available is None else conditions.available

    def _strata(self, values: np.ndarray, low: float, high: float) -> np.ndarray:
        """Return the index of the stratum of each value, -1 outside of the range."""
        with np.errstate(all="ignore"):
            place = np.floor((values - low) / (high - low) * self.strata)
        inside = (values >= low) & (values <= high)
        return np.where(inside, np.minimum(place, self.strata - 1), -1).astype(int)

    def _empty(
        self, system: SystemProperties, missing: np.ndarray, low: float, high: float, proposed: int
    ) -> str:
        k = int(np.flatnonzero(missing)[0])
        width = (high - low) / self.strata
        return (
            f"stratified: of {proposed:,} states of the distribution too few have "
            f"{self._name(system)} between {low + k * width:.4g} and {low + (k + 1) * width:.4g}; "
            "give a narrower range, fewer strata or fewer trajectories"
        )
