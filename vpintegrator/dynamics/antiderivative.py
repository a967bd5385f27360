"""Antiderivatives in closed form.

Sums of powers, sines, cosines and exponentials of linear functions are integrated here. All else is
left to SymPy, in a process of its own that is ended when it takes too long: no limit can be set to
SymPy from inside, as it may be deep in one operation of numbers of a million digits.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

from vpintegrator.dynamics.algebra import (
    Algebra,
    Call,
    Expression,
    Power,
    Product,
    Sum,
    Symbol,
    Value,
    below,
)
from vpintegrator.dynamics.constants import tidy

_MEMORY = 2 << 30  # bytes that SymPy may take
_LARGEST = 2000  # formulas within one that SymPy is given
_SELF = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[1]); "
    "from vpintegrator.dynamics.antiderivative import answer; answer()"
)


def antiderivative(
    value: Value, symbol: Symbol, algebra: Algebra, symbols: Sequence[Symbol], seconds: float
) -> Value | None:
    """An antiderivative over one variable, of functions that NumPy computes.

    The result is to be checked, as SymPy may err.

    Parameters
    ----------
    value
        What is integrated.
    symbol
        Over what.
    algebra
        What makes the formulas.
    symbols
        All variables.
    seconds
        How long SymPy may take.

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
    question = {"nodes": nodes, "dim": len(symbols), "over": symbols.index(symbol)}
    try:
        answered = subprocess.run(
            [sys.executable, "-I", "-c", _SELF, json.dumps(sys.path)],
            input=json.dumps(question),
            capture_output=True,
            text=True,
            timeout=max(seconds, 0.1),
        )
        found_nodes = json.loads(answered.stdout) if answered.returncode == 0 else None
    except subprocess.TimeoutExpired:
        raise TimeoutError from None
    except (OSError, ValueError):
        return None
    return None if found_nodes is None else decode(found_nodes, symbols, algebra)


def _elementary(value: Value, y: Symbol, algebra: Algebra) -> Value | None:
    """The integral of sums of c (a y + b)**n, c sin(a y + b), ... with c and a free of y."""
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
    if len(moving) > 1:
        return None
    fixed = algebra.raise_factors([entry for entry in factors if entry not in moving])
    ((base, e),) = moving
    if isinstance(base, Sum) and e == 1:
        inner = _elementary(base, y, algebra)
    else:
        inner = _of_a_linear_function(base, Fraction(e), y, algebra)
    return None if inner is None else algebra.multiply(fixed, inner)


def _of_a_linear_function(
    base: Expression, e: Fraction, y: Symbol, algebra: Algebra
) -> Value | None:
    argument = base.argument if isinstance(base, Call) and e == 1 else base
    slope = algebra.gradient(argument).get(y, 0)
    if (isinstance(slope, Expression) and slope.depends & y.depends) or slope == 0:
        return None
    if argument is base:
        if e == -1:  # log |x|, which is an antiderivative of 1/x on both sides of 0
            found = algebra.scale(Fraction(1, 2), algebra.call("log", algebra.power(base, 2)))
        else:
            found = algebra.scale(1 / (e + 1), algebra.power(base, tidy(e + 1)))
        return algebra.divide(found, slope)
    assert isinstance(base, Call)
    match base.function:
        case "exp":
            return algebra.divide(base, slope)
        case "sin":
            return algebra.divide(algebra.scale(-1, algebra.call("cos", argument)), slope)
        case "cos":
            return algebra.divide(algebra.call("sin", argument), slope)
    return None


# formulas between processes


def encode(value: Value, symbols: Sequence[Symbol]) -> list[Any]:
    """A formula as lists of JSON, its parts before it."""
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
    if not isinstance(value, Expression):
        rows.append(["sum", str(value), []])
    return rows


def decode(rows: Sequence[Any], symbols: Sequence[Symbol], algebra: Algebra) -> Value:
    """The formula that :func:`encode` wrote."""
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
    return made[-1]


def answer() -> None:
    """Integrate what stands on standard input and write the result to standard output."""
    try:
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
    except (ImportError, ValueError, OSError):
        pass  # not on every platform
    question = json.load(sys.stdin)
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
