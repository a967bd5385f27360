"""Functions of one number in scalar graphs, one entry each."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np


class Elementary(NamedTuple):
    """A function of one number.

    Attributes
    ----------
    source
        Name in the C++ sources of this package.
    value
        Implementation for constants.
    slope
        Node of the derivative, given the graph, the function's node and that of its argument.
    is_odd
        Whether a sign can be taken out.
    """

    source: str
    value: Callable[[Any], Any]
    slope: Callable[[Any, int, int], int]
    is_odd: bool = False


def reciprocal(g: Any, n: int) -> Any:
    """Return the node of 1/n."""
    return g.div(g.constant(1.0), n)


def less_than_one(g: Any, n: int) -> Any:
    """Return the node of 1 - n."""
    return g.sub(g.constant(1.0), n)


def _one_plus_square(g: Any, n: int) -> Any:
    return g.add(g.constant(1.0), g.mul(n, n))


def _of_arcsine(g: Any, a: int) -> Any:
    return reciprocal(g, g.apply("sqrt", less_than_one(g, g.mul(a, a))))


def _of_erf(g: Any, a: int) -> Any:
    gauss = g.apply("exp", g.negative(g.mul(a, a)))
    return g.mul(g.constant(2 / math.sqrt(math.pi)), gauss)


FUNCTIONS: dict[str, Elementary] = {
    "tanh": Elementary(
        "hyperbolic_tangent", np.tanh, lambda g, n, a: less_than_one(g, g.mul(n, n)), True
    ),
    "exp": Elementary("exponential", np.exp, lambda g, n, a: n),
    # the derivative is not n + 1, which is nothing but rounding where n is near -1
    "expm1": Elementary("exponential_m1", np.expm1, lambda g, n, a: g.apply("exp", a)),
    "log": Elementary("logarithm", np.log, lambda g, n, a: reciprocal(g, a)),
    "log1p": Elementary(
        "logarithm_1p", np.log1p, lambda g, n, a: reciprocal(g, g.add(g.constant(1.0), a))
    ),
    "sqrt": Elementary("square_root", np.sqrt, lambda g, n, a: g.div(g.constant(0.5), n)),
    "sin": Elementary("sine", np.sin, lambda g, n, a: g.apply("cos", a), True),
    "cos": Elementary("cosine", np.cos, lambda g, n, a: g.negative(g.apply("sin", a))),
    "tan": Elementary("tangent", np.tan, lambda g, n, a: _one_plus_square(g, n), True),
    "asin": Elementary("arc_sine", np.arcsin, lambda g, n, a: _of_arcsine(g, a), True),
    "acos": Elementary("arc_cosine", np.arccos, lambda g, n, a: g.negative(_of_arcsine(g, a))),
    "atan": Elementary(
        "arc_tangent", np.arctan, lambda g, n, a: reciprocal(g, _one_plus_square(g, a)), True
    ),
    "sinh": Elementary("hyperbolic_sine", np.sinh, lambda g, n, a: g.apply("cosh", a), True),
    "cosh": Elementary("hyperbolic_cosine", np.cosh, lambda g, n, a: g.apply("sinh", a)),
    "erf": Elementary("error_function", math.erf, lambda g, n, a: _of_erf(g, a), True),
}
