"""Formulas of Python functions, which are called with symbols.

NumPy applies operators and functions to each entry of an array of objects: its ``sin`` calls the
method ``sin`` of an entry. So a function that is called with symbols may return formulas. A
function that needs a number, as a decision does, raises :class:`NotTraceable`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from vpintegrator.dynamics.expressions.algebra import Algebra
from vpintegrator.dynamics.expressions.evaluation import can_be_written, written
from vpintegrator.dynamics.expressions.nodes import Expression, Value, tidy
from vpintegrator.dynamics.python_functions import PythonCall

_LARGEST = 2000  # formulas that a value is made of, some 20,000 letters


class NotTraceable(Exception):
    """A function needs the values of its arguments, so that no formula says what it does."""


def _operator(apply: Callable[..., Value], reflected: bool = False) -> Callable[..., Any]:
    """Return the method of terms that applies an operation of their algebra."""

    def operate(self: Term, other: Any) -> Any:
        known = _value(other)
        if known is None:
            return NotImplemented
        pair = (known, self.value) if reflected else (self.value, known)
        return Term(self.algebra, apply(self.algebra, *pair))

    return operate


class Term:
    """A formula as an entry of an array of objects."""

    __slots__ = ("algebra", "value")

    def __init__(self, algebra: Algebra, value: Value) -> None:
        self.algebra = algebra
        self.value = value

    __add__ = __radd__ = _operator(Algebra.add)
    __sub__ = _operator(Algebra.subtract)
    __rsub__ = _operator(Algebra.subtract, reflected=True)
    __mul__ = __rmul__ = _operator(Algebra.multiply)
    __truediv__ = _operator(Algebra.divide)
    __rtruediv__ = _operator(Algebra.divide, reflected=True)
    __pow__ = _operator(Algebra.power)
    __rpow__ = _operator(Algebra.power, reflected=True)
    arctan2 = _operator(lambda algebra, y, x: algebra.call("atan2", y, x))

    def __neg__(self) -> Term:
        return Term(self.algebra, self.algebra.scale(-1, self.value))

    def __abs__(self) -> Term:
        return Term(self.algebra, self.algebra.call("abs", self.value))

    def __pos__(self) -> Term:
        return self

    conjugate = __pos__

    def hypot(self, other: Any) -> Any:
        return (self * self + other * other).sqrt()

    def arctan(self) -> Any:
        return self.arctan2(1)

    def sinh(self) -> Any:
        return (self.exp() - (-self).exp()) / 2

    def cosh(self) -> Any:
        return (self.exp() + (-self).exp()) / 2

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


def record(
    calls: Sequence[tuple[PythonCall, int]],
    components: Sequence[str],
    time: str,
    parameters: Mapping[str, Any],
    fixed: Sequence[str] = (),
) -> tuple[list[str], bool]:
    """Return formulas of functions, and whether time occurs in them.

    Parameters
    ----------
    calls
        Functions with the number of their values.
    components, time, parameters
        Names of the symbols, and the values of the parameters.
    fixed
        Parameters that are numbers in the formulas.

    Raises
    ------
    NotTraceable
        If no formulas say what the functions do.
    """
    algebra = Algebra()
    names = dict[Any, str]()

    def symbol(name: str) -> Term:
        made = algebra.symbol(name)
        names[made] = name
        return Term(algebra, made)

    state = _objects([symbol(name) for name in components])
    clock = symbol(time)
    values_by_name: dict[str, Any] = {}
    for name, given in parameters.items():
        if isinstance(given, list):
            values_by_name[name] = _objects([symbol(f"{name}[{i}]") for i in range(len(given))])
        else:
            values_by_name[name] = given if name in fixed else symbol(name)
    values = [
        value
        for call, count in calls
        for value in _formulas(call, count, clock, state, values_by_name)
    ]
    formulas = [value for value in values if isinstance(value, Expression)]
    if not all(can_be_written(value, _LARGEST) for value in formulas):
        raise NotTraceable("its formulas are too long")
    timed = any(clock.value in algebra.symbols(value) for value in formulas)
    return [written(value, names) for value in values], timed


def _objects(entries: Sequence[Any]) -> np.ndarray:
    array = np.empty(len(entries), dtype=object)
    array[:] = entries
    return array


def _formulas(
    call: PythonCall, count: int, time: Term, state: np.ndarray, parameters: Mapping[str, Any]
) -> list[Value]:
    """Return the formulas of a function, which may take one state (dim,), or batches."""
    reasons: list[str] = []
    for shape, axis in (((-1,), 0), ((1, -1), 1), ((-1, 1), 0)):
        try:
            result = np.asarray(call(time, state.reshape(shape), parameters, axis), dtype=object)
        except Exception as error:  # whatever the function raises, it was called with symbols
            kind = "" if isinstance(error, NotTraceable) else f"{type(error).__name__}: "
            reasons.append(f"{kind}{error}")
            continue
        values = [_value(entry) for entry in result.ravel()]
        if len(values) == count and None not in values:
            return values  # type: ignore[return-value]
        reasons.append(f"its value has shape {result.shape}")
    raise NotTraceable(reasons[0])
