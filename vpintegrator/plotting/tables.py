"""The table of methods for terminals, CSV, Markdown and LaTeX.

CSV holds every number. The others hold the columns that say something about this comparison, as
many as can be read side by side, the most telling first. Columns that show failures are never left
out: median and worst error, diverged orbits, both volumes. If a line is too short for them, the
table continues in a further block. Columns that are chosen by name stand in all of them, in the
order given, and no others.
"""

from __future__ import annotations

import csv
import io
import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from vpintegrator.arguments import of_kind
from vpintegrator.errors import InputError, nearest, printable
from vpintegrator.plotting.latex import escape, latex
from vpintegrator.plotting.names import grouped
from vpintegrator.rich_display import duration

if TYPE_CHECKING:
    from rich.console import RenderableType

    from vpintegrator.rollout import Report, Run
    from vpintegrator.rollout.diagnostics.diagnostic import Column

_WIDTH = 108  # letters of a row
_GAP = 2
_BLANK = "–"
_ROUNDING = 1e-10  # defect that counts as rounding, in units of the state


@dataclass(frozen=True)
class _Column:
    """Column of a printed table."""

    column: Column
    cells: list[str]

    @property
    def header(self) -> tuple[str, str]:
        """Title in two lines; a short title stands in the second line."""
        first, _, last = self.column.title.rpartition(" ")
        return self.column.header or (first, last)

    @property
    def width(self) -> int:
        return max(len(text) for text in (*self.header, *self.cells))


@dataclass(frozen=True)
class _Layout:
    """Columns that are shown, the methods first, and the names of the columns left out."""

    columns: list[_Column]
    left_out: list[str]

    @property
    def width(self) -> int:
        return sum(column.width + _GAP for column in self.columns)

    def rows(self) -> list[tuple[str, ...]]:
        return list(zip(*(column.cells for column in self.columns), strict=True))


def terminal_table(
    report: Report, width: int | None = _WIDTH, columns: Sequence[str] | None = None
) -> RenderableType:
    """Return a table for a terminal ``width`` characters wide, learned methods first, in bold.

    Without a width it has all columns. Columns that must not be left out are stacked in several
    blocks if the width is too small.

    Parameters
    ----------
    report
        A report of a comparison.
    width
        Letters in a line; None for as many as it takes.
    columns
        Titles of the columns beside the methods' names, as in :meth:`Report.table`.

    Raises
    ------
    InputError
        If there is no such column.

    Examples
    --------
    >>> report = vp.compare(None, "rk4", system="pendulum", step=0.1, steps=20)
    >>> import rich
    >>> rich.print(vp.plotting.terminal_table(report))  # doctest: +SKIP
    """
    _check_report(report)
    from rich.console import Group
    from rich.table import Column, Table
    from rich.text import Text

    layout = _layout(report, width, columns)
    parts: list[RenderableType] = [Text(title(report), style="bold")]
    for block in _blocks(layout, width):
        names, *others = block
        longest = None
        if width is not None:
            longest = max(8, width - _GAP - sum(column.width + _GAP for column in others))
        table = Table(
            Column(Text("\n".join(names.header)), overflow="fold", max_width=longest),
            *(
                Column(Text("\n".join(column.header)), justify="right", no_wrap=True)
                for column in others
            ),
            box=None,
            header_style="dim",
        )
        cells = zip(*(column.cells for column in block), strict=True)
        for row, run in zip(cells, report.runs.values(), strict=True):
            table.add_row(*map(Text, row), style="bold" if run.kind == "learned" else "")
        parts.append(table)
    parts.append(Text(" ".join(notes(report, layout.left_out)), style="dim"))
    return Group(*parts)


def csv_table(report: Report, columns: Sequence[str] | None = None) -> str:
    """Return a CSV table of all numbers at full precision; times in seconds.

    A title that a spreadsheet would take for a formula gets an apostrophe before it.

    Parameters
    ----------
    report
        A report of a comparison.
    columns
        Titles of the columns beside the methods' names; by default all.

    Examples
    --------
    >>> report = vp.compare(None, "rk4", system="pendulum", step=0.1, steps=20)
    >>> vp.plotting.csv_table(report).splitlines()[0][:20]
    'method,kind,order,st'
    """
    _check_report(report)
    return csv_rows(report.table(), columns and ["method", *columns])


def _check_report(report: Any) -> None:
    from vpintegrator.rollout import Report

    of_kind("report", report, Report, "a report, as vp.compare or vp.open_rollout gives it")


