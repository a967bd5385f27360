"""The table of a reproduced study for terminals, Markdown, LaTeX and CSV."""

from __future__ import annotations

import csv
import io
import math
import re
from collections.abc import Collection, Sequence
from typing import Any

import numpy as np
from rich.table import Column, Table

Row = dict[str, Any]  # None where there is no value


def _cell(column: str, value: Any) -> str:
    if value is None:
        return "–"
    if isinstance(value, str | int):
        return str(value)
    if not math.isfinite(value):
        return "diverged"
    if column == "time per step":
        return f"{1e6 * value:.3g} µs" if value < 1e-3 else f"{1e3 * value:.3g} ms"
    return re.sub(r"e([+-])0", r"e\1", f"{value:.1e}")


def _cells(rows: Sequence[Row]) -> list[list[str]]:
    return [list(rows[0]), *([_cell(k, v) for k, v in row.items()] for row in rows)]


def terminal(title: str, rows: Sequence[Row], bold: Collection[str], width: int) -> Table:
    """The table for a terminal, some methods in bold; of its columns those that fit ``width``."""
    lines = _cells(rows)
    lines[0] = [name.replace(" ", "\n") for name in lines[0]]
    widest = [
        max(len(x) for cell in column for x in cell.split("\n"))
        for column in zip(*lines, strict=True)
    ]
    fit = sum(np.cumsum(widest) + np.arange(len(widest)) <= width)
    header, *body = (line[:fit] for line in lines)
    columns = [Column(name, justify="right", no_wrap=True) for name in header]
    columns[0].justify = "left"
    table = Table(*columns, box=None, pad_edge=False, collapse_padding=True)
    table.title, table.title_justify = title, "left"
    left_out = [name.replace("\n", " ") for name in lines[0][fit:]]
    if left_out:
        table.caption = f"left out, for there is no room: {', '.join(left_out)}"
        table.caption_justify = "left"
    for line in body:
        table.add_row(*line, style="bold" if line[0] in bold else "")
    return table


def markdown(title: str, rows: Sequence[Row], notes: Sequence[str]) -> str:
    """The table with its notes, for GitHub."""
    header, *body = _cells(rows)
    rule = ["---", *["---:"] * (len(header) - 1)]
    lines = [f"# {title}", ""]
    lines += ["| " + " | ".join(line) + " |" for line in [header, rule, *body]]
    return "\n".join([*lines, "", *(f"- {note}" for note in notes), ""])


def latex(rows: Sequence[Row]) -> str:
    """A ``tabular`` with booktabs rules."""
    header, *body = ([_tex(cell) for cell in line] for line in _cells(rows))
    lines = [rf"\begin{{tabular}}{{l{'r' * (len(header) - 1)}}}", r"\toprule"]
    lines += [" & ".join(header) + r" \\", r"\midrule"]
    lines += [" & ".join(line) + r" \\" for line in body]
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}", ""])


def _tex(cell: str) -> str:
    cell = cell.replace("_", r"\_").replace("–", "--").replace("µs", r"$\mu$s")
    return re.sub(r"^([\d.]+)e([+-]\d+)$", lambda m: rf"${m[1]}\cdot 10^{{{int(m[2])}}}$", cell)


def comma_separated(rows: Sequence[Row]) -> str:
    """All numbers at full precision, times in seconds."""
    text = io.StringIO()
    writer = csv.DictWriter(text, fieldnames=list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()
