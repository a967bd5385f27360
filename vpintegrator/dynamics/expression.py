"""The expression language of system files: a small, safe subset of Python's arithmetic.

    "(1/I3 - 1/I2)*z2*z3"
    "sum(p[i]**2/(2*m[i]) for i in range(len(m))) + k*sigmoid(q[0])"
    "sum(1/sqrt((x[i] - x[j])**2 + (y[i] - y[j])**2) for i in range(n) for j in range(i))"

A text is parsed with :mod:`ast` and translated node by node into SymPy; only the nodes that this
file names are understood, and nothing is ever evaluated as Python. So a file from a stranger can
do nothing but describe mathematics; limits on lengths, sums and powers keep it from describing so
much of it that memory runs out.
"""

from __future__ import annotations

import ast
import difflib
import keyword
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NoReturn

import sympy

from vpintegrator.errors import InputError

MAXIMUM_LENGTH = 20_000  # characters of one expression
MAXIMUM_NODES = 500_000  # nodes visited while sums are written out
MAXIMUM_BITS = 4096  # of an exact number
LARGEST_CONSTANT = 1e300


class sigmoid(sympy.Function):
    """The logistic function 1/(1 + exp(-x)), kept whole so that it is computed without overflow."""

    nargs = 1

    @classmethod
    def eval(cls, argument: sympy.Expr) -> sympy.Expr | None:
        return sympy.Rational(1, 2) if argument.is_zero else None

    def fdiff(self, argindex: int = 1) -> sympy.Expr:
        value = sigmoid(self.args[0])
        return value * (1 - value)

    def _eval_evalf(self, precision: int) -> sympy.Expr:
        return self.rewrite(sympy.exp)._eval_evalf(precision)

    def _eval_rewrite_as_exp(self, argument: sympy.Expr, **_: object) -> sympy.Expr:
        return 1 / (1 + sympy.exp(-argument))

    def _latex(self, printer: sympy.printing.latex.LatexPrinter, exp: str | None = None) -> str:
        power = "" if exp is None else f"^{{{exp}}}"
        return rf"\sigma{power}\left({printer._print(self.args[0])}\right)"


FUNCTIONS: dict[str, Callable[[sympy.Expr], sympy.Expr]] = {
    "sin": sympy.sin,
    "cos": sympy.cos,
    "tan": sympy.tan,
    "exp": sympy.exp,
    "log": sympy.log,
    "sqrt": sympy.sqrt,
    "tanh": sympy.tanh,
    "sigmoid": sigmoid,
}
RESERVED = frozenset(FUNCTIONS) | {"pi", "sum", "range", "len", "t"}

_FLOAT_FUNCTIONS: dict[Any, Callable[..., float]] = {
    sympy.sin: math.sin,
    sympy.cos: math.cos,
    sympy.tan: math.tan,
    sympy.exp: math.exp,
    sympy.log: math.log,
    sympy.tanh: math.tanh,
    sigmoid: lambda x: 0.5 * (1 + math.tanh(0.5 * x)),
    sympy.Pow: math.pow,
    sympy.Add: lambda *terms: math.fsum(terms),
    sympy.Mul: lambda *factors: math.prod(factors),
}


def constant_value(
    expression: sympy.Expr, numbers: Mapping[sympy.Symbol, float] | None = None
) -> float:
    """Value of a constant in floating-point arithmetic; nan where it overflows or is not real."""
    if numbers and expression in numbers:
        return numbers[expression]
    try:
        if not expression.args or expression.is_Rational:
            return float(expression)
        function = _FLOAT_FUNCTIONS.get(expression.func)
        if function is None:  # a form that SymPy chose itself, such as coth; it is small
            return float(expression.xreplace(dict(numbers or {})))
        return function(*(constant_value(argument, numbers) for argument in expression.args))
    except (ArithmeticError, ValueError, TypeError):
        return math.nan


_WHOLE = "an index, % and // take whole numbers: loop indices, len(array), and + - * // % of them"
_FORBIDDEN = {
    ast.Attribute: "attribute access (a dot)",
    ast.Lambda: "lambda",
    ast.Compare: "a comparison",
    ast.BoolOp: "and/or",
    ast.IfExp: "if/else",
    ast.List: "a list",
    ast.Tuple: "a tuple",
    ast.Dict: "a dictionary",
    ast.Set: "a set",
    ast.ListComp: "a list comprehension",
    ast.GeneratorExp: "a generator outside sum(...)",
    ast.Slice: "a slice",
    ast.JoinedStr: "a string",
    ast.NamedExpr: "an assignment",
    ast.Starred: "a star",
    ast.Await: "await",
}


