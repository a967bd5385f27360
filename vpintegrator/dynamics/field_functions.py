"""The functions that equations are made of, beside polynomials: exp(q[0] - q[1]), 1/r**3."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from vpintegrator.dynamics.algebra import (
    Angle,
    Call,
    Expression,
    Power,
    Product,
    Sum,
    Symbol,
    Value,
    below,
)
from vpintegrator.dynamics.constants import Number, size
from vpintegrator.dynamics.equations import Equations

MOST_FUNCTIONS = 64
LARGEST_HAMILTONIAN = 5_000  # formulas that one is made of, some 50,000 letters
_LARGEST = 200  # formulas that one is made of, counted as often as they occur


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
            case Call(function="sin" | "cos", argument=argument) if _is_of(argument, angles):
                pass
            case Angle() | Call() | Power():
                found[value] = None
    for base, exponents in powers.items():
        for e in exponents:
            # 1/r**2 is a polynomial in 1/r
            if not any(e != other and e / other == e // other > 0 for other in exponents):
                power = equations.algebra.raise_factors([(base, e)])
                assert isinstance(power, Expression)
                found[power] = None
    names = {symbol: f"z[{i}]" for i, symbol in enumerate(equations.symbols)}
    texts = [written(f, names) for f in found if f.depends and is_short(f)]
    return texts[:MOST_FUNCTIONS]


def _is_of(argument: Value, angles: set[Symbol]) -> bool:
    """Whether an argument is a linear combination of angles."""
    terms = [term for term, _ in argument.terms] if isinstance(argument, Sum) else [argument]
    return all(term in angles for term in terms)


def is_short(value: Expression, most: int = _LARGEST) -> bool:
    """Whether a formula is not too long to be written, with what occurs twice written twice."""
    sizes: dict[int, int] = {}
    for node in below([value]):  # parts come before what is made of them
        sizes[node.number] = 1 + sum(sizes[part.number] for part in node.parts)
    return sizes[value.number] <= most


def written(value: Value, names: Mapping[Symbol, str]) -> str:
    """Return a formula as an expression, numbers as doubles; ``names`` stand for its symbols."""
    match value:
        case Symbol():
            return names[value]
        case Sum(constant=constant, terms=terms):
            text = _number(constant) if constant else ""
            for term, c in terms:
                part = written(term, names)
                text += (" - " if c < 0 else " + ") if text else "-" * (c < 0)
                text += part if c in (1, -1) else f"{_number(size(c))}*{part}"
            return f"({text})"
        case Product(factors=factors):
            powers = []
            for base, e in factors:
                text = written(base, names)
                text = f"({text})" if isinstance(base, Product | Power) else text
                powers.append(text if e == 1 else f"{text}**{_number(e)}")
            return "*".join(powers)
        case Power(base=base, exponent=exponent):
            return f"({written(base, names)})**({written(exponent, names)})"
        case Call(function=function, argument=argument):
            text = written(argument, names)
            return f"{function}{text if isinstance(argument, Sum) else f'({text})'}"
        case Angle(ordinate=ordinate, abscissa=abscissa):
            return f"atan2({written(ordinate, names)}, {written(abscissa, names)})"
    assert not isinstance(value, Expression)
    return _number(value)


def _number(value: Number) -> str:
    text = str(value) if isinstance(value, int) else f"{float(value)!r}"
    return f"({text})" if value < 0 else text
