"""Checks of the numbers that a training is given; NumPy's are as good as Python's."""

from __future__ import annotations

import math
from collections.abc import Callable
from numbers import Integral, Real
from typing import Any

from vpintegrator.errors import InputError

LARGEST_SEED = 2**63 - 1


def check(group: Any, **checks: Callable[[str, Any], Any]) -> None:
    """Let fields of a frozen dataclass be what their checks give; None where it is the default."""
    for name, checked in checks.items():
        value = getattr(group, name)
        if value is not None or getattr(type(group), name) is not None:
            object.__setattr__(group, name, checked(name, value))


def whole(name: str, value: Any, least: int = 1, most: int | None = None) -> int:
    """``value`` as an int, if it is a whole number in these bounds.

    Raises
    ------
    InputError
        Otherwise.
    """
    sound = isinstance(value, Integral) and not isinstance(value, bool)
    if not sound or value < least or (most is not None and value > most):
        bound = f"at least {least}" if most is None else f"{least} to {most}"
        raise InputError(f"{name} = {value!r} must be a whole number, {bound}")
    return int(value)


def positive(name: str, value: Any) -> float:
    """``value`` as a float, if it is a finite number greater than 0.

    Raises
    ------
    InputError
        Otherwise.
    """
    if not _is_finite(value) or value <= 0:
        raise InputError(f"{name} = {value!r} must be positive")
    return float(value)


def not_negative(name: str, value: Any) -> float:
    """``value`` as a float, if it is a finite number, 0 or more.

    Raises
    ------
    InputError
        Otherwise.
    """
    if not _is_finite(value) or value < 0:
        raise InputError(f"{name} = {value!r} must be 0 or more")
    return float(value)


def _is_finite(value: Any) -> bool:
    if not isinstance(value, Real) or isinstance(value, bool):
        return False
    try:
        return math.isfinite(value)
    except OverflowError:  # a whole number beyond all floats
        return False
