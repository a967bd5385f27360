"""Parts of HTML pages: text, tables, folded blocks, figures.

Colours are those of the page, light or dark. Style sheets and scripts are avoided: notebooks that
are not trusted lose them, and nothing here may reach beyond itself.
"""

from __future__ import annotations

import base64
import html
import io
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from vpintegrator.errors import printable

LONGEST = 600  # letters of a text from a file
_SHORT = 40  # letters
_DOTS = 150  # per inch of a figure
_ACROSS = 100  # pixels of a page for an inch of a figure
_CELL = "padding:0.15em 0.7em;vertical-align:top;"


def text(value: Any) -> str:
    """Return text as HTML that shows it unchanged: no markup, no line breaks."""
    return html.escape(printable(str(value), LONGEST))


def whole(*parts: str) -> str:
    """Return the parts in a block of their own, in which formulas are not rendered."""
    inside = "".join(parts)
    return f'<div class="vpintegrator tex2jax_ignore mathjax_ignore">{inside}</div>'


def heading(title: str) -> str:
    """Return a title in bold."""
    return f'<p style="margin:0.3em 0"><strong>{text(title)}</strong></p>'


def table(
    titles: Sequence[str], rows: Iterable[Sequence[Any]], strong: Callable[[int], bool]
) -> str:
    """Return a table that scrolls; words are left in its first column, numbers right in others.

    Parameters
    ----------
    titles, rows
        The cells, as texts.
    strong
        Whether a row, by its number, is in bold.
    """
    head = "".join(_cell("th", place, title, 'scope="col" ') for place, title in enumerate(titles))
    body = ""
    for number, row in enumerate(rows):
        weight = "font-weight:bold;" if strong(number) else ""
        cells = "".join(_cell("td", place, cell, style=weight) for place, cell in enumerate(row))
        body += f"<tr>{cells}</tr>"
    return (
        '<div style="overflow-x:auto"><table class="dataframe" style="margin:0.4em 0">'
        f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"
    )


def _cell(tag: str, place: int, words: Any, attributes: str = "", style: str = "") -> str:
    """Return a cell that keeps names and numbers on one line."""
    side = "right" if place else "left"
    if tag == "td" and len(str(words)) <= _SHORT:
        style += "white-space:nowrap;"
    return f'<{tag} {attributes}style="{_CELL}{style}text-align:{side}">{text(words)}</{tag}>'


def folded(title: str, words: str) -> str:
    """Return lines unchanged in a block to unfold."""
    lines = "\n".join(html.escape(printable(line)) for line in words.splitlines())
    return (
        f"<details><summary>{text(title)}</summary>"
        f'<pre style="max-height:30em;overflow:auto">{lines}</pre></details>'
    )


def picture(figure: Any, words: str) -> str:
    """Return a figure of Matplotlib as a PNG inside the page.

    Parameters
    ----------
    figure
        The figure.
    words
        Description of the figure, for screen readers.
    """
    png = io.BytesIO()
    figure.savefig(png, format="png", dpi=_DOTS)
    data = base64.b64encode(png.getvalue()).decode("ascii")
    width = round(_ACROSS * figure.get_figwidth())
    return (
        f'<img src="data:image/png;base64,{data}" alt="{text(words)}" '
        f'style="width:{width}px;max-width:100%;height:auto">'
    )
