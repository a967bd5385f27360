"""Symbolic arguments: numbers and arrays that record what a Python function computes of them.

A function of states is called once with such arguments. NumPy's functions reach them by NumPy's own
protocols, those of PyTorch as :mod:`traced_tensor` says, Python's operators directly. What cannot
be recorded, such as a decision that depends on a value, raises :class:`NotTraceable`.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from vpintegrator.dynamics.expressions import FUNCTIONS

_MOST_OPERATIONS = 100_000
# how functions and methods of PyTorch are recorded, which traced_tensor says
_TENSORS: dict[str, Callable[..., Any]] = {}


class NotTraceable(Exception):
    """Exception for an operation that no formula expresses; the message names the operation."""


def record_tensors(function: Callable[..., Any], method: Callable[..., Any]) -> None:
    """Say how functions and methods of PyTorch are recorded."""
    _TENSORS.update(function=function, method=method)


class Tape:
    """The operations of one call, each recorded once."""

    def __init__(self) -> None:
        self.recorded: list[Traced] = []
        self._known: dict[Any, Traced] = {}

    def symbol(self, name: str) -> Traced:
        """Return a variable, as formulas name it."""
        return self.record("symbol", (name,))

    def record(self, operation: str, operands: tuple[Any, ...]) -> Traced:
        """Return an operation; the same object for the same operation."""
        # True, 1 and 1.0 are equal as keys, and no difference to a formula
        key = operation, *(o.number if isinstance(o, Traced) else ("c", o) for o in operands)
        found = self._known.get(key)
        if found is None:
            if len(self.recorded) >= _MOST_OPERATIONS:
                raise NotTraceable(f"more than {_MOST_OPERATIONS} operations")
            found = Traced(self, len(self.recorded), operation, operands)
            self.recorded.append(found)
            self._known[key] = found
        return found


def _binary(name: str) -> tuple[Callable[..., Any], Callable[..., Any]]:
    def forward(self: Traced, other: Any) -> Any:
        return NotImplemented if isinstance(other, np.ndarray) else operation(name, self, other)

    def backward(self: Traced, other: Any) -> Any:
        return NotImplemented if isinstance(other, np.ndarray) else operation(name, other, self)

    return forward, backward


class Recorded:
    """A scalar known by its operation, with the protocols of NumPy and PyTorch."""

    __slots__ = ()
    __hash__ = object.__hash__
    ndim, shape, size = 0, (), 1

    def _decided(self, *_: Any) -> Any:
        raise NotTraceable("a decision or a conversion that depends on a value")

    __bool__ = __float__ = __int__ = __index__ = __complex__ = _decided
    __eq__ = __ne__ = _decided

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        return apply_ufunc(ufunc, method, inputs, options)

    def __array_function__(self, function: Any, _types: Any, args: Any, options: Any) -> Any:
        named = {key: _as_arrays(value) for key, value in options.items()}
        return function(*_as_arrays(args), **named)

    @classmethod
    def __torch_function__(cls, function: Any, _types: Any, args: Any, options: Any = None) -> Any:
        return _TENSORS["function"](function, args, options or {})

    def __getattr__(self, name: str) -> Any:
        # the attributes of NumPy's numbers and of tensors without dimensions
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(as_traced_array(self), name)


class Condition(Recorded):
    """A comparison of traced numbers, or a logical combination of comparisons.

    Attributes
    ----------
    kind
        ``<``, ``<=``, ``>``, ``>=``, ``and``, ``or`` or ``not``.
    parts
        The two numbers that are compared, or the conditions that are combined.
    """

    __slots__ = ("kind", "parts")

    def __init__(self, kind: str, *parts: Any) -> None:
        self.kind, self.parts = kind, parts

    def __and__(self, other: Any) -> Any:
        return NotImplemented if isinstance(other, np.ndarray) else combined("and", self, other)

    def __or__(self, other: Any) -> Any:
        return NotImplemented if isinstance(other, np.ndarray) else combined("or", self, other)

    __rand__, __ror__ = __and__, __or__

    def __invert__(self) -> Any:
        return combined("not", self)


def _compared(sign: str) -> Callable[..., Any]:
    def compare(self: Traced, other: Any) -> Any:
        return NotImplemented if isinstance(other, np.ndarray) else comparison(sign, self, other)

    return compare


class Traced(Recorded):
    """A number that is known by the operation that makes it."""

    __slots__ = ("number", "operands", "operation", "tape")

    def __init__(self, tape: Tape, number: int, operation: str, operands: tuple[Any, ...]) -> None:
        self.tape, self.number = tape, number
        self.operation, self.operands = operation, operands

    __add__, __radd__ = _binary("+")
    __sub__, __rsub__ = _binary("-")
    __mul__, __rmul__ = _binary("*")
    __truediv__, __rtruediv__ = _binary("/")
    __pow__, __rpow__ = _binary("**")

    def __neg__(self) -> Any:
        return operation("neg", self)

    def __pos__(self) -> Any:
        return self

    def __abs__(self) -> Any:
        return operation("abs", self)

    __lt__, __le__ = _compared("<"), _compared("<=")
    __gt__, __ge__ = _compared(">"), _compared(">=")
    __mod__ = __rmod__ = __floordiv__ = __rfloordiv__ = __matmul__ = Recorded._decided


def plain_value(value: Any) -> Any:
    """Return a number of Python, or a traced one; NotTraceable for everything else."""
    if isinstance(value, Traced):
        return value
    if isinstance(value, Condition):
        raise NotTraceable("a comparison outside where")
    if hasattr(value, "detach"):  # a tensor
        value = value.detach().cpu().numpy()
    if isinstance(value, np.ndarray | np.generic) and value.ndim == 0:
        value = value.item()
    if isinstance(value, Traced):
        return value
    if isinstance(value, bool | int | float) and math.isfinite(value):
        return int(value) if isinstance(value, bool) else value
    raise NotTraceable(f"a value of type {type(value).__name__} in a formula")


_OPERATORS: dict[str, Callable[..., Any]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
    "**": operator.pow,
    "neg": operator.neg,
}
_NUMBERS: dict[str, Callable[..., Any]] = {
    **_OPERATORS,
    **{name: function.numpy for name, function in FUNCTIONS.items()},
}


_COMPARISONS: dict[str, Callable[[Any, Any], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def operation(name: str, *operands: Any) -> Any:
    """Record an operation, or compute it where all operands are numbers."""
    values = tuple(map(plain_value, operands))
    tape = next((value.tape for value in values if isinstance(value, Traced)), None)
    if tape is None:
        try:
            with np.errstate(divide="raise", over="raise", invalid="raise"):
                return plain_value(_NUMBERS[name](*values))
        except (ArithmeticError, ValueError) as error:
            raise NotTraceable(f"{name} of numbers: {error}") from None
    found = _simplified(name, values)
    return tape.record(name, values) if found is None else found


def _simplified(name: str, values: tuple[Any, ...]) -> Any:
    """Return the simplified result of an operation with 0, 1 or -1, or None if there is none."""
    x = values[0]
    if name == "neg":
        return x.operands[0] if x.operation == "neg" else None
    if len(values) == 1:
        return None
    number_first = not isinstance(x, Traced)
    c, x = (x, values[1]) if number_first else (values[1], x)
    if isinstance(c, Traced):
        return None
    match name, c:
        case ("+", 0) | ("*", 1):
            return x
        case ("*", 0):
            return 0
        case ("*", -1):
            return operation("neg", x)
        case ("-", 0):
            return operation("neg", x) if number_first else x
        case ("/", 0) if number_first:
            return 0
        case ("/", 1) | ("**", 1) if not number_first:
            return x
        case ("**", 0) if not number_first:
            return 1
    return None


def comparison(sign: str, left: Any, right: Any) -> Any:
    """Return a condition, or a bool where both operands are numbers."""
    values = plain_value(left), plain_value(right)
    if any(isinstance(value, Traced) for value in values):
        return Condition(sign, *values)
    return _COMPARISONS[sign](*values)


def combined(kind: str, *conditions: Any) -> Any:
    """Combine conditions or bools by ``and``, ``or`` or ``not``."""
    unknown = [c for c in conditions if isinstance(c, Condition)]
    known = [bool(c) for c in conditions if not isinstance(c, Condition)]
    if kind == "not":
        return Condition(kind, *unknown) if unknown else not known[0]
    decisive = kind == "or"
    if decisive in known:
        return decisive
    if not unknown:
        return not decisive
    return unknown[0] if known else Condition(kind, *unknown)


def selection(condition: Any, first: Any, other: Any) -> Any:
    """Record the first value where a condition holds, else the other value."""
    if not isinstance(condition, Condition):
        return plain_value(first if condition else other)
    match condition.kind, condition.parts:
        case "and", (a, b):
            return selection(a, selection(b, first, other), other)
        case "or", (a, b):
            return selection(a, first, selection(b, first, other))
        case "not", (a,):
            return selection(a, other, first)
    values = plain_value(first), plain_value(other)
    if values[0] is values[1]:
        return values[0]
    tape = next(part.tape for part in condition.parts if isinstance(part, Traced))
    return tape.record(f"where {condition.kind}", (*condition.parts, *values))


# functions of scalars by NumPy's names, which traced_functions fills in
ELEMENTWISE: dict[str, Callable[..., Any]] = {}
# other names of them, of NumPy, the module math and PyTorch
ALIASES = {
    "abs": "absolute",
    "neg": "negative",
    "pow": "power",
    "bitwise_not": "invert",
    "sub": "subtract",
    "mul": "multiply",
    "and": "bitwise_and",
    "or": "bitwise_or",
    **dict.fromkeys(("div", "truediv", "true_divide"), "divide"),
    "asin": "arcsin",
    "acos": "arccos",
    "atan": "arctan",
    "atan2": "arctan2",
    "lt": "less",
    "le": "less_equal",
    "gt": "greater",
    "ge": "greater_equal",
}


def elementwise(name: str, *operands: Any) -> Any:
    """Return a function by NumPy's name, of numbers or arrays."""
    function = ELEMENTWISE.get(ALIASES.get(name, name))
    if function is None:
        raise NotTraceable(f"the function {name}")
    rows = [_base(operand) for operand in operands]
    return wrapped(np.frompyfunc(function, len(rows), 1)(*rows))


