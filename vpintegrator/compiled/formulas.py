"""Formulas of a system as a graph of scalar operations.

Numbers that a system's parameters could change are parameters of the graph: systems that differ by
their values alone have the same code, and so the same library.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from fractions import Fraction

from vpintegrator.compiled.scalar_graph import ScalarGraph
from vpintegrator.dynamics.expressions import (
    Call,
    Expression,
    Number,
    Product,
    Sum,
    Symbol,
    Value,
    below,
    size,
)
from vpintegrator.native import NotCompilable

MOST_OPERATIONS = 500_000
_PLAIN = 16  # whole numbers up to which are part of the code
_LARGEST_MULTIPLIED = 32  # exponents up to which powers are products


class FormulaGraph:
    """A graph to which formulas of some variables are added.

    Parameters
    ----------
    symbols
        The variables, inputs of the graph in this order.

    Attributes
    ----------
    graph
        The graph.
    parameters
        The values of its parameters.
    """

    def __init__(self, symbols: Sequence[Symbol]) -> None:
        self.graph = ScalarGraph(MOST_OPERATIONS)
        self.parameters: list[float] = []
        self._known: dict[float, int] = {}
        self._made: dict[Expression, int] = {s: self.graph.input(i) for i, s in enumerate(symbols)}

    def add(self, values: Sequence[Value]) -> list[int]:
        """Return the nodes of some formulas.

        Raises
        ------
        NotCompilable
            If they are too long, or hold a function that is not known.
        """
        nodes = [node for node in below(values) if node not in self._made]
        # number of products that divide by a power of a formula
        divided = Counter(
            (base, size(e))
            for node in nodes
            if isinstance(node, Product)
            for base, e in node.factors
            if e < 0
        )
        # a sum grows as its terms become known, so that none of them has to be kept for it
        waiting: dict[Expression, list[tuple[Sum, Number]]] = defaultdict(list)
        totals: dict[Sum, int] = {}
        for node in nodes:
            if isinstance(node, Sum):
                _, terms = _common_factor(node)
                for term, c in terms:
                    waiting[term].append((node, c))
                totals[node] = self._number(node.constant)
        for known in [node for node in waiting if node in self._made]:
            self._grow(totals, waiting, known)
        for node in nodes:
            self._made[node] = (
                self._sum(node, totals) if isinstance(node, Sum) else self._node(node, divided)
            )
            self._grow(totals, waiting, node)
        return [self._of(value) for value in values]

    def _of(self, value: Value) -> int:
        return self._made[value] if isinstance(value, Expression) else self._number(value)

    def _number(self, value: Number) -> int:
        if value == 0 or (isinstance(value, int) and size(value) <= _PLAIN):
            return self.graph.constant(float(value))
        if value < 0:
            return self.graph.negative(self._number(-value))
        number = float(value)
        if number not in self._known:
            self._known[number] = self.graph.parameter(len(self.parameters))
            self.parameters.append(number)
        return self._known[number]

    def _grow(
        self,
        totals: dict[Sum, int],
        waiting: dict[Expression, list[tuple[Sum, Number]]],
        term: Expression,
    ) -> None:
        for whole, c in waiting[term]:
            part = self.graph.mul(self._number(size(c)), self._made[term])
            combine = self.graph.sub if c < 0 else self.graph.add
            totals[whole] = combine(totals[whole], part)

    def _sum(self, node: Sum, totals: dict[Sum, int]) -> int:
        return self.graph.mul(self._number(_common_factor(node)[0]), totals[node])

    def _node(self, node: Expression, divided: Counter[tuple[Expression, Number]]) -> int:
        graph = self.graph
        match node:
            case Product(factors=factors):
                return self._product(factors, divided)
            case Call(function=function, arguments=arguments):
                if function.machine is None:
                    raise NotCompilable(f"there is no machine code for {function.name}")
                return function.machine(graph, *map(self._of, arguments))
        raise NotImplementedError(type(node))

    def _product(
        self,
        factors: Sequence[tuple[Expression, Number]],
        divided: Counter[tuple[Expression, Number]],
    ) -> int:
        graph = self.graph
        above = beneath = one = graph.constant(1.0)
        for base, e in factors:
            power = self._raised(self._made[base], size(e))
            if e > 0:
                above = graph.mul(above, power)
            elif divided[base, size(e)] > 1:  # one division for all
                above = graph.mul(above, graph.div(one, power))
            else:
                beneath = graph.mul(beneath, power)
        return graph.div(above, beneath)

    def _raised(self, base: int, exponent: Number) -> int:
        """Return a positive power: by squares and a root where that is possible."""
        graph, whole = self.graph, int(exponent)
        rest = exponent - whole
        if whole > _LARGEST_MULTIPLIED or rest not in (0, Fraction(1, 2)):
            return graph.power(base, self._number(exponent))
        power = graph.power(base, graph.constant(whole))
        return graph.mul(power, graph.apply("sqrt", base)) if rest else power


def _common_factor(node: Sum) -> tuple[Number, Sequence[tuple[Expression, Number]]]:
    """Return the common factor of all terms, and the terms without it."""
    common = size(node.terms[0][1])
    if node.constant or common == 1 or any(size(c) != common for _, c in node.terms):
        return 1, node.terms
    return common, [(term, 1 if c > 0 else -1) for term, c in node.terms]
