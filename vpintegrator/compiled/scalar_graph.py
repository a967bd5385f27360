"""Arithmetic on single numbers as a graph, simplified while it is built."""

from __future__ import annotations

import math
import operator
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from vpintegrator.compiled.library import NotCompilable
from vpintegrator.runtime.interrupts import check_time


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


Node = tuple  # an operation and its arguments: other nodes by number, a constant, or an index

LEAVES = ("constant", "input", "parameter")
BINARY = {"add": "+", "sub": "-", "mul": "*", "div": "/"}
_SQUARED = 32  # the largest exponent for which a power is a product
# take as long as functions of one number do, or nearly
_CHECKED = 256  # nodes between two looks at the time
COSTLY = {"div", "power", "arc_tangent", *FUNCTIONS}
# operations on constants
_VALUES: dict[str, Callable[..., Any]] = {
    "absolute": abs,
    "add": operator.add,
    "arc_tangent": np.arctan2,
    "div": np.divide,
    "equal": operator.eq,
    "fixed": operator.pos,
    "greater": operator.gt,
    "mul": operator.mul,
    "negative": operator.neg,
    "power": np.power,
    "sub": operator.sub,
    **dict.fromkeys(("bound", "larger", "maximum"), np.maximum),
    **{name: function.value for name, function in FUNCTIONS.items()},
}


