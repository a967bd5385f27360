"""The table of methods for terminals, CSV, Markdown and LaTeX."""

from __future__ import annotations

import csv
import io
import math
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.table import Table

    from vpintegrator.rollout import Report

_TIMES = ("time per step",)
_LATEX = {"volume error": r"$|\log|\det D\Phi||$"}


def terminal_table(report: Report) -> Table:
    """A table for a terminal, learned methods first and in bold."""
    from rich.table import Column, Table

    columns, rows = _cells(report)
    table = Table(
        Column(columns[0], no_wrap=True),
        *(Column(name, justify="right") for name in columns[1:]),
        box=None,
        title=_title(report),
        title_justify="left",
        title_style="bold",
        header_style="dim",
    )
    for row, run in zip(rows, report.runs.values(), strict=True):
        table.add_row(*row, style="bold" if run.kind == "learned" else "")
    return table


def csv_table(report: Report) -> str:
    """All numbers at full precision; times in seconds."""
    rows = report.table()
    text = io.StringIO()
    writer = csv.DictWriter(text, fieldnames=list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def markdown_table(report: Report) -> str:
    """A GitHub-flavoured table."""
    columns, rows = _cells(report)
    lines = [
        "| " + " | ".join(columns) + " |",
        "|" + "|".join(["---"] + ["---:"] * (len(columns) - 1)) + "|",
    ]
    lines += ["| " + " | ".join(row) + " |" for row in rows]
    return f"{_title(report)}\n\n" + "\n".join(lines) + "\n"


def latex_table(report: Report) -> str:
    """A ``tabular`` with booktabs rules."""
    columns, rows = _cells(report)
    header = " & ".join(_LATEX.get(name, _escape(name)) for name in columns)
    body = [" & ".join(_power(_escape(cell)) for cell in row) + r" \\" for row in rows]
    return "\n".join(
        [
            f"% {_title(report)}",
            r"\begin{tabular}{l" + "r" * (len(columns) - 1) + "}",
            r"\toprule",
            header + r" \\",
            r"\midrule",
            *body,
            r"\bottomrule",
            r"\end{tabular}",
            "",
        ]
    )


def _title(report: Report) -> str:
    count = len(report.reference)
    return (
        f"{report.system.title}: {count} {'orbit' if count == 1 else 'orbits'} to "
        f"t = {report.times[-1]:g}, step {report.step:g} (reference accurate to about "
        f"{report.reference_error.max():.0e})"
    )


def _cells(report: Report) -> tuple[list[str], list[list[str]]]:
    """Titles and formatted cells; columns that say nothing here are left out."""
    rows = report.table()
    columns = [name for name in rows[0] if name not in ("kind", "order", "worst RMSE")]
    if not any(row["diverged"] for row in rows):
        columns.remove("diverged")
    if all(row["volume error"] is None for row in rows):
        columns.remove("volume error")
    return columns, [[_cell(name, row[name]) for name in columns] for row in rows]


def _cell(name: str, value: Any) -> str:
    if value is None:
        return "–"
    if isinstance(value, str | int):
        return str(value)
    if not math.isfinite(value):
        return "diverged" if name not in _TIMES else "–"
    if name in _TIMES:
        for unit, scale in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
            if value >= scale:
                return f"{value / scale:.3g} {unit}"
        return f"{value / 1e-9:.3g} ns"
    return f"{value:.1e}"


def _escape(text: str) -> str:
    for character in "\\&%$#_{}":
        text = text.replace(character, "\\" + character)
    return text.replace("–", "--").replace("µs", r"$\mu$s")


def _power(cell: str) -> str:
    """``2.0e-05`` as a power of ten."""
    digits, e, exponent = cell.partition("e")
    if not e or not digits.replace(".", "").replace("-", "").isdigit():
        return cell
    return rf"${digits}\cdot 10^{{{int(exponent)}}}$"
