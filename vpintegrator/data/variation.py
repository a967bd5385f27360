"""Step and parameters that vary from one trajectory of a dataset to another.

    [vary]
    step = [0.05, 0.4]                              # uniform between the two
    I1 = { low = 1.5, high = 2.5, log = true }      # the logarithm is uniform

The values of a group are a Latin hypercube: each range is cut into as many intervals of equal
probability as there are trajectories, and every interval has one value. The recipe's seed gives the
values; the initial states do not depend on them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from vpintegrator.arguments import is_number, plain
from vpintegrator.dynamics import System
from vpintegrator.dynamics.family import STEP
from vpintegrator.errors import InputError

_GOLDEN = (math.sqrt(5) - 1) / 2
_STREAM = 2  # random stream, apart from those of initial states and observation


@dataclass(frozen=True)
class Range:
    """Range of the step or a parameter.

    Attributes
    ----------
    low, high
        The least and the largest value.
    log
        Whether the logarithm is uniform, instead of the value.
    """

    low: float
    high: float
    log: bool = False

    @classmethod
    def from_entry(cls, entry: Any, where: str) -> Range:
        """Read an entry of the table ``[vary]``, whose name ``where`` ends with."""
        given = entry
        if isinstance(entry, list | tuple) and len(entry) == 2:
            given = {"low": entry[0], "high": entry[1]}
        keys = given.keys() if isinstance(given, Mapping) else set()
        known = {"low", "high"} <= keys <= {"low", "high", "log"}
        if not (known and is_number(given["low"]) and is_number(given["high"])):
            raise InputError(
                f"{where}: expected the least and the largest value, as in [1.5, 2.5] or "
                f"{{ low = 0.1, high = 10, log = true }}, found {entry!r}"
            )
        low = float(given["low"])
        high = float(given["high"])
        log = plain(f"{where}, log", given.get("log", False), (bool,))
        least = 0.0 if log or where.endswith(f" {STEP}") else -math.inf
        if not least < low < high or not math.isfinite(high - low):
            raise InputError(
                f"{where}: {low:g} must be below the largest value, {high:g}; a step, and a value "
                "with a uniform logarithm, is positive"
            )
        return cls(low, high, log)

    @property
    def table(self) -> Any:
        """Return the range as a recipe writes it."""
        return vars(self) if self.log else [self.low, self.high]

    @property
    def middle(self) -> float:
        """Median of the range."""
        return float(self.at(0.5))

    def at(self, part: Any) -> Any:
        """Return quantiles, for parts between 0 and 1."""
        part = np.asarray(part)
        low = self.low
        high = self.high
        value = low * (high / low) ** part if self.log else low + (high - low) * part
        return np.clip(value, low, high)  # whatever rounding does


@dataclass(frozen=True)
class Variation:
    """Ranges of the step and parameters that vary from trajectory to trajectory.

    Attributes
    ----------
    ranges
        Ranges by name: ``step`` first if it varies, then parameters in the order of the system.
        Empty where nothing varies.

    Examples
    --------
    >>> variation = vp.data.Variation.from_table({"I1": [1.5, 2.5], "step": [0.1, 0.4]}, "recipe")
    >>> variation.bounds
    {'step': (0.1, 0.4), 'I1': (1.5, 2.5)}
    >>> variation.draw([4], seed=0).shape  # (trajectory, name)
    (4, 2)
    """

    ranges: Mapping[str, Range] = field(default_factory=dict)

    @classmethod
    def from_table(cls, table: Mapping[str, Any], where: str) -> Variation:
        """Read the table ``[vary]`` of a recipe.

        Raises
        ------
        InputError
            If a range cannot be understood.
        """
        names = sorted(table, key=lambda name: name != STEP)  # the step first, else as they stand
        return cls({n: Range.from_entry(table[n], f"{where}, [vary] {n}") for n in names})

    @property
    def table(self) -> dict[str, Any]:
        """The table that makes an equal variation; empty where nothing varies."""
        return {name: entry.table for name, entry in self.ranges.items()}

    @property
    def bounds(self) -> dict[str, tuple[float, float]]:
        """The least and the largest value of each, by name."""
        return {name: (entry.low, entry.high) for name, entry in self.ranges.items()}

    @property
    def of_step(self) -> Range | None:
        """The range of the step, None where it does not vary."""
        return self.ranges.get(STEP)

    @property
    def parameters(self) -> list[str]:
        """Names of the parameters that vary."""
        return [name for name in self.ranges if name != STEP]

    def split(self, conditions: np.ndarray, step: float) -> tuple[np.ndarray, np.ndarray]:
        """Return steps (trajectory,) and parameters (trajectory, name) of conditions.

        ``step`` is that of all trajectories, where it does not vary.
        """
        if self.of_step is None:
            return np.full(len(conditions), step), conditions
        return conditions[:, 0], conditions[:, 1:]

    def draw(self, counts: Sequence[int], seed: int) -> np.ndarray:
        """Return values (trajectory, name) for groups of so many trajectories, one after another.

        They depend on the seed and the counts alone.
        """
        generator = np.random.default_rng([seed, _STREAM])
        values = np.empty((sum(counts), len(self.ranges)))
        for group in np.split(values, np.cumsum(counts)[:-1]):
            count = len(group)
            for k, entry in enumerate(self.ranges.values()):
                place = generator.permutation(count) + generator.uniform(size=count)
                group[:, k] = entry.at(place / max(count, 1))
        return values

    def check(self, system: System, where: str) -> None:
        """Check that parameters can vary, and that the structure of the system does not vary.

        The system is read with the smallest values, the largest, and values between, so that the
        declarations of its file are checked for them.

        Raises
        ------
        InputError
            If there is no such parameter, or the dimension, a period or a symmetry depends on it.
        """
        where = f"{where}, [vary]"
        names = self.parameters
        try:
            system.with_open(names)
        except InputError as error:
            raise InputError(f"{where}: {error}") from None
        # the corners, and a point that nothing distinguishes
        inside = [(k + 1) * _GOLDEN % 1 for k in range(len(names))]
        for parts in ([0.0] * len(names), [1.0] * len(names), inside) if names else ():
            values = {n: float(self.ranges[n].at(at)) for n, at in zip(names, parts, strict=True)}
            told = ", ".join(f"{name} = {value:.6g}" for name, value in values.items())
            try:
                member = System(system.text, system.name, {**system.definitions, **values})
            except InputError as error:
                raise InputError(f"{where}: {error} (with {told})") from None
            for what in ("periods", "reversing_symmetries", "divergence_free"):
                if not np.array_equal(getattr(member, what), getattr(system, what)):
                    raise InputError(
                        f"{where}: the {what.replace('_', ' ')} of {system.name} cannot depend on "
                        f"{', '.join(names)}, but they change with {told}"
                    )
