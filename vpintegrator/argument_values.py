"""Values of arguments: what they must be, in the same words everywhere."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable
from typing import Any

from vpintegrator.errors import InputError

_WORDS = {bool: "true or false", int: "an integer", float: "a finite number", str: "a text"}


def plain(argument: str, value: Any, kinds: Collection[type]) -> Any:
    """``value`` as one of the plain types bool, int, float, str and None, which JSON can store.

    NumPy's numbers are taken for Python's, and integers for numbers where ``kinds`` asks for these;
    nothing else is converted: a text is never a truth value, and a truth value never a number.

    Raises
    ------
    InputError
        If it is of none of these kinds, or a number that is not finite.
    """
    value = _of_python(value)
    kind = type(value)
    if kind is int and int not in kinds and float in kinds and abs(value) < 2**1023:
        return float(value)
    if kind not in kinds or (kind is float and not math.isfinite(value)):
        words = [word for type_, word in _WORDS.items() if type_ in kinds]
        words += ["None"] if type(None) in kinds else []
        raise InputError(f"{argument} must be {' or '.join(words)}, not {value!r}")
    return value


def whole(argument: str, value: int, least: int = 1) -> int:
    """The integer ``value`` if it is at least ``least``, else InputError naming the argument."""
    value = _of_python(value)
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise InputError(f"{argument} must be an integer of at least {least}, not {value!r}")
    return value


def whole_number(argument: str, value: Any, least: int = 0) -> int:
    """A number of things, ``least`` or more, which may be written as 1e6; else InputError."""
    value = _of_python(value)
    sound = isinstance(value, int) or (isinstance(value, float) and value.is_integer())
    if isinstance(value, bool) or not sound or value < least:
        raise InputError(f"{argument} = {value!r} must be a whole number, {least} or more")
    return int(value)


def one_of(argument: str, value: str, choices: Iterable[str]) -> str:
    """``value`` if it is among ``choices``, else InputError naming them."""
    choices = list(choices)
    if value not in choices:
        raise InputError(f"{argument} must be one of {', '.join(choices)}, not {value!r}")
    return value


def divisible(argument: str, value: int, by: str, divisor: int) -> int:
    """The quotient of two positive integers, or InputError when there is a remainder."""
    whole(argument, value)
    whole(by, divisor)
    if value % divisor:
        raise InputError(f"{argument} = {value} must be divisible by {by} = {divisor}")
    return value // divisor


def _of_python(value: Any) -> Any:
    """A scalar of NumPy as that of Python."""
    import numpy as np  # not at the top: command lines are read without it

    return value.item() if isinstance(value, np.generic) else value
