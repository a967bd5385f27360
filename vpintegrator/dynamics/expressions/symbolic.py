"""Formulas in SymPy, which typesets them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import SimpleNamespace

import sympy

from vpintegrator.dynamics.expressions.constants import Number, size
from vpintegrator.dynamics.expressions.nodes import (
    Call,
    Function,
    Product,
    Symbol,
    Value,
    below,
    fold,
)

LARGEST_SIMPLE = 400  # formulas within one that SymPy may simplify as it likes
_LARGEST_EXPANDED = 4  # exponent
_DEEPEST_SIMPLE = 3  # functions of functions; what SymPy does grows fast with it


class sigmoid(sympy.Function):
    """The logistic function 1/(1 + exp(-x)), kept whole so that it is computed without overflow."""

    nargs = 1

    @classmethod
    def eval(cls, argument: sympy.Expr) -> sympy.Expr | None:
        return sympy.Rational(1, 2) if argument.is_zero else None

    def _latex(self, printer: sympy.printing.latex.LatexPrinter, exp: str | None = None) -> str:
        power = "" if exp is None else f"^{{{exp}}}"
        return rf"\sigma{power}\left({printer._print(self.args[0])}\right)"


_NAMES = SimpleNamespace(**vars(sympy), sigmoid=sigmoid)


def in_sympy(function: Function) -> Callable[..., sympy.Expr]:
    """Return SymPy's counterpart of a function."""
    return function.sympy(_NAMES)


def is_simple(values: Sequence[Value]) -> bool:
    """Whether SymPy can be given formulas without fear for time."""
    nodes = below(values)
    if len(nodes) > LARGEST_SIMPLE:
        return False
    depths: dict[int, int] = {}
    for node in nodes:
        depth = max((depths[part.number] for part in node.parts), default=0)
        roots = isinstance(node, Product) and any(not isinstance(e, int) for _, e in node.factors)
        depths[node.number] = depth + (roots or isinstance(node, Call))
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
    return fold(values, names, _SymPy(is_simple(values)))


@dataclass(frozen=True)
class _SymPy:
    """SymPy's expressions, simplified by SymPy or not."""

    evaluate: bool

    def number(self, value: Number) -> sympy.Expr:
        return sympy.Rational(value.numerator, value.denominator)

    def sum(self, constant: Number, terms: list[tuple[sympy.Expr, Number]]) -> sympy.Expr:
        parts = [t if c == 1 else self._multiplied([self.number(c), t]) for t, c in terms]
        if constant:
            parts.append(self.number(constant))
        return parts[0] if len(parts) == 1 else sympy.Add(*parts, evaluate=self.evaluate)

    def product(self, factors: list[tuple[sympy.Expr, Number]]) -> sympy.Expr:
        return self._multiplied(
            [
                base if e == 1 else sympy.Pow(base, self.number(e), evaluate=self.evaluate)
                for base, e in factors
            ]
        )

    def call(self, function: Function, *arguments: sympy.Expr) -> sympy.Expr:
        return in_sympy(function)(*arguments, evaluate=self.evaluate)

    def _multiplied(self, factors: list[sympy.Expr]) -> sympy.Expr:
        return factors[0] if len(factors) == 1 else sympy.Mul(*factors, evaluate=self.evaluate)
