"""Recorded operations as expressions of a system file.

Short formulas are written out. Long ones get names for what they compute more than once, in a table
``[auxiliary]``, so that the text of a long function grows with the number of its operations.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

from vpintegrator.dynamics.expressions import FUNCTIONS
from vpintegrator.dynamics.functions.tracing import NotTraceable, Tape, Traced

_WRITTEN_OUT = 3000  # characters of all formulas together
_LONG = 40  # characters of what gets a name where it occurs twice
_LONGEST = 1500  # characters of what gets a name where it occurs once
_DEEPEST = 20  # parentheses in parentheses
_LARGEST_DENOMINATOR = 48  # of recognised multiples of pi
_ROUNDING = 4e-16
_SUM, _PRODUCT, _SIGN, _POWER, _ATOM = range(5)  # precedence of the outermost operator
_BOUND = {"+": _SUM, "-": _SUM, "*": _PRODUCT, "/": _PRODUCT, "**": _POWER}

_Text = tuple[str, int, int]  # the text, how tightly it is bound, how deep its parentheses are


def texts(
    values: Sequence[Any], tape: Tape, taken: Sequence[str]
) -> tuple[list[str], dict[str, str]]:
    """Return the expressions of values, and the auxiliary ones that they name.

    Parameters
    ----------
    values
        Recorded operations, or numbers.
    tape
        Tape that recorded the values.
    taken
        Names that auxiliary expressions cannot have.

    Raises
    ------
    NotTraceable
        If an operation has no expression.
    """
    used = _used(values, tape)
    counts = Counter(v.number for v in values if isinstance(v, Traced))
    for node in used:
        counts.update(o.number for o in node.operands if isinstance(o, Traced))
    for name_long in (False, True):
        writer = _ExpressionWriter(counts, name_long, set(taken))
        if writer.write(used):
            return [writer.text(value)[0] for value in values], writer.auxiliary
    raise AssertionError


def _used(values: Sequence[Any], tape: Tape) -> list[Traced]:
    """Return the recorded operations on which values depend, in order of computation."""
    wanted = {value.number for value in values if isinstance(value, Traced)}
    for node in reversed(tape.recorded):
        if node.number in wanted:
            wanted |= {o.number for o in node.operands if isinstance(o, Traced)}
    return [node for node in tape.recorded if node.number in wanted]


class _ExpressionWriter:
    def __init__(self, counts: Counter[int], name_long: bool, taken: set[str]) -> None:
        self.counts, self.name_long, self.taken = counts, name_long, taken
        self.known: dict[int, _Text] = {}
        self.auxiliary: dict[str, str] = {}

    def write(self, nodes: Sequence[Traced]) -> bool:
        """Write all; False where that is too long without names."""
        for node in nodes:
            text, bound, depth = self.operation(node)
            long = len(text) > (_LONG if self.counts[node.number] > 1 else _LONGEST)
            if self.name_long and (long or depth > _DEEPEST):
                name = self.name()
                self.auxiliary[name] = text
                text, bound, depth = name, _ATOM, 0
            elif not self.name_long and (len(text) > _WRITTEN_OUT or depth > _DEEPEST):
                return False
            self.known[node.number] = text, bound, depth
        return True

    def name(self) -> str:
        number = len(self.auxiliary) + 1
        while (name := f"u{number}") in self.taken:
            number += 1
        self.taken.add(name)
        return name

    def text(self, value: Any) -> _Text:
        return self.known[value.number] if isinstance(value, Traced) else _number(value)

    def within(self, value: Any, bound: int) -> tuple[str, int]:
        """Return a text that holds together at least so tightly, and its depth."""
        text, own, depth = self.text(value)
        return (text, depth) if own >= bound else (f"({text})", depth + 1)

    def operation(self, node: Traced) -> _Text:
        name, operands = node.operation, node.operands
        if name == "symbol":
            return operands[0], _ATOM, 0
        if name == "neg":
            text, depth = self.within(operands[0], _PRODUCT)
            return f"-{text}", _SIGN, depth
        if name not in _BOUND:
            inner = [self.text(operand) for operand in operands]
            depth = max(entry[2] for entry in inner) + 1
            written = [entry[0] for entry in inner]
            name, _, sign = name.partition(" ")
            if sign:  # where, by a comparison of the first two operands
                written[:2] = [f"{written[0]} {sign} {written[1]}"]
            elif name not in FUNCTIONS:
                raise NotTraceable(f"the function {name}")
            return f"{name}({', '.join(written)})", _ATOM, depth
        bound = _BOUND[name]
        if name == "**":
            bounds = _ATOM, _ATOM
        else:  # the operand after - or / needs no parentheses
            bounds = bound, bound + (name in "-/")
        (left, above), (right, below) = (
            self.within(operand, b) for operand, b in zip(operands, bounds, strict=True)
        )
        if right.startswith("-") and name != "**":
            right = f"({right})"
        sign = f" {name} " if bound == _SUM else name
        return f"{left}{sign}{right}", bound, max(above, below)


def number_text(value: float) -> str:
    """Return a number as an expression."""
    return _number(value)[0]


def _number(value: float) -> _Text:
    """Return a number; multiples of pi by its name."""
    if value == int(value) and abs(value) < 2**53:
        text = str(int(value))
    else:
        text = _multiple_of_pi(value) or repr(float(value))
    if value < 0:
        return text, _SUM, 0
    return text, _PRODUCT if set("*/") & set(text) else _ATOM, 0


def _multiple_of_pi(value: float) -> str | None:
    """Return a double that is a small fraction of pi to rounding, as ``2*pi/3``."""
    ratio = Fraction(value / math.pi).limit_denominator(_LARGEST_DENOMINATOR)
    top, beneath = ratio.numerator, ratio.denominator
    if not top or abs(top) > _LARGEST_DENOMINATOR:
        return None
    if abs(value - top * math.pi / beneath) > _ROUNDING * abs(value):
        return None
    sign, count = ("-" if top < 0 else ""), abs(top)
    text = f"{sign}pi" if count == 1 else f"{sign}{count}*pi"
    return text if beneath == 1 else f"{text}/{beneath}"
