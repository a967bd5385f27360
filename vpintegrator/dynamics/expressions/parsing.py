"""The expression language of system files: a small, safe subset of Python's arithmetic.

    "(1/I3 - 1/I2)*z2*z3"
    "sum(p[i]**2/(2*m[i]) for i in range(len(m))) + k*sigmoid(q[0])"
    "sum(1/sqrt((x[i] - x[j])**2 + (y[i] - y[j])**2) for i in range(n) for j in range(i))"

A text is parsed with :mod:`ast` and translated node by node; only the nodes that this file names
are understood, and nothing is ever evaluated as Python. So a file from a stranger can do nothing
but describe mathematics; limits on lengths, sums, powers and numbers keep it from describing so
much of it that time or memory run out.
"""

from __future__ import annotations

import ast
import keyword
import math
import operator
import threading
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, NoReturn

from vpintegrator.dynamics.expressions import nodes
from vpintegrator.dynamics.expressions.algebra import Algebra, TooLong
from vpintegrator.dynamics.expressions.functions import FUNCTIONS
from vpintegrator.dynamics.expressions.nodes import NotFinite, Value
from vpintegrator.errors import InputError, nearest, printable

SYNTAX = ("where", "sum", "range", "len")  # written as calls, but no functions of numbers
RESERVED = {*FUNCTIONS, *SYNTAX, "pi", "t"}
_LONGEST_NAME = 100
# control characters, marks that turn the direction of writing, line separators
_HIDDEN = ("Cc", "Cf", "Zl", "Zp", "Cs")
_JOINERS = "\u00ad\u200b\u200c\u200d"  # characters that some scripts need, and soft hyphens


def check_name(name: str, where: str) -> str:
    """Return ``name`` if it may name a state component or a parameter, else raise InputError."""
    if not (name.isascii() and name.isidentifier()) or name.startswith("_"):
        raise InputError(f"{where}: '{name}' is no valid name; use letters, digits and _")
    if keyword.iskeyword(name) or name in RESERVED:
        raise InputError(f"{where}: '{name}' is reserved; choose another name")
    if len(name) > _LONGEST_NAME:
        raise InputError(f"{where}: a name has at most {_LONGEST_NAME} characters")
    return name


def readable(text: str, where: str, longest: int = _LONGEST_NAME, lines: bool = False) -> str:
    """Return a name or title that a terminal can show as it is, else raise InputError.

    Parameters
    ----------
    text, where
        Text to read, and its place for messages.
    longest
        Largest number of characters.
    lines
        Whether it may have several lines.
    """
    shown = text.replace("\n", " ").replace("\t", " ") if lines else text
    hidden = [c for c in shown if unicodedata.category(c) in _HIDDEN and c not in _JOINERS]
    if hidden:
        raise InputError(
            f"{where}: a text holds the character {hidden[0]!r}, which terminals obey instead of "
            "showing it; leave it out"
        )
    if len(text) > longest:
        raise InputError(f"{where}: a text has {len(text)} characters, more than {longest}")
    return text


MAXIMUM_LENGTH = 20_000  # characters of one expression
_QUOTED = 80  # characters of an expression in a message
_CALLED = (*FUNCTIONS, "where")  # what a message lists

_PARSING = threading.Lock()
_WHOLE = (
    "an index, a range, % and // take whole numbers: loop indices, len(array), parameters that are "
    "whole numbers, and + - * // % of them"
)
_USES = {
    "sum": "a sum is written sum(expression for i in range(n)), or range(first, end)",
    "where": "write where(x < y, a, b), with a comparison < <= > or >= in it",
    "len": "'len' takes the name of an array, as in len(m)",
    "range": "'range' stands in a sum, as in sum(expression for i in range(n))",
}
# whether a > b is asked for with sides exchanged, and whether the opposite is meant
_COMPARISONS: dict[type, tuple[bool, bool]] = {
    ast.Gt: (False, False),
    ast.Lt: (True, False),
    ast.GtE: (True, True),
    ast.LtE: (False, True),
}
# operations on whole numbers, which stand in an index too
_OF_INTEGERS: dict[type, Any] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Mod: operator.mod,
    ast.FloorDiv: operator.floordiv,
}