class ScalarGraph:
    """Operations in the order in which they can be computed; equal ones stand there once.

    The methods return the number of the node for an operation on other nodes.
    Zeros, ones, signs and constants are folded as they come, so that the zeros of triangular
    matrices and the signs of symmetries cost nothing.

    Parameters
    ----------
    limit
        The largest number of nodes; one more raises ``NotCompilable``.

    Attributes
    ----------
    nodes
        The operations.
    varies
        Whether a node depends on an input; else it depends on weights alone.
    """

    def __init__(self, limit: int | None = None) -> None:
        self.limit = limit
        self.nodes: list[Node] = []
        self.varies: list[bool] = []
        self._numbers: dict[Node, int] = {}
        self._values: list[float | None] = []  # values of the constants

    def _number(self, *node: Any) -> int:
        number = self._numbers.get(node)
        if number is None:
            values = [] if node[0] in LEAVES else [self._values[a] for a in node[1:]]
            if values and None not in values:
                with np.errstate(all="ignore"):  # infinite or NaN where it is so at run time
                    return self.constant(_VALUES[node[0]](*map(np.float64, values)))
            number = len(self.nodes)
            if number == self.limit:
                raise too_large(self.limit)
            if number % _CHECKED == 0:
                check_time()
            self._numbers[node] = number
            self.nodes.append(node)
            arguments = self.arguments(number)
            self.varies.append(node[0] == "input" or any(self.varies[a] for a in arguments))
            self._values.append(node[1] if node[0] == "constant" else None)
        return number

    def arguments(self, number: int) -> tuple[int, ...]:
        """Return the nodes that a node is made from."""
        node = self.nodes[number]
        return () if node[0] in LEAVES else node[1:]

    def needed(
        self, ends: Iterable[int], known: Callable[[int], bool] = lambda number: False
    ) -> list[int]:
        """Return ``ends`` and the unknown nodes on which they depend, arguments first."""
        numbers: set[int] = set()
        waiting = list(ends)
        while waiting:
            number = waiting.pop()
            if number not in numbers and not known(number):
                numbers.add(number)
                waiting += self.arguments(number)
        return sorted(numbers)  # the order of making

    def constant(self, value: float) -> int:
        """Return the node of a constant."""
        return self._number("constant", float(value))

    def input(self, index: int) -> int:
        """Return a component of the window."""
        return self._number("input", index)

    def parameter(self, index: int) -> int:
        """Return a weight of the model."""
        return self._number("parameter", index)

    def value(self, number: int) -> float | None:
        """Return the value of a constant; None for other nodes."""
        return self._values[number]

    def again(self, operation: str, arguments: Sequence[Any], number: Mapping[int, int]) -> int:
        """Return a node of another graph in this one; ``number`` has those of its arguments."""
        if operation in LEAVES:
            return self._number(operation, *arguments)
        nodes = [number[a] for a in arguments]
        if operation in FUNCTIONS:
            return self.apply(operation, *nodes)
        return int(getattr(self, operation)(*nodes))

    def negative(self, a: int) -> int:
        """Return -a."""
        node = self.nodes[a]
        if node[0] == "negative":
            return node[1]
        if node[0] == "sub":
            return self.sub(node[2], node[1])
        return self._number("negative", a)

    def add(self, a: int, b: int) -> int:
        """a + b."""
        x = self.value(a)
        y = self.value(b)
        if x == 0:
            return b
        if y == 0:
            return a
        if self.nodes[b][0] == "negative":
            return self.sub(a, self.nodes[b][1])
        if self.nodes[a][0] == "negative":
            return self.sub(b, self.nodes[a][1])
        return self._number("add", min(a, b), max(a, b))

    def sub(self, a: int, b: int) -> int:
        """a - b."""
        x = self.value(a)
        y = self.value(b)
        if y == 0:
            return a
        if x == 0:
            return self.negative(b)
        if self.nodes[b][0] == "negative":
            return self.add(a, self.nodes[b][1])
        if self.nodes[a][0] == "negative":
            return self.negative(self.add(self.nodes[a][1], b))
        return self._number("sub", a, b)

    def mul(self, a: int, b: int) -> int:
        """a b, where 0 b = 0 whatever b is."""
        x = self.value(a)
        y = self.value(b)
        for value, other in ((x, b), (y, a)):
            if value == 0:
                return self.constant(0.0)
            if value == 1:
                return other
            if value == -1:
                return self.negative(other)
        for one, other in ((a, b), (b, a)):
            if self.nodes[one][0] == "negative":
                return self.negative(self.mul(self.nodes[one][1], other))
        return self._number("mul", min(a, b), max(a, b))

    def div(self, a: int, b: int) -> int:
        """a / b, where 0 / b = 0 whatever b is."""
        x = self.value(a)
        y = self.value(b)
        if y is not None and y != 0 and math.frexp(y)[0] in (0.5, -0.5):
            return self.mul(a, self.constant(1 / y))  # exact for powers of two
        if self.varies[a] and not self.varies[b]:
            return self.mul(a, self.div(self.constant(1.0), b))  # one division for all steps
        return self.constant(0.0) if x == 0 else self._number("div", a, b)

    def maximum(self, a: int, b: int) -> int:
        """Return max(a, b) with the derivative of relu: where both are equal, a constant counts."""
        return self._largest("maximum", a, b)

    def larger(self, a: int, b: int) -> int:
        """Return max(a, b); where both are equal, each has half of the derivative."""
        return self._largest("larger", a, b)

    def bound(self, a: int, b: int) -> int:
        """Return max(a, b) as a number that derivatives do not see."""
        return self._largest("bound", a, b)

    def _largest(self, operation: str, a: int, b: int) -> int:
        return a if a == b else self._number(operation, min(a, b), max(a, b))

    def fixed(self, a: int) -> int:
        """a as a number that derivatives do not see."""
        return self._number("fixed", a)

    def absolute(self, a: int) -> int:
        """Return |a|."""
        node = self.nodes[a]
        return self.absolute(node[1]) if node[0] == "negative" else self._number("absolute", a)

    def greater(self, a: int, b: int) -> int:
        """Return 1 where a > b, else 0."""
        return self.constant(0.0) if a == b else self._number("greater", a, b)

    def equal(self, a: int, b: int) -> int:
        """Return 1 where a = b, else 0: also for a and a, which may be NaN."""
        return self._number("equal", min(a, b), max(a, b))

    def where(self, condition: int, a: int, b: int) -> int:
        """a where the condition is 1, b where it is 0."""
        value = self.value(condition)
        if value is not None:
            return a if value else b
        return a if a == b else self._number("where", condition, a, b)

    def power(self, a: int, b: int) -> int:
        """Return a^b."""
        y = self.value(b)
        if y is None:
            return self._number("power", a, b)
        if y in (0, 1):
            return a if y else self.constant(1.0)
        if y == 0.5:
            return self.apply("sqrt", a)
        if not (2 * y).is_integer() or abs(y) > _SQUARED:
            return self._number("power", a, b)
        if y < 0:
            return self.div(self.constant(1.0), self.power(a, self.constant(-y)))
        if not y.is_integer():  # a root and products take a tenth of the time
            return self.mul(self.power(a, self.constant(y - 0.5)), self.apply("sqrt", a))
        half = self.power(a, self.constant(y // 2))
        square = self.mul(half, half)
        return self.mul(square, a) if y % 2 else square

    def arc_tangent(self, a: int, b: int) -> int:
        """Return the angle of the point with abscissa b and ordinate a."""
        return self._number("arc_tangent", a, b)

    def apply(self, function: str, a: int) -> int:
        """Apply one of ``FUNCTIONS``."""
        if FUNCTIONS[function].is_odd and self.nodes[a][0] == "negative":
            return self.negative(self.apply(function, self.nodes[a][1]))
        return self._number(function, a)


def too_large(limit: int) -> NotCompilable:
    """Return the error for a model with more operations than the limit."""
    return NotCompilable(f"it needs more than {limit:,} operations on numbers")


def adjoints(
    graph: ScalarGraph, seeds: Iterable[tuple[int, int]], wanted: Iterable[int]
) -> list[int]:
    """Return the derivatives of sum_i seed_i result_i with respect to some nodes.

    Parameters
    ----------
    graph
        The graph, to which they are added.
    seeds
        Pairs of the nodes of result_i and seed_i.
    wanted
        The nodes, each taken as a variable of its own: nothing is passed on through it.

    Returns
    -------
    list of int
        A node each.
    """
    wanted = list(wanted)
    first = len(graph.nodes)
    ends = set(wanted)
    active = leads_to(graph, ends)
    known: dict[int, int] = defaultdict(lambda: graph.constant(0.0))
    for result, seed in seeds:
        known[result] = graph.add(known[result], seed)
    # arguments stand before what is made of them
    for n in reversed(range(first)):
        if not active[n] or n not in known or n in ends or graph.value(known[n]) == 0:
            continue
        for argument, factor in partial_derivatives(graph, n):
            if active[argument]:
                known[argument] = graph.add(known[argument], graph.mul(known[n], factor))
    return [known[n] for n in wanted]


def partial_derivatives(graph: ScalarGraph, n: int) -> Iterator[tuple[int, int]]:
    """Yield the arguments of a node, each with the derivative with respect to it."""
    operation, *arguments = graph.nodes[n]
    if operation in _OF_ONE:
        yield arguments[0], _OF_ONE[operation](graph, n, arguments[0])
    elif operation in _OF_TWO:
        a, b = arguments
        yield from zip((a, b), _OF_TWO[operation](graph, n, a, b), strict=True)
    elif operation == "power":
        yield from _of_power(graph, n, *arguments)
    elif operation == "where":
        choice, a, b = arguments
        yield from ((a, choice), (b, less_than_one(graph, choice)))
    # the derivatives of "greater", "equal", "bound" and "fixed" are zero


# derivatives of a node n with the argument a, beside those of ``FUNCTIONS``
_OF_ONE: dict[str, Callable[[ScalarGraph, int, int], int]] = {
    "negative": lambda g, n, a: g.constant(-1.0),
    "absolute": lambda g, n, a: g.sub(g.greater(a, g.constant(0.0)), g.greater(g.constant(0.0), a)),
    **{name: function.slope for name, function in FUNCTIONS.items()},
}


def _of_quotient(g: ScalarGraph, n: int, a: int, b: int) -> tuple[int, int]:
    inverse = reciprocal(g, b)
    return inverse, g.negative(g.mul(n, inverse))


def _of_maximum(g: ScalarGraph, n: int, a: int, b: int) -> tuple[int, int]:
    """Return PyTorch's convention for relu: where both are equal, the constant counts."""
    first = less_than_one(g, g.greater(b, a)) if g.value(a) is not None else g.greater(a, b)
    return first, less_than_one(g, first)


def _of_larger(g: ScalarGraph, n: int, a: int, b: int) -> tuple[int, int]:
    """Return the derivatives of max(a, b): 1 for the larger argument, 1/2 each if equal."""
    difference = g.sub(g.add(g.constant(1.0), g.greater(a, b)), g.greater(b, a))
    first = g.mul(g.constant(0.5), difference)
    return first, less_than_one(g, first)


def _of_atan2(g: ScalarGraph, n: int, a: int, b: int) -> tuple[int, int]:
    size = g.add(g.mul(a, a), g.mul(b, b))
    return g.div(b, size), g.negative(g.div(a, size))


# derivatives of a node n with the arguments a and b
_OF_TWO: dict[str, Callable[[ScalarGraph, int, int, int], tuple[int, int]]] = {
    "add": lambda g, n, a, b: (g.constant(1.0), g.constant(1.0)),
    "sub": lambda g, n, a, b: (g.constant(1.0), g.constant(-1.0)),
    "mul": lambda g, n, a, b: (b, a),
    "div": _of_quotient,
    "maximum": _of_maximum,
    "larger": _of_larger,
    "arc_tangent": _of_atan2,
}


def _of_power(g: ScalarGraph, n: int, a: int, b: int) -> Iterator[tuple[int, int]]:
    """Yield the derivatives of a^b, zero where PyTorch's are zero: no 0 log(0) and no 0 0^-1."""
    zero = g.constant(0.0)
    one = g.constant(1.0)
    by_base = g.mul(b, g.power(a, g.sub(b, one)))
    yield a, g.where(g.equal(b, zero), zero, by_base)
    if g.value(b) is None:
        flat = g.mul(g.equal(a, zero), g.sub(one, g.greater(zero, b)))
        yield b, g.where(flat, zero, g.mul(n, g.apply("log", a)))


def leads_to(graph: ScalarGraph, ends: Iterable[int]) -> list[bool]:
    """Whether each node of the graph depends on one of ``ends``."""
    targets = set(ends)
    active: list[bool] = []
    for n in range(len(graph.nodes)):
        active.append(n in targets or any(active[a] for a in graph.arguments(n)))
    return active
