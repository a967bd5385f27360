"""Formulas in SymPy, which typesets them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

import sympy

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
from vpintegrator.dynamics.bessel import ORDERS
from vpintegrator.dynamics.constants import size

LARGEST_SIMPLE = 400  # formulas within one that SymPy may simplify as it likes
_LARGEST_EXPANDED = 4  # exponent
_DEEPEST_SIMPLE = 3  # functions of functions; what SymPy does grows fast with it


class sigmoid(sympy.Function):
    """The logistic function 1/(1 + exp(-x)), kept whole so that it is computed without overflow."""

    nargs = 1

    @classmethod
    def eval(cls, argument: sympy.Expr) -> sympy.Expr | None:
        return sympy.Rational(1, 2) if argument.is_zero else None

    def fdiff(self, argindex: int = 1) -> sympy.Expr:
        value = sigmoid(self.args[0])
        return value * (1 - value)

    def _latex(self, printer: sympy.printing.latex.LatexPrinter, exp: str | None = None) -> str:
        power = "" if exp is None else f"^{{{exp}}}"
        return rf"\sigma{power}\left({printer._print(self.args[0])}\right)"


FUNCTIONS: dict[str, Callable[..., sympy.Expr]] = {
    "sin": sympy.sin,
    "cos": sympy.cos,
    "tan": sympy.tan,
    "exp": sympy.exp,
    "log": sympy.log,
    "sqrt": sympy.sqrt,
    "tanh": sympy.tanh,
    "sigmoid": sigmoid,
    "abs": sympy.Abs,
    "sign": sympy.sign,
    "erf": sympy.erf,
}
# the order is an argument of SymPy's function
FUNCTIONS |= {name: partial(sympy.besselj, order) for name, order in ORDERS.items()}


def is_simple(values: Sequence[Value]) -> bool:
    """Whether SymPy can be given formulas without fear for time."""
    nodes = below(values)
    if len(nodes) > LARGEST_SIMPLE:
        return False
    depths: dict[int, int] = {}
    for node in nodes:
        depth = max((depths[part.number] for part in node.parts), default=0)
        roots = isinstance(node, Product) and any(not isinstance(e, int) for _, e in node.factors)
        depths[node.number] = depth + (roots or isinstance(node, Angle | Call | Power))
    return max(depths.values(), default=0) <= _DEEPEST_SIMPLE


def can_be_expanded(value: Value) -> bool:
    """Whether a formula stays of a reasonable length when it is multiplied out."""
    nodes = below([value])
    powers = (node.factors for node in nodes if isinstance(node, Product))
    small = all(size(e) <= _LARGEST_EXPANDED for factors in powers for _, e in factors)
    return small and len(nodes) <= LARGEST_SIMPLE // 2 and is_simple([value])


def to_sympy(values: Sequence[Value], names: Mapping[Symbol, sympy.Expr]) -> list[sympy.Expr]:
    """Return formulas in SymPy; those that are not simple are left as they are.

    Parameters
    ----------
    values
        The formulas.
    names
        SymPy expression of each symbol.
    """
    evaluate = is_simple(values)
    made: dict[Expression, sympy.Expr] = {symbol: names[symbol] for symbol in names}

    def new(value: Value) -> sympy.Expr:
        if isinstance(value, Expression):
            return made[value]
        return sympy.Rational(value.numerator, value.denominator)

    def product(factors: list[sympy.Expr]) -> sympy.Expr:
        return factors[0] if len(factors) == 1 else sympy.Mul(*factors, evaluate=evaluate)

    for node in below(values):
        match node:
            case Sum(constant=constant, terms=terms):
                parts = [product([new(c), new(t)] if c != 1 else [new(t)]) for t, c in terms]
                if constant:
                    parts.append(new(constant))
                made[node] = parts[0] if len(parts) == 1 else sympy.Add(*parts, evaluate=evaluate)
            case Product(factors=factors):
                made[node] = product(
                    [
                        new(base) if e == 1 else sympy.Pow(new(base), new(e), evaluate=evaluate)
                        for base, e in factors
                    ]
                )
            case Power(base=base, exponent=exponent):
                made[node] = sympy.Pow(new(base), new(exponent), evaluate=evaluate)
            case Call(function=function, argument=argument):
                made[node] = FUNCTIONS[function](new(argument), evaluate=evaluate)
            case Angle(ordinate=ordinate, abscissa=abscissa):
                made[node] = sympy.atan2(new(ordinate), new(abscissa), evaluate=evaluate)
    return [new(value) for value in values]
