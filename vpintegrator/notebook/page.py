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


def heading(title: str, line: str = "") -> str:
    """Return a title in bold, with a line of text below it."""
    below = f"<br>{text(line)}" if line else ""
    return f'<p style="margin:0.3em 0"><strong>{text(title)}</strong>{below}</p>'


def paragraph(words: str) -> str:
    """Return a paragraph in small print."""
    return f'<p style="margin:0.3em 0;font-size:0.9em;opacity:0.8">{text(words)}</p>'


def facts(rows: Iterable[tuple[str, Any]]) -> str:
    """Return a table of names and values in two columns, without rows that have no value."""
    known = [(name, value) for name, value in rows if value is not None and value != ""]
    lines = "".join(
        f'<tr><th scope="row" style="{_CELL}white-space:nowrap;text-align:left">{text(name)}</th>'
        f'<td style="{_CELL}text-align:left">{text(value)}</td></tr>'
        for name, value in known
    )
    return _scrolling(f"<tbody>{lines}</tbody>") if known else ""


def table(
    titles: Sequence[str],
    rows: Iterable[Sequence[Any]],
    words: int = 1,
    strong: Callable[[int], bool] = lambda _: False,
) -> str:
    """Return a table with ``words`` columns of text first; numbers follow, aligned to the right.

    Parameters
    ----------
    titles, rows
        The cells, as texts.
    words
        Number of columns that hold words.
    strong
        Whether a row, by its number, is in bold.
    """
    sides = ["left" if place < words else "right" for place in range(len(titles))]
    head = "".join(
        f'<th scope="col" style="{_CELL}text-align:{side}">{text(title)}</th>'
        for side, title in zip(sides, titles, strict=True)
    )
    body = ""
    for number, row in enumerate(rows):
        weight = "font-weight:bold;" if strong(number) else ""
        cells = "".join(
            f'<td style="{_CELL}{weight}{_wrapping(cell)}text-align:{side}">{text(cell)}</td>'
            for side, cell in zip(sides, row, strict=True)
        )
        body += f"<tr>{cells}</tr>"
    return _scrolling(f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody>")


def _wrapping(cell: Any) -> str:
    """Return a style that keeps names and numbers on one line."""
    return "white-space:nowrap;" if len(str(cell)) <= _SHORT else ""


def _scrolling(inside: str) -> str:
    """Return a table that scrolls if it is wider than the page."""
    return (
        '<div style="overflow-x:auto"><table class="dataframe" style="margin:0.4em 0">'
        f"{inside}</table></div>"
    )


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
