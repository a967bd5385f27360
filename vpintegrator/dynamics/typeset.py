"""Equations of a system, typeset by SymPy for a terminal or for LaTeX.

The equations of systems of arrays that are large, long, or have sums are shown as their files state
them, with sums and indices; those of others component by component.
"""

from __future__ import annotations

import ast
import itertools
import operator
import re
import textwrap
import tomllib
import unicodedata
from collections.abc import Callable, Mapping
from fractions import Fraction
from functools import cached_property
from types import SimpleNamespace
from typing import Any

import sympy
from sympy.printing.latex import LatexPrinter

from vpintegrator.dynamics.expressions import FUNCTIONS
from vpintegrator.dynamics.expressions.parsing import syntax_tree
from vpintegrator.dynamics.system import System

_LARGE = 8  # components; the equations of more are not written out one by one
_LONG = 20  # operations of a Hamiltonian, whose derivatives would not fit a line
_SHOWN = 12  # equations shown of a large system without arrays
_INDEX = r"(?<=[A-Za-z0-9])_(\d+)\b"
_PIECES = r"\b(where|min|max)\("
_LONGEST = 600  # parts of an expression that SymPy is given
_DEEPEST = 3  # functions of functions; what SymPy does grows fast with it
_WORD = re.compile(r"^([A-Za-z]{2,})(?=$|[_^])")  # a name that is not written as a Greek letter
_OPERATIONS: dict[type, Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.Pow: operator.pow,
    ast.Mod: sympy.Mod,
    ast.FloorDiv: lambda a, b: sympy.floor(a / b),
    ast.Lt: sympy.Lt,
    ast.LtE: sympy.Le,
    ast.Gt: sympy.Gt,
    ast.GtE: sympy.Ge,
}


class sigmoid(sympy.Function):
    """The logistic function 1/(1 + exp(-x)), kept whole."""

    nargs = 1

    def _latex(self, printer: LatexPrinter, exp: str | None = None) -> str:
        power = "" if exp is None else f"^{{{exp}}}"
        return rf"\sigma{power}\left({printer._print(self.args[0])}\right)"


_NAMES = SimpleNamespace(**vars(sympy), sigmoid=sigmoid)


class _NamesAsWords(LatexPrinter):
    """SymPy's, where a name of several letters is one word and no product of its letters."""

    def _print_Symbol(self, expr: sympy.Symbol, style: str = "plain") -> str:
        return _WORD.sub(r"\\mathrm{\1}", str(super()._print_Symbol(expr, style)))


def latex(expression: Any) -> str:
    """Return LaTeX of what SymPy knows."""
    return str(_NamesAsWords().doprint(expression))


