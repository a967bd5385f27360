"""Evaluation of formulas: functions of NumPy arrays, torch tensors or numbers of mpmath; texts.

A function takes the components of the state one by one, each an array of any shape. It returns its
values one by one. A constant entry comes back as a plain number. Subexpressions that occur several
times are computed once.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, NamedTuple

from vpintegrator.dynamics.expressions.functions import POWER, SQRT
from vpintegrator.dynamics.expressions.nodes import (
    Call,
    Expression,
    Function,
    Number,
    Symbol,
    Value,
    below,
    fold,
    size,
    tidy,
)

_HALF = Fraction(1, 2)
_TERMS = 40  # terms of a sum in one line: Python's own parser has limits
_LARGEST_MULTIPLIED = 16  # largest power written as products
_DEPTH = 20  # nested parentheses in one line
_NAME = re.compile(r"\bvalue_[0-9]+\b")


class PythonSource:
    """Lines of Python as the meaning of formulas.

    Parameters
    ----------
    functions
        Name of each function in the lines.
    """

    def __init__(self, functions: Mapping[Function, str]) -> None:
        self._functions = functions
        self._names: dict[str, str] = {}  # by text

    def _named(self, text: str) -> str:
        return self._names.setdefault(text, f"value_{len(self._names)}")

    def number(self, value: Number) -> str:
        """Return a number: a small whole number as it is, all others as doubles."""
        small = isinstance(value, int) and abs(value) < 2**53
        text = str(value) if small else repr(float(value))
        return f"({text})" if value < 0 else text

    def sum(self, constant: Number, terms: list[tuple[str, Number]]) -> str:
        """Return the name of a sum; a common factor is multiplied once."""
        common = size(terms[0][1])
        if constant or any(size(c) != common for _, c in terms):
            common = 1
        # positive terms come first, to save a change of sign
        ordered = sorted(terms, key=lambda entry: entry[1] < 0)
        parts = [(c > 0, self._multiple(term, size(c) / Fraction(common))) for term, c in ordered]
        if constant:
            entry = constant > 0, self.number(size(constant))
            parts.insert(0 if ordered[0][1] < 0 else len(parts), entry)
        sign = 1 if parts[0][0] else -1
        first = parts[0][1]
        for start in range(1, len(parts), _TERMS):
            for positive, part in parts[start : start + _TERMS]:
                first += (" + " if positive == (sign > 0) else " - ") + part
            first = self._named(first)
        if common != 1:
            first = self._named(f"{self.number(common)}*{first}")
        return first if sign > 0 else self._named(f"-{first}")

    def _multiple(self, term: str, factor: Number) -> str:
        return term if factor == 1 else self._named(f"{self.number(tidy(factor))}*{term}")

    def product(self, factors: list[tuple[str, Number]]) -> str:
        """Return the name of a product of powers, with one division."""
        above = [self._power(base, e) for base, e in factors if e > 0]
        beneath = [self._power(base, -e) for base, e in factors if e < 0]
        if not beneath:
            return self._named("*".join(above))
        divisor = beneath[0] if len(beneath) == 1 else self._named("*".join(beneath))
        return self._named(f"{'*'.join(above) or '1'}/{divisor}")

    def _power(self, base: str, exponent: Number) -> str:
        """Return a power with a positive exponent; by squares, which take a tenth of the time."""
        whole = int(exponent)
        if exponent == 1:
            return base
        if exponent == _HALF:
            return self._named(f"sqrt({base})")
        if whole > _LARGEST_MULTIPLIED or exponent - whole not in (0, _HALF) or exponent == 2:
            return self._named(f"{base}**{self.number(exponent)}")
        if exponent != whole:
            return self._named(f"{self._power(base, whole)}*{self._power(base, _HALF)}")
        if whole % 2:
            return self._named(f"{self._power(base, whole - 1)}*{base}")
        return self._named(f"{self._power(base, whole // 2)}**2")

    def call(self, function: Function, *arguments: str) -> str:
        """Return the name of a function of arguments."""
        if function is POWER:
            return self._named("**".join(arguments))
        return self._named(f"{self._functions[function]}({', '.join(arguments)})")

    def lines(self, results: list[str]) -> list[str]:
        """Return the lines that compute results, and return them as a list."""
        lines = [*((name, text) for text, name in self._names.items())]
        uses = Counter(_NAME.findall(" ".join([*self._names, *results])))
        inside: dict[str, tuple[str, int]] = {}  # texts of names used once, with their depth
        assignments = []

        def written(text: str) -> tuple[str, int]:
            depth = max((inside[n][1] for n in _NAME.findall(text) if n in inside), default=0)
            return _NAME.sub(lambda n: inside.get(n[0], (n[0], 0))[0], text), depth + 1

        for name, text in lines:
            full, depth = written(text)
            if uses[name] == 1 and depth <= _DEPTH:
                inside[name] = f"({full})", depth
            else:
                assignments.append(f"{name} = {full}")
        return [*assignments, f"return [{', '.join(written(text)[0] for text in results)}]"]


ComponentFunction = Callable[..., list[Any]]
LARGEST_HAMILTONIAN = 5_000  # formulas that one is made of, some 50,000 letters
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


def can_be_written(value: Expression, most: int = 200) -> bool:
    """Whether a text can stand for a formula.

    The text is not too long, with what occurs twice written twice.
    """
    sizes: dict[int, int] = {}
    for node in below([value]):  # parts come before what is made of them
        sizes[node.number] = 1 + sum(sizes[part.number] for part in node.parts)
    return sizes[value.number] <= most


def written(value: Value, names: Mapping[Symbol, str]) -> str:
    """Return a formula as an expression, numbers as doubles; ``names`` stand for its symbols."""
    known = {symbol: Text(name) for symbol, name in names.items()}
    return fold([value], known, Language())[0].text


class Text(NamedTuple):
    """An expression.

    Attributes
    ----------
    text
        The text.
    closed
        Whether it stands in parentheses.
    raised
        Whether it is a product or a power, whose powers need parentheses.
    """

    text: str
    closed: bool = False
    raised: bool = False


class Language:
    """Expressions as the meaning of formulas."""

    def number(self, value: Number) -> Text:
        return Text(_number(value))

    def sum(self, constant: Number, terms: list[tuple[Text, Number]]) -> Text:
        text = _number(constant) if constant else ""
        for term, c in terms:
            text += (" - " if c < 0 else " + ") if text else "-" * (c < 0)
            text += term.text if c in (1, -1) else f"{_number(size(c))}*{term.text}"
        return Text(f"({text})", closed=True)

    def product(self, factors: list[tuple[Text, Number]]) -> Text:
        bases = ((f"({base.text})" if base.raised else base.text, e) for base, e in factors)
        powers = (base if e == 1 else f"{base}**{_number(e)}" for base, e in bases)
        return Text("*".join(powers), raised=True)

    def call(self, function: Function, *arguments: Text) -> Text:
        if function is POWER:
            base, exponent = arguments
            return Text(f"({base.text})**({exponent.text})", raised=True)
        if len(arguments) == 1 and arguments[0].closed:
            return Text(f"{function.name}{arguments[0].text}")
        return Text(f"{function.name}({', '.join(argument.text for argument in arguments)})")


def _number(value: Number) -> str:
    text = str(value) if isinstance(value, int) else f"{float(value)!r}"
    return f"({text})" if value < 0 else text
