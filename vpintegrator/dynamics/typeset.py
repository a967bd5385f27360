"""Equations of a system, typeset for a terminal or for LaTeX.

The equations of systems of arrays that are large, long, or have sums are shown as their files state
them, with sums and indices; those of others component by component.
"""

from __future__ import annotations

import itertools
import re
import textwrap
import tomllib
import unicodedata
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import sympy
from sympy.printing.latex import LatexPrinter

from vpintegrator.dynamics.expressions import Symbol, Value, below
from vpintegrator.dynamics.expressions.notation import (
    as_written,
    in_a_line,
    is_short,
    with_indices,
)
from vpintegrator.dynamics.expressions.symbolic import can_be_expanded, to_sympy
from vpintegrator.dynamics.parameter_symbols import exact_equations
from vpintegrator.dynamics.system import System

_LARGE = 8  # components; the equations of more are not written out one by one
_LONG = 40  # operations of a Hamiltonian, whose derivatives would not fit a line
_SHOWN = 12  # equations shown of a large system without arrays
_INDEX = re.compile(r"(?<=p|t)_([a-z]{2,})(?=\d*$)")
_WORD = re.compile(r"^([A-Za-z]{2,})(?=$|[_^])")  # a name that is not written as a Greek letter


class _NamesAsWords(LatexPrinter):
    """SymPy's, where a name of several letters is one word and no product of its letters."""

    def _print_Symbol(self, expr: sympy.Symbol, style: str = "plain") -> str:
        return _WORD.sub(r"\\mathrm{\1}", str(super()._print_Symbol(expr, style)))


def latex(expression: Any) -> str:
    """Return LaTeX of what SymPy knows."""
    return str(_NamesAsWords().doprint(_with_indices(expression)))


def _with_indices(expression: Any, greek: bool = False) -> Any:
    """Return an expression in which px is p with the index x; Greek letters may be letters."""
    symbols = getattr(expression, "free_symbols", ())
    names = {s: with_indices(s.name) for s in symbols if isinstance(s, sympy.Symbol)}
    if greek:
        names = {s: _INDEX.sub(_greek, name) for s, name in names.items()}
    renamed = {
        s: sympy.Symbol(name, **s.assumptions0) for s, name in names.items() if name != s.name
    }
    return expression.xreplace(renamed) if renamed else expression


def _greek(name: re.Match[str]) -> str:
    try:
        return "_" + unicodedata.lookup(f"GREEK SMALL LETTER {name[1].upper()}")
    except KeyError:
        return name[0]


@dataclass(frozen=True)
class _Style:
    """Forms of expressions of a file, and of equations that follow from a Hamiltonian."""

    right: Callable[[str | float, Mapping[str, int]], str]
    dotted: Callable[[str], str]
    primed: str
    slope: Callable[[str], str]

    def rows(self, system: System, entries: Mapping[str, Any]) -> list[tuple[str, str]]:
        """Return names and expressions of a table of a file."""
        lengths = _file(system)[1]
        return [(name, self.right(text, lengths)) for name, text in _named(system, entries)]


# expressions as they are in the file are texts already
_Row = tuple[str, "str | sympy.Expr"]


def equations_unicode(system: System, width: int = 100) -> str:
    """Return Hamiltonian and equations of motion in Unicode, for a terminal of ``width`` columns.

    Of a map the new values of components, stage by stage.
    """
    system = system.flow or system
    auxiliary, stages = _equations(system, _UNICODE)
    is_map = bool(system.equations.stages)
    blocks = [_unicode(row, width) for row in auxiliary]
    for number, rows in enumerate(stages, start=1):
        label = f"stage {number}:\n" if len(stages) > 1 else ""
        parts = [_unicode(row, width, " → " if is_map else " = ") for row in rows]
        if not is_map and not _by_array(system) and system.dim > _SHOWN:
            parts = parts[: _SHOWN + system.is_hamiltonian]
            parts.append(f"... and {system.dim - _SHOWN} more")
        blocks.append(label + ("\n".join(parts) if _by_array(system) else _stacked(parts)))
    if (count := system.equations.iterations) > 1:
        blocks.append(f"{count} times in one step")
    return "\n".join(blocks)


def equations_latex(system: System, environment: str = "align*") -> str:
    """Return the equations as a LaTeX environment: ``align*``, or ``aligned`` between dollars."""
    system = system.flow or system
    auxiliary, stages = _equations(system, _LATEX)
    rows = [_in_latex(row) for row in itertools.chain(auxiliary, *stages)]
    whole = bool(system.equations.stages) or _by_array(system)
    count = len(rows) if whole else system.phase_dim + system.is_hamiltonian
    most = _SHOWN + system.is_hamiltonian
    lines = [f"{name} &= {right}" for name, right in rows[:most]]
    if (more := count - most) > 0:
        lines.append(rf"& \;\text{{and {more} more}}")
    inside = " \\\\\n".join(lines)
    return f"\\begin{{{environment}}}\n{inside}\n\\end{{{environment}}}"


