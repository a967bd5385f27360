"""A vector field as a sum of functions of the state times coefficients that know parameters alone.

The free rigid body's is linear in 1/I3 - 1/I2, 1/I1 - 1/I3 and 1/I2 - 1/I1, and the third of these
is the sum of the other two but for its sign: so there are two coefficients, however many parameters
they are made of.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from vpintegrator.dynamics.expressions.algebra import Algebra
from vpintegrator.dynamics.expressions.constants import Number, tidy
from vpintegrator.dynamics.expressions.nodes import Expression, Product, Sum, Value

_MOST_TERMS = 500  # terms of an expanded formula
_HIGHEST_POWER = 6
CONSTANT = -1  # stands for the coefficient 1

Combination = dict[int, Number]  # factors by number of the coefficient, or CONSTANT


@dataclass(frozen=True)
class Separation:
    """Formulas as sums of coefficients times functions.

    Attributes
    ----------
    coefficients
        Linearly independent functions of the parameters.
    terms
        Terms of each formula: combinations of the coefficients, each with its factor.
    """

    coefficients: list[Value]
    terms: list[list[tuple[Combination, Value]]]


def separated(
    formulas: Sequence[Value], parameters: int, algebra: Algebra, constant: bool
) -> Separation | None:
    """Return formulas of states and parameters, these being bits of ``depends``, as such sums.

    Parameters
    ----------
    constant
        Whether 1 is no coefficient of its own, but known: ``CONSTANT`` in combinations.

    Returns
    -------
    Separation or None
        None where the parameters occur in another way, or formulas would become long.
    """
    algebra.allow_derivatives()
    split = [_products(value, parameters, algebra) for value in formulas]
    basis = _Basis()
    if constant:
        basis.reduced(1, CONSTANT)
    coefficients: list[Value] = []
    terms: list[list[tuple[Combination, Value]]] = []
    for products in split:
        if products is None:
            return None
        own = []
        for coefficient, function in products:
            combination = basis.reduced(coefficient, len(coefficients))
            if combination == {len(coefficients): 1}:
                coefficients.append(coefficient)
            own.append((combination, function))
        terms.append(own)
    return Separation(coefficients, terms)


def _products(value: Value, parameters: int, algebra: Algebra) -> list[tuple[Value, Value]] | None:
    """Return a formula as a sum of products of a coefficient and a function of the state."""
    if not isinstance(value, Expression) or not value.depends & parameters:
        return [(1, value)]
    if not value.depends & ~parameters:
        return [(value, 1)]
    found: list[tuple[Value, Value]]
    match value:
        case Sum(constant=constant, terms=terms):
            found = [(1, constant)] if constant else []
            for term, c in terms:
                own = _products(term, parameters, algebra)
                if own is None or len(found) + len(own) > _MOST_TERMS:
                    return None
                found += [(k, algebra.scale(c, function)) for k, function in own]
            return found
        case Product(factors=factors):
            found = [(1, 1)]
            for base, e in factors:
                mixed = bool(base.depends & parameters and base.depends & ~parameters)
                if mixed and not (isinstance(e, int) and 0 < e <= _HIGHEST_POWER):
                    return None
                powers = [base] * int(e) if mixed else [algebra.product([(base, e)])]
                for power in powers:
                    own = _products(power, parameters, algebra)
                    if own is None or len(found) * len(own) > _MOST_TERMS:
                        return None
                    found = [
                        (algebra.multiply(k, c), algebra.multiply(f, g))
                        for k, f in found
                        for c, g in own
                    ]
            return found
    return None


class _Basis:
    """Linearly independent formulas among those that came, by exact elimination."""

    def __init__(self) -> None:
        # each row is reduced by those before it; with it, what combination of members it is
        self._rows: list[tuple[int, dict[int, Number], Combination]] = []

    def reduced(self, value: Value, number: int) -> Combination:
        """Return a formula in terms of the members, or as a new one with this number."""
        row, combination = _over_atoms(value), Combination()
        for pivot, known, own in self._rows:
            if factor := row.get(pivot, 0):
                factor = tidy(Fraction(factor) / known[pivot])
                row = _minus(row, factor, known)
                combination = _minus(combination, -factor, own)
        if not row:
            return combination
        self._rows.append((min(row), row, _minus({number: 1}, 1, combination)))
        return {number: 1}


def _over_atoms(value: Value) -> dict[int, Number]:
    """A formula as a sum of multiples of others, by the numbers of these; -1 is that of one."""
    if not isinstance(value, Expression):
        return {-1: value} if value else {}
    if not isinstance(value, Sum):
        return {value.number: 1}
    return {term.number: c for term, c in value.terms} | (
        {-1: value.constant} if value.constant else {}
    )


def _minus(left: dict[int, Number], factor: Number, right: dict[int, Number]) -> dict[int, Number]:
    found = dict(left)
    for key, value in right.items():
        found[key] = tidy(found.get(key, 0) - Fraction(factor) * value)
    return {key: value for key, value in found.items() if value}