class _Formulas:
    """Formulas of a system file in SymPy, with sums, indices and names of parameters."""

    def __init__(self, system: System) -> None:
        self.system = system.flow or system
        self.equations = e = self.system.equations
        self.table = tomllib.loads(self.system.text)
        self.lengths = {name: len(each) for name, each in e.arrays.items()}
        lists = {k: len(v) for k, v in self.system.parameters.items() if isinstance(v, list)}
        self.lengths |= lists
        stages = self.table.get("map", {})
        self.maps = stages if isinstance(stages, list) else [stages]
        self.auxiliary = dict(list(self.table.get("auxiliary", {}).items())[:_SHOWN])

    @cached_property
    def by_array(self) -> bool:
        """Whether equations are shown as the file writes them, with its indices and sums."""
        energy = _in_a_line(self.table.get("hamiltonian", "0"))
        invariants = self.table.get("invariants", {})
        tables = [self.table.get("vector_field", {}), *self.maps, invariants]
        entries = [text for table in tables for text in table.values()]
        texts = [energy]
        for entry in entries:
            texts += map(_in_a_line, entry if isinstance(entry, list) else [entry])
        whole = "\n".join(texts)
        if self.auxiliary or not all(map(_is_short, texts)) or re.search(_PIECES, whole):
            return True
        if not self.equations.arrays:  # but of parameters
            return "sum(" in energy
        nodes = ast.walk(syntax_tree(energy))
        long = sum(isinstance(node, ast.BinOp | ast.Call) for node in nodes) > _LONG
        return long or self.system.dim > _LARGE or "sum(" in whole

    def rows(self, entries: Mapping[str, Any]) -> dict[str, Any]:
        """Return formulas of a table by component: texts by array, else expressions."""
        found: dict[str, Any] = {}
        for name, text in entries.items():
            if isinstance(text, list):
                found |= {f"{name}[{k}]": self._read(each, k) for k, each in enumerate(text)}
            elif name not in self.equations.arrays:
                found[name] = self._read(text)
            elif self.by_array:
                found[f"{name}[i]"] = self._read(text)
            else:
                numbers = range(self.lengths[name])
                found |= {f"{name}[{k}]": self._read(text, k) for k in numbers}
        return found

    def _read(self, text: Any, i: int | None = None) -> Any:
        text = _in_a_line(text)
        return text if self.by_array else self.expression(text, i)

    def expression(self, text: str, i: int | None = None) -> sympy.Expr:
        """Return a text as a SymPy expression, of a number i where it is of an array."""
        values: dict[str, Any] = {}
        if not self.by_array:
            values = dict(self.equations.scope.integers) | ({} if i is None else {"i": i})
        names = {"i": sympy.Symbol("i", integer=True), "n": sympy.Symbol("n", integer=True)}
        return self._translated(syntax_tree(text), names | ({} if i is None else {"i": i}), values)

    def _translated(
        self, node: ast.expr, names: Mapping[str, Any], indices: Mapping[str, Any]
    ) -> sympy.Expr:
        def inner(part: ast.expr, more: Mapping[str, Any] = names) -> sympy.Expr:
            return self._translated(part, more, indices)

        match node:
            case ast.Constant(value=int(value)):
                return sympy.Integer(value)
            case ast.Constant(value=float(value)):
                fraction = sympy.Rational(repr(value))
                return fraction if fraction.q <= 100 else sympy.Symbol(repr(value))
            case ast.Name(id="pi"):
                return sympy.pi
            case ast.Name(id=name):
                return sympy.sympify(names.get(name, sympy.Symbol(name, real=True)))
            case ast.Subscript(value=ast.Name(id=name), slice=index):
                place = inner(index, {**names, **indices})
                if isinstance(place, sympy.Integer):
                    return sympy.Symbol(f"{name}_{place}", real=True)
                return sympy.Indexed(sympy.IndexedBase(name, real=True), place)
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                return -inner(operand)
            case ast.UnaryOp(operand=operand):
                return inner(operand)
            case ast.BinOp(left=left, op=sign, right=right):
                return _OPERATIONS[type(sign)](inner(left), inner(right))
            case ast.Call(func=ast.Name(id="len"), args=[ast.Name(id=name)]):
                return sympy.Integer(self.lengths[name])
            case ast.Call(func=ast.Name(id="sum"), args=[ast.GeneratorExp() as generator]):
                limits = []
                for loop in generator.generators:
                    assert isinstance(loop.target, ast.Name) and isinstance(loop.iter, ast.Call)
                    *first, end = map(inner, loop.iter.args)
                    index = sympy.Symbol(loop.target.id, integer=True)
                    limits.append((index, first[0] if first else sympy.Integer(0), end - 1))
                known = {**names, **{index.name: index for index, *_ in limits}}
                # SymPy names the innermost sum first
                return sympy.Sum(inner(generator.elt, known), *reversed(limits))
            case ast.Call(func=ast.Name(id="where"), args=[ast.Compare() as compared, one, other]):
                sides = [inner(part) for part in (compared.left, *compared.comparators)]
                pairs = zip(compared.ops, sides, sides[1:], strict=False)
                holds = [_OPERATIONS[type(sign)](left, right) for sign, left, right in pairs]
                return sympy.Piecewise((inner(one), sympy.And(*holds)), (inner(other), True))
            case ast.Call(func=ast.Name(id=name), args=arguments):
                return FUNCTIONS[name].sympy(_NAMES)(*map(inner, arguments))
        raise ValueError(f"this is no expression of a system file: {ast.unparse(node)}")

    def stages(self) -> list[dict[str, Any]]:
        """Return the formulas of each stage of a map, or of the flow: H, then rates."""
        e, table = self.equations, self.table
        if e.stages:
            return [{_marked(n, "prime"): x for n, x in self.rows(s).items()} for s in self.maps]
        if not self.system.is_hamiltonian:
            field = self.rows(table["vector_field"])
            return [{_marked(name, "dot"): value for name, value in field.items()}]
        energy = self._read(table["hamiltonian"])
        rates: dict[str, Any] = {}
        if not self.by_array:
            symbols = [sympy.Symbol(_symbol(name), real=True) for name in e.components]
            for q, p in zip(*e.halves, strict=True):
                rates[e.components[q]] = sympy.diff(energy, symbols[p])
                rates[e.components[p]] = -sympy.diff(energy, symbols[q])
            rates = {name: rates[name] for name in e.components if name in rates}
        return [{"H": energy} | {_marked(name, "dot"): value for name, value in rates.items()}]

    def pairs(self) -> list[tuple[str, str]]:
        """Return arrays of positions with those of their momenta, where equations are by array."""
        if not self.by_array or not self.system.is_hamiltonian:
            return []
        momentum = dict(zip(*self.equations.halves, strict=True))
        names = {numbers: name for name, numbers in self.equations.arrays.items()}
        images = {q: tuple(momentum.get(i, -1) for i in each) for each, q in names.items()}
        return [(q, names[image]) for q, image in images.items() if image in names]

    def invariants(self) -> dict[str, Any]:
        energy = self.system.is_hamiltonian and self.system.explicit_time is None
        given = {name: self._read(text) for name, text in self.table.get("invariants", {}).items()}
        return ({"energy": "H"} if energy and "energy" not in given else {}) | given


