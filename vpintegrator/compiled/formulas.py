"""Formulas of a system as a graph of scalar operations.

Numbers that a system's parameters could change are parameters of the graph: systems that differ by
their values alone have the same code, and so the same library.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from vpintegrator.compiled.library import NotCompilable
from vpintegrator.compiled.scalar_graph import ScalarGraph
from vpintegrator.dynamics.expressions import Function, Number, Symbol, Value, fold, size

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
        self._inputs = {symbol: self.graph.input(i) for i, symbol in enumerate(symbols)}

    def add(self, values: Sequence[Value]) -> list[int]:
        """Return the nodes of some formulas.

        Raises
        ------
        NotCompilable
            If they are too long, or hold a function that is not known.
        """
        return fold(values, self._inputs, self)

    # the graph as a meaning of formulas

    def number(self, value: Number) -> int:
        """Return the node of a number."""
        if value == 0 or (isinstance(value, int) and size(value) <= _PLAIN):
            return self.graph.constant(float(value))
        if value < 0:
            return self.graph.negative(self.number(-value))
        number = float(value)
        if number not in self._known:
            self._known[number] = self.graph.parameter(len(self.parameters))
            self.parameters.append(number)
        return self._known[number]

    def sum(self, constant: Number, terms: list[tuple[int, Number]]) -> int:
        """Return the node of a sum; a factor that all terms have is taken out."""
        graph, common = self.graph, size(terms[0][1])
        if constant or any(size(c) != common for _, c in terms):
            common = 1
        total = self.number(constant)
        for term, c in terms:
            part = graph.mul(self.number(1 if size(c) == common else size(c)), term)
            total = (graph.sub if c < 0 else graph.add)(total, part)
        return graph.mul(self.number(common), total)

    def product(self, factors: list[tuple[int, Number]]) -> int:
        """Return the node of a product; formulas that divide by the same share the division."""
        graph = self.graph
        product = one = graph.constant(1.0)
        for base, e in factors:
            power = self._raised(base, size(e))
            product = graph.mul(product, power if e > 0 else graph.div(one, power))
        return product

    def call(self, function: Function, *arguments: int) -> int:
        """Return the node of a function."""
        if function.machine is None:
            raise NotCompilable(f"there is no machine code for {function.name}")
        return function.machine(self.graph, *arguments)

    def _raised(self, base: int, exponent: Number) -> int:
        """Return a positive power: by squares and a root where that is possible."""
        graph, whole = self.graph, int(exponent)
        rest = exponent - whole
        if whole > _LARGEST_MULTIPLIED or rest not in (0, Fraction(1, 2)):
            return graph.power(base, self.number(exponent))
        power = graph.power(base, graph.constant(whole))
        return graph.mul(power, graph.apply("sqrt", base)) if rest else power
