"""Functions of symbolic arguments by NumPy's, SciPy's and PyTorch's names."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from vpintegrator.dynamics.expressions import FUNCTIONS
from vpintegrator.dynamics.functions.tracing import (
    ELEMENTWISE,
    Recorded,
    combined,
    comparison,
    operation,
    selection,
)

# operations of expressions by NumPy's and SciPy's names
_OWN = {
    "add": "+",
    "subtract": "-",
    "multiply": "*",
    "divide": "/",
    "negative": "neg",
    "power": "**",
    "float_power": "**",
    "absolute": "abs",
    "fabs": "abs",
    "minimum": "min",
    "fmin": "min",
    "maximum": "max",
    "fmax": "max",
    "arctan2": "atan2",
    "expit": "sigmoid",
}


def _bounded(x: Any, least: Any = None, largest: Any = None) -> Any:
    if least is not None and not _is_infinite(least):
        x = operation("max", x, least)
    if largest is not None and not _is_infinite(largest):
        x = operation("min", x, largest)
    return x


def _is_infinite(value: Any) -> bool:
    return not isinstance(value, Recorded) and bool(np.isinf(value))


def _composed() -> dict[str, Callable[..., Any]]:
    """Return functions by NumPy's names, of what expressions of a system file have."""
    op = operation

    def exponential(sign: int) -> Callable[[Any], Any]:
        def half(x: Any) -> Any:
            joined = "+" if sign > 0 else "-"
            return op("/", op(joined, op("exp", x), op("exp", op("neg", x))), 2)

        return half

    def root(x: Any) -> Any:
        return op("sqrt", op("-", 1, op("**", x, 2)))

    return {
        "positive": lambda x: x,
        "conjugate": lambda x: x,
        "square": lambda x: op("**", x, 2),
        "reciprocal": lambda x: op("/", 1, x),
        "sinh": exponential(-1),
        "cosh": exponential(1),
        "arctan": lambda x: op("atan2", x, 1),
        "arcsin": lambda x: op("atan2", x, root(x)),
        "arccos": lambda x: op("atan2", root(x), x),
        "hypot": lambda x, y: op("sqrt", op("+", op("**", x, 2), op("**", y, 2))),
        "log1p": lambda x: op("log", op("+", 1, x)),
        "expm1": lambda x: op("-", op("exp", x), 1),
        "log10": lambda x: op("/", op("log", x), math.log(10)),
        "log2": lambda x: op("/", op("log", x), math.log(2)),
        "exp2": lambda x: op("**", 2, x),
        "deg2rad": lambda x: op("*", x, math.pi / 180),
        "radians": lambda x: op("*", x, math.pi / 180),
        **{name: partial(op, own) for name, own in _OWN.items()},
        **{name: partial(op, name) for name, f in FUNCTIONS.items() if len(f.arguments) == 1},
        **_piecewise(),
    }


def _piecewise() -> dict[str, Callable[..., Any]]:
    """Return comparisons and functions with corners, by NumPy's names."""
    op = operation
    signs = {"less": "<", "less_equal": "<=", "greater": ">", "greater_equal": ">="}
    return {
        "erfc": lambda x: op("-", 1, op("erf", x)),
        "relu": lambda x: op("max", x, 0),
        "clip": _bounded,
        "where": selection,
        "heaviside": lambda x, c: selection(
            comparison(">", x, 0), 1, selection(comparison("<", x, 0), 0, c)
        ),
        "invert": lambda c: combined("not", c),
        "logical_not": lambda c: combined("not", c),
        **{
            f"{kind}_{name}": (lambda a, b, name=name: combined(name, a, b))
            for kind in ("logical", "bitwise")
            for name in ("and", "or")
        },
        **{name: (lambda x, y, sign=sign: comparison(sign, x, y)) for name, sign in signs.items()},
    }


ELEMENTWISE.update(_composed())
