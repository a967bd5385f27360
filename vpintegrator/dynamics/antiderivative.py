"""Antiderivatives in closed form.

Sums of powers, sines, cosines and exponentials of linear functions are integrated here. All else is
left to SymPy, in a process of its own that is ended when it takes too long: no limit can be set to
SymPy from inside, as it may be deep in one operation of numbers of a million digits.
"""

from __future__ import annotations

import json
import math
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from fractions import Fraction
from typing import Any

from vpintegrator.dynamics.algebra import (
    Algebra,
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
from vpintegrator.dynamics.constants import Number, tidy

_MEMORY = 2 << 30  # bytes that SymPy may take
_ENDED = (-24, -9)  # by the limit of the processor's time
_LARGEST = 2000  # formulas within one that SymPy is given
_SELF = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[1]); "
    "from vpintegrator.dynamics.antiderivative import answer; answer()"
)


def antiderivative(
    value: Value, symbol: Symbol, algebra: Algebra, symbols: Sequence[Symbol], seconds: float
) -> Value | None:
    """Return an antiderivative over one variable, of functions that NumPy computes.

    The caller must check the result, because SymPy may err.

    Parameters
    ----------
    value
        Integrand.
    symbol
        Variable of integration.
    algebra
        Algebra that builds the formulas.
    symbols
        All variables.
    seconds
        Limit of SymPy's processor time; the limit of wall time is six times as long.

    Returns
    -------
    Value or None
        None if none is found.

    Raises
    ------
    TimeoutError
        If SymPy took longer.
    """
    found = _elementary(value, symbol, algebra)
    if found is not None:
        return found
    nodes = encode(value, symbols)
    if len(nodes) > _LARGEST:
        return None
    question = {
        "nodes": nodes,
        "dim": len(symbols),
        "over": symbols.index(symbol),
        "seconds": seconds,
    }
    try:
        answered = subprocess.run(
            [sys.executable, "-I", "-c", _SELF, json.dumps(sys.path)],
            input=json.dumps(question),
            capture_output=True,
            text=True,
            timeout=6 * seconds,
        )
        if answered.returncode in _ENDED:
            raise TimeoutError
        found_nodes = json.loads(answered.stdout) if answered.returncode == 0 else None
    except subprocess.TimeoutExpired:
        raise TimeoutError from None
    except (OSError, ValueError):
        return None
    return None if found_nodes is None else decode(found_nodes, symbols, algebra)


def _elementary(value: Value, y: Symbol, algebra: Algebra) -> Value | None:
    """The integral of sums of f(u) du/dy, where f is a power, sine, cosine or exponential."""
    if not isinstance(value, Expression) or not value.depends & y.depends:
        return algebra.multiply(value, y)
    if isinstance(value, Sum):
        terms = [(_elementary(term, y, algebra), c) for term, c in value.terms]
        known = [(term, c) for term, c in terms if term is not None]
        if len(known) < len(terms):
            return None
        return algebra.combine([(algebra.multiply(value.constant, y), 1), *known])
    factors = value.factors if isinstance(value, Product) else ((value, 1),)
    moving = [(base, e) for base, e in factors if base.depends & y.depends]
    for base, e in moving:
        inner = base.argument if isinstance(base, Call) and e == 1 else base
        slope = algebra.gradient(inner).get(y, 0)
        if slope == 0:
            continue
        rest = algebra.raise_factors([(value, 1), (base, -e), (slope, -1)])
        outer = _outer(base, e, algebra)
        if outer is not None and not (isinstance(rest, Expression) and rest.depends & y.depends):
            return algebra.multiply(rest, outer)
    base, e = moving[0]
    if len(moving) == 1 and e == 1 and isinstance(base, Sum):
        integral = _elementary(base, y, algebra)
        rest = algebra.divide(value, base)
        return None if integral is None else algebra.multiply(rest, integral)
    return None


def _outer(base: Expression, e: Number, algebra: Algebra) -> Value | None:
    """Return the integral of u**e over u, or of a function of u."""
    if not isinstance(base, Call) or e != 1:
        if e == -1:  # log |x|, which is an antiderivative of 1/x on both sides of 0
            return algebra.scale(Fraction(1, 2), algebra.call("log", algebra.power(base, 2)))
        return algebra.scale(tidy(Fraction(1) / (e + 1)), algebra.power(base, tidy(e + 1)))
    match base.function:
        case "exp":
            return base
        case "sin":
            return algebra.scale(-1, algebra.call("cos", base.argument))
        case "cos":
            return algebra.call("sin", base.argument)
    return None


