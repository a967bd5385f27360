"""Nodes of formulas: symbols, sums, products and calls of functions.

    sum      constant + c1*t1 + c2*t2 + ...   coefficients are numbers
    product  b1**e1 * b2**e2 * ...            exponents are numbers
    call     f(a, ...)                        also a**b, where b is no number

The class ``Algebra`` makes nodes. :func:`fold` goes through them: whatever computes, writes or
translates formulas is a :class:`Meaning`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from vpintegrator.dynamics.expressions.constants import Number

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