@dataclass
class Scope:
    """Meaning of the names in an expression.

    Attributes
    ----------
    values
        A number or formula for a scalar, a tuple of them for an array.
    integers
        Names that may also stand in an index or a range: loop indices and integer parameters.
    algebra
        Algebra that builds the formulas and counts their operations.
    """

    values: Mapping[str, Value | tuple[Value, ...]] = field(default_factory=dict)
    integers: Mapping[str, int] = field(default_factory=dict)
    algebra: Algebra = field(default_factory=Algebra)


def parse(text: str | int | float, scope: Scope, where: str) -> Value:
    """Translate ``text`` into a formula; decimal numbers become exact fractions.

    Parameters
    ----------
    text
        The expression; a plain number is taken as it is.
    scope
        The names that it may use.
    where
        File and key, for messages: ``"my.toml, [vector_field] z1"``.

    Raises
    ------
    InputError
        With the column of the first thing that is not understood.
    """
    if isinstance(text, bool) or not isinstance(text, str | int | float):
        raise InputError(
            f"{where}: expected an expression in quotes or a number, found "
            f"{printable(repr(text), _QUOTED)}"
        )
    if not isinstance(text, str):
        try:
            return nodes.tidy(Fraction(repr(text) if isinstance(text, float) else text))
        except (ValueError, OverflowError):
            raise InputError(f"{where}: {text} is not a finite number") from None
        except NotFinite:
            raise InputError(f"{where}: the number is too large") from None
    return _Parser(text, scope, where).parse()


def syntax_tree(text: str) -> ast.expr:
    """Return the syntax tree of an expression."""
    with _PARSING:  # up to Python 3.12 it counts the depth of all threads together
        return ast.parse(text, mode="eval").body