def apply_ufunc(ufunc: Any, method: str, inputs: Sequence[Any], options: dict[str, Any]) -> Any:
    """Return a function of NumPy of arguments some of which are traced."""
    out = options.pop("out", None)
    if method == "reduce" and ufunc in (np.add, np.multiply):
        (array,) = inputs
        keep = {k: options[k] for k in ("axis", "keepdims") if k in options}
        result = wrapped(ufunc.reduce(_base(array), **keep))
    elif method == "reduce" and ufunc in (np.minimum, np.maximum):
        # the axis stands beside options that have their default values
        extreme = np.frompyfunc(ELEMENTWISE[ufunc.__name__], 2, 1)
        keep = {k: options[k] for k in ("axis", "keepdims") if k in options}
        result = wrapped(extreme.reduce(_base(inputs[0]), **keep))
    elif method != "__call__" or options:
        raise NotTraceable(f"{ufunc.__name__}.{method} with {', '.join(options) or 'no options'}")
    elif ufunc is np.matmul:
        result = wrapped(np.matmul(*map(_base, inputs)))
    else:
        result = elementwise(ufunc.__name__, *inputs)
    if out is None:
        return result
    if not isinstance(out[0], TracedArray):
        raise NotTraceable("an assignment to an array of numbers")
    out[0][...] = result
    return out[0]