def check_name(name: str, where: str) -> str:
    """Return ``name`` if it may name a state component or a parameter, else raise InputError."""
    if not (name.isascii() and name.isidentifier()) or name.startswith("_"):
        raise InputError(f"{where}: '{name}' is no valid name; use letters, digits and _")
    if keyword.iskeyword(name) or name in RESERVED:
        raise InputError(f"{where}: '{name}' is reserved; choose another name")
    return name


def nearest(name: str, known: Iterable[str]) -> str:
    """A clause such as ``; did you mean 'rigid-body'?``, or nothing when nothing is near."""
    matches = difflib.get_close_matches(name, list(known), n=1)
    return f"; did you mean '{matches[0]}'?" if matches else ""


@dataclass
class Scope:
    """What names mean in an expression.

    Attributes
    ----------
    values
        A SymPy expression for a scalar, a tuple of them for an array.
    integers
        Names that may also stand in an index or a range: loop indices and integer parameters.
    numbers
        Values of the symbols that stand for parameters, to find constants that overflow.
    """

    values: Mapping[str, sympy.Expr | tuple[sympy.Expr, ...]] = field(default_factory=dict)
    integers: Mapping[str, int] = field(default_factory=dict)
    numbers: Mapping[sympy.Symbol, float] = field(default_factory=dict)


