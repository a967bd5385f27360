"""A system in a notebook: equations, parameters, invariants and symmetries, as Markdown.

HTML would do for Jupyter alone: VS Code and hosts of notebooks typeset formulas in Markdown only.
"""

from __future__ import annotations

import re
import string
from collections.abc import Iterator
from typing import Any

import sympy

from vpintegrator.dynamics import System
from vpintegrator.dynamics.typeset import equations_latex, invariants_latex, latex, symmetries_latex
from vpintegrator.errors import printable

_SHOWN = 8  # entries of a list, images of a symmetry
_PLAIN = {*string.ascii_letters, *string.digits, *" ,.;:/=+%'()-"}
# the last letters of what begins a list, a heading or a target of Sphinx, and of addresses
_OBEYED = re.compile(r"^[^A-Za-z0-9]|^\d+[.)]|:(?=/)|www\.", re.IGNORECASE)
_NO_FORMULA = str.maketrans(
    {"$": "\N{FULLWIDTH DOLLAR SIGN}", "\\": "\N{FULLWIDTH REVERSE SOLIDUS}"}
)


def markdown(system: System) -> str:
    """Return Markdown of a system: title, equations between dollars, list of its properties."""
    line = f"**{plain(system.title)}**: `{code(system.name)}`, {system.dim} components"
    blocks = [f"{line}, {system.kind}"]
    if system.description:
        blocks.append(plain(system.description))
    if not system.is_measured:
        blocks.append(f"$$\n{equations_latex(system, 'aligned')}\n$$")
    blocks.append("\n".join(f"- {name}: {words}" for name, words in _facts(system) if words))
    return "\n\n".join(blocks) + "\n"


def plain(text: str) -> str:
    """Return a text of a file in Markdown that shows it unchanged: no markup, link or formula."""
    shown = printable(text).strip().translate(_NO_FORMULA)
    obeyed = {match.end() - 1 for match in _OBEYED.finditer(shown)}
    return "".join(
        c if (c in _PLAIN and place not in obeyed) or not c.isascii() else f"&#{ord(c)};"
        for place, c in enumerate(shown)
    )


def code(text: str) -> str:
    """Return a name of a file between backticks."""
    return printable(text).translate(_NO_FORMULA).replace("`", "'")


def _facts(system: System) -> Iterator[tuple[str, str]]:
    if system.is_measured:
        yield "equations", "not known, the states were measured"
    if returns := system.equations.returns:
        yield "return map", plain(returns.words)
    yield (
        "parameters",
        ", ".join(f"${_symbol(n)} = {_value(v)}$" for n, v in system.parameters.items()),
    )
    invariants = {} if system.is_measured else invariants_latex(system)
    named = (f"{plain(n.replace('_', ' '))} ${formula}$" for n, formula in invariants.items())
    yield "invariants", ", ".join(named)
    law = r"\rho M \rho M = 1" if system.is_discrete else r"f(\rho z) = -\rho f(z)"
    yield f"reversing symmetries ${law}$", _symmetries(system)
    if system.time:
        period = f", of period ${system.period:.9g}$" if system.period else ""
        yield "time", f"${_symbol(system.time)}$, a component of the state{period}"
    angles = {i: period for i, period in system.periods.items() if i != system.explicit_time}
    words = (f"${_symbol(system.components[i])}$ of period ${p:.9g}$" for i, p in angles.items())
    yield "angles", ", ".join(words)
    if system.chart:
        names = ", ".join(f"${_symbol(name)}$" for name in system.chart.components)
        yield f"other coordinates, {system.chart.system.kind} there", names
    yield "reference", plain(system.reference)


def _symmetries(system: System) -> str:
    images = symmetries_latex(system)
    more = f", and {len(images) - _SHOWN} more" if len(images) > _SHOWN else ""
    return ", ".join(f"${image}$" for image in images[:_SHOWN]) + more


def _symbol(name: str) -> str:
    return latex(sympy.Symbol(name.replace("[", "_").rstrip("]")))


def _value(value: Any) -> str:
    if isinstance(value, list):
        more = r", \ldots" if len(value) > _SHOWN else ""
        return f"({', '.join(map(_value, value[:_SHOWN]))}{more})"
    digits, _, power = f"{value:.9g}".partition("e")
    return rf"{digits} \cdot 10^{{{int(power)}}}" if power else digits
