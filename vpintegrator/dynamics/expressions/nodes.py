"""Formulas: their numbers, and their nodes: symbols, sums, products and calls of functions.

    sum      constant + c1*t1 + c2*t2 + ...   coefficients are numbers
    product  b1**e1 * b2**e2 * ...            exponents are numbers
    call     f(a, ...)                        also a**b, where b is no number

Whole numbers and fractions stay exact. What is irrational, such as pi or sqrt(2), becomes the
nearest fraction of 400 binary digits, and so does a fraction that grows too long. So no constant
takes long, whatever a file asks for: one that a double could not hold is refused.

The class ``Algebra`` makes nodes. :func:`fold` goes through them: whatever computes, writes or
translates formulas is a :class:`Meaning`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from math import isqrt
from typing import Any, Protocol, TypeVar

import mpmath

# precision of constants and of checks: a context of our own, as that of mpmath is shared by all
# threads and anyone may change it
HIGH = mpmath.MPContext()
HIGH.prec = 400

Number = int | Fraction

_LONGEST = 2048  # binary digits of an exact numerator or denominator
LARGEST_EXPONENT = 4096
_LARGEST = 10**300
_SMALLEST = 1100  # smaller than 2 to minus this power is zero, as it is for doubles
_NEARLY = Fraction(1, 2**380)
_ROUND = (Fraction(0), Fraction(1), Fraction(-1), Fraction(1, 2), Fraction(-1, 2))


class NotFinite(ArithmeticError):
    """A constant is too large, or no real number."""


def size(value: Number) -> Number:
    """Return the absolute value."""
    return -value if value < 0 else value


def tidy(value: Number) -> Number:
    """Return the number as an int if it is whole, and with no more digits than necessary."""
    numerator = value.numerator
    denominator = value.denominator
    if denominator == 1 and -_LARGEST <= numerator <= _LARGEST:
        return numerator
    digits = numerator.bit_length() - denominator.bit_length()
    if abs(numerator) > _LARGEST * denominator:
        raise NotFinite
    if digits < -_SMALLEST:
        return 0
    if max(numerator.bit_length(), denominator.bit_length()) > _LONGEST:
        return _rounded(HIGH.mpf(numerator) / HIGH.mpf(denominator))
    return value


def _rounded(value: Any) -> Number:
    """Return the fraction that a number of mpmath is."""
    if not isinstance(value, HIGH.mpf) or not HIGH.isfinite(value):
        raise NotFinite
    sign, mantissa, exponent, length = value._mpf_
    if exponent + length > 1000:
        raise NotFinite
    if exponent + length < -_SMALLEST:
        return 0
    mantissa = -mantissa if sign else mantissa
    return mantissa << exponent if exponent >= 0 else tidy(Fraction(mantissa, 1 << -exponent))


def high(value: Number) -> Any:
    """Return the number for mpmath."""
    if isinstance(value, int):
        return HIGH.mpf(value)
    return HIGH.mpf(value.numerator) / value.denominator


PI = _rounded(+HIGH.pi)


Result = TypeVar("Result")


class Expression:
    """A formula that is no number; made by an algebra.

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


@dataclass(frozen=True, eq=False, kw_only=True)
class Function:
    """A function of the expression language.

    Attributes
    ----------
    name
        Name in expressions.
    arguments
        Names of the arguments, for messages.
    slopes
        Derivative by each argument: functions of an algebra, the arguments and the value.
    numpy
        Implementation for arrays: real, complex (for complex-step derivatives), and long double.
    torch
        Implementation for tensors, given the module ``torch``.
    exact
        Implementation for mpmath's numbers in the context ``HIGH``.
    sympy
        Class or function of SymPy, given the names of SymPy, for typesetting.
    machine
        Node of a scalar graph, given the graph and the arguments; None without machine code.
    build
        Formula of an algebra for a function that is made of others; None for all others.
    parity
        1 for even functions, -1 for odd functions, else 0.
    circular
        Whether values at multiples of pi are rounded to simple fractions.
    further
        Whether there may be more arguments.
    """

    name: str
    arguments: tuple[str, ...] = ("x",)
    slopes: tuple[Callable[..., Value], ...] = ()
    numpy: Callable[..., Any]
    torch: Callable[[Any], Callable[..., Any]]
    exact: Callable[..., Any]
    sympy: Callable[[Any], Callable[..., Any]]
    machine: Callable[..., int] | None = None
    build: Callable[..., Value] | None = None
    parity: int = 0
    circular: bool = False
    further: bool = False

    def __repr__(self) -> str:
        return self.name