def parse(text: str | int | float, scope: Scope, where: str) -> sympy.Expr:
    """Translate ``text`` into a SymPy expression; decimal numbers become exact fractions.

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
        raise InputError(f"{where}: expected an expression in quotes or a number, found {text!r}")
    if not isinstance(text, str):
        try:
            return sympy.Rational(repr(text))
        except (ValueError, TypeError):
            raise InputError(f"{where}: {text} is not a finite number") from None
    return _Parser(text, scope, where).parse()


class _Parser:
    def __init__(self, text: str, scope: Scope, where: str) -> None:
        flat = text.replace("\n", " ").replace("\t", " ")
        self.text = flat.strip()
        self.offset = len(flat) - len(flat.lstrip())
        self.values = dict(scope.values)
        self.integers = dict(scope.integers)
        self.numbers = scope.numbers
        self.where = where
        self.visited = 0

    def parse(self) -> sympy.Expr:
        if not self.text:
            raise InputError(f"{self.where}: the expression is empty")
        if len(self.text) > MAXIMUM_LENGTH:
            raise InputError(
                f"{self.where}: the expression has {len(self.text)} characters, "
                f"more than the {MAXIMUM_LENGTH} allowed"
            )
        try:
            tree = ast.parse(self.text, mode="eval")
            value = self.value(tree.body)
        except SyntaxError as error:
            column = (error.offset or len(self.text) + 1) + self.offset
            raise InputError(
                f"{self.where}, column {column}: '{self.text}' is not a valid expression "
                f"({error.msg})"
            ) from None
        except (RecursionError, MemoryError, ValueError) as error:
            if isinstance(error, InputError):
                raise
            raise InputError(
                f"{self.where}: the expression cannot be read (nested too deeply, or with "
                "numbers too long); write it more simply"
            ) from None
        if value.has(sympy.I, sympy.zoo, sympy.oo, sympy.nan):
            raise InputError(f"{self.where}: '{self.text}' is not real and finite")
        self.finite(tree.body, value)
        return value

    def fail(self, node: ast.AST, message: str) -> NoReturn:
        column = getattr(node, "col_offset", 0) + 1 + self.offset
        raise InputError(f"{self.where}, column {column}: {message}")

    def visit(self, node: ast.AST) -> None:
        self.visited += 1
        if self.visited > MAXIMUM_NODES:
            self.fail(node, f"the sums write out to more than {MAXIMUM_NODES} terms and operations")

    def value(self, node: ast.expr) -> sympy.Expr:
        self.visit(node)
        match node:
            case ast.Constant(value=bool()):
                self.fail(node, "True and False are not numbers")
            case ast.Constant(value=int(number)):
                return self.bounded(node, sympy.Integer(number))
            case ast.Constant(value=float(number)):
                # repr gives the shortest digits that mean this number, so 0.1 is one tenth
                if not math.isfinite(number):
                    self.fail(node, "the number is too large")
                return sympy.Rational(repr(number))
            case ast.Name(id=name):
                return self.name(node, name)
            case ast.Subscript():
                return self.component(node)
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                return -self.value(operand)
            case ast.UnaryOp(op=ast.UAdd(), operand=operand):
                return self.value(operand)
            case ast.BinOp(left=left, op=operator, right=right):
                return self.binary(node, left, operator, right)
            case ast.Call():
                return self.call(node)
        self.forbidden(node)

    def forbidden(self, node: ast.AST) -> NoReturn:
        what = _FORBIDDEN.get(type(node), "this")
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            what = "text in quotes"
        self.fail(
            node,
            f"{what} is not allowed in an expression; allowed are + - * / **, numbers, names, "
            f"indices, sum(... for i in range(n)), pi and {', '.join(FUNCTIONS)}",
        )

    def bounded(self, node: ast.AST, value: sympy.Expr) -> sympy.Expr:
        if value.is_Rational and max(int(value.p).bit_length(), int(value.q).bit_length()) > (
            MAXIMUM_BITS
        ):
            self.fail(node, "the number is too long")
        return value

    def name(self, node: ast.AST, name: str) -> sympy.Expr:
        if name in self.integers and name not in self.values:
            return sympy.Integer(self.integers[name])
        if name == "pi":
            return sympy.pi
        if name in FUNCTIONS or name in ("sum", "range", "len"):
            self.fail(node, f"the function '{name}' needs its argument in parentheses")
        if name not in self.values:
            known = [*self.values, *self.integers, *FUNCTIONS, "pi"]
            self.fail(node, f"unknown name '{name}'{nearest(name, known)}")
        value = self.values[name]
        if isinstance(value, tuple):
            self.fail(node, f"'{name}' is an array; write {name}[0] ... {name}[{len(value) - 1}]")
        return value

    def component(self, node: ast.Subscript) -> sympy.Expr:
        if not isinstance(node.value, ast.Name):
            self.forbidden(node.value)
        name = node.value.id
        array = self.values.get(name)
        if array is None:
            self.fail(node, f"unknown name '{name}'{nearest(name, self.values)}")
        if not isinstance(array, tuple):
            self.fail(node, f"'{name}' is a single number and takes no index")
        index = self.integer(node.slice)
        if not 0 <= index < len(array):
            self.fail(
                node.slice,
                f"index {index} of '{name}' is outside 0 ... {len(array) - 1} "
                "(for a periodic index write [(i + 1) % n])",
            )
        return array[index]

    def binary(
        self, node: ast.BinOp, left: ast.expr, operator: ast.operator, right: ast.expr
    ) -> sympy.Expr:
        match operator:
            case ast.Add():
                return self.value(left) + self.value(right)
            case ast.Sub():
                return self.value(left) - self.value(right)
            case ast.Mult():
                return self.bounded(node, self.value(left) * self.value(right))
            case ast.Div():
                divisor = self.value(right)
                if divisor.is_zero:
                    self.fail(right, "division by zero")
                return self.bounded(node, self.value(left) / divisor)
            case ast.Pow():
                return self.power(node, self.value(left), self.value(right))
            case ast.BitXor():
                self.fail(node, "for a power write ** instead of ^")
            case ast.Mod() | ast.FloorDiv():
                return sympy.Integer(self.integer(node))
        self.fail(node, "this operation is not allowed; allowed are + - * / **")

    def power(self, node: ast.AST, base: sympy.Expr, exponent: sympy.Expr) -> sympy.Expr:
        if exponent.is_Rational:
            bits = (
                max(int(base.p).bit_length(), int(base.q).bit_length()) if base.is_Rational else 1
            )
            if abs(exponent) * max(bits, 1) > MAXIMUM_BITS:
                self.fail(node, f"the exponent {exponent} is too large")
            if base.is_zero and exponent < 0:
                self.fail(node, "division by zero")
        self.finite(node, base, exponent)
        return base**exponent

    def finite(self, node: ast.AST, *arguments: sympy.Expr) -> None:
        """Refuse constants that overflow: exact arithmetic would try to hold exp(exp(100))."""
        for argument in arguments:
            if argument.free_symbols <= self.numbers.keys():
                size = constant_value(argument, self.numbers)
                if not abs(size) <= LARGEST_CONSTANT:
                    self.fail(node, f"the constant {argument} is too large, or no real number")

    def call(self, node: ast.Call) -> sympy.Expr:
        if not isinstance(node.func, ast.Name):
            self.forbidden(node.func)
        name = node.func.id
        if name == "sum":
            return self.sum(node)
        if name == "len":
            return sympy.Integer(self.length(node))
        if name not in FUNCTIONS:
            self.fail(
                node,
                f"unknown function '{name}'{nearest(name, FUNCTIONS)}"
                if name not in self.values
                else f"'{name}' is not a function; write * to multiply",
            )
        if len(node.args) != 1 or node.keywords:
            self.fail(node, f"'{name}' takes one argument, as in {name}(x)")
        argument = self.value(node.args[0])
        self.finite(node, argument)
        return FUNCTIONS[name](argument)

    def sum(self, node: ast.Call) -> sympy.Expr:
        if len(node.args) != 1 or node.keywords or not isinstance(node.args[0], ast.GeneratorExp):
            self.fail(node, "a sum is written sum(expression for i in range(n))")
        generator = node.args[0]
        terms: list[sympy.Expr] = []
        self.terms(generator.elt, generator.generators, terms)
        return sympy.Add(*terms)

    def terms(
        self, element: ast.expr, loops: list[ast.comprehension], terms: list[sympy.Expr]
    ) -> None:
        if not loops:
            terms.append(self.value(element))
            return
        loop = loops[0]
        if loop.ifs or loop.is_async or not isinstance(loop.target, ast.Name):
            self.fail(loop.target, "a sum is written sum(expression for i in range(n))")
        name = loop.target.id
        if name in self.values or name in self.integers or name in RESERVED:
            self.fail(loop.target, f"the index '{name}' has a meaning already; choose another")
        for index in self.range(loop.iter):
            self.integers[name] = index
            self.visit(loop.target)
            self.terms(element, loops[1:], terms)
        self.integers.pop(name, None)

    def range(self, node: ast.expr) -> range:
        if not (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Name)
            and node.func.id == "range"
            and 1 <= len(node.args) <= 2
            and not node.keywords
        ):
            self.fail(node, "expected range(n) or range(first, end)")
        return range(*(self.integer(argument) for argument in node.args))

    def length(self, node: ast.Call) -> int:
        """``len(m)``: how many components or parameters an array has."""
        array = (
            self.values.get(node.args[0].id)
            if len(node.args) == 1 and isinstance(node.args[0], ast.Name) and not node.keywords
            else None
        )
        if not isinstance(array, tuple):
            self.fail(node, "'len' takes the name of an array, as in len(m)")
        return len(array)

    def integer(self, node: ast.expr) -> int:
        """Value of an index expression: literals, loop indices, integer parameters, lengths."""
        self.visit(node)
        match node:
            case ast.Constant(value=int(value)) if not isinstance(value, bool):
                return self.bounded_integer(node, value)
            case ast.Name(id=name):
                if name not in self.integers:
                    self.fail(
                        node,
                        f"'{name}' cannot be used in an index or range: it is no loop index and "
                        "no parameter with a whole number",
                    )
                return self.integers[name]
            case ast.Call(func=ast.Name(id="len")):
                return self.length(node)
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                return -self.integer(operand)
            case ast.BinOp(left=left, op=operator, right=right):
                return self.integer_operation(node, self.integer(left), operator, right)
        self.fail(node, _WHOLE)

    def integer_operation(
        self, node: ast.BinOp, left: int, operator: ast.operator, right_node: ast.expr
    ) -> int:
        right = self.integer(right_node)
        match operator:
            case ast.Add():
                return left + right
            case ast.Sub():
                return left - right
            case ast.Mult():
                return self.bounded_integer(node, left * right)
            case ast.Mod() | ast.FloorDiv():
                if right == 0:
                    self.fail(right_node, "division by zero in an index")
                return left % right if isinstance(operator, ast.Mod) else left // right
        self.fail(node, _WHOLE)

    def bounded_integer(self, node: ast.AST, value: int) -> int:
        if abs(value) > 2**53:
            self.fail(node, "the whole number is too large for an index")
        return value
