"""Equations of a system, typeset for a terminal or for LaTeX."""

from __future__ import annotations

import re
import unicodedata

import sympy

from vpintegrator.dynamics.system import System

_SHOWN = 12  # equations of a long system


def equations_unicode(system: System, width: int = 100) -> str:
    """Hamiltonian and equations of motion in Unicode, for a terminal of ``width`` columns."""
    e = system.equations
    blocks = [] if e.hamiltonian is None else [expression_unicode("H", e.hamiltonian, width)]
    blocks += [
        expression_unicode(_dotted(name), f, width)
        for name, f in zip(e.components[:_SHOWN], e.vector_field[:_SHOWN], strict=True)
    ]
    if system.dim > _SHOWN:
        blocks.append(f"... and {system.dim - _SHOWN} more")
    tall = any("\n" in block for block in blocks)
    return ("\n\n" if tall else "\n").join(blocks)


def equations_latex(system: System) -> str:
    """The same as a LaTeX ``align*`` environment."""
    e = system.equations
    rows = [] if e.hamiltonian is None else [f"H &= {sympy.latex(e.hamiltonian)}"]
    rows += [
        f"{sympy.latex(sympy.Symbol(_dotted(name)))} &= {sympy.latex(f)}"
        for name, f in zip(e.components, e.vector_field, strict=True)
    ]
    return "\\begin{align*}\n" + " \\\\\n".join(rows) + "\n\\end{align*}"


def expression_unicode(name: str, expression: sympy.Expr, width: int = 100) -> str:
    """``name = expression`` in Unicode, over several lines where it has fractions."""
    text = sympy.pretty(
        sympy.Eq(sympy.Symbol(name.replace("_", " ")), expression, evaluate=False),
        use_unicode=True,
        num_columns=width,
    )
    return unicodedata.normalize("NFC", text)  # one character for a dotted letter


def component_latex(name: str) -> str:
    """LaTeX of a component's name: ``z1`` becomes ``z_{1}``, ``q[0]`` becomes ``q_{0}``."""
    return sympy.latex(sympy.Symbol(name.replace("[", "_").replace("]", "")))


def _dotted(name: str) -> str:
    # SymPy reads "dot" at the end of the letters as a dot above them: zdot_1 is ż with index 1
    match = re.fullmatch(r"([A-Za-z]+)_?\[?(\d+)\]?", name)
    return f"{match[1]}dot{match[2]}" if match else f"{name}dot"