def _equations(system: System, style: _Style) -> tuple[list[_Row], list[list[_Row]]]:
    """Return auxiliary expressions, and the rows of each stage of a map, or all rows of a flow."""
    e = system.equations
    if not _by_array(system):
        formulas = _Written(system)
        return [], [[*rows] for rows in (formulas.stages if e.stages else [formulas.rows])]
    table, _ = _file(system)
    first = dict(list(table.get("auxiliary", {}).items())[:_SHOWN])
    auxiliary = [(name, style.right(text, _file(system)[1])) for name, text in first.items()]
    if e.stages:
        entries = table["map"] if isinstance(table["map"], list) else [table["map"]]
        stages = [style.rows(system, entry) for entry in entries]
        return [*auxiliary], [[(name + style.primed, text) for name, text in s] for s in stages]
    if not system.is_hamiltonian:
        rows = style.rows(system, table["vector_field"])
        return [*auxiliary], [[(style.dotted(name), text) for name, text in rows]]
    found = style.rows(system, {"H": table["hamiltonian"]})
    for q, p in _pairs(system):
        found += [
            (style.dotted(f"{q}[i]"), style.slope(p)),
            (style.dotted(f"{p}[i]"), "-" + style.slope(q)),
        ]
    return [*auxiliary], [[*found]]


def invariants_unicode(system: System, width: int = 100) -> str:
    """The invariants in Unicode, ``name = expression``; an energy that is the Hamiltonian as H.

    Of a return map their names: they are those of the flow.
    """
    if system.flow is not None:
        return "\n".join(f"{name.replace('_', ' ')} of the flow" for name in system.invariants)
    rows = [(name.replace("_", " "), right) for name, right in _invariants(system, _UNICODE)]
    blocks = [_unicode(row, width) for row in rows]
    return "\n".join(blocks) if _by_array(system) else _stacked(blocks)


def invariants_latex(system: System) -> dict[str, str]:
    """Return LaTeX of the invariants, by name; an energy that is the Hamiltonian is ``H``."""
    if system.flow is not None:
        found = invariants_latex(system.flow)
        return {name: text for name, text in found.items() if name in system.invariants}
    return {name: _in_latex((name, right))[1] for name, right in _invariants(system, _LATEX)}


def _invariants(system: System, style: _Style) -> list[_Row]:
    if _by_array(system):
        table, lengths = _file(system)
        texts = table.get("invariants", {}).items()
        first: list[_Row] = [("energy", "H")] if _keeps_energy(system) else []
        return [*first, *((name, style.right(text, lengths)) for name, text in texts)]
    e = _Written(system)
    return [(name, "H" if x == e.hamiltonian else x) for name, x in e.invariants.items()]


def _keeps_energy(system: System) -> bool:
    """Whether the Hamiltonian is an invariant by itself."""
    return system.is_hamiltonian and system.explicit_time is None


def divergence_unicode(system: System, width: int = 100) -> str:
    """Return the divergence in Unicode; of a map M, what its derivative DM keeps."""
    if system.is_discrete:
        volume = "det DM = 1" if system.divergence_free else "det DM is not 1"
        return f"{volume}, DMᵀ J DM = J" if system.is_canonical else volume
    if system.divergence_free:
        return "div f = 0"
    divergence = _Written(system).divergence
    if divergence is None:
        return "div f is too long to be shown"
    return _expression_unicode("div f", divergence, width)


def symmetries_unicode(system: System) -> list[str]:
    """Return images of the components under each reversing symmetry, on one line each."""
    if system.flow is not None or not _by_array(system):
        return [_images(system, rho) for rho in system.reversing_symmetries]
    table, lengths = _file(system)
    time = {} if system.time is None else {system.time: f"-{system.time}"}
    return [
        ", ".join(
            f"{name}[i] → {in_a_line(text, lengths)}"
            if isinstance(text, str) and name in system.equations.arrays
            else f"{name} → {text}"
            if isinstance(text, str)
            else ", ".join(f"{name}[{k}] → {entry}" for k, entry in enumerate(text))
            for name, text in (entry | time).items()
        )
        for entry in table.get("reversing_symmetry", [])
    ]


