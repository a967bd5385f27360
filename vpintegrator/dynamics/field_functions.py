"""The functions that equations are made of, beside polynomials: exp(q[0] - q[1]), 1/r**3."""

from __future__ import annotations

from collections.abc import Sequence

from vpintegrator.dynamics.equations import Equations
from vpintegrator.dynamics.expressions import (
    Call,
    Expression,
    Number,
    Product,
    Sum,
    Symbol,
    Value,
    can_be_written,
    written,
)

MOST_FUNCTIONS = 64


def functions_in(formulas: Sequence[Value], equations: Equations) -> list[str]:
    """Return the functions in formulas that are no polynomials, as expressions of ``z[0]``, ...

    The formulas, the vector field or the Hamiltonian, are polynomials in the components and these
    functions. Sines and cosines of angles that the system declares are left out, as Fourier sums
    hold them; so is what is very long.
    """
    angles = {equations.symbols[i] for i in equations.periods}
    found: dict[Expression, None] = {}
    powers: dict[Expression, set[Number]] = {}
    seen: set[int] = set()
    stack: list[Value] = list(formulas)[::-1]
    while stack:
        value = stack.pop()
        if not isinstance(value, Expression) or value.number in seen:
            continue
        seen.add(value.number)
        match value:
            case Sum(terms=terms):
                stack.extend(term for term, _ in terms)
            case Product(factors=factors):
                for base, exponent in factors:
                    if isinstance(exponent, int) and exponent > 0:
                        stack.append(base)
                    else:
                        powers.setdefault(base, set()).add(exponent)
            case Call(function=function, arguments=(argument,)) if function.name in (
                "sin",
                "cos",
            ) and _is_of(argument, angles):
                pass
            case Call():
                found[value] = None
    for base, exponents in powers.items():
        for e in exponents:
            # 1/r**2 is a polynomial in 1/r
            if not any(e != other and e / other == e // other > 0 for other in exponents):
                power = equations.algebra.product([(base, e)])
                assert isinstance(power, Expression)
                found[power] = None
    names = {symbol: f"z[{i}]" for i, symbol in enumerate(equations.symbols)}
    texts = [written(f, names) for f in found if f.depends and can_be_written(f)]
    return texts[:MOST_FUNCTIONS]


def _is_of(argument: Value, angles: set[Symbol]) -> bool:
    """Whether an argument is a linear combination of angles."""
    terms = [term for term, _ in argument.terms] if isinstance(argument, Sum) else [argument]
    return all(term in angles for term in terms)
