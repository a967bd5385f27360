"""Functions of the expression language, one entry each.

An entry says everything about a function: its derivative, its implementations, its typeset form and
its machine code. The parser, differentiation, evaluation and typesetting read it here.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
import scipy  # loads scipy.special when it is used

from vpintegrator.dynamics.expressions.nodes import HIGH, PI, Function, Value

_HALF = Fraction(1, 2)


def _sigmoid(x: Any) -> Any:
    # expit is exact in the tails but knows no complex numbers (complex-step derivatives need them)
    return 0.5 * (1 + np.tanh(0.5 * x)) if np.iscomplexobj(x) else scipy.special.expit(x)


def _erf(x: Any) -> Any:
    extended = getattr(x, "dtype", None) == np.longdouble  # which SciPy refuses
    return scipy.special.erf(x.astype(np.float64) if extended else x)


def _absolute(x: Any) -> Any:
    # continued into the complex, for complex-step derivatives
    return np.where(np.real(x) < 0, -x, x) if np.iscomplexobj(x) else np.abs(x)


def _angle(y: Any, x: Any) -> Any:
    if np.iscomplexobj(y) or np.iscomplexobj(x):  # as for the sigmoid; (log(x + iy) - ...)/(2i)
        a = np.real(x)
        b = np.imag(x)
        c = np.real(y)
        d = np.imag(y)
        angle = (np.arctan2(c + b, a - d) - np.arctan2(b - c, a + d)) / 2
        return angle - 0.25j * np.log1p(4 * (b * c - a * d) / ((a + d) ** 2 + (c - b) ** 2))
    return np.arctan2(y, x)


def _angle_of_tensors(torch: Any) -> Callable[..., Any]:
    def angle(y: Any, x: Any) -> Any:
        like = y if isinstance(y, torch.Tensor) else x  # the other may be a constant
        return torch.atan2(*(torch.as_tensor(v, dtype=like.dtype).to(like) for v in (y, x)))

    return angle


def _exact_angle(y: Any, x: Any) -> Any:
    if HIGH.im(y) or HIGH.im(x):  # continued, as the logarithm is
        return -HIGH.j * HIGH.log((x + HIGH.j * y) / HIGH.sqrt(x * x + y * y))
    if not y and not x:
        raise ZeroDivisionError
    return HIGH.atan2(HIGH.re(y), HIGH.re(x))


def _largest(algebra: Any, *values: Value, sign: int = 1) -> Value:
    """Return the largest of values, or the least for the sign -1, by absolute values."""
    largest = values[0]
    for value in values[1:]:
        apart = algebra.call("abs", algebra.subtract(largest, value))
        largest = algebra.scale(_HALF, algebra.add(largest, value, algebra.scale(sign, apart)))
    return largest


def _erf_slope(algebra: Any, x: Value, _: Value) -> Value:
    factor = algebra.divide(2, algebra.call("sqrt", PI))
    return algebra.multiply(factor, algebra.call("exp", algebra.scale(-1, algebra.power(x, 2))))


def _over_square(algebra: Any, part: Value, y: Value, x: Value) -> Value:
    return algebra.divide(part, algebra.add(algebra.power(y, 2), algebra.power(x, 2)))


def _magnitude(graph: Any, x: int) -> int:
    return int(graph.apply("sqrt", graph.mul(x, x)))


def _sign(graph: Any, x: int) -> int:
    zero = graph.constant(0.0)
    sign = graph.sub(graph.greater(x, zero), graph.greater(zero, x))
    return int(graph.where(graph.equal(x, x), sign, x))  # NaN for NaN


def _logistic(graph: Any, x: int) -> int:
    half = graph.constant(0.5)  # with tanh there is nothing to overflow
    return int(graph.add(half, graph.mul(half, graph.apply("tanh", graph.mul(half, x)))))


def _of_one(name: str, slope: Callable[..., Value], **further: Any) -> Function:
    """Return a function that all libraries know by the same name."""
    entry: dict[str, Any] = {
        "torch": lambda torch: getattr(torch, name),
        "sympy": lambda sympy: getattr(sympy, name),
        "machine": lambda graph, x: graph.apply(name, x),
    }
    if hasattr(np, name):
        entry["numpy"] = getattr(np, name)
    if hasattr(HIGH, name):
        entry["exact"] = getattr(HIGH, name)
    return Function(name=name, slopes=(slope,), **entry | further)


POWER = Function(
    name="**",
    arguments=("a", "b"),
    build=lambda a, base, e: a.power(base, e),
    slopes=(
        lambda a, base, e, f: a.multiply(e, a.power(base, a.subtract(e, 1))),
        lambda a, base, e, f: a.multiply(a.call("log", base), f),
    ),
    numpy=operator.pow,
    torch=lambda torch: operator.pow,
    exact=operator.pow,
    sympy=lambda sympy: sympy.Pow,
    machine=lambda graph, base, e: graph.power(base, e),
)
SQRT = Function(
    name="sqrt",
    build=lambda a, x: a.power(x, _HALF),
    numpy=np.sqrt,
    torch=lambda torch: torch.sqrt,
    exact=HIGH.sqrt,
    sympy=lambda sympy: sympy.sqrt,
)
_TABLE = (
    _of_one("sin", lambda a, x, f: a.call("cos", x), parity=-1, circular=True),
    _of_one("cos", lambda a, x, f: a.scale(-1, a.call("sin", x)), parity=1, circular=True),
    _of_one("tan", lambda a, x, f: a.add(1, a.power(f, 2)), parity=-1, circular=True),
    _of_one("exp", lambda a, x, f: f),
    _of_one("log", lambda a, x, f: a.power(x, -1)),
    SQRT,
    _of_one("tanh", lambda a, x, f: a.subtract(1, a.power(f, 2)), parity=-1),
    _of_one(
        "sigmoid",
        lambda a, x, f: a.multiply(f, a.subtract(1, f)),
        numpy=_sigmoid,
        exact=lambda x: 1 / (1 + HIGH.exp(-x)),
        sympy=lambda sympy: sympy.Function("sigma"),
        machine=_logistic,
    ),
    _of_one(
        "abs",
        lambda a, x, f: a.call("sign", x),
        parity=1,
        numpy=_absolute,
        exact=lambda x: -x if HIGH.re(x) < 0 else x,
        sympy=lambda sympy: sympy.Abs,
        machine=_magnitude,
    ),
    _of_one(
        "sign",
        lambda a, x, f: 0,
        parity=-1,
        numpy=lambda x: np.sign(np.real(x)),
        exact=lambda x: HIGH.sign(HIGH.re(x)),
        machine=_sign,
    ),
    _of_one("erf", _erf_slope, parity=-1, numpy=_erf),
    Function(
        name="atan2",
        arguments=("y", "x"),
        slopes=(
            lambda a, y, x, f: _over_square(a, x, y, x),
            lambda a, y, x, f: a.scale(-1, _over_square(a, y, y, x)),
        ),
        numpy=_angle,
        torch=_angle_of_tensors,
        exact=_exact_angle,
        sympy=lambda sympy: sympy.atan2,
        machine=lambda graph, y, x: graph.arc_tangent(y, x),
    ),
    Function(
        name="min",
        arguments=("x", "y"),
        further=True,
        build=partial(_largest, sign=-1),
        numpy=np.minimum,
        torch=lambda torch: torch.minimum,
        exact=min,
        sympy=lambda sympy: partial(sympy.Min, evaluate=False),
    ),
    Function(
        name="max",
        arguments=("x", "y"),
        further=True,
        build=_largest,
        numpy=np.maximum,
        torch=lambda torch: torch.maximum,
        exact=max,
        sympy=lambda sympy: partial(sympy.Max, evaluate=False),
    ),
)
FUNCTIONS: dict[str, Function] = {function.name: function for function in _TABLE}
