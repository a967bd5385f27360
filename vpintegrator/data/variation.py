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
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from vpintegrator.arguments import is_number
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

    @property
    def table(self) -> Any:
        """Return the range as a recipe writes it."""
        if self.log:
            return {"low": self.low, "high": self.high, "log": True}
        return [self.low, self.high]

    @property
    def middle(self) -> float:
        """Median of the range."""
        return float(self.at(0.5))

    def at(self, part: Any) -> Any:
        """Return quantiles, for parts between 0 and 1."""
        if self.log:
            value = self.low * (self.high / self.low) ** np.asarray(part)
        else:
            value = self.low + (self.high - self.low) * np.asarray(part)
        return np.clip(value, self.low, self.high)  # whatever rounding does


@dataclass(frozen=True)
class Variation:
    """Ranges of the step and parameters that vary from trajectory to trajectory.

    Attributes
    ----------
    ranges
        Ranges by name: ``step`` first if it varies, then parameters in the order of the system.

    Examples
    --------
    >>> variation = vp.data.Variation.from_table({"I1": [1.5, 2.5], "step": [0.1, 0.4]}, "recipe")
    >>> variation.bounds
    {'step': (0.1, 0.4), 'I1': (1.5, 2.5)}
    >>> variation.draw([4], seed=0).shape  # (trajectory, name)
    (4, 2)
    """

    ranges: Mapping[str, Range]

    @classmethod
    def from_table(cls, table: Mapping[str, Any], where: str) -> Variation:
        """Read the table ``[vary]`` of a recipe.

        Raises
        ------
        InputError
            If a range cannot be understood.
        """
        names = sorted(table, key=lambda name: name != STEP)  # the step first, else as they stand
        return cls({name: _range(table[name], f"{where}, [vary] {name}") for name in names})

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

    def draw(self, counts: Iterable[int], seed: int) -> np.ndarray:
        """Return values (trajectory, name) for groups of so many trajectories, one after another.

        They depend on the seed and the counts alone.
        """
        generator = np.random.default_rng([seed, _STREAM])
        groups = []
        for count in counts:
            columns = []
            for entry in self.ranges.values():
                place = generator.permutation(count) + generator.uniform(size=count)
                columns.append(entry.at(place / max(count, 1)))
            groups.append(np.stack(columns, axis=-1))
        return np.concatenate(groups)


def _range(entry: Any, where: str) -> Range:
    given = entry
    if isinstance(entry, list | tuple) and len(entry) == 2:
        given = {"low": entry[0], "high": entry[1]}
    if isinstance(entry, Range):
        given = vars(entry)
    known = isinstance(given, Mapping) and {"low", "high"} <= given.keys() <= {"low", "high", "log"}
    numbers = known and all(is_number(given[key]) for key in ("low", "high"))
    if not numbers or not isinstance(given.get("log", False), bool):
        raise InputError(
            f"{where}: expected the least and the largest value, as in [1.5, 2.5] or "
            f"{{ low = 0.1, high = 10, log = true }}, found {entry!r}"
        )
    low, high, log = float(given["low"]), float(given["high"]), given.get("log", False)
    least = 0.0 if log or where.endswith(f" {STEP}") else -math.inf
    if not least < low < high or not math.isfinite(high - low):
        positive = "; a step, and a value with a uniform logarithm, is positive" if low <= 0 else ""
        raise InputError(f"{where}: {low:g} must be below the largest value, {high:g}{positive}")
    return Range(low, high, log)


def check_variation(variation: Variation, system: System, where: str) -> None:
    """Check that parameters can vary, and that the structure of the system does not vary.

    The system is read with the smallest values, the largest, and values between, so that the
    declarations of its file are checked for them.

    Raises
    ------
    InputError
        If there is no such parameter, or the dimension, a period or a symmetry depends on it.
    """
    parameters = {key: entry for key, entry in variation.ranges.items() if key != STEP}
    try:
        system.with_open(list(parameters))
    except InputError as error:
        raise InputError(f"{where}, [vary]: {error}") from None
    # the corners, and a point that nothing distinguishes
    inside = [(k + 1) * _GOLDEN % 1 for k in range(len(parameters))]
    for parts in (0.0 * np.array(inside), np.ones(len(inside)), inside) if parameters else ():
        pairs = zip(parameters.items(), parts, strict=True)
        values = {key: float(entry.at(part)) for (key, entry), part in pairs}
        told = ", ".join(f"{key} = {value:.6g}" for key, value in values.items())
        try:
            member = System(system.text, system.name, {**system.definitions, **values})
        except InputError as error:
            raise InputError(f"{where}, [vary]: {error} (with {told})") from None
        for what in ("periods", "reversing_symmetries", "divergence_free"):
            if not np.array_equal(getattr(member, what), getattr(system, what)):
                raise InputError(
                    f"{where}, [vary]: the {what.replace('_', ' ')} of {system.name} cannot depend "
                    f"on {', '.join(parameters)}, but they change with {told}"
                )
