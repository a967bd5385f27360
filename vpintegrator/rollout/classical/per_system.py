"""Caches of results that depend on a system or on its formulas."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from functools import wraps
from typing import Generic, TypeVar
from weakref import WeakKeyDictionary

from vpintegrator.dynamics import System
from vpintegrator.dynamics.expressions import Algebra, Expression

Result = TypeVar("Result")


def once_per_system(function: Callable[[System], Result]) -> Callable[[System], Result]:
    """Cache the result of a function for each system, as long as the system is alive.

    The result must not refer to the system: the reference would keep the system alive.
    """
    results: WeakKeyDictionary[System, Result] = WeakKeyDictionary()

    @wraps(function)
    def remembered(system: System) -> Result:
        try:
            return results[system]
        except KeyError:
            result = results[system] = function(system)
            return result

    return remembered


class ByFormulas(Generic[Result]):
    """Cache of results by the formulas of a vector field, as long as the formulas are alive.

    Unlike :func:`once_per_system`, systems with the same formulas share a result.
    """

    def __init__(self) -> None:
        self._made: WeakKeyDictionary[Algebra, dict[Hashable, Result]] = WeakKeyDictionary()

    def get(self, system: System, make: Callable[[], Result], *further: Hashable) -> Result:
        """Return the stored result for the formulas of a system and further keys, or make it."""
        e = system.equations
        known = self._made.setdefault(e.algebra, {})
        key = (
            tuple(v.number if isinstance(v, Expression) else (v,) for v in e.vector_field),
            e.explicit_time,
            further,
        )
        if key not in known:
            known[key] = make()
        return known[key]
