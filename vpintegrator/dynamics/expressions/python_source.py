"""Formulas written as Python code, which NumPy and torch compute."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from fractions import Fraction

from vpintegrator.dynamics.expressions.constants import Number, size
from vpintegrator.dynamics.expressions.functions import POWER
from vpintegrator.dynamics.expressions.nodes import (
    Call,
    Expression,
    Function,
    Product,
    Sum,
    Symbol,
    Value,
)

_HALF = Fraction(1, 2)
_TERMS = 40  # terms of a sum in one line: Python's own parser has limits
_LARGEST_MULTIPLIED = 16  # largest power written as products
_DEPTH = 20  # nested parentheses in one line
_SUM, _PRODUCT, _POWER, _ATOM = range(4)  # precedence of the outermost operator


class PythonSource:
    """Formulas as lines of Python.

    Parameters
    ----------
    expressions
        The formulas.
    nodes
        All formulas that these are made of, parts first.
    names
        Name of each symbol.
    functions
        Name of each function.
    """

    def __init__(
        self,
        expressions: Sequence[Value],
        nodes: Sequence[Expression],
        names: dict[Symbol, str],
        functions: dict[Function, str],
    ) -> None:
        self.expressions = expressions
        self.nodes, self.functions = nodes, functions
        self.uses = Counter(e.number for e in expressions if isinstance(e, Expression))
        for node in nodes:
            self.uses.update(part.number for part in node.parts)
        # multiples and powers of the same that occur in several formulas
        self.repeated = Counter(
            (type(node), part.number, size(factor))
            for node in nodes
            for part, factor in _factors(node)
        )
        self.known: dict[tuple[type, int, Number], str] = {}
        self.lines: list[str] = []
        # text, how tightly it is bound, how deep its parentheses are
        self.texts: dict[Expression, tuple[str, int, int]] = {
            symbol: (name, _ATOM, 0) for symbol, name in names.items()
        }

    def lines_and_values(self) -> tuple[list[str], list[str]]:
        """Return the lines, and what to return."""
        for node in self.nodes:
            if isinstance(node, Symbol):
                continue
            text, bound, depth = self.text(node)
            if self.uses[node.number] > 1 or depth > _DEPTH:
                name = f"value_{node.number}"
                self.lines.append(f"    {name} = {text}")
                text, bound, depth = name, _ATOM, 0
            self.texts[node] = text, bound, depth
        return self.lines, [self.within(value, _SUM)[0] for value in self.expressions]

    def within(self, value: Value, bound: int) -> tuple[str, int]:
        """Return a text that holds together at least so tightly, and its depth."""
        if not isinstance(value, Expression):
            return (number if (number := _number(value))[0] != "-" else f"({number})"), 0
        text, own, depth = self.texts[value]
        return (text, depth) if own >= bound else (f"({text})", depth + 1)

    def text(self, node: Expression) -> tuple[str, int, int]:
        match node:
            case Sum():
                return self.sum(node)
            case Product():
                return self.product(node)
            case Call(function=function, arguments=arguments):
                if function is POWER:
                    (base, inner), (exponent, above) = (self.within(a, _ATOM) for a in arguments)
                    return f"{base}**{exponent}", _POWER, max(inner, above)
                texts = [self.within(argument, _SUM) for argument in arguments]
                written = ", ".join(text for text, _ in texts)
                depth = max(depth for _, depth in texts)
                return f"{self.functions[function]}({written})", _ATOM, depth + 1
        raise NotImplementedError(type(node))

    def sum(self, node: Sum) -> tuple[str, int, int]:
        # positive terms come first, to save a change of sign
        terms = sorted(node.terms, key=lambda entry: entry[1] < 0)
        sign = -1 if terms[0][1] < 0 and node.constant <= 0 else 1
        common = size(terms[0][1])
        if node.constant or len(terms) == 1 or any(size(c) != common for _, c in terms):
            common = 1
        parts, depth = [], 0
        for term, coefficient in terms:
            text, inner = (
                self.within(term, _PRODUCT)
                if common != 1 or size(coefficient) == 1
                else self.multiple(term, size(coefficient))
            )
            depth = max(depth, inner)
            parts.append((" + " if coefficient * sign > 0 else " - ") + text)
        if node.constant:
            part = (" + " if node.constant * sign > 0 else " - ") + _number(size(node.constant))
            parts.insert(0 if terms[0][1] < 0 else len(parts), part)
        while len(parts) > _TERMS:
            name = f"sum_{node.number}_{len(parts)}"
            self.lines.append(f"    {name} = {_joined(parts[:_TERMS])}")
            parts = [f" + {name}", *parts[_TERMS:]]
        text = _joined(parts)
        if common != 1:
            text = f"{_number(common)}*({text})"
        elif sign < 0 and len(parts) > 1:
            text = f"({text})"
        if sign < 0:
            return f"-{text}", _SUM, depth + 1
        return text, _SUM if common == 1 and len(parts) > 1 else _PRODUCT, depth + 1

    def product(self, node: Product) -> tuple[str, int, int]:
        above: list[str] = []
        beneath: list[str] = []
        depth = 0
        for base, exponent in node.factors:
            text, inner = self.raised(base, size(exponent))
            (above if exponent > 0 else beneath).append(text)
            depth = max(depth, inner)
        if not beneath:
            bound = _PRODUCT if len(above) > 1 else _POWER
            return "*".join(above), bound, depth
        divisor = beneath[0] if len(beneath) == 1 else f"({'*'.join(beneath)})"
        return f"{'*'.join(above) or '1'}/{divisor}", _PRODUCT, depth + 1

    def multiple(self, term: Expression, factor: Number) -> tuple[str, int]:
        """Return a term times a positive number."""
        text, depth = self.within(term, _PRODUCT)
        return self.shared((Sum, term.number, factor), f"{_number(factor)}*{text}", depth)

    def raised(self, base: Expression, exponent: Number) -> tuple[str, int]:
        """Return a power with a positive exponent."""
        if exponent == 1:
            return self.within(base, _POWER)
        key = Product, base.number, exponent
        if key in self.known:
            return self.known[key], 0
        if exponent == _HALF:
            text, depth = self.within(base, _SUM)
            return self.shared(key, f"sqrt({text})", depth + 1)
        whole = int(exponent)
        if exponent > 2 and whole <= _LARGEST_MULTIPLIED and exponent - whole in (0, _HALF):
            # by squares, which take a tenth of the time of a power
            self.name(base)
            if exponent != whole:
                text = f"{self.raised(base, whole)[0]}*{self.raised(base, _HALF)[0]}"
            elif whole % 2:
                text = f"{self.raised(base, whole - 1)[0]}*{self.within(base, _ATOM)[0]}"
            else:
                text = f"({self.raised(base, whole // 2)[0]})**2"
            return self.variable(key, text), 0
        if exponent == 1 + _HALF:
            self.name(base)
            text = f"{self.within(base, _ATOM)[0]}*{self.raised(base, _HALF)[0]}"
            return self.variable(key, text), 0
        text, depth = self.within(base, _ATOM)
        return self.shared(key, f"{text}**{_number(exponent)}", depth)

    def name(self, node: Expression) -> None:
        """Give a variable to a formula that is written more than once."""
        text, _, _ = self.texts[node]
        if not text.isidentifier():
            self.lines.append(f"    value_{node.number} = {text}")
            self.texts[node] = f"value_{node.number}", _ATOM, 0

    def shared(self, key: tuple[type, int, Number], text: str, depth: int) -> tuple[str, int]:
        """Return the text of a multiple or power, or a variable where it occurs several times."""
        if key in self.known:
            return self.known[key], 0
        if self.repeated[key] < 2:
            return text, depth
        return self.variable(key, text), 0

    def variable(self, key: tuple[type, int, Number], text: str) -> str:
        name = self.known[key] = f"part_{len(self.known)}"
        self.lines.append(f"    {name} = {text}")
        return name


def _factors(node: Expression) -> Sequence[tuple[Expression, Number]]:
    if isinstance(node, Sum):
        whole = node.constant == 0 and len({size(c) for _, c in node.terms}) == 1
        return () if whole and len(node.terms) > 1 else node.terms
    return node.factors if isinstance(node, Product) else ()


def _joined(parts: Sequence[str]) -> str:
    """Return terms with their signs as one text."""
    return "".join(parts).removeprefix(" + ")


def _number(value: Number) -> str:
    """Return a number as Python writes it: small whole ones as they are, the rest as doubles."""
    return str(value) if isinstance(value, int) and abs(value) < 2**53 else repr(float(value))