def equations_unicode(system: System, width: int = 100) -> str:
    """Return Hamiltonian and equations of motion in Unicode, for a terminal of ``width`` columns.

    Of a map the new values of components, stage by stage.
    """
    formulas = _Formulas(system)
    is_map, dim = bool(formulas.equations.stages), formulas.system.dim
    blocks = [_unicode(name, text, width) for name, text in formulas.auxiliary.items()]
    stages = formulas.stages()
    for number, rows in enumerate(stages, start=1):
        label = f"stage {number}:\n" if len(stages) > 1 else ""
        sign = " → " if is_map else " = "
        parts = [_unicode(name, right, width, sign) for name, right in rows.items()]
        for q, p in formulas.pairs():
            parts.append(f"{_unicode_mark(q)}[i] = ∂H/∂{p}[i]")
            parts.append(f"{_unicode_mark(p)}[i] = -∂H/∂{q}[i]")
        if not is_map and not formulas.by_array and dim > _SHOWN:
            parts = parts[: _SHOWN + system.is_hamiltonian]
            parts.append(f"... and {dim - _SHOWN} more")
        blocks.append(label + _stacked(parts, formulas.by_array))
    if (count := formulas.equations.iterations) > 1:
        blocks.append(f"{count} times in one step")
    return "\n".join(blocks)


