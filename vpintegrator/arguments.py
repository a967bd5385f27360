"""Checks of arguments, with the same error messages everywhere."""

from __future__ import annotations

import math
import os
import warnings
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager, suppress
from numbers import Real
from pathlib import Path
from typing import Any

from vpintegrator.errors import InputError, nearest, printable

_LARGEST = 2**53  # whole numbers up to this one are exact as floats
_LONGEST_SHOWN = 60  # characters of a value in a message
_WORDS = {bool: "true or false", int: "an integer", float: "a finite number", str: "a text"}


class ComplexValues(InputError):
    """Error for a function that returns complex numbers."""


def plain(argument: str, value: Any, kinds: Collection[type]) -> Any:
    """Return ``value`` as a plain type that JSON can store: bool, int, float, str or None.

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


def whole(argument: str, value: Any, least: int = 1, most: int | None = None) -> int:
    """Return ``value`` if it is an integer in these bounds, else raise InputError."""
    value = _of_python(value)
    sound = isinstance(value, int) and not isinstance(value, bool)
    if not sound or value < least or (most is not None and value > most):
        bound = f"at least {least}" if most is None else f"{least} to {most}"
        raise InputError(f"{argument} = {shown(value)} must be a whole number, {bound}")
    return value


def whole_number(argument: str, value: Any, least: int = 0) -> int:
    """Return a number of things, ``least`` or more, also from 1e6; else raise InputError."""
    value = _of_python(value)
    value = int(value) if isinstance(value, float) and value.is_integer() else value
    return whole(argument, value, least, _LARGEST)


def finite(
    argument: str, value: Any, least: float = -math.inf, words: str = "a finite number"
) -> float:
    """Return ``value`` as a float if it is finite and at least ``least``, else raise InputError."""
    if not is_number(value) or value < least:
        raise InputError(f"{argument} = {shown(value)} must be {words}")
    return float(value)


def positive(argument: str, value: Any) -> float:
    """Return ``value`` as a float if it is finite and greater than 0, else raise InputError."""
    return finite(argument, value, math.ulp(0.0), "positive")


def not_negative(argument: str, value: Any) -> float:
    """Return ``value`` as a float if it is finite and 0 or more, else raise InputError."""
    return finite(argument, value, 0.0, "0 or more")


def one_of(argument: str, value: str, choices: Iterable[str]) -> str:
    """Return ``value`` if it is among ``choices``, else raise InputError with their names."""
    choices = list(choices)
    if value not in choices:
        near = nearest(str(value), choices)
        raise InputError(f"{argument} must be one of {', '.join(choices)}, not {value!r}{near}")
    return value


def divisible(argument: str, value: int, by: str, divisor: int) -> int:
    """Return the quotient of two positive integers; raise InputError if there is a remainder."""
    whole(argument, value)
    whole(by, divisor)
    if value % divisor:
        raise InputError(f"{argument} = {value} must be divisible by {by} = {divisor}")
    return value // divisor


def check(group: Any, **checks: Callable[[str, Any], Any]) -> None:
    """Let fields of a frozen dataclass be what their checks give; None where it is the default."""
    for name, checked in checks.items():
        value = getattr(group, name)
        if value is not None or getattr(type(group), name) is not None:
            object.__setattr__(group, name, checked(name, value))


def _of_python(value: Any) -> Any:
    import numpy as np  # not at the top: command lines are read without it

    return value.item() if isinstance(value, np.generic) else value


def is_number(value: Any) -> bool:
    """Whether this is one finite real number; true and false are none."""
    if not isinstance(value, Real) or isinstance(value, bool):
        return False
    try:
        return math.isfinite(value)
    except OverflowError:  # a whole number beyond all floats
        return False


def of_kind(argument: str, value: Any, kinds: type | tuple[type, ...], words: str) -> Any:
    """Return ``value`` if it has one of these classes, else raise InputError with ``words``."""
    if not isinstance(value, kinds):
        raise InputError(f"{argument} must be {words}, not {shown(value)}")
    return value


def called(argument: str, value: Any, words: str = "a function") -> Any:
    """Return ``value`` if it can be called and is no class, else raise InputError."""
    if not callable(value) or isinstance(value, type):
        raise InputError(f"{argument} must be {words}, not {shown(value)}")
    return value


def as_path(argument: str, value: Any) -> Path:
    """Return ``value`` as a path if it is a text or a path, else raise InputError."""
    return Path(of_kind(argument, value, (str, os.PathLike), "the path of a file"))


def real_array(argument: str, value: Any, axes: Collection[str] | None) -> Any:
    """Return ``value`` as a nonempty float64 array with these axes, else raise InputError.

    Without ``axes`` any number of axes is right. Masked values become NaN.
    """
    import numpy as np

    array = None
    with suppress(TypeError, ValueError, RuntimeError):
        array = as_numpy(value)
    if array is not None and array.dtype.kind == "c":
        raise InputError(f"{argument} must be an array of real numbers, not of complex ones")
    if array is None or array.dtype.kind not in "fiu":
        raise InputError(f"{argument} must be an array of numbers, not {shown(value)}")
    array = array.astype(np.float64, copy=False)
    if axes is None:
        return array
    if array.ndim != len(axes) or 0 in array.shape:
        wanted = f"({', '.join(axes)}{',' if len(axes) == 1 else ''})"
        raise InputError(f"{argument} has shape {array.shape}, but {wanted} is expected")
    return array


def real_values(source: str, values: Any) -> Any:
    """Return a float64 copy of values that a function of a user returned.

    A function may fill and return one array at each call, so values are copied. Masked entries
    become NaN.

    Parameters
    ----------
    source
        Name of the function, for messages.
    values
        An array, a tensor, or lists of numbers.

    Raises
    ------
    InputError
        If they are complex, or no numbers.
    """
    import numpy as np

    try:
        if hasattr(values, "detach"):
            values = values.detach().cpu()
            values = (values if values.is_complex() else values.double()).numpy()
        array = np.ma.asanyarray(values) if np.ma.isMaskedArray(values) else np.asarray(values)
        entries = array.ravel().tolist() if array.dtype.kind == "O" else ()
        if array.dtype.kind == "c" or any(isinstance(entry, complex) for entry in entries):
            raise complex_values(source)
        if isinstance(array, np.ma.MaskedArray):
            return np.ma.filled(array.astype(np.float64), np.nan)
        return np.array(array, dtype=np.float64)
    except ComplexValues:
        raise
    except (TypeError, ValueError, RuntimeError):
        text = repr(values)
        text = text if len(text) <= _LONGEST_SHOWN else f"{text[:_LONGEST_SHOWN]}..."
        raise InputError(f"{source} returns {printable(text)}, no array of real numbers") from None


def complex_values(source: str) -> ComplexValues:
    """Return the error for complex values of a function."""
    return ComplexValues(
        f"{source} returns complex numbers: states and values are real here; write real and "
        "imaginary parts as components of their own, or return the real part"
    )


@contextmanager
def keeping_imaginary_parts(source: str) -> Iterator[None]:
    """Raise InputError where NumPy casts complex values to real ones, and not a mere warning."""
    import numpy as np

    with warnings.catch_warnings():
        warnings.simplefilter("error", np.exceptions.ComplexWarning)
        try:
            yield
        except np.exceptions.ComplexWarning:
            raise complex_values(source) from None


def as_numpy(value: Any) -> Any:
    """Return an array, a tensor, or lists of these as a NumPy array, of any type of numbers.

    Masked values become NaN, and tensors are detached and copied from their device.

    Raises
    ------
    ValueError
        If the shapes in a list differ; other errors are those of NumPy.

    Examples
    --------
    >>> from vpintegrator.arguments import as_numpy
    >>> as_numpy([torch.ones(2), np.ma.array([3, 999], mask=[False, True])])
    array([[ 1.,  1.],
           [ 3., nan]])
    """
    import numpy as np

    if type(value) is np.ndarray:
        return value
    if isinstance(value, np.ma.MaskedArray):
        # whole numbers have no NaN
        masked: Any = value if value.dtype.kind in "fc" else value.astype(np.float64)
        return masked.filled(np.nan)
    if hasattr(value, "detach"):
        value = value.detach().cpu()
        return (value.double() if value.is_floating_point() else value).numpy()
    kinds = (np.ndarray, list, tuple)
    is_list = isinstance(value, list | tuple)
    if is_list and any(isinstance(part, kinds) or hasattr(part, "detach") for part in value):
        return np.stack([as_numpy(part) for part in value])
    return np.asarray(value)


def shown(value: Any) -> str:
    """Return a value for a message: its repr where that is short, else its class."""
    if isinstance(value, type):
        return f"the class {value.__name__}"
    kind = type(value).__name__
    if not isinstance(value, bool | int | float | str | bytes | os.PathLike | None):
        article = "an" if kind[0] in "aeiouAEIOU" else "a"
        return f"{article} {kind}"
    text = repr(value)
    return text if len(text) <= _LONGEST_SHOWN else f"{text[:_LONGEST_SHOWN]}..."
