"""Equations of a system, typeset by SymPy for a terminal or for LaTeX.

Equations that are long, have many components, sums or decisions are shown as their files state
them; others component by component.
"""

from __future__ import annotations

import ast
import operator
import re
import textwrap
import unicodedata
from collections.abc import Callable, Iterable, Mapping
from fractions import Fraction
from functools import reduce
from itertools import chain
from typing import Any

import numpy as np
import sympy
from sympy.printing.latex import LatexPrinter

from vpintegrator.dynamics.expressions.nodes import Function
from vpintegrator.dynamics.expressions.parsing import Scope, parse, syntax_tree
from vpintegrator.dynamics.system import System

_LARGE = 8  # components; the equations of more are not written out one by one
_LONG = 20  # operations of a Hamiltonian, whose derivatives would not fit a line
_SHOWN = 12  # rows of a table, and auxiliary formulas
_COLUMNS = 90  # of a formula in LaTeX that is shown as it is written
_INDEX = r"(?<=[A-Za-z0-9])_(\d+)\b"
_PIECES = r"\b(sum|where|min|max)\("
_LONGEST = 300  # parts of an expression that SymPy is given
_DEEPEST = 3  # functions of functions; what SymPy does grows fast with it
_WORD = re.compile(r"^([A-Za-z]{2,})(?=$|[_^])")  # a name that is not written as a Greek letter
Row = tuple[str, str, Any]  # a name, "dot", "prime" or "", and a text or an expression of SymPy


class _NamesAsWords(LatexPrinter):
    """SymPy's, where a name of several letters is one word and no product of its letters."""

    def _print_Symbol(self, expr: sympy.Symbol, style: str = "plain") -> str:
        return _WORD.sub(r"\\mathrm{\1}", str(super()._print_Symbol(expr, style)))


def latex(expression: Any) -> str:
    """Return LaTeX of what SymPy knows."""
    return str(_NamesAsWords().doprint(expression))


class _SymPyAlgebra:
    """SymPy's expressions, made as the parser makes formulas."""

    def spend(self, operations: int) -> None:
        """Count nothing."""

    def combine(self, terms: Iterable[tuple[Any, int]]) -> sympy.Expr:
        return reduce(operator.add, (sign * _exact(value) for value, sign in terms))

    def product(self, factors: Iterable[tuple[Any, int]]) -> sympy.Expr:
        return reduce(operator.mul, (_exact(value) ** exponent for value, exponent in factors))

    def power(self, base: Any, exponent: Any) -> sympy.Expr:
        return _exact(base) ** _exact(exponent)

    def scale(self, factor: int, value: Any) -> sympy.Expr:
        return factor * _exact(value)

    def call(self, function: Function, *arguments: Any) -> sympy.Expr:
        return function.sympy(sympy)(*map(_exact, arguments))


def _exact(value: Any) -> sympy.Expr:
    """Return what the parser has read; decimals of many digits are written as they are."""
    if isinstance(value, Fraction) and value.denominator > 100:
        return sympy.Symbol(repr(float(value)))
    return sympy.Rational(value) if isinstance(value, Fraction) else sympy.sympify(value)


