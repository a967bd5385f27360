"""Sums of weights times polynomials of a few variables, in powers of these.

c_0 T_0(x) + ... + c_n T_n(x) takes two products for each term, one of them for T_k. With the
coefficients of x^k, which follow from the weights once, it takes one; so do sums over products of
several variables, nested one in the other. Harmonics of an angle are polynomials of its cosine,
and those times its sine. Estrin's scheme lets short chains of operations run side by side.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from vpintegrator.compiled.scalar_graph import ScalarGraph
from vpintegrator.compiled.tracing import LARGEST, Trace, trace

if TYPE_CHECKING:
    from vpintegrator.models import Model

_MOST_VARIABLES = 4
_MOST_TERMS = 400
_FEWEST_TERMS = 3
_RANGE = 3.0  # range of normalised variables, in standard deviations; 1 for sines and cosines
# how much larger than the variable's own rounding that of the powers may be: they may be large and
# cancel
_AMPLIFIED = 1000.0

_CIRCULAR = ("sin", "cos")

Exponents = tuple[int, ...]


class _Polynomial(NamedTuple):
    """Nodes of the old graph, and coefficients, nodes of the new one, by exponents of these."""

    variables: tuple[int, ...]
    terms: Mapping[Exponents, int]


def in_powers(trace: Trace, values: np.ndarray) -> Trace | None:
    """Return the same map, up to rounding, with polynomials of few variables in powers.

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
    rewriter = _Powers(trace.graph, trace.outputs)
    outputs = [rewriter.node(n) for n in trace.outputs]
    if not rewriter.sums:
        return None
    rewritten = replace(trace, graph=rewriter.new, outputs=outputs)
    ends = [n for each in rewriter.sums for n in each.terms.values()]
    weights = replace(rewritten, outputs=ends).folded(values)
    constants = zip(ends, weights.outputs, strict=True)
    numbers = {n: weights.graph.value(constant) or 0.0 for n, constant in constants}
    for variables, terms in rewriter.sums:
        ranges = [1.0 if trace.graph.nodes[v][0] in _CIRCULAR else _RANGE for v in variables]
        size = sum(
            abs(numbers[n]) * math.prod(r**e for r, e in zip(ranges, exponents, strict=True))
            for exponents, n in terms.items()
        )
        if not size <= _AMPLIFIED:
            return None
    return rewritten


def simplest(
    model: Model,
    finished: Callable[[Trace, np.ndarray], Trace] = lambda way, values: way,
    limit: int = LARGEST,
) -> tuple[Trace, np.ndarray]:
    """Return a model's map in the form with the fewest operations, and the parameters of its graph.

    Parameters
    ----------
    model
        The model.
    finished
        Function that completes each form before its operations are counted.
    limit
        The largest number of operations.

    Raises
    ------
    NotCompilable
        If it uses an operation that is not known, or is too large.
    """
    plain = trace(model, frozen=True, limit=limit)
    values = plain.values(model)
    ways = (plain, in_powers(plain, values))
    forms = [finished(way, values) for way in ways if way is not None]
    return min(forms, key=operations), values


def operations(trace: Trace) -> int:
    """Return the number of operations that depend on the window."""
    graph = trace.graph
    ends = trace.outputs
    return sum(graph.varies[n] and graph.arguments(n) != () for n in graph.needed(ends))


