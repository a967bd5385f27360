"""The expressions of a system file as they are written there, for readers: sums stay sums.

The equations of a chain of 64 masses fill pages when every sum is written out. Here a text becomes
a line of Unicode, or a SymPy expression with sum signs and indices for LaTeX; neither is computed
with. Only texts that the parser has understood should come here.
"""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable, Mapping
from typing import Any

import sympy

from vpintegrator.dynamics.expressions.functions import FUNCTIONS
from vpintegrator.dynamics.expressions.parsing import syntax_tree
from vpintegrator.dynamics.expressions.symbolic import in_sympy

_OPERATIONS: dict[type, Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.Pow: operator.pow,
    ast.Mod: sympy.Mod,
    ast.FloorDiv: lambda a, b: sympy.floor(a / b),
}
_COMPARISONS: dict[type, Callable[[Any, Any], Any]] = {
    ast.Lt: sympy.Lt,
    ast.LtE: sympy.Le,
    ast.Gt: sympy.Gt,
    ast.GtE: sympy.Ge,
}


_SHORT = 600  # parts of an expression in Python's syntax
_DEEPEST = 3  # functions of functions; what SymPy does grows fast with it
_SIGNS = {" ** ": "^", " * ": "·", " / ": "/", " // ": "÷", " % ": " mod "}
# px is the momentum of x, and no product
_MOMENTUM = re.compile(
    r"\bp_?(x|y|z|r|theta|vartheta|phi|varphi|psi|chi|rho|xi|eta|zeta|alpha|beta|gamma)(\d*)\b",
    re.IGNORECASE,
)
_UNBROKEN = "\N{NO-BREAK SPACE}"
_SUPERSCRIPTS = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")


def with_indices(text: str) -> str:
    """Return a text in which the coordinate in the name of a momentum is an index.

    Examples
    --------
    >>> with_indices("px**2 + ptheta**2 + pi")
    'p_x**2 + p_theta**2 + pi'
    """
    return _MOMENTUM.sub(lambda name: f"{name[0][0]}_{name[1]}{name[2]}", text)


def in_a_line(text: str | float, lengths: Mapping[str, int]) -> str:
    """Return a text of a system file in Unicode: ``Σ[i < n] (p[i]²/2 + q[i + 1 mod n])``.

    Parameters
    ----------
    text
        The expression, or a plain number.
    lengths
        Number of entries of each array, for ``len(m)``.
    """
    sums = _Sums(lengths)
    try:
        line = ast.unparse(sums.visit(_parsed(text)))
    except RecursionError:
        return " ".join(str(text).split())
    line = with_indices(line)
    line = re.sub(r" \*\* (\d+)\b(?!\.)", lambda power: power[1].translate(_SUPERSCRIPTS), line)
    for written, shown in _SIGNS.items():
        line = line.replace(written, shown)
    # an index stays on one line
    line = re.sub(r"\w\[[^\[\]]*\]", lambda index: index[0].replace(" ", _UNBROKEN), line)
    line = re.sub(r"\bsqrt\(", "√(", line)
    line = re.sub(r"\bpi\b", "π", line)
    for name, shown in reversed(sums.shown.items()):
        line = line.replace(name, shown)
    return line


class _Sums(ast.NodeTransformer):
    """Puts names in the place of sums, whose text ``shown`` holds, and numbers in that of len."""

    def __init__(self, lengths: Mapping[str, int]) -> None:
        self.lengths = lengths
        self.shown: dict[str, str] = {}

    def visit_Call(self, node: ast.Call) -> ast.expr:
        self.generic_visit(node)
        match node:
            case ast.Call(func=ast.Name(id="len"), args=[ast.Name(id=name)]):
                return ast.Constant(self.lengths[name])
            case ast.Call(func=ast.Name(id="sum"), args=[ast.GeneratorExp() as generator]):
                loops = [self._range(loop) for loop in generator.generators]
                name = f"SUM_{len(self.shown)}_"
                body = in_a_line(ast.unparse(generator.elt), self.lengths)
                self.shown[name] = f"Σ[{', '.join(loops)}] ({body})"
                return ast.Name(name)
        return node

    def _range(self, loop: ast.comprehension) -> str:
        assert isinstance(loop.iter, ast.Call)
        *first, end = map(ast.unparse, loop.iter.args)
        start = f"{first[0]} ≤ " if first else ""
        return f"{start}{ast.unparse(loop.target)} < {end}"


