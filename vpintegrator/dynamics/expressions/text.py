"""Formulas written as expressions of the language."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from vpintegrator.dynamics.expressions.functions import POWER
from vpintegrator.dynamics.expressions.nodes import (
    Expression,
    Function,
    Number,
    Symbol,
    Value,
    below,
    fold,
    size,
)

LARGEST_HAMILTONIAN = 5_000  # formulas that one is made of, some 50,000 letters
_LARGEST = 200  # formulas that one is made of, counted as often as they occur


def can_be_written(value: Expression, most: int = _LARGEST) -> bool:
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


@dataclass(frozen=True)
class Text:
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
        powers = []
        for base, e in factors:
            text = f"({base.text})" if base.raised else base.text
            powers.append(text if e == 1 else f"{text}**{_number(e)}")
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