def symmetries_latex(system: System) -> list[str]:
    r"""Return the images in LaTeX: ``(q, p) \mapsto (q, - p)``, by array for a large system."""
    if system.flow is None and _by_array(system):
        table, lengths = _file(system)
        time = {} if system.time is None else {system.time: f"-{system.time}"}
        return [
            r",\; ".join(
                rf"{_latex(name, lengths)} \mapsto {_latex(text, lengths)}"
                for key, images in (entry | time).items()
                for name, text in _named(system, {key: images})
            )
            for entry in table.get("reversing_symmetry", [])
        ]
    symbols = [sympy.Symbol(name) for name in map(_indexed, system.components)]
    before = ", ".join(map(sympy.latex, symbols))
    return [
        rf"({before}) \mapsto ({', '.join(map(sympy.latex, _image(rho, symbols)))})"
        for rho in system.reversing_symmetries
    ]


def _image(rho: Any, symbols: list[sympy.Symbol]) -> list[sympy.Expr]:
    return [
        sympy.Add(*(_number(c) * z for c, z in zip(row, symbols, strict=True) if c)) for row in rho
    ]


def _number(value: float) -> sympy.Expr:
    """Return a fraction where it is a simple one."""
    near = Fraction(float(value)).limit_denominator(100)
    return sympy.Rational(near) if float(near) == value else sympy.Float(float(value), 6)


def _indexed(name: str) -> str:
    """Return ``q[0]`` as SymPy takes it for a symbol with an index."""
    return with_indices(name).replace("[", "_").rstrip("]")


class _Written:
    """The formulas of a system in SymPy, with names for parameters."""

    def __init__(self, system: System) -> None:
        self._exact = e = exact_equations(system.equations)
        self.components = e.components
        constants = [node for node in e.scope.values.values() for node in _symbols(node)]
        self._names = {node: sympy.Symbol(node.name, real=True) for node in constants}
        if isinstance(pi := e.algebra.pi, Symbol):
            self._names[pi] = sympy.pi
        self.hamiltonian = None if e.hamiltonian is None else self._sympy(e.hamiltonian)
        self.invariants = {name: self._sympy(value) for name, value in e.invariants.items()}

    def _sympy(self, value: Value) -> sympy.Expr:
        return to_sympy([value], self._names)[0]

    @property
    def rows(self) -> list[tuple[str, sympy.Expr]]:
        """Names, those of derivatives with a dot, and right-hand sides: as many as are shown."""
        field = list(zip(self.components, self._exact.vector_field, strict=False))
        field = field[: self._exact.explicit_time][:_SHOWN]  # the rate of the time is 1
        first = [] if self.hamiltonian is None else [("H", self.hamiltonian)]
        return first + [(_marked(name, "dot"), self._sympy(value)) for name, value in field]

    @property
    def stages(self) -> list[list[tuple[str, sympy.Expr]]]:
        """Return primed names and new values of the components that each stage of a map changes."""
        return [
            [(_marked(self.components[i], "prime"), self._sympy(v)) for i, v in stage.items()]
            for stage in self._exact.stages
        ]

    @property
    def divergence(self) -> sympy.Expr | None:
        value = self._exact.divergence
        return self._sympy(value).expand() if can_be_expanded(value) else None


def _symbols(value: Value | tuple[Value, ...]) -> list[Symbol]:
    entries = value if isinstance(value, tuple) else (value,)
    return [entry for entry in entries if isinstance(entry, Symbol)]


def _unicode(row: _Row, width: int, sign: str = " = ") -> str:
    """Return a row in Unicode, over several lines where it has fractions or is long."""
    name, right = row
    if isinstance(right, str):
        filled = textwrap.fill(
            f"{name}{sign}{right}",
            width,
            subsequent_indent="    ",
            break_long_words=False,
            break_on_hyphens=False,
        )
        return filled.replace("\N{NO-BREAK SPACE}", " ")
    return _expression_unicode(name, right, width)


def _in_latex(row: _Row) -> tuple[str, str]:
    name, right = row
    if isinstance(right, str):
        return name, right
    return latex(sympy.Symbol(name)), latex(right)


def _expression_unicode(name: str, expression: sympy.Expr, width: int) -> str:
    """Return ``name = expression`` in Unicode, over several lines where it has fractions."""
    # words of the name of an invariant are no indices
    left = sympy.Symbol(name if "dot_" in name else name.replace("_", " "))
    text = sympy.pretty(
        _with_indices(sympy.Eq(left, expression, evaluate=False), greek=True),
        use_unicode=True,
        num_columns=width,
    )
    return unicodedata.normalize("NFC", text)  # one character for a dotted letter


def _stacked(blocks: list[str]) -> str:
    tall = any("\n" in block for block in blocks)
    return ("\n\n" if tall else "\n").join(blocks)


# formulas know these by signs and absolute values, which are hard to read
_PIECEWISE = ("where(", "min(", "max(")


