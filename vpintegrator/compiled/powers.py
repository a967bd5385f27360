"""Sums of weights times polynomials of one variable, in powers of it.

c_0 T_0(x) + ... + c_n T_n(x) takes two products for each term, one of them for T_k. With the
coefficients of x^k, which follow from the weights once, it takes one, and Estrin's scheme lets
short chains of operations run side by side.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from vpintegrator.compiled.scalar_graph import LEAVES, ScalarGraph
from vpintegrator.compiled.tracing import Trace

_LARGEST_DEGREE = 40
_LEAST_DEGREE = 3
_RANGE = 3.0  # of normalised variables, in standard deviations
# how much larger than the variable's own rounding that of the powers may be: they may be large and
# cancel
_AMPLIFIED = 1000.0


class _Polynomial(NamedTuple):
    """Coefficients of the powers of a variable; of None where there is none but the constant."""

    variable: int | None  # node of the old graph
    coefficients: tuple[int, ...]  # nodes of the new graph


def in_powers(trace: Trace, values: np.ndarray) -> Trace | None:
    """The same map, up to rounding, with sums of polynomials of one variable in powers of it.

    Parameters
    ----------
    trace
        A map as it was followed.
    values
        The parameters of its graph.

    Returns
    -------
    Trace or None
        None where there are no such sums, or powers would lose digits for these parameters.
    """
    rewriter = _Rewriter(trace.graph)
    outputs = [rewriter.node(n) for n in trace.outputs]
    if not rewriter.sums:
        return None
    found = replace(trace, graph=rewriter.new, outputs=outputs)
    numbers = _evaluated(rewriter.new, [n for each in rewriter.sums for n in each], values)
    for each in rewriter.sums:
        size = sum(abs(numbers[n]) * _RANGE**k for k, n in enumerate(each))
        if not size <= _AMPLIFIED:
            return None
    return found


class _Rewriter:
    """Copies nodes of a graph to a new one as they are asked for."""

    def __init__(self, graph: ScalarGraph) -> None:
        self._old, self.new = graph, ScalarGraph()
        self.sums: list[tuple[int, ...]] = []  # coefficients of those that were written anew
        self._number: dict[int, int] = {}
        self._pure: dict[int, _Polynomial] = {}
        self._weighted: dict[int, _Polynomial | None] = {}
        for n in range(len(graph.nodes)):
            self._look_at(n)

    def node(self, n: int) -> int:
        """The node of the new graph for one of the old."""
        waiting = [n]
        while waiting:
            m = waiting[-1]
            if m in self._number:
                waiting.pop()
                continue
            found = self._sum(m)
            needed = [found.variable] if found else self._old.arguments(m)
            missing = [a for a in needed if a is not None and a not in self._number]
            if missing:
                waiting += missing
                continue
            waiting.pop()
            operation, *arguments = self._old.nodes[m]
            if found is not None and found.variable is not None:
                self.sums.append(found.coefficients)
                x = self._number[found.variable]
                self._number[m] = self._written(found.coefficients, x)
            elif operation in LEAVES:
                self._number[m] = getattr(self.new, operation)(*arguments)
            else:
                self._number[m] = self.new.again(operation, [self._number[a] for a in arguments])
        return self._number[n]

    def _sum(self, n: int) -> _Polynomial | None:
        """A node as a polynomial that is worth writing anew."""
        found = self._weighted.get(n)
        if found is None or found.variable is None or found.variable == n:
            return None
        worth = self._old.nodes[n][0] in ("add", "sub", "neg")
        weights = any(self.new.value(c) is None for c in found.coefficients)
        return found if worth and weights and len(found.coefficients) > _LEAST_DEGREE else None

    def _look_at(self, n: int) -> None:
        """Note a node as a polynomial: by numbers alone, and by weights."""
        operation, *arguments = self._old.nodes[n]
        itself = _Polynomial(n, (self.new.constant(0.0), self.new.constant(1.0)))
        if not self._old.varies[n]:
            self._weighted[n] = _Polynomial(None, (self.node(n),))
            if operation == "constant":
                self._pure[n] = _Polynomial(None, (self.node(n),))
            else:
                self._pure[n] = itself
            return
        self._pure[n], self._weighted[n] = itself, itself
        if operation not in ("add", "sub", "mul", "neg"):
            return
        of_numbers = self._combined(operation, [self._pure[a] for a in arguments])
        if of_numbers is not None and all(
            self.new.value(c) is not None for c in of_numbers.coefficients
        ):
            self._pure[n] = self._weighted[n] = of_numbers
            return
        parts = [self._weighted[a] or self._pure[a] for a in arguments]
        found = self._combined(operation, parts)
        if found is not None:
            self._weighted[n] = found

    def _combined(self, operation: str, parts: Sequence[_Polynomial]) -> _Polynomial | None:
        variables = {part.variable for part in parts} - {None}
        if len(variables) > 1:
            return None
        variable = next(iter(variables), None)
        new, (first, *others) = self.new, [part.coefficients for part in parts]
        if operation == "neg":
            return _Polynomial(variable, tuple(new.negative(c) for c in first))
        (second,) = others
        if operation == "mul":
            if len(first) + len(second) - 2 > _LARGEST_DEGREE:
                return None
            zero = new.constant(0.0)
            product = [zero] * (len(first) + len(second) - 1)
            for i, a in enumerate(first):
                for j, b in enumerate(second):
                    product[i + j] = new.add(product[i + j], new.mul(a, b))
            return _Polynomial(variable, tuple(product))
        size, zero = max(len(first), len(second)), new.constant(0.0)
        pairs = zip(*(c + (zero,) * (size - len(c)) for c in (first, second)), strict=True)
        combine = new.add if operation == "add" else new.sub
        return _Polynomial(variable, tuple(combine(a, b) for a, b in pairs))

    def _written(self, coefficients: Sequence[int], x: int) -> int:
        """The polynomial by Estrin's scheme; of even or odd ones in powers of the square."""
        new = self.new
        known = [new.value(c) == 0 for c in coefficients]
        if all(known[0::2]):
            return new.mul(x, self._written(coefficients[1:], x))
        if all(known[1::2]):
            return self._estrin(coefficients[0::2], new.mul(x, x))
        return self._estrin(coefficients, x)

    def _estrin(self, coefficients: Sequence[int], x: int) -> int:
        terms, new = list(coefficients), self.new
        while len(terms) > 1:
            pairs = [
                new.add(terms[k], new.mul(terms[k + 1], x)) for k in range(0, len(terms) - 1, 2)
            ]
            terms = pairs + terms[len(pairs) * 2 :]
            x = new.mul(x, x)
        return terms[0]


def _evaluated(graph: ScalarGraph, ends: Sequence[int], values: np.ndarray) -> dict[int, float]:
    """Numbers of nodes that depend on parameters alone."""
    found: dict[int, float] = {}
    for n in graph.needed(ends):
        operation, *arguments = graph.nodes[n]
        if operation == "constant":
            found[n] = arguments[0]
        elif operation == "parameter":
            found[n] = float(values[arguments[0]])
        else:
            found[n] = _OPERATIONS.get(operation, _unknown)(*(found[a] for a in arguments))
    return found


def _unknown(*_: float) -> float:
    return math.nan  # what is no sum or product is not looked into


_OPERATIONS: dict[str, Callable[..., float]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "div": lambda a, b: a / b if b else math.nan,
    "neg": lambda a: -a,
}