class _Formulas:
    """Formulas of a system file: texts where they are shown as written, else SymPy's."""

    def __init__(self, system: System) -> None:
        self.system = system.flow or system
        self.equations = self.system.equations
        self.table = self.equations.table
        stages = self.table.get("map", {})
        self.maps = stages if isinstance(stages, list) else [stages]
        self.auxiliary = list(self.table.get("auxiliary", {}).items())
        entries = [self.table.get("hamiltonian", "0")]
        tables = (self.table.get("vector_field", {}), self.table.get("invariants", {}))
        for entry in chain(*(table.values() for table in (*tables, *self.maps))):
            entries += entry if isinstance(entry, list) else [entry]
        trees = [syntax_tree(in_a_line(entry)) for entry in entries]
        self.as_written = bool(
            self.auxiliary
            or self.system.dim > _LARGE
            or any(re.search(_PIECES, str(entry)) for entry in entries)
            or sum(isinstance(part, ast.BinOp | ast.Call) for part in ast.walk(trees[0])) > _LONG
            or not all(map(_is_short, trees))
        )

    def rows(self, entries: Mapping[str, Any], mark: str = "") -> list[Row]:
        """Return formulas of a table, by array where they are as written."""
        arrays = self.equations.arrays
        rows = list[Row]()
        for name, text in entries.items():
            if name not in arrays:
                rows.append((name, mark, self.read(text)))
            elif self.as_written and not isinstance(text, list):
                rows.append((f"{name}[i]", mark, self.read(text)))
            else:
                length = len(arrays[name])
                texts = text if isinstance(text, list) else [text] * length
                rows += [(f"{name}[{k}]", mark, self.read(t, i=k)) for k, t in enumerate(texts)]
        return rows

    def read(self, text: Any, **index: int) -> Any:
        """Return a text in a line, or its expression, for the index i of an array."""
        line = in_a_line(text)
        scope = self.equations.scope
        if self.as_written:
            return line
        values: dict[str, Any] = {"pi": sympy.pi}
        for name, value in scope.values.items():
            count = range(len(value)) if isinstance(value, tuple) else None
            entries = count and tuple(sympy.Symbol(f"{name}_{k}", real=True) for k in count)
            values[name] = entries or sympy.Symbol(name, real=True)
        algebra: Any = _SymPyAlgebra()
        return _exact(parse(line, Scope(values, {**scope.integers, **index}, algebra), "formula"))

    def stages(self) -> list[list[Row]]:
        """Return the formulas of each stage of a map, or of the flow: H, then rates."""
        e = self.equations
        table = self.table
        if e.stages:
            return [self.rows(stage, "prime") for stage in self.maps]
        if not self.system.is_hamiltonian:
            return [self.rows(table["vector_field"], "dot")]
        energy = self.read(table["hamiltonian"])
        rates: dict[int, Any] = {}
        if not self.as_written:
            symbols = [sympy.Symbol(_symbol(name), real=True) for name in e.components]
            for q, p in zip(*e.halves, strict=True):
                rates[q] = sympy.diff(energy, symbols[p])
                rates[p] = -sympy.diff(energy, symbols[q])
        formulas = [(e.components[k], "dot", rates[k]) for k in sorted(rates)]
        return [[("H", "", energy), *formulas]]

    def invariants(self) -> dict[str, Any]:
        given = {name: self.read(x) for name, x in self.table.get("invariants", {}).items()}
        energy = self.system.is_hamiltonian and self.system.explicit_time is None
        named = {"energy": sympy.Symbol("H")} if energy and "energy" not in given else {}
        return {name: x for name, x in (named | given).items() if name in self.system.invariants}


def equations_unicode(system: System, width: int = 100) -> str:
    """Return Hamiltonian and equations of motion in Unicode, for a terminal of ``width`` columns.

    Of a map the new values of components, stage by stage.
    """
    formulas = _Formulas(system)
    is_map = bool(formulas.equations.stages)
    stages = formulas.stages()
    blocks = [_unicode(name, "", text, width) for name, text in formulas.auxiliary[:_SHOWN]]
    for number, rows in enumerate(stages, start=1):
        label = f"stage {number}:\n" if len(stages) > 1 else ""
        sign = " → " if is_map and formulas.as_written else " = "
        parts = [_unicode(*row, width, sign) for row in rows[:_SHOWN]]
        parts += [f"... and {len(rows) - _SHOWN} more"] if len(rows) > _SHOWN else []
        blocks.append(label + _stacked(parts, formulas.as_written))
    if (count := formulas.equations.iterations) > 1:
        blocks.append(f"{count} times in one step")
    return "\n".join(blocks)


def equations_latex(system: System, environment: str = "align*") -> str:
    """Return the equations as a LaTeX environment: ``align*``, or ``aligned`` between dollars."""
    formulas = _Formulas(system)
    rows = [(name, "", text) for name, text in formulas.auxiliary]
    rows += [row for stage in formulas.stages() for row in stage]
    lines = []
    for name, mark, right in rows[:_SHOWN]:
        parts = textwrap.wrap(right, _COLUMNS) if isinstance(right, str) else [right]
        left = latex(sympy.Symbol(_marked(name, mark)))
        lines.append(f"{left} &= {_latex(parts[0])}")
        lines += [rf"& \quad {_latex(part)}" for part in parts[1:]]
    if len(rows) > _SHOWN:
        lines.append(rf"& \;\text{{and {len(rows) - _SHOWN} more}}")
    inside = " \\\\\n".join(lines)
    return f"\\begin{{{environment}}}\n{inside}\n\\end{{{environment}}}"


def invariants_unicode(system: System, width: int = 100) -> str:
    """The invariants in Unicode, ``name = expression``; an energy that is the Hamiltonian as H.

    Of a return map their names: they are those of the flow.
    """
    if system.flow is not None:
        return "\n".join(f"{name.replace('_', ' ')} of the flow" for name in system.invariants)
    formulas = _Formulas(system)
    rows = [(name.replace("_", " "), "", x) for name, x in formulas.invariants().items()]
    return _stacked([_unicode(*row, width) for row in rows], formulas.as_written)


