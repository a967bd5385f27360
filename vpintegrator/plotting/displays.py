"""Rich display in notebooks: a system is Markdown, a report is HTML.

Jupyter, VS Code and Sphinx typeset the equations of a system, which stand as LaTeX between dollars;
VS Code and hosts of notebooks do so in Markdown only. A report is its table and its overview.
Colours are those of the page, without style sheets and scripts: notebooks that are not trusted lose
them. Texts from files are escaped: markup, links and formulas in them have no effect.
"""

from __future__ import annotations

import base64
import html
import io
import re
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import sympy

from vpintegrator.dynamics import System
from vpintegrator.dynamics.typeset import equations_latex, invariants_latex, latex, symmetries_latex
from vpintegrator.errors import printable
from vpintegrator.plotting.figures.overview import OverviewFigure
from vpintegrator.plotting.scene import Scene
from vpintegrator.plotting.style import PAPER
from vpintegrator.plotting.tables import Printed, title
from vpintegrator.rollout import Report

_LONGEST = 600  # letters of a text from a file
_DOTS = 150  # per inch of a figure
_ACROSS = 100  # pixels of a page for an inch of a figure
_CELL = "padding:0.15em 0.7em;white-space:nowrap;text-align:"
_PAGE = """<div class="vpintegrator tex2jax_ignore mathjax_ignore">
<p style="margin:0.3em 0"><strong>{title}</strong></p>
<div style="overflow-x:auto"><table class="dataframe" style="margin:0.4em 0">
<thead>{head}</thead><tbody>{body}</tbody></table></div>
<details><summary>what the numbers are</summary><pre>{notes}</pre></details>
<img src="data:image/png;base64,{figure}" alt="Overview: {title}"
style="width:{width}px;max-width:100%;height:auto"></div>"""


def html_of(report: Report) -> str:
    """Return HTML of a report: the table of vp-rollout, its notes, and the overview."""
    printed = Printed(report)
    png = io.BytesIO()
    kinds = ["", *(run.kind for run in report.runs.values())]
    head, *body = map(_row, printed.rows, kinds)
    with PAPER.applied(), np.errstate(all="ignore"):
        figure = OverviewFigure(Scene(report, PAPER)).draw()
        figure.savefig(png, format="png", dpi=_DOTS)
    return _PAGE.format(
        title=_text(title(report)),
        head=head,
        body="".join(body),
        notes="\n".join(map(html.escape, printed.notes)),
        figure=base64.b64encode(png.getvalue()).decode("ascii"),
        width=round(_ACROSS * figure.get_figwidth()),
    )


def _text(value: Any) -> str:
    """Return text as HTML that shows it unchanged: no markup, no line breaks."""
    return html.escape(printable(str(value), _LONGEST))


def _row(cells: Sequence[str], kind: str) -> str:
    """Return a row of a table, the titles or a method of a kind: words left, numbers right."""
    tag = "td" if kind else "th"
    weight = ";font-weight:bold" if kind == "learned" else ""
    sides = ["left", *["right"] * (len(cells) - 1)]
    words = (
        f'<{tag} style="{_CELL}{side}{weight}">{_text(cell)}</{tag}>'
        for cell, side in zip(cells, sides, strict=True)
    )
    return f"<tr>{''.join(words)}</tr>"


_SHOWN = 8  # entries of a list, images of a symmetry
# what may be markup, begin a list, a heading or a target of Sphinx, or be part of an address
_MARKUP = re.compile(r"[!-&*+/<-@\[-`{-~]|^[^A-Za-z]|(?<=\w)\.(?=\w)")
_NO_FORMULA = str.maketrans(
    {"$": "\N{FULLWIDTH DOLLAR SIGN}", "\\": "\N{FULLWIDTH REVERSE SOLIDUS}"}
)


def markdown_of(system: System) -> str:
    """Return Markdown of a system: title, equations between dollars, list of its properties."""
    name = printable(system.name).translate(_NO_FORMULA).replace("`", "'")
    blocks = [f"**{_plain(system.title)}**: `{name}`, {system.dim} components, {system.kind}"]
    if system.description:
        blocks.append(_plain(system.description))
    if not system.is_measured:
        blocks.append(f"$$\n{equations_latex(system, 'aligned')}\n$$")
    blocks.append("\n".join(f"- {name}: {words}" for name, words in _facts(system) if words))
    return "\n\n".join(blocks) + "\n"


def _plain(text: str) -> str:
    """Return a text of a file in Markdown that shows it unchanged: no markup, link or formula."""
    shown = printable(text).strip().translate(_NO_FORMULA)
    return _MARKUP.sub(lambda match: f"&#{ord(match[0])};", shown)


def _facts(system: System) -> Iterator[tuple[str, str]]:
    if system.is_measured:
        yield "equations", "not known, the states were measured"
    if returns := system.equations.returns:
        yield "return map", _plain(returns.words)
    values = (f"${_symbol(n)} = {_value(v)}$" for n, v in system.parameters.items())
    yield "parameters", ", ".join(values)
    invariants = {} if system.is_measured else invariants_latex(system)
    named = (f"{_plain(n.replace('_', ' '))} ${formula}$" for n, formula in invariants.items())
    yield "invariants", ", ".join(named)
    law = r"\rho M \rho M = 1" if system.is_discrete else r"f(\rho z) = -\rho f(z)"
    images = symmetries_latex(system)
    more = f", and {len(images) - _SHOWN} more" if len(images) > _SHOWN else ""
    yield f"reversing symmetries ${law}$", ", ".join(f"${x}$" for x in images[:_SHOWN]) + more
    words = (f"${_symbol(system.components[i])}$: ${p:.9g}$" for i, p in system.periods.items())
    yield "periods", ", ".join(words)
    yield "reference", _plain(system.reference)


def _symbol(name: str) -> str:
    return latex(sympy.Symbol(name.replace("[", "_").rstrip("]")))


def _value(value: Any) -> str:
    if isinstance(value, list):
        more = r", \ldots" if len(value) > _SHOWN else ""
        return f"({', '.join(map(_value, value[:_SHOWN]))}{more})"
    digits, _, power = f"{value:.9g}".partition("e")
    return rf"{digits} \cdot 10^{{{int(power)}}}" if power else digits