class TracedArray(np.ndarray):
    """An array of numbers some of which are traced."""

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        return apply_ufunc(ufunc, method, inputs, options)

    def __array_function__(self, function: Any, types: Any, args: Any, options: Any) -> Any:
        if function is np.linalg.norm:
            return norm(*args, **options)
        if function in (np.zeros_like, np.ones_like, np.empty_like):
            return filled(np.shape(args[0]), 1.0 if function is np.ones_like else 0.0)
        if function is np.where and len(args) == 3:
            return elementwise("where", *args)
        if function is np.clip:
            return bounded(*args, **options)
        if function in (np.max, np.min):
            return getattr(as_traced_array(args[0]), function.__name__)(*args[1:], **options)
        plain = (_bare(args), {key: _bare(value) for key, value in options.items()})
        return wrapped(function(*plain[0], **plain[1]))

    @classmethod
    def __torch_function__(cls, function: Any, _types: Any, args: Any, options: Any = None) -> Any:
        return _TENSORS["function"](function, args, options or {})

    def __getattr__(self, name: str) -> Any:
        return _TENSORS["method"](self, name)

    def sum(self, axis: Any = None, dim: Any = None, keepdims: bool = False, **_: Any) -> Any:  # type: ignore[override]
        """Return the sum over axes, as NumPy or PyTorch name them."""
        return wrapped(_base(self).sum(axis=axis if dim is None else dim, keepdims=keepdims))

    def astype(self, *_: Any, **__: Any) -> Any:
        """Return the number itself: a formula has no type."""
        return self


