"""Arithmetic on single numbers as a graph, simplified while it is built."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

Node = tuple  # an operation and its arguments: other nodes by number, a constant, or an index

LEAVES = ("constant", "input", "parameter")
BINARY = {"add": "+", "sub": "-", "mul": "*", "div": "/"}
FUNCTIONS: dict[str, Callable[[float], float]] = {
    "tanh": math.tanh,
    "exp": math.exp,
    "log1p": math.log1p,
    "sqrt": math.sqrt,
    "sin": math.sin,
    "cos": math.cos,
    "erf": math.erf,
}


class ScalarGraph:
    """Operations in the order in which they can be computed; equal ones stand there once.

    The methods return the number of the node for an operation on other nodes.
    Zeros, ones, signs and constants are folded as they come, so that the zeros of triangular
    matrices and the signs of symmetries cost nothing.

    Attributes
    ----------
    nodes
        The operations.
    varies
        Whether a node depends on an input; else it depends on weights alone.
    """

    def __init__(self) -> None:
        self.nodes: list[Node] = []
        self.varies: list[bool] = []
        self._numbers: dict[Node, int] = {}
        self._values: list[float | None] = []  # of the constants

    def _number(self, *node: Any) -> int:
        number = self._numbers.get(node)
        if number is None:
            number = self._numbers[node] = len(self.nodes)
            self.nodes.append(node)
            arguments = self.arguments(number)
            self.varies.append(node[0] == "input" or any(self.varies[a] for a in arguments))
            self._values.append(node[1] if node[0] == "constant" else None)
        return number

    def arguments(self, number: int) -> tuple[int, ...]:
        """The nodes that a node is made from."""
        node = self.nodes[number]
        return () if node[0] in LEAVES else node[1:]

    def constant(self, value: float) -> int:
        """A number known now."""
        return self._number("constant", float(value))

    def input(self, index: int) -> int:
        """A component of the window."""
        return self._number("input", index)

    def parameter(self, index: int) -> int:
        """A weight of the model."""
        return self._number("parameter", index)

    def value(self, number: int) -> float | None:
        """The value of a constant; None for other nodes."""
        return self._values[number]

    def negative(self, a: int) -> int:
        """-a."""
        node, value = self.nodes[a], self.value(a)
        if value is not None:
            return self.constant(-value)
        if node[0] == "neg":
            return node[1]
        if node[0] == "sub":
            return self.sub(node[2], node[1])
        return self._number("neg", a)

    def add(self, a: int, b: int) -> int:
        """a + b."""
        x, y = self.value(a), self.value(b)
        if x is not None and y is not None:
            return self.constant(x + y)
        if x == 0:
            return b
        if y == 0:
            return a
        if self.nodes[b][0] == "neg":
            return self.sub(a, self.nodes[b][1])
        if self.nodes[a][0] == "neg":
            return self.sub(b, self.nodes[a][1])
        return self._number("add", min(a, b), max(a, b))

    def sub(self, a: int, b: int) -> int:
        """a - b."""
        x, y = self.value(a), self.value(b)
        if x is not None and y is not None:
            return self.constant(x - y)
        if y == 0:
            return a
        if x == 0:
            return self.negative(b)
        if self.nodes[b][0] == "neg":
            return self.add(a, self.nodes[b][1])
        return self._number("sub", a, b)

    def mul(self, a: int, b: int) -> int:
        """a b, where 0 b = 0 whatever b is."""
        x, y = self.value(a), self.value(b)
        if x is not None and y is not None:
            return self.constant(x * y)
        for value, other in ((x, b), (y, a)):
            if value == 0:
                return self.constant(0.0)
            if value == 1:
                return other
            if value == -1:
                return self.negative(other)
        for one, other in ((a, b), (b, a)):
            if self.nodes[one][0] == "neg":
                return self.negative(self.mul(self.nodes[one][1], other))
        return self._number("mul", min(a, b), max(a, b))

    def div(self, a: int, b: int) -> int:
        """a / b."""
        x, y = self.value(a), self.value(b)
        if y is not None and y != 0 and math.frexp(y)[0] in (0.5, -0.5):
            return self.mul(a, self.constant(1 / y))  # exact for powers of two
        if x is not None and y is not None and y != 0:
            return self.constant(x / y)
        return self.constant(0.0) if x == 0 else self._number("div", a, b)

    def maximum(self, a: int, b: int) -> int:
        """max(a, b)."""
        x, y = self.value(a), self.value(b)
        if x is not None and y is not None:
            return self.constant(max(x, y))
        return a if a == b else self._number("max", min(a, b), max(a, b))

    def greater(self, a: int, b: int) -> int:
        """1 where a > b, else 0."""
        x, y = self.value(a), self.value(b)
        if x is not None and y is not None:
            return self.constant(float(x > y))
        return self.constant(0.0) if a == b else self._number("greater", a, b)

    def apply(self, function: str, a: int) -> int:
        """One of ``FUNCTIONS``."""
        value = self.value(a)
        if value is not None:
            return self.constant(FUNCTIONS[function](value))
        if function in ("tanh", "sin", "erf") and self.nodes[a][0] == "neg":
            return self.negative(self.apply(function, self.nodes[a][1]))
        return self._number(function, a)
