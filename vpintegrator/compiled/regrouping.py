"""Polynomials in nested form: a x + b x y + c y = x (a + b y) + c y.

The sums of products that couplings by basis functions are made of take fewer operations so, and
what is known last is multiplied last, so that less waits for it.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from vpintegrator.compiled.scalar_graph import LEAVES, ScalarGraph
from vpintegrator.compiled.tracing import Trace

_SUMS = ("add", "sub")


def regrouped(trace: Trace) -> Trace:
    """Return the same map, up to rounding, with sums of weighted products in nested form.

    Other sums keep their order, on which rounding may depend. Without a gain the result is the
    trace itself.
    """
    rewriter = _Rewriter(trace.graph, trace.outputs)
    outputs = rewriter.rewrite()
    graph = rewriter.new
    found = replace(trace, graph=graph, outputs=outputs)
    return found if operations(found) < operations(trace) else trace


def operations(trace: Trace) -> int:
    """Return the number of operations that depend on the window."""
    graph, ends = trace.graph, trace.outputs
    return sum(graph.varies[n] and graph.arguments(n) != () for n in graph.needed(ends))


@dataclass(frozen=True)
class _Term:
    """A weight times some factors that depend on the window, as nodes of the new graph."""

    weight: int
    factors: tuple[int, ...]

    def without(self, factor: int) -> _Term:
        """Return the term divided by one of its factors."""
        place = self.factors.index(factor)
        return _Term(self.weight, self.factors[:place] + self.factors[place + 1 :])


class _Rewriter:
    """Copies a graph to a new one, some sums in nested form."""

    def __init__(self, graph: ScalarGraph, outputs: Sequence[int]) -> None:
        self._old, self._outputs = graph, outputs
        self.new = ScalarGraph()
        self._number: dict[int, int] = {}  # in the new graph

    def rewrite(self) -> list[int]:
        """Return the outputs in the new graph."""
        needed = self._old.needed(self._outputs)
        users: dict[int, list[int]] = defaultdict(list)
        for n in needed:
            for a in self._old.arguments(n):
                users[a].append(n)
        kept = set(self._outputs)

        def inside(n: int) -> bool:
            """Whether a sum is nothing but part of another one."""
            return (
                self._old.nodes[n][0] in _SUMS
                and n not in kept
                and [self._old.nodes[u][0] in _SUMS for u in users[n]] == [True]
            )

        parts = {n for n in needed if inside(n)}
        for n in needed:
            if n not in parts:
                nested = None
                if self._old.nodes[n][0] in _SUMS and self._old.varies[n]:
                    nested = self._nested_sum(n, parts)
                self._number[n] = self._copy(n, parts) if nested is None else nested
        return [self._number[n] for n in self._outputs]

    def _copy(self, n: int, parts: set[int]) -> int:
        """Copy a node of the old graph to the new one, with unchanged parts of a sum."""
        waiting = [n]
        while waiting:
            m = waiting[-1]
            operation, *arguments = self._old.nodes[m]
            missing = [a for a in self._old.arguments(m) if a in parts and a not in self._number]
            if missing:
                waiting += missing
                continue
            waiting.pop()
            if operation in LEAVES:
                self._number[m] = getattr(self.new, operation)(*arguments)
            else:
                self._number[m] = self.new.again(operation, [self._number[a] for a in arguments])
        return self._number[n]

    def _nested_sum(self, n: int, parts: set[int]) -> int | None:
        """Return a sum in nested form, unless no two of its terms have a factor in common."""
        found: list[tuple[int, _Term | None]] = []  # nodes of the new graph, taken apart
        waiting = [(False, n)]  # whether subtracted
        while waiting:
            minus, m = waiting.pop()
            operation, *arguments = self._old.nodes[m]
            if m == n or m in parts:
                a, b = arguments
                waiting += [(minus != (operation == "sub"), b), (minus, a)]
            elif operation == "neg":
                waiting.append((not minus, *arguments))
            else:
                term = self._term(m, minus)
                found.append((self._signed(minus, self._number[m]), term))
        occurrences = _occurrences(term for _, term in found if term)
        shared = {factor for factor, times in occurrences.items() if times > 1}
        if not shared:
            return None
        nested = [t for _, t in found if t and shared.intersection(t.factors)]
        total = self.new.constant(0.0)
        for node, t in found:
            if t is None or not shared.intersection(t.factors):
                total = self.new.add(total, node)
        # the terms of a coupling are small: what they are added to is rounded once
        return self.new.add(total, self._nested(nested))

    def _signed(self, minus: bool, n: int) -> int:
        return self.new.negative(n) if minus else n

    def _term(self, n: int, minus: bool) -> _Term | None:
        """Return a product with weights, or minus it, taken apart."""
        weights: list[int] = []
        factors: list[int] = []
        waiting = [n]
        while waiting:
            m = waiting.pop()
            if self._old.varies[m] and self._old.nodes[m][0] == "mul":
                waiting += self._old.arguments(m)
            else:
                (factors if self._old.varies[m] else weights).append(self._number[m])
        if all(self.new.value(w) is not None for w in weights):
            return None
        return _Term(self._signed(minus, self._product(weights)), tuple(sorted(factors)))

    def _nested(self, terms: list[_Term]) -> int:
        """Return the sum of some terms."""
        total = self.new.constant(0.0)
        groups: list[tuple[int, list[_Term]]] = []
        while terms:
            occurrences = _occurrences(terms)
            if not occurrences:
                for term in terms:
                    total = self.new.add(total, term.weight)
                break
            # among the most frequent factors, the one known last
            factor = max(occurrences, key=lambda f: (occurrences[f], f))
            groups.append((factor, [t.without(factor) for t in terms if factor in t.factors]))
            terms = [t for t in terms if factor not in t.factors]
        for factor, inside in sorted(groups):
            total = self.new.add(total, self.new.mul(factor, self._nested(inside)))
        return total

    def _product(self, nodes: Sequence[int]) -> int:
        product = self.new.constant(1.0)
        for n in nodes:
            product = self.new.mul(product, n)
        return product


def _occurrences(terms: Iterable[_Term]) -> Counter[int]:
    """Return the number of terms in which each factor occurs."""
    return Counter(factor for term in terms for factor in set(term.factors))