def equations_latex(system: System, environment: str = "align*") -> str:
    """Return the equations as a LaTeX environment: ``align*``, or ``aligned`` between dollars."""
    formulas = _Formulas(system)
    rows = [
        (latex(sympy.Symbol(_symbol(name))), _latex(formulas, right))
        for name, right in itertools.chain(
            formulas.auxiliary.items(), *(stage.items() for stage in formulas.stages())
        )
    ]
    for q, p in formulas.pairs():
        for name, sign, by in ((q, "", p), (p, "-", q)):
            slope = rf"{sign}\frac{{\partial H}}{{\partial {_indexed_latex(by)}}}"
            rows.append((_indexed_latex(_marked(name, "dot")), slope))
    whole = bool(formulas.equations.stages) or formulas.by_array
    own = formulas.system
    count = len(rows) if whole else own.phase_dim + own.is_hamiltonian
    most = _SHOWN + own.is_hamiltonian
    lines = [f"{name} &= {right}" for name, right in rows[:most]]
    if (more := count - most) > 0:
        lines.append(rf"& \;\text{{and {more} more}}")
    inside = " \\\\\n".join(lines)
    return f"\\begin{{{environment}}}\n{inside}\n\\end{{{environment}}}"


def invariants_unicode(system: System, width: int = 100) -> str:
    """The invariants in Unicode, ``name = expression``; an energy that is the Hamiltonian as H.

    Of a return map their names: they are those of the flow.
    """
    if system.flow is not None:
        return "\n".join(f"{name.replace('_', ' ')} of the flow" for name in system.invariants)
    formulas = _Formulas(system)
    rows = formulas.invariants().items()
    return _stacked([_unicode(n.replace("_", " "), x, width) for n, x in rows], formulas.by_array)


def invariants_latex(system: System) -> dict[str, str]:
    """Return LaTeX of the invariants, by name; an energy that is the Hamiltonian is ``H``."""
    formulas = _Formulas(system)
    found = {name: _latex(formulas, right) for name, right in formulas.invariants().items()}
    return {name: text for name, text in found.items() if name in system.invariants}


def divergence_unicode(system: System, width: int = 100) -> str:
    """Return the divergence in Unicode; of a map M, what its derivative DM keeps."""
    if system.is_discrete:
        volume = "det DM = 1" if system.divergence_free else "det DM is not 1"
        return f"{volume}, DMᵀ J DM = J" if system.is_canonical else volume
    if system.divergence_free:
        return "div f = 0"
    formulas = _Formulas(system)
    if formulas.by_array or not system.has_formulas:
        return "div f is not 0"
    rates = formulas.rows(formulas.table["vector_field"])
    total = sum(sympy.diff(x, sympy.Symbol(_symbol(n), real=True)) for n, x in rates.items())
    return _unicode("div f", sympy.expand(total), width)


def symmetries_unicode(system: System) -> list[str]:
    """Return images of the components under each reversing symmetry, on one line each."""
    if (entries := _by_array_symmetries(system)) is not None:
        return [", ".join(f"{name} → {text}" for name, text in rows.items()) for rows in entries]
    before, images = ", ".join(system.components), []
    for rho in system.reversing_symmetries:
        rows = [re.sub(_INDEX, r"[\1]", str(image)) for image in _images(system, rho)]
        images.append(f"({before}) → ({', '.join(rows)})")
    return images


def symmetries_latex(system: System) -> list[str]:
    r"""Return the images in LaTeX: ``(q, p) \mapsto (q, - p)``, by array for a large system."""
    if (entries := _by_array_symmetries(system)) is not None:
        formulas = _Formulas(system)
        rows = [[tuple(_latex(formulas, x) for x in pair) for pair in e.items()] for e in entries]
        return [r",\; ".join(rf"{name} \mapsto {image}" for name, image in own) for own in rows]
    before = ", ".join(latex(sympy.Symbol(_symbol(name))) for name in system.components)
    return [
        rf"({before}) \mapsto ({', '.join(map(latex, _images(system, rho)))})"
        for rho in system.reversing_symmetries
    ]


def _by_array_symmetries(system: System) -> list[dict[str, Any]] | None:
    """Return the symmetries as the file writes them; None where they are shown by component."""
    formulas = _Formulas(system)
    if system.flow is not None or not formulas.by_array:
        return None
    time = {} if system.time is None else {system.time: f"-{system.time}"}
    return [formulas.rows(entry | time) for entry in formulas.table.get("reversing_symmetry", [])]