def _by_array(system: System) -> bool:
    """Whether the equations are shown as the file writes them, with its indices and sums."""
    e = system.equations
    if not e.vector_field and not e.stages:
        return False
    if "auxiliary" in e.table or not all(is_short(text) for text in _all_texts(e.table)):
        return True
    if any(name in str(text) for text in _all_texts(e.table) for name in _PIECEWISE):
        return True
    if not e.arrays:  # but of parameters
        return e.hamiltonian is not None and "sum(" in system.equations.table["hamiltonian"]
    long = e.hamiltonian is not None and _operations(exact_equations(e).hamiltonian) > _LONG
    return long or system.dim > _LARGE or "sum(" in system.text


def _operations(value: Value | None) -> int:
    return 0 if value is None else sum(len(node.parts) for node in below([value]))


def _file(system: System) -> tuple[dict[str, Any], dict[str, int]]:
    """Return the system's tables, and the lengths of its arrays of components and of parameters."""
    lengths = {name: len(indices) for name, indices in system.equations.arrays.items()}
    lengths |= {k: len(v) for k, v in system.parameters.items() if isinstance(v, list)}
    return tomllib.loads(system.text), lengths


def _all_texts(table: Mapping[str, Any]) -> Iterator[str | float]:
    """Yield every formula of a file."""
    stages = table.get("map", {})
    maps = stages if isinstance(stages, list) else [stages]
    for entry in (table.get("hamiltonian", 0), table.get("vector_field", {}), *maps):
        for text in entry.values() if isinstance(entry, Mapping) else (entry,):
            yield from text if isinstance(text, list) else (text,)
    yield from table.get("invariants", {}).values()


def _named(system: System, table: Mapping[str, Any]) -> Iterator[tuple[str, str | float]]:
    """Yield expressions of a table by component, with indices where they are of arrays."""
    for name, text in table.items():
        if isinstance(text, list):
            yield from ((f"{name}[{k}]", entry) for k, entry in enumerate(text))
        else:
            yield (f"{name}[i]" if name in system.equations.arrays else name), text


def _pairs(system: System) -> list[tuple[str, str]]:
    """Return arrays of positions with those of their momenta, where they come in pairs."""
    if not system.is_hamiltonian:
        return []
    arrays, momentum = system.equations.arrays, dict(zip(*system.equations.halves, strict=True))
    names = {numbers: name for name, numbers in arrays.items()}
    partners = {
        q: names.get(tuple(momentum[i] for i in numbers))
        for q, numbers in arrays.items()
        if all(i in momentum for i in numbers)
    }
    pairs = [(q, p) for q, p in partners.items() if p is not None]
    return pairs if 2 * len(pairs) == len(arrays) else []


def _dotted_unicode(name: str) -> str:
    name = with_indices(name)
    return unicodedata.normalize("NFC", f"{name[0]}\u0307{name[1:]}")


def _dotted_latex(name: str) -> str:
    array, _, index = name.rstrip("]").partition("[")
    array, _, coordinate = with_indices(array).partition("_")
    index = ", ".join(filter(None, (coordinate, index)))
    return rf"\dot{{{array}}}_{{{index}}}" if index else rf"\dot{{{array}}}"


def _latex(text: str | float, lengths: Mapping[str, int]) -> str:
    if not is_short(text):
        return r"\text{too long to be typeset}"
    return latex(as_written(text, lengths))


def _slope_latex(name: str) -> str:
    name = with_indices(name)
    return rf"\frac{{\partial H}}{{\partial {f'{{{name}}}' if '_' in name else name}_{{i}}}}"


def _slope_unicode(name: str) -> str:
    return f"∂H/∂{with_indices(name)}[i]"


_UNICODE = _Style(in_a_line, _dotted_unicode, "", _slope_unicode)
_LATEX = _Style(_latex, _dotted_latex, "'", _slope_latex)


def _marked(name: str, mark: str) -> str:
    # SymPy reads "dot" at the end of the letters as a dot above them: zdot_1 is ż with index 1
    match = re.fullmatch(r"([A-Za-z]+)_?\[?(\d+)\]?", name)
    if match:
        return f"{match[1]}{mark}{match[2]}"
    base, _, index = with_indices(name).partition("_")
    return f"{base}{mark}_{index}" if index else f"{name}{mark}"


def _images(system: System, rho: Any) -> str:
    """Return ``(z1, z2, z3) → (-z1, z2, z3)``."""
    names = system.components

    def row(coefficients: Any) -> str:
        terms = [
            f"{'-' if c < 0 else '+'}{'' if abs(c) == 1 else f'{abs(c):g} '}{name}"
            for c, name in zip(coefficients, names, strict=True)
            if c
        ]
        return " ".join(terms).removeprefix("+") or "0"

    return f"({', '.join(names)}) → ({', '.join(row(r) for r in rho)})"
