"""Evaluation of formulas: functions of NumPy arrays, torch tensors or numbers of mpmath.

A function takes the components of the state one by one, each an array of any shape. It returns its
values one by one. A constant entry comes back as a plain number. Subexpressions that occur several
times are computed once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from vpintegrator.dynamics.expressions.constants import Number
from vpintegrator.dynamics.expressions.functions import SQRT
from vpintegrator.dynamics.expressions.nodes import (
    Call,
    Function,
    Symbol,
    Value,
    below,
    fold,
)
from vpintegrator.dynamics.expressions.python_source import PythonSource

ComponentFunction = Callable[..., list[Any]]
_HALF = Fraction(1, 2)
_LARGEST_WRITTEN = 30_000  # formulas; for more, Python's compiler takes too much time and memory


def vectorised(
    expressions: Sequence[Value], symbols: Sequence[Symbol], library: str
) -> ComponentFunction:
    """Make a function of the state's components.

    Parameters
    ----------
    expressions
        Expressions to compute.
    symbols
        The state's symbols, in the order of the function's arguments.
    library
        ``"numpy"`` or ``"torch"``.
    """
    nodes = below(expressions)
    if len(nodes) > _LARGEST_WRITTEN:
        return evaluator(expressions, symbols, arithmetic(library))
    # all names are our own, so that no name in a file can meet one of Python's
    names = {symbol: f"component_{i}" for i, symbol in enumerate(symbols)}
    used = {node.function: None for node in nodes if isinstance(node, Call)}
    functions = {function: f"function_{i}" for i, function in enumerate(used)}
    source = PythonSource(functions)
    lines = source.lines(fold(expressions, names, source, nodes))
    text = [f"def computed({', '.join(names.values())}):", *(f"    {line}" for line in lines)]
    implementation = arithmetic(library).implementation
    space: dict[str, Any] = {name: implementation(f) for f, name in functions.items()}
    space |= {"__builtins__": {}, "sqrt": implementation(SQRT)}
    exec(compile("\n".join(text), "<formulas of a system>", "exec"), space)
    return space["computed"]


def evaluator(
    expressions: Sequence[Value], symbols: Sequence[Symbol], meaning: Arithmetic
) -> ComponentFunction:
    """Return a function that goes through the formulas one by one; slower, but there at once.

    Parameters
    ----------
    expressions, symbols
        Arguments of :func:`vectorised`.
    meaning
        Arithmetic to compute in.
    """
    nodes = [node for node in below(expressions) if not isinstance(node, Symbol)]

    def computed(*components: Any) -> list[Any]:
        known = dict(zip(symbols, components, strict=True))
        return fold(expressions, known, meaning, nodes)

    return computed


@dataclass(frozen=True)
class Arithmetic:
    """Arithmetic of one library.

    Attributes
    ----------
    implementation
        Returns the implementation of a function.
    constant
        Makes a number of the arithmetic of a constant.
    check
        Called with every value of a function, power or product; may raise.
    """

    implementation: Callable[[Function], Callable[..., Any]]
    constant: Callable[[Number], Any] = float
    check: Callable[[Any], None] = lambda value: None

    def number(self, value: Number) -> Any:
        """Return a constant."""
        return self.constant(value)

    def _simple(self, value: Number) -> Any:
        return value if isinstance(value, int) and abs(value) < 2**53 else self.constant(value)

    def sum(self, constant: Number, terms: list[tuple[Any, Number]]) -> Any:
        """Return a constant and terms times coefficients."""
        total = self._simple(constant)
        for term, coefficient in terms:
            if coefficient == 1:
                total = total + term
            elif coefficient == -1:
                total = total - term
            else:
                total = total + self._simple(coefficient) * term
        return total

    def product(self, factors: list[tuple[Any, Number]]) -> Any:
        """Return a product of powers."""
        result: Any = 1
        for base, exponent in factors:
            if exponent == 1:
                result = result * base
            elif exponent == -1:
                result = result / base
            elif exponent == _HALF:
                result = result * self.implementation(SQRT)(base)
            else:
                result = result * base ** self._simple(exponent)
        self.check(result)
        return result

    def call(self, function: Function, *arguments: Any) -> Any:
        """Return a function of arguments."""
        result = self.implementation(function)(*arguments)
        self.check(result)
        return result


def arithmetic(library: str) -> Arithmetic:
    """Return the arithmetic of ``"numpy"`` or ``"torch"``."""
    if library == "numpy":
        return Arithmetic(lambda function: function.numpy)
    import torch

    return Arithmetic(lambda function: function.torch(torch))
