"""Remembering what has been worked out for a system."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from functools import wraps
from typing import Generic, TypeVar
from weakref import WeakKeyDictionary

from vpintegrator.dynamics import System
from vpintegrator.dynamics.algebra import Algebra, Expression

Result = TypeVar("Result")


def once_per_system(function: Callable[[System], Result]) -> Callable[[System], Result]:
    """Call a function once for each system, for as long as the system is alive.

    The result must not refer to the system, or neither would ever be given free.
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
    """What has been made of vector fields, for as long as their formulas are alive.

    Unlike what is remembered for a system it serves others of the same formulas too.
    """

    def __init__(self) -> None:
        self._made: WeakKeyDictionary[Algebra, dict[Hashable, Result]] = WeakKeyDictionary()

    def get(self, system: System, make: Callable[[], Result], *further: Hashable) -> Result:
        """What was made of a system's formulas, and of whatever else it depends on, or make it."""
        e = system.equations
        known = self._made.setdefault(e.algebra, {})
        key = (
            tuple(v.number if isinstance(v, Expression) else (v,) for v in e.vector_field),
            e.clock,
            further,
        )
        if key not in known:
            known[key] = make()
        return known[key]
