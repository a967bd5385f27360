"""Formulas as trees of sums, products, powers and functions, in a form fit for computing.

SymPy could do all of this, and much more, which is why it takes its time: what it simplifies by
itself costs seconds for some short formulas, and minutes for some from a malicious file. Here the
cost of every operation is bounded by its size, and the sizes together by a budget.

An :class:`Algebra` makes each formula just once, so equal formulas are identical, and a formula
that occurs at several places is computed once. Formulas are kept in a canonical form:

    sum      constant + c1*t1 + c2*t2 + ...   like terms collected
    product  b1**e1 * b2**e2 * ...            exponents are numbers; a coefficient stands outside,
                                              in a sum of one term
    call     sin(a), atan2(a, b), ...         and a**b, where b is no number

Sums are not multiplied out, and no identity is used that does not hold for all real numbers where
both sides have a value.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from fractions import Fraction
from itertools import count
from typing import Any

from vpintegrator.dynamics.expressions import nodes
from vpintegrator.dynamics.expressions.functions import FUNCTIONS, POWER
from vpintegrator.dynamics.expressions.nodes import (
    Call,
    Expression,
    Function,
    NotFinite,
    Number,
    Product,
    Sum,
    Symbol,
    Value,
    below,
    fold,
    tidy,
)

MAXIMUM_OPERATIONS = 300_000  # in the formulas of a file, and in checking them
_LARGEST_DERIVATIVES = 2  # times that many for what is derived from them later
_IRRATIONAL = 10  # operations that a function of a number counts for


class TooLong(ValueError):
    """Formulas of more operations than are allowed."""


class Algebra:
    """Makes formulas, within a budget of operations."""

    def __init__(self) -> None:
        self.spent = 0
        self.limit = MAXIMUM_OPERATIONS
        self.variables: list[Symbol] = []
        self._numbers = count()
        self._known: dict[Any, Any] = {}

    def spend(self, operations: int) -> None:
        """Count operations.

        Raises
        ------
        TooLong
            If there have been too many.
        """
        self.spent += operations
        if self.spent > self.limit:
            raise TooLong(f"more than {MAXIMUM_OPERATIONS} terms and operations")

    def allow_derivatives(self) -> None:
        """Grant operations for what is derived from formulas that were read."""
        self.limit = self.spent + _LARGEST_DERIVATIVES * MAXIMUM_OPERATIONS

    def symbol(self, name: str) -> Symbol:
        """Return a new variable."""
        symbol = Symbol(name)
        self._count(symbol, 1 << len(self.variables))
        self.variables.append(symbol)
        return symbol

    def symbols(self, value: Value) -> list[Symbol]:
        """Return the variables of a formula."""
        if not isinstance(value, Expression):
            return []
        return [symbol for symbol in self.variables if symbol.depends & value.depends]

    def _made(self, key: Any, make: Callable[[], Expression]) -> Expression:
        node = self._known.get(key)
        if node is None:
            made = make()
            depends = 0
            for part in made.parts:
                depends |= part.depends
            self._count(made, depends)
            node = self._known.setdefault(key, made)
        return node

    def _count(self, made: Expression, depends: int) -> None:
        made.number = next(self._numbers)
        made.depends = depends

    # operations

    def add(self, *values: Value) -> Value:
        """Return the sum."""
        return self.combine([(value, 1) for value in values])

    def subtract(self, left: Value, right: Value) -> Value:
        """Return the difference."""
        return self.combine([(left, 1), (right, -1)])

    def combine(self, terms: Iterable[tuple[Value, Number]]) -> Value:
        """Return the sum of values times numbers."""
        constant: Number = 0
        collected: dict[Expression, Number] = {}
        stack = list(terms)[::-1]
        work = 1
        while stack:
            value, coefficient = stack.pop()
            work += 1
            if not isinstance(value, Expression):
                constant += value * coefficient
                if not isinstance(constant, int):
                    constant = tidy(constant)  # or a sum of many fractions would grow long
            elif isinstance(value, Sum) and (coefficient in (1, -1) or _is_scaled(value)):
                constant += value.constant * coefficient
                work += len(value.terms)
                for term, factor in value.terms:
                    # no term of a sum is a sum that could be merged with it, but for scaled ones
                    c = factor if coefficient == 1 else tidy(factor * coefficient)
                    if isinstance(term, Sum) and c in (1, -1):
                        stack.append((term, c))
                    else:
                        collected[term] = tidy(collected.get(term, 0) + c)
            else:
                collected[value] = tidy(collected.get(value, 0) + coefficient)
            if not stack:
                # like terms may have left a whole sum, which can be merged now
                for term in [t for t, c in collected.items() if isinstance(t, Sum)]:
                    if collected[term] in (1, -1):
                        stack.append((term, collected.pop(term)))
        self.spend(work)
        return self._sum(tidy(constant), _ordered(collected))

    def _sum(self, constant: Number, terms: tuple[tuple[Expression, Number], ...]) -> Value:
        if not terms:
            return constant
        if constant == 0 and len(terms) == 1 and terms[0][1] == 1:
            return terms[0][0]
        key = (Sum, constant, tuple((term.number, c) for term, c in terms))
        return self._made(key, lambda: Sum(constant, terms))

    def scale(self, coefficient: Number, value: Value) -> Value:
        """Return a value times a number."""
        return self.combine([(value, coefficient)])

    def multiply(self, *values: Value) -> Value:
        """Return the product."""
        return self.product([(value, 1) for value in values])

    def divide(self, left: Value, right: Value) -> Value:
        """Return the quotient.

        Raises
        ------
        ZeroDivisionError
            If the divisor is zero.
        """
        return self.product([(left, 1), (right, -1)])

    def product(self, factors: Iterable[tuple[Value, Number]]) -> Value:
        """Return the product of values to the powers of numbers."""
        coefficient: Number = 1
        collected: dict[Expression, Number] = {}
        stack = list(factors)[::-1]
        work = 1
        while stack:
            value, exponent = stack.pop()
            work += 1
            whole = isinstance(exponent, int)
            if not isinstance(value, Expression):
                if exponent == 1:
                    coefficient = coefficient * value
                    if not isinstance(coefficient, int) or abs(coefficient) > 2**64:
                        coefficient = tidy(coefficient)
                    continue
                work += _IRRATIONAL
                coefficient = tidy(Fraction(coefficient) * nodes.power(value, exponent))
            elif isinstance(value, Product) and whole:
                work += len(value.factors)
                for base, former in value.factors:
                    product = former if exponent == 1 else tidy(Fraction(former) * exponent)
                    collected[base] = collected.get(base, 0) + product
            elif (scaled := _scaled(value)) and (whole or scaled[1] > 0):
                stack.append((scaled[0], exponent))
                stack.append((nodes.power(scaled[1], exponent), 1))
            elif isinstance(value, Sum) and whole and _leads_with_minus(value):
                if exponent % 2:
                    coefficient = -coefficient
                opposite = self.scale(-1, value)
                assert isinstance(opposite, Expression)
                collected[opposite] = collected.get(opposite, 0) + exponent
            else:
                collected[value] = collected.get(value, 0) + exponent
            if not stack:
                # the powers of a product, or of a multiple, may have become whole
                for base in [b for b in collected if isinstance(b, Product) or _scaled(b)]:
                    if isinstance(power := tidy(collected[base]), int):
                        del collected[base]
                        stack.append((base, power))
        self.spend(work)
        if coefficient == 0:
            return 0
        return self.scale(coefficient, self._product(_ordered(collected)))

    def _product(self, factors: tuple[tuple[Expression, Number], ...]) -> Value:
        if not factors:
            return 1
        if len(factors) == 1 and factors[0][1] == 1:
            return factors[0][0]
        if any(nodes.size(e) > nodes.LARGEST_EXPONENT for _, e in factors):
            raise NotFinite
        key = (Product, tuple((base.number, e) for base, e in factors))
        return self._made(key, lambda: Product(factors))

    def power(self, base: Value, exponent: Value) -> Value:
        """Return ``base**exponent``.

        Raises
        ------
        NotFinite, ZeroDivisionError
            If it is no real number, or the exponent is absurd.
        """
        if not isinstance(exponent, Expression):
            if nodes.size(exponent) > nodes.LARGEST_EXPONENT:
                raise NotFinite
            return self.product([(base, exponent)])
        if not isinstance(base, Expression) and base <= 0:
            raise NotFinite
        if base == 1:
            return 1
        self.spend(1)
        key = (POWER, _key(base), exponent.number)
        return self._made(key, lambda: Call(POWER, (base, exponent)))

    def call(self, function: Function | str, *arguments: Value) -> Value:
        """Return a function, or the function of a name, of values.

        Raises
        ------
        NotFinite
            If the value is a constant that is not finite, or no real number.
        """
        if isinstance(function, str):
            function = FUNCTIONS[function]
        if function.build is not None:
            return function.build(self, *arguments)
        self.spend(1)
        numbers = [a for a in arguments if not isinstance(a, Expression)]
        if len(numbers) == len(arguments):
            self.spend(_IRRATIONAL)
            return nodes.function_value(function, *numbers)
        first = arguments[0]
        if function.parity and isinstance(first, Expression) and _leads_with_minus(first):
            return self.scale(function.parity, self.call(function, self.scale(-1, first)))
        key = (function, *map(_key, arguments))
        return self._made(key, lambda: Call(function, arguments))

    # operations on formulas

    def gradient(self, value: Value) -> dict[Symbol, Value]:
        """Return the derivatives by the variables that occur, without those that are zero.

        Reverse mode: the cost is a few times that of the value, for any number of variables.
        """
        derivatives: dict[Symbol, Value] = {}
        if not isinstance(value, Expression):
            return derivatives
        slopes: dict[Expression, list[Value]] = {value: [1]}
        for node in reversed(below([value])):
            if not node.depends or node not in slopes:
                continue
            slope = self.add(*slopes.pop(node))
            if slope == 0:
                continue
            if isinstance(node, Symbol):
                derivatives[node] = slope
                continue
            for part, factor in self._partial(node):
                slopes.setdefault(part, []).append(self.multiply(slope, factor))
        return derivatives

    def _partial(self, node: Expression) -> Iterable[tuple[Expression, Value]]:
        """Return derivatives of a formula with respect to its parts."""
        match node:
            case Sum(terms=terms):
                yield from ((term, c) for term, c in terms if term.depends)
            case Product(factors=factors):
                for k, (base, e) in enumerate(factors):
                    if base.depends:
                        rest = (*factors[:k], (base, tidy(e - 1)), *factors[k + 1 :])
                        yield base, self.scale(e, self.product(rest))
            case Call(function=function, arguments=arguments):
                for argument, slope in zip(arguments, function.slopes, strict=True):
                    if isinstance(argument, Expression) and argument.depends:
                        yield argument, slope(self, *arguments, node)

    def substitute(self, values: Sequence[Value], changes: Mapping[Symbol, Value]) -> list[Value]:
        """Return the formulas with values in place of variables."""
        known: dict[Expression, Value] = {s: s for s in below(values) if isinstance(s, Symbol)}
        return fold(values, known | dict(changes), self)

    # formulas of other formulas are a meaning of theirs

    def number(self, value: Number) -> Value:
        """Return a number as it is."""
        return value

    def sum(self, constant: Number, terms: Iterable[tuple[Value, Number]]) -> Value:
        """Return a constant and values times numbers."""
        return self.combine([(constant, 1), *terms])


def _key(value: Value) -> Any:
    return ("formula", value.number) if isinstance(value, Expression) else value


def _is_scaled(value: Sum) -> bool:
    return value.constant == 0 and len(value.terms) == 1


def _scaled(value: Expression) -> tuple[Expression, Number] | None:
    """Return the term and coefficient of a multiple."""
    return value.terms[0] if isinstance(value, Sum) and _is_scaled(value) else None


def _leads_with_minus(value: Expression) -> bool:
    return isinstance(value, Sum) and bool(value.terms) and value.terms[0][1] < 0


def _ordered(collected: Mapping[Expression, Number]) -> tuple[tuple[Expression, Number], ...]:
    """Return nodes with their numbers that are not zero, in the order in which they were made."""
    kept = [(node, tidy(number)) for node, number in collected.items() if number != 0]
    return tuple(sorted(kept, key=lambda entry: entry[0].number))