# formulas between processes


def encode(value: Value, symbols: Sequence[Symbol]) -> list[Any]:
    """Return a formula as lists of JSON, its parts before it."""
    nodes = below([value])
    place = {node: k for k, node in enumerate(nodes)}
    position = {symbol: k for k, symbol in enumerate(symbols)}

    def of(part: Value) -> int | str:
        return place[part] if isinstance(part, Expression) else str(part)

    rows: list[Any] = []
    for node in nodes:
        match node:
            case Symbol():
                rows.append(["symbol", position[node]])
            case Sum(constant=constant, terms=terms):
                rows.append(["sum", str(constant), [[place[term], str(c)] for term, c in terms]])
            case Product(factors=factors):
                rows.append(["product", [[place[base], str(e)] for base, e in factors]])
            case Power(base=base, exponent=exponent):
                rows.append(["power", of(base), of(exponent)])
            case Call(function=function, argument=argument):
                rows.append(["call", function, of(argument)])
            case Angle(ordinate=ordinate, abscissa=abscissa):
                rows.append(["angle", of(ordinate), of(abscissa)])
    if not isinstance(value, Expression):
        rows.append(["sum", str(value), []])
    return rows


def decode(rows: Sequence[Any], symbols: Sequence[Symbol], algebra: Algebra) -> Value:
    """Return the formula that :func:`encode` wrote."""
    made: list[Value] = []

    def of(part: int | str) -> Value:
        return made[part] if isinstance(part, int) else tidy(Fraction(part))

    for row in rows:
        match row:
            case ["symbol", k]:
                made.append(symbols[k])
            case ["sum", constant, terms]:
                parts = [(made[k], tidy(Fraction(c))) for k, c in terms]
                made.append(algebra.combine([(of(constant), 1), *parts]))
            case ["product", factors]:
                made.append(
                    algebra.raise_factors([(made[k], tidy(Fraction(e))) for k, e in factors])
                )
            case ["power", base, exponent]:
                made.append(algebra.power(of(base), of(exponent)))
            case ["call", function, argument]:
                made.append(algebra.call(function, of(argument)))
            case ["angle", ordinate, abscissa]:
                made.append(algebra.angle(of(ordinate), of(abscissa)))
    return made[-1]


def answer() -> None:
    """Integrate what stands on standard input and write the result to standard output."""
    question = json.load(sys.stdin)
    with suppress(ImportError, ValueError, OSError):  # not on every platform
        import resource

        seconds = math.ceil(question["seconds"])
        resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
        resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
    algebra = Algebra()
    symbols = [algebra.symbol(f"x{k}") for k in range(question["dim"])]
    value = decode(question["nodes"], symbols, algebra)
    found = _by_sympy(value, symbols[question["over"]], symbols, algebra)
    json.dump(None if found is None else encode(found, symbols), sys.stdout)


def _by_sympy(
    value: Value, over: Symbol, symbols: Sequence[Symbol], algebra: Algebra
) -> Value | None:
    import sympy
    from sympy.integrals.manualintegrate import manualintegrate

    from vpintegrator.dynamics.symbolic import from_sympy, sigmoid, to_sympy

    names = {symbol: sympy.Symbol(symbol.name, real=True) for symbol in symbols}
    (expression,) = to_sympy([value], names)
    expression = expression.replace(sigmoid, lambda x: 1 / (1 + sympy.exp(-x)))

    def logarithm(x: sympy.Expr) -> sympy.Expr:
        # log |x|, as above
        return sympy.log(x) if x.is_positive else sympy.log(x**2) / 2

    for integrate in (manualintegrate, sympy.integrate):
        integral = integrate(expression, names[over])
        if not integral.has(sympy.I, sympy.Integral, sympy.Piecewise):
            back: dict[sympy.Expr, Value] = {name: symbol for symbol, name in names.items()}
            found = from_sympy(integral.replace(sympy.log, logarithm), back, algebra)
            if found is not None:
                return found
    return None
