"""Domain of the training states, and rollouts that leave the domain.

The accuracy of a learned map is known only on states like those of its training. The domain is the
range of each component and of each invariant over the training states.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from vpintegrator.errors import InputError

if TYPE_CHECKING:
    from vpintegrator.dynamics import System

TOLERANCE = 0.1  # part of a range beyond a bound that still counts as inside
_LEAST = 0.01  # smallest range, relative to the largest value
_ROUNDING = 1e-9  # smaller values, relative to the largest component, count as zero

Range = tuple[float, float]


@dataclass(frozen=True)
class Domain:
    """The least and the largest value of components and invariants on some states.

    Angles have no bounds. Invariants that are zero up to rounding are left out.

    Attributes
    ----------
    components, invariants
        Ranges by name.
    """

    components: dict[str, Range]
    invariants: dict[str, Range]

    @classmethod
    def of_states(cls, states: np.ndarray, system: System) -> Domain:
        """Return the domain of states (..., dim), which may contain NaN."""
        largest = np.abs(states).max(initial=0.0, where=np.isfinite(states))
        quantities = []
        for functions in _functions(system):
            ranges = {}
            for name, function in functions.items():
                with np.errstate(all="ignore"):
                    values = np.asarray(function(states), dtype=np.float64)
                values = values[np.isfinite(values)]
                if np.abs(values).max(initial=0.0) > _ROUNDING * largest:
                    ranges[name] = float(values.min()), float(values.max())
            quantities.append(ranges)
        return cls(*quantities)

    @classmethod
    def of_ranges(cls, stored: Any, where: str) -> Domain:
        """Return the domain of ranges as a file holds them, a dictionary like the attributes.

        Raises
        ------
        InputError
            If they are none; says ``where`` they stand.
        """
        try:
            quantities = [
                {name: (float(low), float(high)) for name, (low, high) in stored[kind].items()}
                for kind in ("components", "invariants")
            ]
        except (AttributeError, KeyError, TypeError, ValueError):
            quantities = []
        if not quantities or not all(
            low <= high for bounds in quantities for low, high in bounds.values()
        ):
            raise InputError(f"{where}: a quantity must have a least and a largest value each")
        return cls(*quantities)

    def holds(self, system: System, states: Any) -> Any:
        """Whether states (..., dim), an array or a tensor, are inside, (...).

        The bounds are beyond the least and the largest value of a quantity that the system has by
        ``TOLERANCE`` of their distance, or of a hundredth of the largest value if that is more. A
        state at which a quantity is not defined is outside.
        """
        inside = (states - states == 0).all(-1)  # finite
        known = zip((self.components, self.invariants), _functions(system), strict=True)
        for ranges, functions in known:
            for name in ranges.keys() & functions.keys():
                low, high = ranges[name]
                room = TOLERANCE * max(high - low, _LEAST * max(abs(low), abs(high)))
                with np.errstate(all="ignore"):
                    values = functions[name](states)
                inside &= (values >= low - room) & (values <= high + room)
        return inside


def _functions(system: System) -> tuple[dict[str, Callable[[Any], Any]], ...]:
    """Components that are no angles, nor time since the start, and invariants, as functions."""
    unbounded = {*system.periods, *(system.cyclic if system.is_discrete else ())}
    components: dict[str, Callable[[Any], Any]] = {
        name: lambda z, i=i: z[..., i]  # type: ignore[misc]
        for i, name in enumerate(system.components)
        if i not in unbounded
    }
    return components, dict(system.invariants)