class _Parser:
    def __init__(self, text: str, scope: Scope, where: str) -> None:
        flat = text.replace("\n", " ").replace("\t", " ")
        self.text = flat.strip()
        self.offset = len(flat) - len(flat.lstrip())
        self.values = scope.values
        self.integers = dict(scope.integers)
        self.algebra = scope.algebra
        self.where = where

    def parse(self) -> Value:
        if len(self.text) > MAXIMUM_LENGTH:
            raise InputError(
                f"{self.where}: the expression has {len(self.text)} characters, "
                f"more than the {MAXIMUM_LENGTH} allowed"
            )
        try:
            return self.value(syntax_tree(self.text))
        except SyntaxError as error:
            column = (error.offset or len(self.text) + 1) + self.offset
            raise InputError(
                f"{self.where}, column {column}: '{printable(self.text, _QUOTED)}' is not a valid "
                f"expression ({error.msg})"
            ) from None
        except (RecursionError, MemoryError, ValueError) as error:
            if isinstance(error, InputError):
                raise
            raise InputError(
                f"{self.where}: the expression cannot be read (nested too deeply, or with "
                "numbers too long); write it more simply"
            ) from None

    def fail(self, node: ast.AST, message: str) -> NoReturn:
        column = getattr(node, "col_offset", 0) + 1 + self.offset
        raise InputError(f"{self.where}, column {column}: {message}")

    def value(self, node: ast.expr) -> Value:
        try:
            self.algebra.spend(1)
            return self._value(node)
        except NotFinite as error:
            self.fail(node, str(error) or "this constant is too large, or no real number")
        except ZeroDivisionError:
            self.fail(node, "division by zero")
        except TooLong as error:
            self.fail(node, f"the formulas of the file write out to {error}")

    def _value(self, node: ast.expr) -> Value:
        algebra = self.algebra
        match node:
            case ast.Name():
                return self.name(node)
            case ast.Subscript(value=ast.Name(id=name), slice=place):
                return self.entry(node, name, place)
            case ast.BinOp(op=ast.Add() | ast.Sub()):
                return algebra.combine(
                    (self.value(part), 1 if isinstance(sign, ast.Add) else -1)
                    for sign, part in _chain(node, (ast.Add, ast.Sub), ast.Add())
                )
            case ast.BinOp(op=ast.Mult() | ast.Div()):
                return algebra.product(
                    (self.value(part), 1 if isinstance(sign, ast.Mult) else -1)
                    for sign, part in _chain(node, (ast.Mult, ast.Div), ast.Mult())
                )
            case ast.Constant(value=int(number)) if not isinstance(number, bool):
                return nodes.tidy(number)
            case ast.Constant(value=float(number)) if math.isfinite(number):
                # repr gives the shortest digits that mean this number, so 0.1 is one tenth
                return nodes.tidy(Fraction(repr(number)))
            case ast.BinOp(left=base, op=ast.Pow(), right=exponent):
                return algebra.power(self.value(base), self.value(exponent))
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                return algebra.scale(-1, self.value(operand))
            case ast.UnaryOp(op=ast.UAdd(), operand=operand):
                return self.value(operand)
            case ast.BinOp(op=ast.Mod() | ast.FloorDiv()):
                return self.integer(node)
            case ast.BinOp(op=ast.BitXor()):
                self.fail(node, "for a power write ** instead of ^")
            case ast.Call(func=ast.Name(id=name)):
                return self.call(node, name)
        self.fail(
            node,
            f"'{printable(ast.unparse(node), _QUOTED)}' is not allowed in an expression; allowed "
            "are + - * / **, numbers, names, indices, sum(... for i in range(n)), pi, "
            f"{', '.join(_CALLED)}",
        )

    def name(self, node: ast.Name) -> Value:
        name = node.id
        value = self.values.get(name, self.integers.get(name))
        if isinstance(value, tuple):
            last = f"write {name}[0] ... {name}[{len(value) - 1}]" if value else "it has no entries"
            self.fail(node, f"'{name}' is an array; {last}")
        if value is not None:
            return value
        if name == "pi":
            return nodes.PI
        if name in FUNCTIONS or name in SYNTAX:
            self.fail(node, f"the function '{name}' needs its argument in parentheses")
        known = [*self.values, *self.integers, *FUNCTIONS, "pi"]
        hint = '; for the time write time = "t" in the file' if name == "t" else None
        self.fail(node, f"unknown name '{name}'{hint or nearest(name, known)}")

    def entry(self, node: ast.expr, name: str, place: ast.expr) -> Value:
        """Return an entry of an array."""
        array = self.values.get(name)
        if array is None:
            self.fail(node, f"unknown name '{name}'{nearest(name, self.values)}")
        if not isinstance(array, tuple):
            self.fail(node, f"'{name}' is a single number and takes no index")
        index = self.integer(place)
        if not 0 <= index < len(array):
            self.fail(
                place,
                f"index {index} of '{name}' is outside 0 ... {len(array) - 1} "
                "(for a periodic index write [(i + 1) % n])",
            )
        return array[index]

    def call(self, node: ast.Call, name: str) -> Value:
        if name in SYNTAX:
            return self.syntax(node, name)
        if name in self.values:
            self.fail(node, f"'{name}' is not a function; write * to multiply")
        if name not in FUNCTIONS:
            self.fail(node, f"unknown function '{name}'{nearest(name, _CALLED)}")
        function = FUNCTIONS[name]
        wanted, found = len(function.arguments), len(node.args)
        if node.keywords or found < wanted or (found > wanted and not function.further):
            number = ("one argument", "two arguments")[wanted - 1] + " or more" * function.further
            example = f"{name}({', '.join(function.arguments)})"
            self.fail(node, f"'{name}' takes {number}, as in {example}")
        return self.algebra.call(function, *map(self.value, node.args))

    def syntax(self, node: ast.Call, name: str) -> Value:
        """Return a sum, a choice, or the length of an array."""
        match node:
            case ast.Call(args=[ast.GeneratorExp() as each], keywords=[]) if name == "sum":
                terms: list[tuple[Value, int]] = []
                self.terms(each.elt, each.generators, terms)
                return self.algebra.combine(terms)
            case ast.Call(args=[ast.Compare() as compared, one, other], keywords=[]) if (
                name == "where"
            ):
                return self.choice(compared, one, other)
            case ast.Call(args=[ast.Name(id=array)], keywords=[]) if name == "len":
                if isinstance(entries := self.values.get(array), tuple):
                    return len(entries)
        self.fail(node, _USES[name])

    def choice(self, compared: ast.Compare, one: ast.expr, other: ast.expr) -> Value:
        """Return ``where(x < y, a, b)``: a where the comparison holds, else b."""
        sides = [self.value(part) for part in (compared.left, *compared.comparators)]
        algebra, holds = self.algebra, list[Value]()
        for sign, left, right in zip(compared.ops, sides, sides[1:], strict=False):
            if type(sign) not in _COMPARISONS:
                self.fail(compared, "a comparison is one of < <= > >=")
            turned, opposite = _COMPARISONS[type(sign)]
            above = algebra.subtract(right, left) if turned else algebra.subtract(left, right)
            # 1 where it is positive, else 0: s (s + 1)/2 of its sign s, exactly
            s = algebra.call("sign", above)
            step = algebra.multiply(Fraction(1, 2), s, algebra.add(s, 1))
            holds.append(algebra.subtract(1, step) if opposite else step)
        chosen = algebra.multiply(*holds)
        first, second = self.value(one), self.value(other)
        return algebra.add(
            algebra.multiply(chosen, first),
            algebra.multiply(algebra.subtract(1, chosen), second),
        )

    def terms(
        self, element: ast.expr, loops: list[ast.comprehension], terms: list[tuple[Value, int]]
    ) -> None:
        """Append the terms of a sum over loops."""
        if not loops:
            terms.append((self.value(element), 1))
            return
        match loops[0]:
            case ast.comprehension(
                target=ast.Name(id=name),
                iter=ast.Call(func=ast.Name(id="range"), args=[_] | [_, _] as ends, keywords=[]),
                ifs=[],
                is_async=0,
            ):
                if name in {*self.values, *self.integers, *RESERVED}:
                    self.fail(
                        loops[0].target, f"the index '{name}' has a meaning already; choose another"
                    )
                for index in range(*map(self.integer, ends)):
                    self.integers[name] = index
                    self.algebra.spend(1)
                    self.terms(element, loops[1:], terms)
                self.integers.pop(name, None)
            case _:
                self.fail(loops[0].target, _USES["sum"])

    def integer(self, node: ast.expr) -> int:
        """Value of an index expression: literals, loop indices, integer parameters, lengths."""
        self.algebra.spend(1)
        match node:
            case ast.Constant(value=int(value)) if not isinstance(value, bool):
                result = value
            case ast.Name(id=name) if name in self.integers:
                result = self.integers[name]
            case ast.Call(func=ast.Name(id="len")):
                result = int(self.syntax(node, "len"))  # type: ignore[arg-type]
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                result = -self.integer(operand)
            case ast.BinOp(left=left, op=sign, right=right) if type(sign) in _OF_INTEGERS:
                result = _OF_INTEGERS[type(sign)](self.integer(left), self.integer(right))
            case _:
                self.fail(node, _WHOLE)
        if abs(result) > 2**53:
            self.fail(node, "the whole number is too large for an index")
        return result


def _chain(
    node: ast.expr, operators: tuple[type[ast.operator], ...], first: ast.operator
) -> list[tuple[ast.operator, ast.expr]]:
    """The operands of ``a + b - c + ...`` from left to right, each with the sign before it."""
    parts = []
    while isinstance(node, ast.BinOp) and isinstance(node.op, operators):
        parts.append((node.op, node.right))
        node = node.left
    parts.append((first, node))
    return parts[::-1]