def invariants_latex(system: System) -> dict[str, str]:
    """Return LaTeX of the invariants, by name; an energy that is the Hamiltonian is ``H``."""
    return {name: _latex(right) for name, right in _Formulas(system).invariants().items()}


def divergence_unicode(system: System) -> str:
    """Return the divergence in Unicode; of a map M, what its derivative DM keeps."""
    if system.is_discrete:
        volume = "det DM = 1" if system.divergence_free else "det DM is not 1"
        return f"{volume}, DMᵀ J DM = J" if system.is_canonical else volume
    return "div f = 0" if system.divergence_free else "div f is not 0"


def symmetries_unicode(system: System) -> list[str]:
    """Return images of the components that each reversing symmetry changes, on one line each."""
    return _symmetries(system, " → ", lambda x: re.sub(_INDEX, r"[\1]", str(x)))


def symmetries_latex(system: System) -> list[str]:
    r"""Return the images of changed components in LaTeX: ``p \mapsto - p``."""
    return _symmetries(system, r" \mapsto ", latex)


def _symmetries(system: System, arrow: str, write: Callable[[sympy.Expr], str]) -> list[str]:
    symbols = [sympy.Symbol(_symbol(name)) for name in system.components]
    lines = []
    for rho in map(np.asarray, system.reversing_symmetries):
        changed = np.flatnonzero((rho != np.eye(system.dim)).any(axis=1))
        images = [
            write(symbols[k]) + arrow + write(sympy.Add(*map(_multiple, rho[k], symbols)))
            for k in changed[:_SHOWN]
        ]
        more = [f"... and {len(changed) - _SHOWN} more"] if len(changed) > _SHOWN else []
        lines.append(", ".join([*images, *more]))
    return lines


def _multiple(value: float, symbol: sympy.Symbol) -> sympy.Expr:
    """Return a multiple by a fraction where the factor is a simple one."""
    near = Fraction(float(value)).limit_denominator(100)
    exact = float(near) == value
    return (sympy.Rational(near) if exact else sympy.Float(float(value), 6)) * symbol


def in_a_line(text: Any) -> str:
    """Return a text of a file without its line breaks."""
    return " ".join(str(text).split())


def _symbol(name: str) -> str:
    """Return ``q[0]`` as SymPy takes it for a symbol with an index."""
    return name.replace("[", "_").rstrip("]")


def _marked(name: str, mark: str) -> str:
    """Return the name of a rate or a new value: SymPy reads zdot_1 as ż with the index 1."""
    if not mark:
        return _symbol(name)
    base, _, index = _symbol(name).partition("_")
    letters = base.rstrip("0123456789")
    index = index or base[len(letters) :]
    return f"{letters}{mark}" + (f"_{index}" if index else "")


def _unicode(name: str, mark: str, right: Any, width: int, sign: str = " = ") -> str:
    """Return a row in Unicode, over several lines where it has fractions or is long."""
    if isinstance(right, str):
        dotted = f"{name[0]}\u0307{name[1:]}" if mark == "dot" else name
        left = unicodedata.normalize("NFC", dotted)  # one character, and one column
        options: dict[str, Any] = {"break_long_words": False, "break_on_hyphens": False}
        text = f"{left}{sign}{in_a_line(right)}"
        return textwrap.fill(text, width, subsequent_indent="    ", **options)
    left = _marked(name, mark) if mark else name
    equation = sympy.Eq(sympy.Symbol(left), right, evaluate=False)
    text = sympy.pretty(equation, use_unicode=True, num_columns=width)
    return unicodedata.normalize("NFC", text)


def _latex(right: Any) -> str:
    """Return LaTeX of an expression, or of a text as it is."""
    if isinstance(right, str):
        escaped = re.sub("([_%])", r"\\\1", right)
        return rf"\texttt{{{escaped}}}"
    return latex(right)


def _stacked(blocks: list[str], as_written: bool) -> str:
    tall = not as_written and any("\n" in block for block in blocks)
    return ("\n\n" if tall else "\n").join(blocks)


def _is_short(tree: ast.expr) -> bool:
    """Whether SymPy can be given an expression without fear for time."""
    nodes = list(ast.walk(tree))  # what stands above others comes first
    depths = dict.fromkeys(nodes, 0)
    for node in nodes:
        match node:
            case ast.BinOp(op=ast.Pow(), right=ast.Constant() | ast.UnaryOp()):
                pass
            case ast.Call() | ast.BinOp(op=ast.Pow()):
                depths[node] += 1
        depths |= dict.fromkeys(ast.iter_child_nodes(node), depths[node])
    return len(nodes) <= _LONGEST and max(depths.values()) <= _DEEPEST