def norm(x: Any, ord: Any = None, axis: Any = None, keepdims: bool = False) -> Any:
    """Return the Euclidean norm."""
    if ord not in (None, 2, "fro") or (axis is None and np.ndim(x) > 1 and ord == 2):
        raise NotTraceable(f"a norm of order {ord}")
    squares = elementwise("square", x)
    return elementwise("sqrt", as_traced_array(squares).sum(axis=axis, keepdims=keepdims))


def bounded(
    x: Any, a_min: Any = None, a_max: Any = None, *, min: Any = None, max: Any = None
) -> Any:
    """Clip numbers or arrays; a bound of None or infinity is none."""
    return elementwise("clip", x, a_min if min is None else min, a_max if max is None else max)


def filled(shape: Any, value: float) -> TracedArray:
    """Return an array of one number, into which traced numbers can be written."""
    return np.full(shape, value, dtype=object).view(TracedArray)


def as_traced_array(value: Any) -> TracedArray:
    """Return an array of what is given: a number, an array, a tensor or a list of them."""
    if isinstance(value, TracedArray):
        return value
    if isinstance(value, Recorded):
        array = np.empty((), dtype=object)
        array[()] = value
        return array.view(TracedArray)
    return np.asarray(_base(value), dtype=object).view(TracedArray)


def wrapped(value: Any) -> Any:
    """Return arrays of traced numbers as traced arrays; everything else as it is."""
    if isinstance(value, list | tuple):
        return type(value)(map(wrapped, value))
    if isinstance(value, np.ndarray) and value.dtype == object:
        return value.item() if value.ndim == 0 else value.view(TracedArray)
    return value


def _base(value: Any) -> Any:
    """Return NumPy's array of what is given, without the protocols of this module."""
    if isinstance(value, TracedArray):
        return value.view(np.ndarray)
    if isinstance(value, Recorded):
        return as_traced_array(value).view(np.ndarray)
    if hasattr(value, "detach"):
        return value.detach().cpu().numpy()
    if isinstance(value, list | tuple):
        rows = [entry if isinstance(entry, Recorded) else _base(entry) for entry in value]
        return np.array(
            [e.item() if isinstance(e, np.ndarray) and e.ndim == 0 else e for e in rows],
            dtype=object,
        )
    return value


def _bare(value: Any) -> Any:
    """Arguments of a function of NumPy, with NumPy's arrays in the place of traced ones."""
    if isinstance(value, list | tuple):
        return type(value)(map(_bare, value))
    return _base(value) if isinstance(value, TracedArray | Recorded) else value


def _as_arrays(value: Any) -> Any:
    """Return the arguments with arrays in place of traced numbers."""
    if isinstance(value, list | tuple):
        return type(value)(map(_as_arrays, value))
    return as_traced_array(value) if isinstance(value, Recorded) else value