def _images(system: System, rho: Any) -> list[sympy.Expr]:
    symbols = [sympy.Symbol(_symbol(name)) for name in system.components]
    return [
        sympy.Add(*(_number(c) * z for c, z in zip(row, symbols, strict=True) if c)) for row in rho
    ]


def _number(value: float) -> sympy.Expr:
    """Return a fraction where it is a simple one."""
    near = Fraction(float(value)).limit_denominator(100)
    return sympy.Rational(near) if float(near) == value else sympy.Float(float(value), 6)


def _in_a_line(text: Any) -> str:
    return " ".join(str(text).split())


def _symbol(name: str) -> str:
    """Return ``q[0]`` as SymPy takes it for a symbol with an index."""
    return name.replace("[", "_").rstrip("]")


def _marked(name: str, mark: str) -> str:
    """Return the name of a rate or a new value: SymPy reads zdot_1 as ż with the index 1."""
    if name.endswith("[i]"):
        return f"{name[:-3]}{mark}[i]"
    base, _, index = _symbol(name).partition("_")
    letters = base.rstrip("0123456789")
    index = index or base[len(letters) :]
    return f"{letters}{mark}" + (f"_{index}" if index else "")


def _unicode_mark(name: str) -> str:
    """Return a name with a dot or a prime where it is marked, else with a dot."""
    base, prime, rest = name.partition("prime[")
    if prime:
        return f"{base}[{rest}"
    base, _, rest = name.partition("dot[")
    rest = f"[{rest}" if rest else ""
    return unicodedata.normalize("NFC", f"{base[0]}\u0307{base[1:]}{rest}")


def _unicode(name: str, right: Any, width: int, sign: str = " = ") -> str:
    """Return a row in Unicode, over several lines where it has fractions or is long."""
    if isinstance(right, str):
        if "[" in name and ("dot[" in name or "prime[" in name):
            name = _unicode_mark(name)
        name = re.sub(r"(dot|prime)(_\w+)?$", lambda m: _DOTS[m[1]] + (m[2] or ""), name)
        filled = textwrap.fill(
            f"{name}{sign}{right}",
            width,
            subsequent_indent="    ",
            break_long_words=False,
            break_on_hyphens=False,
        )
        return unicodedata.normalize("NFC", filled)
    left = name if re.search("dot|prime", name) else name.replace("_", " ")
    equation = sympy.Eq(sympy.Symbol(left), right, evaluate=False)
    text = sympy.pretty(equation, use_unicode=True, num_columns=width)
    return unicodedata.normalize("NFC", text)  # one character for a dotted letter


_DOTS = {"dot": "\u0307", "prime": ""}


def _latex(formulas: _Formulas, right: Any) -> str:
    if isinstance(right, str):
        if not _is_short(right):
            return r"\text{too long to be typeset}"
        right = formulas.expression(right)
    return latex(right)


def _indexed_latex(name: str) -> str:
    base = latex(sympy.Symbol(name))
    return f"{{{base}}}_{{i}}" if "_" in base else f"{base}_{{i}}"


def _stacked(blocks: list[str], by_array: bool) -> str:
    tall = not by_array and any("\n" in block for block in blocks)
    return ("\n\n" if tall else "\n").join(blocks)


def _is_short(text: str) -> bool:
    """Whether SymPy can be given a text without fear for time."""
    stack: list[tuple[ast.AST, int]] = [(syntax_tree(text), 0)]
    seen = 0
    while stack:
        node, depth = stack.pop()
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Pow):
            depth += not isinstance(node.right, ast.Constant | ast.UnaryOp)
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            depth += node.func.id not in ("sum", "len", "range", "where", "min", "max")
        seen += 1
        if seen > _LONGEST or depth > _DEEPEST:
            return False
        stack.extend((child, depth) for child in ast.iter_child_nodes(node))
    return True