@dataclass(eq=False, repr=False, slots=True)
class Symbol(Expression):
    """A variable."""

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
class Call(Expression):
    """``function(argument, ...)``."""

    function: Function
    arguments: tuple[Value, ...]

    @property
    def parts(self) -> Sequence[Expression]:
        return [a for a in self.arguments if isinstance(a, Expression)]


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


class Meaning(Protocol[Result]):
    """Arithmetic in which formulas are computed, or language in which they are written."""

    def number(self, value: Number, /) -> Result:
        """Return the meaning of a number."""

    def sum(self, constant: Number, terms: list[tuple[Result, Number]], /) -> Result:
        """Return the meaning of a constant and terms times coefficients."""

    def product(self, factors: list[tuple[Result, Number]], /) -> Result:
        """Return the meaning of a product of powers."""

    def call(self, function: Function, /, *arguments: Result) -> Result:
        """Return the meaning of a function of arguments."""


def fold(
    values: Sequence[Value],
    known: Mapping[Any, Result],
    meaning: Meaning[Result],
    nodes: Sequence[Expression] | None = None,
) -> list[Result]:
    """Return the meaning of formulas, each part computed once.

    Parameters
    ----------
    values
        The formulas.
    known
        Meaning of the symbols, and of any other part.
    meaning
        Meaning of numbers, sums, products and calls.
    nodes
        Result of ``below(values)``, where it is at hand.
    """
    made: dict[Expression, Result] = {**known}

    def of(value: Value) -> Result:
        return made[value] if isinstance(value, Expression) else meaning.number(value)

    for node in below(values) if nodes is None else nodes:
        if node in made:
            continue
        match node:
            case Sum(constant=constant, terms=terms):
                made[node] = meaning.sum(constant, [(made[term], c) for term, c in terms])
            case Product(factors=factors):
                made[node] = meaning.product([(made[base], e) for base, e in factors])
            case Call(function=function, arguments=arguments):
                made[node] = meaning.call(function, *map(of, arguments))
    return [of(value) for value in values]


@lru_cache(4096)
def function_value(function: Function, *arguments: Number) -> Number:
    """Return a function of constants.

    Raises
    ------
    NotFinite
        If the value is none that a double could hold.
    """
    try:
        value = _rounded(function.exact(*map(high, arguments)))
    except (ArithmeticError, ValueError):
        raise NotFinite from None
    if function.circular and size(arguments[0]) > _NEARLY:
        # pi was rounded, so cos(pi/3) is no more than nearly a half
        tolerance = _NEARLY * (1 + size(arguments[0]))
        for exact in _ROUND:
            if size(value - exact) < tolerance:
                return tidy(exact)
        if size(value) * tolerance > 1:
            raise NotFinite
    return value


@lru_cache(4096)
def power(base: Number, exponent: Number) -> Number:
    """Return a constant to the power of another.

    Raises
    ------
    NotFinite
        If the value is none that a double could hold, or not real.
    ZeroDivisionError
        For a negative power of zero.
    """
    if base == 0:
        if exponent < 0:
            raise ZeroDivisionError
        return 1 if exponent == 0 else 0
    if base == 1:
        return 1
    if isinstance(exponent, int):
        length = max(base.numerator.bit_length(), base.denominator.bit_length())
        if length * size(exponent) <= _LONGEST:
            return tidy(Fraction(base) ** exponent)
    elif base < 0:
        raise NotFinite
    elif exponent.denominator == 2:
        roots = isqrt(base.numerator), isqrt(base.denominator)
        if (roots[0] ** 2, roots[1] ** 2) == (base.numerator, base.denominator):
            return power(tidy(Fraction(*roots)), exponent.numerator)
    try:
        # the size first: to compute it may take forever
        if size(exponent * (base.numerator.bit_length() - base.denominator.bit_length())) > 10**5:
            raise NotFinite
        return _rounded(high(base) ** high(exponent))
    except (ArithmeticError, ValueError):
        raise NotFinite from None