def _parsed(text: str | float) -> ast.expr:
    return syntax_tree(" ".join(str(text).split()))


def is_short(text: str | float) -> bool:
    """Whether SymPy can be given a text without fear for time: short, and of few nested functions.

    Parameters
    ----------
    text
        The expression, or a plain number.
    """
    stack: list[tuple[ast.AST, int]] = [(_parsed(text), 0)]
    seen = 0
    while stack:
        node, depth = stack.pop()
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Pow):
            depth += not isinstance(node.right, ast.Constant | ast.UnaryOp)
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            depth += node.func.id not in ("sum", "len", "range", "where", "min", "max")
        seen += 1
        if seen > _SHORT or depth > _DEEPEST:
            return False
        stack.extend((child, depth) for child in ast.iter_child_nodes(node))
    return True


def as_written(text: str | float, lengths: Mapping[str, int]) -> sympy.Expr:
    """Return a text of a system file as a SymPy expression with sums and indices.

    Parameters
    ----------
    text
        The expression, or a plain number.
    lengths
        Number of entries of each array, for ``len(m)``.
    """
    return _translate(_parsed(text), lengths, frozenset())


def _translate(node: ast.expr, lengths: Mapping[str, int], indices: frozenset[str]) -> sympy.Expr:
    def inner(part: ast.expr) -> sympy.Expr:
        return _translate(part, lengths, indices)

    match node:
        case ast.Constant(value=int(value)):
            return sympy.Integer(value)
        case ast.Constant(value=float(value)):
            fraction = sympy.Rational(repr(value))
            return fraction if fraction.q <= 100 else sympy.Symbol(repr(value))
        case ast.Name(id="pi"):
            return sympy.pi
        case ast.Name(id=name):
            # an index is an integer, so that (-1)**i stays what it is
            return sympy.Symbol(name, integer=True) if name in indices else _symbol(name)
        case ast.Subscript(value=ast.Name(id=name), slice=index):
            return sympy.Indexed(sympy.IndexedBase(name, real=True), inner(index))
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -inner(operand)
        case ast.UnaryOp(operand=operand):
            return inner(operand)
        case ast.BinOp(left=left, op=sign, right=right):
            return _OPERATIONS[type(sign)](inner(left), inner(right))
        case ast.Call(func=ast.Name(id="len"), args=[ast.Name(id=name)]):
            return sympy.Integer(lengths[name])
        case ast.Call(func=ast.Name(id="sum"), args=[ast.GeneratorExp() as generator]):
            return _sum(generator, lengths, indices)
        case ast.Call(func=ast.Name(id="where"), args=[ast.Compare() as compared, first, other]):
            sides = [inner(part) for part in (compared.left, *compared.comparators)]
            holds = [
                _COMPARISONS[type(sign)](left, right)
                for sign, left, right in zip(compared.ops, sides, sides[1:], strict=False)
            ]
            return sympy.Piecewise((inner(first), sympy.And(*holds)), (inner(other), True))
        case ast.Call(func=ast.Name(id=name), args=arguments) if name in FUNCTIONS:
            return in_sympy(FUNCTIONS[name])(*map(inner, arguments))
        case ast.Call(func=ast.Name(id=name), args=arguments):  # of a table
            return sympy.Function(name)(*map(inner, arguments))
    raise ValueError(f"this is no expression of a system file: {ast.unparse(node)}")


def _sum(
    generator: ast.GeneratorExp, lengths: Mapping[str, int], indices: frozenset[str]
) -> sympy.Expr:
    limits = []
    for loop in generator.generators:
        assert isinstance(loop.target, ast.Name) and isinstance(loop.iter, ast.Call)
        bounds = [_translate(bound, lengths, indices) for bound in loop.iter.args]
        first, end = bounds if len(bounds) == 2 else (sympy.Integer(0), bounds[0])
        indices = indices | {loop.target.id}
        limits.append((sympy.Symbol(loop.target.id, integer=True), first, end - 1))
    # SymPy names the innermost sum first
    return sympy.Sum(_translate(generator.elt, lengths, indices), *reversed(limits))


def _symbol(name: str) -> sympy.Symbol:
    # a component's own index counts as one outside of sums, too
    return sympy.Symbol(name, integer=True) if name in ("i", "n") else sympy.Symbol(name, real=True)
