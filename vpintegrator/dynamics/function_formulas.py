"""Formulas of Python functions, found by calling them with symbols in the place of numbers.

NumPy applies operators and functions to each entry of an array of objects: its ``sin`` calls the
method ``sin`` of an entry. A function that goes through these operations returns formulas. A
function that needs a number, as a decision does, raises :class:`NotTraceable`; it is called then.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from vpintegrator.dynamics.expressions import (
    Algebra,
    Expression,
    Function,
    Value,
    below,
    can_be_written,
    tidy,
)
from vpintegrator.dynamics.expressions.nodes import fold
from vpintegrator.dynamics.expressions.text import Language, Text

_FEW = 200  # operations of a function whose formulas are written out
_SHORT = 60  # characters of an expression that gets no name of its own in a long function


class NotTraceable(Exception):
    """A function needs the values of its arguments, so that no formula says what it does."""


class Term:
    """A formula as an entry of an array of objects."""

    __slots__ = ("algebra", "value")

    def __init__(self, algebra: Algebra, value: Value) -> None:
        self.algebra, self.value = algebra, value

    def _binary(self, other: Any, apply: Callable[[Value, Value], Value]) -> Any:
        known = _value(other)
        return NotImplemented if known is None else Term(self.algebra, apply(self.value, known))

    def __add__(self, other: Any) -> Any:
        return self._binary(other, self.algebra.add)

    def __sub__(self, other: Any) -> Any:
        return self._binary(other, self.algebra.subtract)

    def __rsub__(self, other: Any) -> Any:
        return self._binary(other, lambda a, b: self.algebra.subtract(b, a))

    def __mul__(self, other: Any) -> Any:
        return self._binary(other, self.algebra.multiply)

    def __truediv__(self, other: Any) -> Any:
        return self._binary(other, self.algebra.divide)

    def __rtruediv__(self, other: Any) -> Any:
        return self._binary(other, lambda a, b: self.algebra.divide(b, a))

    def __pow__(self, other: Any) -> Any:
        return self._binary(other, self.algebra.power)

    def __rpow__(self, other: Any) -> Any:
        return self._binary(other, lambda a, b: self.algebra.power(b, a))

    def __neg__(self) -> Term:
        return Term(self.algebra, self.algebra.scale(-1, self.value))

    def __pos__(self) -> Term:
        return self

    def __abs__(self) -> Term:
        return Term(self.algebra, self.algebra.call("abs", self.value))

    __radd__, __rmul__ = __add__, __mul__

    def arctan2(self, other: Any) -> Any:
        return self._binary(other, lambda y, x: self.algebra.call("atan2", y, x))

    def hypot(self, other: Any) -> Any:
        return (self * self + other * other).sqrt()

    def arctan(self) -> Any:
        return self.arctan2(1)

    def sinh(self) -> Any:
        return (self.exp() - (-self).exp()) / 2

    def cosh(self) -> Any:
        return (self.exp() + (-self).exp()) / 2

    def conjugate(self) -> Term:
        return self

    def __getattr__(self, name: str) -> Any:
        if name not in ("sin", "cos", "tan", "exp", "log", "sqrt", "tanh"):
            raise AttributeError(f"a formula has no '{name}'")
        return lambda: Term(self.algebra, self.algebra.call(name, self.value))

    def _undecided(self, *_: Any) -> Any:
        raise NotTraceable("a decision or a conversion that depends on a value")

    __bool__ = __float__ = __int__ = __index__ = __complex__ = _undecided
    __lt__ = __le__ = __gt__ = __ge__ = __eq__ = __ne__ = _undecided
    __hash__ = object.__hash__


def _value(given: Any) -> Value | None:
    """Return the formula or the number that a value is; None for arrays and others."""
    if isinstance(given, np.ndarray) and given.ndim == 0:
        given = given.item()
    if isinstance(given, Term):
        return given.value
    if isinstance(given, int | float | np.integer | np.floating):
        if not math.isfinite(given):
            raise NotTraceable("a number that is not finite")
        return tidy(Fraction(given.item() if isinstance(given, np.generic) else given))
    return None


def formulas_of(call: Callable[[Any, int], Any], state: Sequence[Term], count: int) -> list[Value]:
    """Return the formulas of a function of a state.

    Parameters
    ----------
    call
        The function of an array of objects, and of the axis of its components.
    state
        Symbols of the components.
    count
        Number of values.

    Raises
    ------
    NotTraceable
        If the function needs numbers; it may take one state (dim,), or batches.
    """
    reasons: list[str] = []
    for shape, axis in (((-1,), 0), ((1, -1), 1), ((-1, 1), 0)):
        try:
            array = np.empty(len(state), dtype=object)
            array[:] = state
            result = np.asarray(call(array.reshape(shape), axis), dtype=object)
        except Exception as error:  # whatever the function raises, it was called with symbols
            kind = "" if isinstance(error, NotTraceable) else f"{type(error).__name__}: "
            reasons.append(f"{kind}{error}")
            continue
        values = [_value(entry) for entry in result.ravel()]
        if len(values) == count and None not in values:
            return values  # type: ignore[return-value]
        reasons.append(f"its value has shape {result.shape}")
    raise NotTraceable(reasons[0])


class _Naming(Language):
    """The language, with names for expressions that are longer than some characters."""

    def __init__(self, taken: set[str], longest: int) -> None:
        self.taken, self.longest, self.auxiliary = taken, longest, dict[str, str]()

    def sum(self, *arguments: Any) -> Text:
        return self._named(super().sum(*arguments))

    def product(self, *arguments: Any) -> Text:
        return self._named(super().product(*arguments))

    def call(self, function: Function, *arguments: Text) -> Text:
        return self._named(super().call(function, *arguments))

    def _named(self, text: Text) -> Text:
        if len(text.text) <= self.longest:
            return text
        number = len(self.auxiliary) + 1
        while (name := f"u{number}") in self.taken:
            number += 1
        self.taken.add(name)
        self.auxiliary[name] = text.text
        return Text(name)


def texts_of(values: Sequence[Value], names: Mapping[Any, str]) -> tuple[list[str], dict[str, str]]:
    """Return formulas as expressions, and the auxiliary expressions that they name."""
    formulas = [value for value in values if isinstance(value, Expression)]
    short = len(below(formulas)) < len(names) + _FEW and all(map(can_be_written, formulas))
    language = _Naming(set(names.values()), 10**6 if short else _SHORT)
    known = {symbol: Text(name) for symbol, name in names.items()}
    texts = fold(values, known, language)
    return [text.text[1:-1] if text.closed else text.text for text in texts], language.auxiliary
