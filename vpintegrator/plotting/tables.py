"""The table of methods for terminals, CSV, Markdown and LaTeX.

CSV holds every number. The others hold the columns that say something about this comparison, as
many as can be read side by side, the most telling first.
"""

from __future__ import annotations

import csv
import io
import math
import re
from typing import TYPE_CHECKING, Any

from vpintegrator.errors import printable
from vpintegrator.plotting.latex import escape, latex
from vpintegrator.plotting.names import grouped

if TYPE_CHECKING:
    from rich.table import Table

    from vpintegrator.rollout import Report

_WIDTH = 108  # letters of a row
_GAP = 2
_BLANK = "–"
_HEADERS = {  # in two lines
    "time to failure": ("time to", "failure"),
    "volume preserved": ("volume", "preserved"),
    "phase-space volume error": ("phase-space", "volume error"),
    "evaluations per step": ("evaluations", "per step"),
    "time per step": ("time", "per step"),
    "Lyapunov exponent": ("Lyapunov", "exponent"),
}
_VOLUMES = ("volume error", "phase-space volume error")
_LEAST_TELLING = (  # given up in this order where the row gets too long
    "worst RMSE",
    "structure",
    "order",
    "Lyapunov exponent",
    "symplecticity defect",
    "reversibility defect",
    "final error",
    "evaluations per step",
    "phase-space volume error",
    "volume preserved",
    "time per step",
)


def full_rows(report: Report) -> list[dict[str, Any]]:
    """A row a method with every number, as :meth:`Report.table`, and whether volume is preserved.

    That is what the method promises for this system, by its structure; how near it comes, the
    volume error beside it says. A model of windows promises it for these, and not for phase space.
    """
    rows = []
    for row, run in zip(report.table(), report.runs.values(), strict=True):
        full: dict[str, Any] = {}
        for key, value in row.items():
            if key == "volume error":
                kept = "volume-preserving" in row["structure"]
                full["volume preserved"] = (
                    ("windows" if run.window > 1 else "yes") if kept else "no"
                )
            full[key] = value
        rows.append(full)
    return rows


def terminal_table(report: Report, width: int = _WIDTH) -> Table:
    """A table for a terminal ``width`` letters wide, learned methods first and in bold."""
    from rich.table import Column, Table
    from rich.text import Text

    columns, rows = _cells(report, min(width, _WIDTH))
    table = Table(
        Column(columns[0], no_wrap=True),
        *(
            Column(Text("\n".join(_header(name))), justify="right", no_wrap=True)
            for name in columns[1:]
        ),
        box=None,
        title=Text(title(report)),
        title_justify="left",
        title_style="bold",
        header_style="dim",
    )
    for row, run in zip(rows, report.runs.values(), strict=True):
        table.add_row(*map(Text, row), style="bold" if run.kind == "learned" else "")
    return table


def csv_table(report: Report) -> str:
    """All numbers at full precision; times in seconds.

    A title that a spreadsheet would take for a formula gets an apostrophe before it.
    """
    rows = full_rows(report)
    text = io.StringIO()
    writer = csv.DictWriter(text, fieldnames=list(rows[0]), lineterminator="\n")
    writer.writerow({key: _no_formula(key) for key in rows[0]})
    writer.writerows({key: _no_formula(value) for key, value in row.items()} for row in rows)
    return text.getvalue()


