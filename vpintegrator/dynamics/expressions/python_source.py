"""Formulas written as Python code, which NumPy and torch compute.

Every operation becomes a line first, each text once. A name that is used once is then replaced by
its text, so that temporary arrays live no longer than needed.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from fractions import Fraction

from vpintegrator.dynamics.expressions.constants import Number, size
from vpintegrator.dynamics.expressions.functions import POWER
from vpintegrator.dynamics.expressions.nodes import Function

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
        return term if factor == 1 else self._named(f"{self.number(_plain(factor))}*{term}")

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
        found = []

        def written(text: str) -> tuple[str, int]:
            depth = max((inside[n][1] for n in _NAME.findall(text) if n in inside), default=0)
            return _NAME.sub(lambda n: inside.get(n[0], (n[0], 0))[0], text), depth + 1

        for name, text in lines:
            full, depth = written(text)
            if uses[name] == 1 and depth <= _DEPTH:
                inside[name] = f"({full})", depth
            else:
                found.append(f"{name} = {full}")
        return [*found, f"return [{', '.join(written(text)[0] for text in results)}]"]


def _plain(value: Number) -> Number:
    return value.numerator if value.denominator == 1 else value