class _Powers:
    """Copies nodes of a graph to a new one as they are asked for."""

    def __init__(self, graph: ScalarGraph, outputs: Sequence[int]) -> None:
        self._old = graph
        self.new = ScalarGraph()
        self.sums: list[_Polynomial] = []  # sums that were rewritten
        self._zero = self.new.constant(0.0)
        self._one = self.new.constant(1.0)
        self._number: dict[int, int] = {}
        self._pure: dict[int, _Polynomial] = {}
        self._weighted: dict[int, _Polynomial] = {}
        needed = graph.needed(outputs)
        self._users = Counter(a for n in needed for a in graph.arguments(n))
        for n in needed:
            self._look_at(n)

    def node(self, n: int) -> int:
        """Return the node of the new graph for one of the old."""
        waiting = [n]
        while waiting:
            m = waiting[-1]
            if m in self._number:
                waiting.pop()
                continue
            polynomial = self._sum(m)
            needed = polynomial.variables if polynomial else self._old.arguments(m)
            missing = [a for a in needed if a not in self._number]
            if missing:
                waiting += missing
                continue
            waiting.pop()
            operation, *arguments = self._old.nodes[m]
            if polynomial is not None:
                self.sums.append(polynomial)
                x = [self._number[v] for v in polynomial.variables]
                self._number[m] = self._written(polynomial.terms, x)
            else:
                self._number[m] = self.new.again(operation, arguments, self._number)
        return self._number[n]

    def _sum(self, n: int) -> _Polynomial | None:
        """Return a node as a polynomial that is worth writing anew."""
        polynomial = self._weighted.get(n)
        if polynomial is None or polynomial.variables in ((), (n,)):
            return None
        worth = self._old.nodes[n][0] in ("add", "sub", "negative")
        weights = any(self.new.value(c) is None for c in polynomial.terms.values())
        return polynomial if worth and weights and len(polynomial.terms) > _FEWEST_TERMS else None

    def _look_at(self, n: int) -> None:
        """Note a node as a polynomial: by numbers alone, and by weights."""
        operation, *arguments = self._old.nodes[n]
        itself = _Polynomial((n,), {(1,): self._one})
        if not self._old.varies[n]:
            self._weighted[n] = _Polynomial((), {(): self.node(n)})
            return
        self._pure[n] = self._weighted[n] = itself
        if operation not in ("add", "sub", "mul", "negative"):
            return
        polynomial = self._combined(operation, [self._part(a, operation) for a in arguments])
        if polynomial is None:
            return
        if any(self.new.value(c) is None for c in polynomial.terms.values()):
            self._weighted[n] = polynomial
        elif (
            operation == "mul"
            or len(polynomial.variables) == 1
            or self._are_circular(polynomial.variables)
        ):
            self._pure[n] = self._weighted[n] = polynomial
        # and the sum of two variables is one of its own

    def _are_circular(self, variables: Sequence[int]) -> bool:
        return all(self._old.nodes[v][0] in _CIRCULAR for v in variables)

    def _part(self, n: int, operation: str) -> _Polynomial:
        """Return a node as part of another: what is used elsewhere too is there anyway.

        Nor are sums of weights multiplied out.
        """
        if not self._old.varies[n]:
            return self._weighted[n]
        sums = operation == "mul" and self._old.nodes[n][0] in ("add", "sub")
        return self._pure[n] if sums or self._users[n] > 1 else self._weighted[n]

    def _combined(self, operation: str, parts: Sequence[_Polynomial]) -> _Polynomial | None:
        variables = tuple(sorted({v for part in parts for v in part.variables}))
        if len(variables) > _MOST_VARIABLES:
            return None
        first, *others = (dict(_aligned(part, variables)) for part in parts)
        new = self.new
        if operation == "negative":
            return _Polynomial(variables, {e: new.negative(c) for e, c in first.items()})
        (second,) = others
        terms: dict[Exponents, int] = {}
        if operation == "mul":
            if len(first) * len(second) > _MOST_TERMS:
                return None
            for e, a in first.items():
                for g, b in second.items():
                    exponents = tuple(i + j for i, j in zip(e, g, strict=True))
                    terms[exponents] = new.add(terms.get(exponents, self._zero), new.mul(a, b))
            terms = self._reduced(variables, terms)
        else:
            combine = new.add if operation == "add" else new.sub
            for e in {**first, **second}:
                terms[e] = combine(first.get(e, self._zero), second.get(e, self._zero))
        terms = {e: c for e, c in terms.items() if new.value(c) != 0}
        return _Polynomial(variables, terms) if len(terms) <= _MOST_TERMS else None

    def _reduced(
        self, variables: Sequence[int], terms: Mapping[Exponents, int]
    ) -> dict[Exponents, int]:
        """Replace sin^2 by 1 - cos^2 for angles that have both."""
        nodes = [self._old.nodes[v] for v in variables]
        pairs = [
            (i, nodes.index(("cos", *node[1:])))
            for i, node in enumerate(nodes)
            if node[0] == "sin" and ("cos", *node[1:]) in nodes
        ]
        reduced = dict(terms)
        for sine, cosine in pairs:
            while large := [e for e in reduced if e[sine] > 1]:
                for e in large:
                    c = reduced.pop(e)
                    lower = [*e]
                    lower[sine] -= 2
                    raised = [*lower]
                    raised[cosine] += 2
                    for exponents, part in ((lower, c), (raised, self.new.negative(c))):
                        key = tuple(exponents)
                        reduced[key] = self.new.add(reduced.get(key, self._zero), part)
        return reduced

    def _written(self, terms: Mapping[Exponents, int], x: Sequence[int]) -> int:
        """Return a polynomial in nested form, by Estrin's scheme in each variable."""
        new = self.new
        if not x:
            return terms.get((), self._zero)
        common = [min(e[i] for e in terms) for i in range(len(x))]
        if any(common):
            left = {
                tuple(i - j for i, j in zip(e, common, strict=True)): c for e, c in terms.items()
            }
            product = self._written(left, x)
            for variable, power in zip(x, common, strict=True):
                for _ in range(power):
                    product = new.mul(variable, product)
            return product
        # the variable of least powers is the outermost: its few coefficients are polynomials
        outer = min(range(len(x)), key=lambda i: max(e[i] for e in terms))
        inner: dict[int, dict[Exponents, int]] = {}
        for e, c in terms.items():
            inner.setdefault(e[outer], {})[e[:outer] + e[outer + 1 :]] = c
        rest = [*x[:outer], *x[outer + 1 :]]
        every = math.gcd(*inner) or 1  # even exponents: powers of the square
        powers = max(inner) // every + 1
        coefficients = [
            self._written(inner[k * every], rest) if k * every in inner else self._zero
            for k in range(powers)
        ]
        base = x[outer]
        for _ in range(every - 1):
            base = new.mul(base, x[outer])
        return self._estrin(coefficients, base)

    def _estrin(self, coefficients: Sequence[int], x: int) -> int:
        terms = list(coefficients)
        new = self.new
        while len(terms) > 1:
            pairs = [
                new.add(terms[k], new.mul(terms[k + 1], x)) for k in range(0, len(terms) - 1, 2)
            ]
            terms = pairs + terms[len(pairs) * 2 :]
            x = new.mul(x, x)
        return terms[0]


def _aligned(part: _Polynomial, variables: Sequence[int]) -> Iterable[tuple[Exponents, int]]:
    """Return terms by exponents of these variables, among which are its own."""
    places = {v: i for i, v in enumerate(part.variables)}
    for e, c in part.terms.items():
        yield tuple(e[places[v]] if v in places else 0 for v in variables), c