def _no_formula(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    return ("'" if value.startswith(("=", "+", "-", "@")) else "") + printable(value)


def markdown_table(report: Report) -> str:
    """A GitHub-flavoured table."""
    columns, rows = _cells(report)
    headers = [markdown(" ".join(_header(name)).strip()) for name in columns]
    lines = [
        "| " + " | ".join(headers) + " |",
        "|" + "|".join(["---"] + ["---:"] * (len(columns) - 1)) + "|",
    ]
    lines += ["| " + " | ".join(map(markdown, row)) + " |" for row in rows]
    return f"{markdown(title(report))}\n\n" + "\n".join(lines) + "\n"


def markdown(text: str) -> str:
    """A plain text in Markdown: no links, images, HTML or code, and no further cells of a table."""
    return re.sub(r"[|<`]|(?<=\])(?=\()|(?<=\])(?=\[)", r"\\\g<0>", text)


def latex_table(report: Report) -> str:
    """A ``tabular`` with booktabs rules."""
    columns, rows = _cells(report)
    headers = zip(*(_header(name) for name in columns), strict=True)
    # an empty group, lest a bracket or star be taken for an argument of the line's end before it
    body = [" & ".join(["{}" + escape(row[0]), *map(latex, row[1:])]) + r" \\" for row in rows]
    return "\n".join(
        [
            f"% {latex(title(report))}",
            r"\begin{tabular}{l" + "r" * (len(columns) - 1) + "}",
            r"\toprule",
            *(" & ".join(map(escape, line)) + r" \\" for line in headers),
            r"\midrule",
            *body,
            r"\bottomrule",
            r"\end{tabular}",
            "",
        ]
    )


def title(report: Report) -> str:
    """What the table is about, in a line."""
    count = len(report.reference)
    known = "no reference"
    if report.is_reference_given:
        known = "beside the states given"
    elif report.reference_time > 0:
        known = f"reference accurate to about {report.reference_error.max():.0e}"
    return printable(
        f"{report.system.title}: {count} {'orbit' if count == 1 else 'orbits'} to "
        f"t = {grouped(report.times[-1])}, step {report.step:g} ({known})"
    )


def duration(seconds: float) -> str:
    """A time in s, ms, µs or ns."""
    for unit, scale in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if seconds >= scale:
            return f"{seconds / scale:.3g} {unit}"
    return f"{seconds / 1e-9:.3g} ns"


def _cells(report: Report, width: int = _WIDTH) -> tuple[list[str], list[list[str]]]:
    """Names of columns and formatted cells; columns that say nothing here are left out."""
    rows = full_rows(report)
    columns = [
        name
        for name in rows[0]
        if name != "kind" and not name.endswith("±") and _telling(name, [row[name] for row in rows])
    ]
    cells = {name: [_cell(name, row, report) for row in rows] for name in columns}
    invariants = list(report.invariant_labels.values())
    later = [f"{name} {kind}" for kind in ("drift", "error") for name in reversed(invariants[1:])]
    for name in [*_LEAST_TELLING[:5], *later, *_LEAST_TELLING[5:]]:
        if sum(_width(column, cells[column]) + _GAP for column in columns) <= width:
            break
        if name in columns:
            columns.remove(name)
    return columns, [[cells[name][k] for name in columns] for k in range(len(rows))]


def _telling(name: str, values: list[Any]) -> bool:
    if name == "diverged":
        return any(values)
    if name == "time to failure":
        return any(value is not None and math.isfinite(value) for value in values)
    return any(value is not None and value != "" for value in values)


def _width(name: str, cells: list[str]) -> int:
    return max(len(text) for text in (*_header(name), *cells))


def _header(name: str) -> tuple[str, str]:
    """A column's title in two lines; a short one stands in the second."""
    if name in _HEADERS:
        return _HEADERS[name]
    first, _, last = name.rpartition(" ")
    return first, last


def _cell(name: str, row: dict[str, Any], report: Report) -> str:
    value = row[name]
    if value is None or value == "":
        return _BLANK
    if name == "diverged":
        return f"{value} of {len(report.reference)}" if value else _BLANK
    if isinstance(value, str | int):
        return printable(str(value))
    if name.endswith("drift"):  # that of what has diverged means nothing
        return f"{value:+.1e}" if math.isfinite(value) and not row["diverged"] else _BLANK
    if name == "time per step":
        return duration(value) if math.isfinite(value) else _BLANK
    if name == "time to failure":
        return f"{value:.4g}" if math.isfinite(value) else f"> {report.reference_time:.4g}"
    if value == math.inf:
        return "collapsed" if name in _VOLUMES else "diverged"
    if not math.isfinite(value):
        return _BLANK
    if name == "evaluations per step":
        return f"{value:.3g}"
    return f"{value:.1e}"
