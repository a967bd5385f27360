"""Formulas as trees of sums, products, powers and functions, in a form fit for computing.

SymPy could do all of this, and much more, which is why it takes its time: what it simplifies by
itself costs seconds for some short formulas, and minutes for some from a malicious file. Here the
cost of every operation is bounded by its size, and the sizes together by a budget.

An :class:`Algebra` makes each formula just once, so equal formulas are identical, and a formula
that occurs at several places is computed once. Formulas are kept in a canonical form:

    sum      constant + c1*t1 + c2*t2 + ...   like terms collected
    product  b1**e1 * b2**e2 * ...            exponents are numbers; a coefficient stands outside,
                                              in a sum of one term
    power    a**b                             where b is no number
    call     sin(a), ...
    angle    atan2(a, b)

Sums are not multiplied out, and no identity is used that does not hold for all real numbers where
both sides have a value.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import count
from typing import Any

from vpintegrator.dynamics import bessel, constants
from vpintegrator.dynamics.constants import NotFinite, Number, tidy

MAXIMUM_OPERATIONS = 300_000  # in the formulas of a file, and in checking them
_LARGEST_DERIVATIVES = 2  # times that many for what is derived from them later
_IRRATIONAL = 10  # operations that a function of a number counts for


class TooLong(ValueError):
    """Formulas of more operations than are allowed."""


class Expression:
    """A formula that is no number; made by an :class:`Algebra`.

    Attributes
    ----------
    number
        Larger than that of every part.
    depends
        The variables that occur, as bits of a whole number.
    """

    __slots__ = ("depends", "number")

    number: int
    depends: int

    @property
    def parts(self) -> Sequence[Expression]:
        """The formulas that this one is made of."""
        return ()


Value = Number | Expression


@dataclass(eq=False, repr=False, slots=True)
class Symbol(Expression):
    """A variable, or a constant that has a name only (``depends`` is 0 then)."""

    name: str

    def __repr__(self) -> str:
        return self.name


@dataclass(eq=False, repr=False, slots=True)
class Sum(Expression):
    """``constant + coefficient*term + ...``; the constant is not 0, or the terms are several."""

    constant: Number
    terms: tuple[tuple[Expression, Number], ...]

    @property
    def parts(self) -> Sequence[Expression]:
        return [term for term, _ in self.terms]


@dataclass(eq=False, repr=False, slots=True)
class Product(Expression):
    """``base**exponent * ...``."""

    factors: tuple[tuple[Expression, Number], ...]

    @property
    def parts(self) -> Sequence[Expression]:
        return [base for base, _ in self.factors]


@dataclass(eq=False, repr=False, slots=True)
class Power(Expression):
    """``base**exponent`` where the exponent is no number."""

    base: Value
    exponent: Expression

    @property
    def parts(self) -> Sequence[Expression]:
        return [e for e in (self.base, self.exponent) if isinstance(e, Expression)]


@dataclass(eq=False, repr=False, slots=True)
class Call(Expression):
    """``function(argument)``."""

    function: str
    argument: Value

    @property
    def parts(self) -> Sequence[Expression]:
        return [self.argument] if isinstance(self.argument, Expression) else []


@dataclass(eq=False, repr=False, slots=True)
class Angle(Expression):
    """``atan2(ordinate, abscissa)``: the angle of a point of the plane, from -pi to pi."""

    ordinate: Value
    abscissa: Value

    @property
    def parts(self) -> Sequence[Expression]:
        return [e for e in (self.ordinate, self.abscissa) if isinstance(e, Expression)]


_ODD = {"sin", "tan", "tanh", "erf", "sign"}
_EVEN = {"cos", "abs"}
for _name, _order in bessel.ORDERS.items():
    (_ODD if _order % 2 else _EVEN).add(_name)


class Algebra:
    """Makes formulas, within a budget of operations.

    Parameters
    ----------
    exact
        Whether pi and functions of numbers stay as they are, to be shown, rather than become
        numbers, to be computed with.
    """

    def __init__(self, exact: bool = False) -> None:
        self.exact = exact
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

    def symbol(self, name: str, varies: bool = True) -> Symbol:
        """Return a new variable, or a constant with a name."""
        symbol = Symbol(name)
        self._count(symbol, 1 << len(self.variables) if varies else 0)
        if varies:
            self.variables.append(symbol)
        return symbol

    @property
    def pi(self) -> Value:
        """pi: its number, or a name where formulas are exact."""
        if not self.exact:
            return constants.PI
        if "pi" not in self._known:
            self._known["pi"] = self.symbol("pi", varies=False)
        return self._known["pi"]

    def symbols(self, value: Value) -> list[Symbol]:
        """Return the variables of a formula."""
        if not isinstance(value, Expression):
            return []
        return [self.variables[bit] for bit in _bits(value.depends)]

    def _made(self, key: Any, make: Callable[[], Expression]) -> Expression:
        found = self._known.get(key)
        if found is None:
            made = make()
            depends = 0
            for part in made.parts:
                depends |= part.depends
            self._count(made, depends)
            found = self._known.setdefault(key, made)
        return found

    def _count(self, made: Expression, depends: int) -> None:
        made.number, made.depends = next(self._numbers), depends

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
                for term, own in value.terms:
                    # no term of a sum is a sum that could be merged with it, but for scaled ones
                    c = own if coefficient == 1 else tidy(own * coefficient)
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
        kept = tuple(
            sorted(
                ((term, c) for term, c in collected.items() if c != 0),
                key=lambda entry: entry[0].number,
            )
        )
        return self._sum(tidy(constant), kept)

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
        return self.raise_factors([(value, 1) for value in values])

    def divide(self, left: Value, right: Value) -> Value:
        """Return the quotient.

        Raises
        ------
        ZeroDivisionError
            If the divisor is zero.
        """
        return self.raise_factors([(left, 1), (right, -1)])

    def raise_factors(self, factors: Iterable[tuple[Value, Number]]) -> Value:
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
                if self.exact and not whole and value != 0:
                    base = self._made((Sum, value, ()), lambda v=value: Sum(v, ()))  # type: ignore[misc]
                    collected[base] = collected.get(base, 0) + exponent
                    continue
                work += _IRRATIONAL
                coefficient = tidy(Fraction(coefficient) * constants.power(value, exponent))
            elif isinstance(value, Product) and whole:
                work += len(value.factors)
                for base, own in value.factors:
                    product = own if exponent == 1 else tidy(Fraction(own) * exponent)
                    collected[base] = collected.get(base, 0) + product
            elif (scaled := _scaled(value)) and (whole or (scaled[1] > 0 and not self.exact)):
                stack.append((scaled[0], exponent))
                stack.append((constants.power(scaled[1], exponent), 1))
            elif isinstance(value, Sum) and whole and not self.exact and _leads_with_minus(value):
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
        kept = tuple(
            sorted(
                ((base, tidy(e)) for base, e in collected.items() if e != 0),
                key=lambda entry: entry[0].number,
            )
        )
        return self.scale(coefficient, self._product(kept))

    def _product(self, factors: tuple[tuple[Expression, Number], ...]) -> Value:
        if not factors:
            return 1
        if len(factors) == 1 and factors[0][1] == 1:
            return factors[0][0]
        if any(constants.size(e) > constants.LARGEST_EXPONENT for _, e in factors):
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
            if constants.size(exponent) > constants.LARGEST_EXPONENT:
                raise NotFinite
            return self.raise_factors([(base, exponent)])
        if not isinstance(base, Expression) and base <= 0:
            raise NotFinite
        if base == 1:
            return 1
        self.spend(1)
        key = (Power, _key(base), exponent.number)
        return self._made(key, lambda: Power(base, exponent))

    def call(self, function: str, argument: Value) -> Value:
        """Return a function of a value; ``sqrt`` is a power."""
        self.spend(1)
        if function == "sqrt":
            return self.power(argument, Fraction(1, 2))
        if not isinstance(argument, Expression):
            if argument == 0 and function != "log":
                return constants.function_value(function, 0)
            if not self.exact:
                self.spend(_IRRATIONAL)
                return constants.function_value(function, argument)
        elif (function in _ODD or function in _EVEN) and _leads_with_minus(argument):
            value = self.call(function, self.scale(-1, argument))
            return self.scale(-1, value) if function in _ODD else value
        key = (Call, function, _key(argument))
        return self._made(key, lambda: Call(function, argument))

    def extreme(self, name: str, values: Sequence[Value]) -> Value:
        """Return the least (``min``) or largest (``max``) of values, by absolute values."""
        found, sign = values[0], 1 if name == "max" else -1
        for value in values[1:]:
            apart = self.call("abs", self.subtract(found, value))
            found = self.scale(Fraction(1, 2), self.add(found, value, self.scale(sign, apart)))
        return found

    def step(self, value: Value) -> Value:
        """Return 1 where a value is positive, else 0: s (s + 1)/2 of its sign s, exactly."""
        sign = self.call("sign", value)
        return self.scale(Fraction(1, 2), self.multiply(sign, self.add(sign, 1)))

    def angle(self, ordinate: Value, abscissa: Value) -> Value:
        """Return ``atan2(ordinate, abscissa)``.

        Raises
        ------
        NotFinite
            If both are zero.
        """
        self.spend(1)
        if not isinstance(ordinate, Expression) and not isinstance(abscissa, Expression):
            self.spend(_IRRATIONAL)
            return constants.angle(ordinate, abscissa)
        key = (Angle, _key(ordinate), _key(abscissa))
        return self._made(key, lambda: Angle(ordinate, abscissa))

    # operations on formulas

    def gradient(self, value: Value) -> dict[Symbol, Value]:
        """The derivatives with respect to the variables that occur, but for those that are zero.

        Backwards through the formula, so that the cost is a few times that of its value, however
        many variables there are.
        """
        found: dict[Symbol, Value] = {}
        if not isinstance(value, Expression):
            return found
        slopes: dict[Expression, list[Value]] = {value: [1]}
        for node in reversed(below([value])):
            if not node.depends or node not in slopes:
                continue
            slope = self.add(*slopes.pop(node))
            if slope == 0:
                continue
            if isinstance(node, Symbol):
                found[node] = slope
                continue
            for part, factor in self._partial(node):
                slopes.setdefault(part, []).append(self.multiply(slope, factor))
        return found

    def _partial(self, node: Expression) -> Iterable[tuple[Expression, Value]]:
        """Return derivatives of a formula with respect to its parts."""
        match node:
            case Sum(terms=terms):
                yield from ((term, c) for term, c in terms if term.depends)
            case Product(factors=factors):
                for k, (base, e) in enumerate(factors):
                    if base.depends:
                        rest = (*factors[:k], (base, tidy(e - 1)), *factors[k + 1 :])
                        yield base, self.scale(e, self.raise_factors(rest))
            case Power(base=base, exponent=exponent):
                if isinstance(base, Expression) and base.depends:
                    lower = self.power(base, self.subtract(exponent, 1))
                    yield base, self.multiply(exponent, lower)
                if exponent.depends:
                    yield exponent, self.multiply(self.call("log", base), node)
            case Call(function=function, argument=argument):
                if isinstance(argument, Expression):
                    yield argument, self._slope(function, argument, node)
            case Angle(ordinate=y, abscissa=x):
                square = self.add(self.power(x, 2), self.power(y, 2))
                if isinstance(y, Expression) and y.depends:
                    yield y, self.divide(x, square)
                if isinstance(x, Expression) and x.depends:
                    yield x, self.scale(-1, self.divide(y, square))

    def _slope(self, function: str, x: Expression, value: Expression) -> Value:
        match function:
            case "sin":
                return self.call("cos", x)
            case "cos":
                return self.scale(-1, self.call("sin", x))
            case "tan":
                return self.add(1, self.power(value, 2))
            case "exp":
                return value
            case "log":
                return self.power(x, -1)
            case "tanh":
                return self.subtract(1, self.power(value, 2))
            case "sigmoid":
                return self.multiply(value, self.subtract(1, value))
            case "abs":
                return self.call("sign", x)
            case "sign":
                return 0
            case "erf":
                factor = self.divide(2, self.call("sqrt", self.pi))
                return self.multiply(factor, self.call("exp", self.scale(-1, self.power(x, 2))))
        if function in bessel.ORDERS:
            return self._bessel_slope(bessel.ORDERS[function], x, value)
        raise NotImplementedError(function)

    def _bessel_slope(self, order: int, x: Expression, value: Expression) -> Value:
        if order == 0:
            return self.scale(-1, self.call("j1", x))
        lower = self.call(f"j{order - 1}", x)
        if order == bessel.HIGHEST:
            return self.subtract(lower, self.scale(order, self.divide(value, x)))
        return self.scale(Fraction(1, 2), self.subtract(lower, self.call(f"j{order + 1}", x)))

    def substitute(self, values: Sequence[Value], changes: Mapping[Symbol, Value]) -> list[Value]:
        """Return the formulas with values in place of variables."""
        made: dict[Expression, Value] = {s: changes[s] for s in changes}

        def new(value: Value) -> Value:
            return made.get(value, value) if isinstance(value, Expression) else value

        for node in below(values):
            if node in made:
                continue
            match node:
                case Sum(constant=constant, terms=terms):
                    made[node] = self.combine([(constant, 1), *((new(t), c) for t, c in terms)])
                case Product(factors=factors):
                    made[node] = self.raise_factors([(new(base), e) for base, e in factors])
                case Power(base=base, exponent=exponent):
                    made[node] = self.power(new(base), new(exponent))
                case Call(function=function, argument=argument):
                    made[node] = self.call(function, new(argument))
                case Angle(ordinate=ordinate, abscissa=abscissa):
                    made[node] = self.angle(new(ordinate), new(abscissa))
        return [new(value) for value in values]


def below(values: Iterable[Value]) -> list[Expression]:
    """Return the formulas that values are made of, themselves included, parts first."""
    seen: dict[int, Expression] = {}
    stack = [value for value in values if isinstance(value, Expression)]
    while stack:
        node = stack.pop()
        if node.number not in seen:
            seen[node.number] = node
            stack.extend(node.parts)
    return [seen[number] for number in sorted(seen)]


def _key(value: Value) -> Any:
    return ("formula", value.number) if isinstance(value, Expression) else value


def _is_scaled(value: Sum) -> bool:
    return value.constant == 0 and len(value.terms) == 1


def _scaled(value: Expression) -> tuple[Expression, Number] | None:
    """Return the term and coefficient of a multiple."""
    return value.terms[0] if isinstance(value, Sum) and _is_scaled(value) else None


def _leads_with_minus(value: Expression) -> bool:
    return isinstance(value, Sum) and bool(value.terms) and value.terms[0][1] < 0


def _bits(mask: int) -> list[int]:
    bits = []
    while mask:
        low = mask & -mask
        bits.append(low.bit_length() - 1)
        mask ^= low
    return bits
