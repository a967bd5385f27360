"""Hoisting of subexpressions that do not depend on the state.

Each such coefficient is computed once for each trajectory::

    h*(1/I3 - 1/I2)*z2*z3   ->   c1*z2*z3   with   c1 = h*(1/I3 - 1/I2)
"""

from __future__ import annotations

from collections.abc import Sequence

from vpintegrator.dynamics.expressions.algebra import Algebra
from vpintegrator.dynamics.expressions.nodes import (
    Call,
    Expression,
    Product,
    Sum,
    Symbol,
    Value,
    below,
)


class Coefficients:
    """Formulas, multiplied by a constant, with one coefficient for each constant subexpression.

    Parameters
    ----------
    values
        Formulas of variables and of constants with names.
    variables
        Symbols of the variables; subexpressions without them are constant.
    factor
        Factor of all formulas.
    algebra
        Algebra of the formulas.

    Attributes
    ----------
    values
        Formulas of the variables and of the coefficients.
    factors
        Remaining factor of each formula: a coefficient or a number.
    symbols, definitions
        Symbols of the coefficients, and the constants that they stand for.
    """

    def __init__(
        self,
        values: Sequence[Value],
        variables: Sequence[Symbol],
        factor: Value,
        algebra: Algebra,
    ) -> None:
        self._algebra = algebra
        self._variables = 0
        for symbol in variables:
            self._variables |= symbol.depends
        self._made: dict[Expression, Symbol] = {}
        # every formula is a constant times a core; a core of 1 is a formula that is constant
        self._parts: dict[Expression, tuple[Value, Value]] = {}
        for node in below(values):
            self._parts[node] = self._split(node)
        both = [self._times(factor, value) for value in values]
        self.factors, self.values = [f for f, _ in both], [value for _, value in both]
        self.symbols = list(self._made.values())
        self.definitions = list(self._made)

    def _of(self, value: Value) -> tuple[Value, Value]:
        return self._parts[value] if isinstance(value, Expression) else (value, 1)

    def _split(self, node: Expression) -> tuple[Value, Value]:
        algebra = self._algebra
        if not node.depends & self._variables:
            return node, 1
        match node:
            case Product(factors=factors):
                constant: Value = 1
                cores: list[tuple[Value, int]] = []
                for base, exponent in factors:
                    outer, core = self._of(base)
                    if exponent == 1 or core == 1:
                        constant = algebra.product([(constant, 1), (outer, exponent)])
                        cores.append((core, exponent))  # type: ignore[arg-type]
                    else:
                        cores.append((self._whole(base), exponent))  # type: ignore[arg-type]
                return constant, algebra.product(cores)
            case Sum():
                return 1, self._sum(node, 1)
            case Call(function=function, arguments=arguments):
                return 1, algebra.call(function, *map(self._whole, arguments))
        return 1, node  # a variable

    def _sum(self, node: Sum, factor: Value) -> Value:
        """A sum with a coefficient before each of its terms, all of them multiplied by a factor."""
        algebra = self._algebra
        constants: list[Value] = [algebra.multiply(factor, node.constant)]
        terms: list[Value] = []
        for term, number in node.terms:
            outer, core = self._of(term)
            coefficient = algebra.multiply(factor, number, outer)
            if core == 1:
                constants.append(coefficient)
            else:
                terms.append(algebra.multiply(self._named(coefficient), core))
        return algebra.add(self._named(algebra.add(*constants)), *terms)

    def _whole(self, value: Value) -> Value:
        return self._algebra.multiply(*self._times(1, value))

    def _times(self, factor: Value, value: Value) -> tuple[Value, Value]:
        """Return a coefficient and a formula whose product is a value times a factor."""
        if isinstance(value, Sum) and value.depends & self._variables:
            outer = [self._of(term)[0] for term, _ in value.terms]
            if all(isinstance(constant, Expression) for constant in outer):
                return 1, self._sum(value, factor)  # no multiplication more than without the factor
        constant, core = self._of(value)
        return self._named(self._algebra.multiply(factor, constant)), core

    def _named(self, constant: Value) -> Value:
        """Return the coefficient that stands for a constant; numbers stay as they are."""
        if not isinstance(constant, Expression):
            return constant
        if constant not in self._made:
            self._made[constant] = self._algebra.symbol("coefficient", varies=False)
        return self._made[constant]