def csv_rows(rows: Sequence[dict[str, Any]], columns: Sequence[str] | None = None) -> str:
    """Return CSV rows of a table at full precision, with a header; all columns by default."""
    if columns:
        chosen = chosen_titles(columns, list(rows[0]))
        rows = [{title: row[title] for title in chosen} for row in rows]
    text = io.StringIO()
    writer = csv.DictWriter(text, fieldnames=list(rows[0]), lineterminator="\n")
    writer.writerow({key: _plain(key) for key in rows[0]})
    writer.writerows({key: _plain(value) for key, value in row.items()} for row in rows)
    return text.getvalue()


def chosen_titles(asked: Sequence[str], known: Sequence[str]) -> list[str]:
    """Return column titles, each once; case, hyphens and underscores do not matter.

    Raises
    ------
    InputError
        If there is no such column.
    """
    plain = {_folded(title): title for title in known}
    for name in asked:
        if _folded(name) not in plain:
            hint = nearest(name, known)
            raise InputError(f"there is no column '{name}'{hint}; there are {', '.join(known)}")
    return list(dict.fromkeys(plain[_folded(name)] for name in asked))


def _folded(title: str) -> str:
    return " ".join(re.sub(r"[-_]", " ", title).lower().split())


def _plain(value: Any) -> Any:
    """Return a value for a spreadsheet: words for truth values, and no formula."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if not isinstance(value, str):
        return value
    return ("'" if value.startswith(("=", "+", "-", "@")) else "") + printable(value)


def markdown_table(report: Report, columns: Sequence[str] | None = None) -> str:
    """Return a GitHub-flavoured table.

    Parameters
    ----------
    report
        A report of a comparison.
    columns
        Titles of the columns beside the methods' names; by default the most telling.

    Examples
    --------
    >>> report = vp.compare(None, "rk4", system="pendulum", step=0.1, steps=20)
    >>> "RK4" in vp.plotting.markdown_table(report)
    True
    """
    _check_report(report)
    titles, rows, left_out = printed(report, columns)
    lines = [
        "| " + " | ".join(map(markdown, titles)) + " |",
        "|" + "|".join(["---"] + ["---:"] * (len(titles) - 1)) + "|",
    ]
    lines += ["| " + " | ".join(map(markdown, row)) + " |" for row in rows]
    below = markdown(" ".join(notes(report, left_out)))
    return f"{markdown(title(report))}\n\n" + "\n".join(lines) + f"\n\n{below}\n"


def markdown(text: str) -> str:
    """Return a plain text in Markdown: no links, images, HTML or code, and no new table cells."""
    return re.sub(r"[|<`]|(?<=\])(?=\()|(?<=\])(?=\[)", r"\\\g<0>", text)


def latex_table(report: Report, columns: Sequence[str] | None = None) -> str:
    """Return a ``tabular`` with booktabs rules, scaled down if it is wider than the text.

    Parameters
    ----------
    report
        A report of a comparison.
    columns
        Titles of the columns beside the methods' names; by default the most telling.

    Examples
    --------
    >>> report = vp.compare(None, "rk4", system="pendulum", step=0.1, steps=20)
    >>> "toprule" in vp.plotting.latex_table(report)
    True
    """
    _check_report(report)
    layout = _layout(report, _WIDTH, columns)
    headers = zip(*(column.header for column in layout.columns), strict=True)
    # an empty group, lest a bracket or star be taken for an argument of the line's end before it
    body = [
        " & ".join(["{}" + escape(row[0]), *map(latex, row[1:])]) + r" \\" for row in layout.rows()
    ]
    return "\n".join(
        [
            r"% \usepackage{booktabs,graphicx}",
            f"% {latex(title(report))}",
            *(f"% {latex(note)}" for note in notes(report, layout.left_out)),
            r"\resizebox{\ifdim\width>\linewidth\linewidth\else\width\fi}{!}{"
            r"\begin{tabular}{l" + "r" * (len(layout.columns) - 1) + "}",
            r"\toprule",
            *(" & ".join(map(escape, line)) + r" \\" for line in headers),
            r"\midrule",
            *body,
            r"\bottomrule",
            r"\end{tabular}}",
            "",
        ]
    )


def printed(
    report: Report, columns: Sequence[str] | None = None
) -> tuple[list[str], list[tuple[str, ...]], list[str]]:
    """Return titles of columns, rows of cells, and the columns left out because of the width."""
    layout = _layout(report, _WIDTH, columns)
    titles = [" ".join(column.header).strip() for column in layout.columns]
    return titles, layout.rows(), layout.left_out


def title(report: Report) -> str:
    """Return the title of the table, one line."""
    count = len(report.reference)
    known = "no reference"
    if report.is_reference_given:
        known = "beside the states given"
    elif report.reference_time > 0:
        error = report.accuracy
        known = f"reference accurate to about {error:.0e}" if error else "beside the map itself"
        if report.reference_time < report.times[-1]:
            known += f", to t = {grouped(report.reference_time)}"
    return printable(
        f"{report.system.title}: {count} {'orbit' if count == 1 else 'orbits'} to "
        f"t = {grouped(report.times[-1])}, step {report.step:g} ({known})"
    )


def notes(report: Report, left_out: Sequence[str] = ()) -> list[str]:
    """Return sentences that explain the numbers of the table."""
    windows = [
        f"{run.title}: of its map of windows of {run.window} states"
        for run in report.runs.values()
        if run.window > 1
    ]
    of = f" ({'; '.join(windows)})" if windows else ""
    sentences = [
        "Median and worst are over the orbits; errors and drifts of invariants are the largest of "
        "any orbit.",
        *seeds(report),
        f"RMSE is that of a component, over all times of the reference{_without_given(report)}; "
        "the final distance is Euclidean.",
    ]
    if report.system.contracts:
        sentences.append(
            "Contraction: log|det| of the derivative of one step, and of the phase-space map "
            "z_0 → z_n, less that of the exact solution; largest absolute value."
        )
    else:
        sentences.append(
            f"Volume: largest |log|det|| of the derivative of one step{of}, and of the phase-space "
            "map z_0 → z_n; yes where it is rounding."
        )
    sentences += _on_invariants(report)
    if any(run.symplecticity is not None for run in report.runs.values()):
        through = "; for models of windows, of the map from z_0 to the newest state"
        sentences.append(
            "Symplecticity: largest entry of |D^T J D - J|, D the derivative of the map of one "
            f"step{through if windows else ''}."
        )
    if any(report.diverged(name) for name in report.runs):
        sentences.append(
            "Diverged: orbits that are not finite, farther from the reference than ten times its "
            "extent, or with an invariant changed by a hundred times its size."
        )
    if report.system.derivatives == "finite differences":
        sentences.append(
            "Derivatives of the vector field are finite differences: volumes and Lyapunov "
            "exponents of classical methods are known to about 1e-9."
        )
    sentences += attention_changes(report.runs.values())
    sentences += departures(report)
    unknown = [
        f"{run.title}: {', '.join(run.unknown)}" for run in report.runs.values() if run.unknown
    ]
    if unknown:
        sentences.append(f"Also in the file, and not known here: {'; '.join(unknown)}.")
    if left_out:
        sentences.append(f"Left out for want of width: {', '.join(left_out)}.")
    return [printable(sentence) for sentence in sentences]


def seeds(report: Report) -> list[str]:
    """Return a sentence on the numbers of several models of one name, if there are any."""
    titles = [run.title for run in report.runs.values() if run.seeds]
    if not titles:
        return []
    return [
        f"Of {', '.join(titles)} each number is the median over the seeds, the worst RMSE the "
        "largest; best and worst seed have the least and the largest median RMSE."
    ]


def _without_given(report: Report) -> str:
    """Return words on the times that root mean square errors leave out; empty if there are none."""
    if all(run.window == 1 for run in report.runs.values()):
        return ""
    return " but those of a first window after the initial one"


def _on_invariants(report: Report) -> list[str]:
    """Return a sentence on invariants constant to rounding, with the methods, if there are any.

    The table may have no column for them.
    """
    parts = []
    for invariant, label in report.invariant_labels.items():
        kept = [
            run.title
            for name, run in report.runs.items()
            if report.summary(name).invariants_kept[invariant]
        ]
        if kept:
            parts.append(
                f"{label} by {'all' if len(kept) == len(report.runs) else ', '.join(kept)}"
            )
    return [f"Kept to rounding: {'; '.join(parts)}."] if parts else []


def attention_changes(runs: Iterable[Run]) -> list[str]:
    """Return a sentence on the attention of models, if there is any."""
    parts = [f"{run.title}: {run.remark}" for run in runs if run.remark.startswith("attention: ")]
    return [f"{'; '.join(parts)}."] if parts else []


def departures(report: Report) -> list[str]:
    """Return a sentence on the models that left their training domain, if any did."""
    parts = []
    for name, run in report.runs.items():
        summary = report.summary(name)
        if summary.left_domain:
            count = summary.trajectories
            parts.append(
                f"{run.title} on {summary.left_domain} of {count} orbits, first at t = "
                f"{summary.left_domain_time:.4g}"
            )
    if not parts:
        return []
    return [f"Left the training domain, outside of which a model is a guess: {'; '.join(parts)}."]


def size(value: float) -> str:
    """Return an error in words."""
    return f"{value:.1e}" if math.isfinite(value) else "diverged"


def error_size(value: float, report: Report) -> str:
    """Return an error of trajectories in words, a bound below the accuracy of the reference."""
    return f"< {report.accuracy:.0e}" if value < report.accuracy else size(value)


def _layout(report: Report, width: int | None, chosen: Sequence[str] | None = None) -> _Layout:
    """Return the informative columns that fit; columns that must stay may be too wide."""
    rows = report.table()
    if chosen:
        known = {column.title: column for column in report.columns}
        titles = chosen_titles(["method", *chosen], list(known))
        return _Layout([_Column(known[t], _cells(known[t], rows, report)) for t in titles], [])
    shown = sorted(report.columns, key=lambda column: column.place)
    columns = [
        _Column(column, _cells(column, rows, report))
        for column in shown
        if column.style != "hidden" and _telling(column, rows)
    ]
    layout = _Layout(columns, [])
    dispensable = [
        (column.column.rank, -place, column)
        for place, column in enumerate(columns)
        if column.column.rank is not None and not _is_broken(column.column, rows)
    ]
    for *_, column in sorted(dispensable, key=lambda entry: entry[:2]):
        if width is None or layout.width <= width:
            break
        rest = [other for other in layout.columns if other is not column]
        layout = _Layout(rest, [*layout.left_out, column.column.title])
    return layout


def _blocks(layout: _Layout, width: int | None) -> list[list[_Column]]:
    """Return blocks of columns within the width, each beginning with the names of methods."""
    names, *others = layout.columns
    if width is None or layout.width <= width:
        return [layout.columns]
    widest = max((column.width for column in others), default=0)
    beside = min(names.width, max(8, width - widest - 2 * _GAP)) + _GAP
    blocks: list[list[_Column]] = []
    used = width
    for column in others:
        if not blocks or used + column.width + _GAP > width:
            blocks.append([names])
            used = beside
        blocks[-1].append(column)
        used += column.width + _GAP
    return blocks or [[names]]


def _is_broken(column: Column, rows: list[dict[str, Any]]) -> bool:
    """Whether it is a defect of what a method promises to keep, and does not."""
    promising = (row for row in rows if any(t in row["structure"] for t in column.promised))
    return any(
        row[column.title] is not None
        and not row[column.title] <= _ROUNDING
        and not row["diverged"]  # far away rounding is as large as any defect
        for row in promising
    )


def _telling(column: Column, rows: list[dict[str, Any]]) -> bool:
    values = [row[column.title] for row in rows]
    if column.style == "count":
        return any(values)
    if column.style == "failure":
        return any(value is not None and math.isfinite(value) for value in values)
    return column.style == "kept" or any(value is not None and value != "" for value in values)


def _cells(column: Column, rows: list[dict[str, Any]], report: Report) -> list[str]:
    named = zip(rows, report.runs, strict=True)
    return [_cell(column, row, name, report) for row, name in named]


def _cell(column: Column, row: dict[str, Any], name: str, report: Report) -> str:
    value, style = row[column.title], column.style
    if value is None or value == "":
        return _BLANK
    if style == "kept":
        size = f"{value:.1e}" if math.isfinite(value) else "collapsed"
        return f"{'yes' if row[column.beside] else 'no'} {size}"
    if style == "count":
        return f"{value} of {row['orbits']}" if value else _BLANK
    if isinstance(value, str | int):
        return printable(str(value))
    if style == "drift":  # the drift of a diverged orbit has no meaning
        if not math.isfinite(value) or row["diverged"]:
            return _BLANK
        error = row[column.beside]
        return f"{value:+.1e} ± {error:.0e}" if math.isfinite(error) else f"{value:+.1e}"
    if style == "duration":
        return duration(value) if math.isfinite(value) else _BLANK
    if style == "failure":
        return f"{value:.4g}" if math.isfinite(value) else f"> {report.threshold_passed(name):.4g}"
    if value == math.inf:
        return "diverged"
    if not math.isfinite(value):
        return _BLANK
    if style == "short":
        return f"{value:.3g}"
    if style == "error":
        return error_size(value, report)
    error = row.get(column.beside)
    if error is not None and math.isfinite(error):
        return f"{value:.1e} ± {error:.0e}"
    return f"{value:.1e}"
