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
# control characters, marks that turn the direction of writing, line separators
_HIDDEN = ("Cc", "Cf", "Zl", "Zp", "Cs")
_JOINERS = "\u00ad\u200b\u200c\u200d"  # characters that some scripts need, and soft hyphens


def check_name(name: str, where: str) -> str:
    """Return ``name`` if it may name a state component or a parameter, else raise InputError."""
    if not (name.isascii() and name.isidentifier()) or name.startswith("_"):
        raise InputError(f"{where}: '{name}' is no valid name; use letters, digits and _")
    if keyword.iskeyword(name) or name in RESERVED:
        raise InputError(f"{where}: '{name}' is reserved; choose another name")
    return readable(name, where)


def readable(text: str, where: str, longest: int = 100, lines: bool = False) -> str:
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
    if len(text) > longest:
        raise InputError(f"{where}: a text has at most {longest} characters, not {len(text)}")
    shown = text.replace("\n", " ").replace("\t", " ") if lines else text
    if any(unicodedata.category(c) in _HIDDEN and c not in _JOINERS for c in shown):
        raise InputError(f"{where}: a text holds a character which terminals obey; leave it out")
    return text


MAXIMUM_LENGTH = 20_000  # characters of one expression
_QUOTED = 80  # characters of an expression in a message
_PARSING = threading.Lock()
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
# factor of the next term of a sum, exponent of the next factor of a product
_SUM: dict[type, int] = {ast.Add: 1, ast.Sub: -1}
_PRODUCT: dict[type, int] = {ast.Mult: 1, ast.Div: -1}


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
    if isinstance(text, str):
        return _Parser(text, scope, where).parse()
    try:
        if isinstance(text, bool) or not isinstance(text, int | float):
            raise ValueError
        return nodes.tidy(Fraction(repr(text) if isinstance(text, float) else text))
    except (ValueError, NotFinite):
        raise InputError(
            f"{where}: expected an expression in quotes or a finite number, found "
            f"{printable(repr(text), _QUOTED)}"
        ) from None


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
        try:
            if len(self.text) > MAXIMUM_LENGTH:
                raise ValueError
            return self.value(syntax_tree(self.text))
        except SyntaxError as error:
            column = (error.offset or len(self.text) + 1) + self.offset
            raise InputError(
                f"{self.where}, column {column}: '{printable(self.text, _QUOTED)}' is not a valid "
                f"expression ({error.msg})"
            ) from None
        except InputError:
            raise
        except (RecursionError, MemoryError, ValueError):
            raise InputError(
                f"{self.where}: the expression cannot be read (nested too deeply, or longer than "
                f"{MAXIMUM_LENGTH} characters); write it more simply"
            ) from None

    def fail(self, node: ast.AST, message: str) -> NoReturn:
        column = getattr(node, "col_offset", 0) + 1 + self.offset
        raise InputError(f"{self.where}, column {column}: {message}")

    def value(self, node: ast.expr) -> Value:
        try:
            self.algebra.spend(1)
            return self._value(node)
        except NotFinite:
            self.fail(node, "this constant is too large, or no real number")
        except ZeroDivisionError:
            self.fail(node, "division by zero")
        except TooLong as error:
            self.fail(node, f"the formulas of the file write out to {error}")

    def _value(self, node: ast.expr) -> Value:
        algebra = self.algebra
        match node:
            case ast.Name(id=name):
                return self.name(node, name)
            case ast.Subscript(value=ast.Name(id=name), slice=place):
                return self.entry(node, name, place)
            case ast.BinOp(op=ast.Add() | ast.Sub()):
                return algebra.combine((self.value(part), c) for part, c in _chain(node, _SUM))
            case ast.BinOp(op=ast.Mult() | ast.Div()):
                return algebra.product((self.value(part), e) for part, e in _chain(node, _PRODUCT))
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
            case ast.Call(func=ast.Name(id=name)):
                return self.call(node, name)
        self.fail(
            node,
            f"'{printable(ast.unparse(node), _QUOTED)}' is not allowed in an expression; allowed "
            "are + - * / **, numbers, names, indices, sum(... for i in range(n)), pi, where, "
            f"{', '.join(FUNCTIONS)}",
        )

    def name(self, node: ast.Name, name: str) -> Value:
        value = self.values.get(name, self.integers.get(name, nodes.PI if name == "pi" else None))
        if value is None:
            hint = '; for the time write time = "t" in the file' if name == "t" else None
            known = [*self.values, *self.integers, "pi"]
            self.fail(node, f"unknown name '{name}'{hint or nearest(name, known)}")
        if isinstance(value, tuple):
            self.fail(node, f"'{name}' is an array of {len(value)} entries; write {name}[i]")
        return value

    def entry(self, node: ast.expr, name: str, place: ast.expr) -> Value:
        """Return an entry of an array."""
        array = self.values.get(name)
        if not isinstance(array, tuple):
            self.fail(node, f"there is no array '{name}'{nearest(name, self.values)}")
        index = self.integer(place)
        if not 0 <= index < len(array):
            words = f"is outside 0 ... {len(array) - 1} (for a periodic index write [(i + 1) % n])"
            self.fail(place, f"index {index} of '{name}' {words}")
        return array[index]

    def call(self, node: ast.Call, name: str) -> Value:
        if name in SYNTAX:
            return self.syntax(node, name)
        if name not in FUNCTIONS or name in self.values:
            hint = nearest(name, [*FUNCTIONS, *SYNTAX])
            self.fail(node, f"unknown function '{name}'{hint} (write * to multiply)")
        function = FUNCTIONS[name]
        wanted = len(function.arguments)
        count = len(node.args)
        if node.keywords or count < wanted or (count > wanted and not function.further):
            example = f"{name}({', '.join(function.arguments)}{', ...' * function.further})"
            self.fail(node, f"a call of '{name}' is written {example}")
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
        algebra = self.algebra
        holds = list[Value]()
        for sign, left, right in zip(compared.ops, sides, sides[1:], strict=False):
            if type(sign) not in _COMPARISONS:
                self.fail(compared, "a comparison is one of < <= > >=")
            turned, opposite = _COMPARISONS[type(sign)]
            above = algebra.subtract(right, left) if turned else algebra.subtract(left, right)
            # 1 where it is positive, else 0: s (s + 1)/2 of its sign s, exactly
            s = algebra.call("sign", above)
            step = algebra.multiply(Fraction(1, 2), s, algebra.add(s, 1))
            holds.append(algebra.subtract(1, step) if opposite else step)
        indicator = algebra.multiply(*holds)
        first = self.value(one)
        second = self.value(other)
        first = algebra.multiply(indicator, first)
        return algebra.add(first, algebra.multiply(algebra.subtract(1, indicator), second))

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
                    words = f"the index '{name}' has a meaning already; choose another"
                    self.fail(loops[0].target, words)
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
                self.fail(
                    node,
                    "an index, a range, % and // take whole numbers: loop indices, len(array), "
                    "parameters that are whole numbers, and + - * // % of them",
                )
        if abs(result) > 2**53:
            self.fail(node, "the whole number is too large for an index")
        return result


def _chain(node: ast.expr, signs: Mapping[type, int]) -> list[tuple[ast.expr, int]]:
    """Return the operands of ``a + b - c + ...`` from left to right, with 1 or -1 for the sign."""
    parts = []
    while isinstance(node, ast.BinOp) and type(node.op) in signs:
        parts.append((node.right, signs[type(node.op)]))
        node = node.left
    return [*parts, (node, 1)][::-1]
