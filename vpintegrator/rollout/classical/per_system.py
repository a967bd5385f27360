"""Remembering what has been worked out for a system."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import TypeVar
from weakref import WeakKeyDictionary

from vpintegrator.dynamics import System

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
