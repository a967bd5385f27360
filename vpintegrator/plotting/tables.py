"""The table of methods for terminals, CSV, Markdown and LaTeX.

CSV holds every number. The others hold the columns that say something about this comparison, as
many as can be read side by side, the most telling first. Columns that show failures are never left
out: median and worst error, diverged orbits, both volumes.
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from vpintegrator.arguments import of_kind
from vpintegrator.errors import printable
from vpintegrator.plotting.text import escape, grouped, latex, markdown, orbits
from vpintegrator.rich_display import duration

if TYPE_CHECKING:
    from rich.console import Group

    from vpintegrator.rollout import Report, Run
    from vpintegrator.rollout.variables import Column

_WIDTH = 108  # letters of a row
_GAP = 2
_BLANK = "–"
_ROUNDING = 1e-10  # defect that counts as rounding, in units of the state


class Printed:
    """A table of texts: its columns, the methods first, and the names of the columns left out.

    A column is its title in two lines, and the cell of each method.

    Raises
    ------
    InputError
        If it is made of anything but a report.
    """

    def __init__(self, report: Report, width: int | None = _WIDTH) -> None:
        self.report, table = report, rows(report)
        named = list(zip(table, report.runs, strict=True))
        chosen = sorted(report.columns, key=lambda column: column.place)
        chosen = [each for each in chosen if _telling(each, table)]
        texts = {
            each.title: [
                *(each.header or each.title.rpartition(" ")[::2]),
                *(_cell(each, row, name, report) for row, name in named),
            ]
            for each in chosen
        }
        ranked = [each for each in reversed(chosen) if each.rank and not _is_broken(each, table)]
        self.left_out: list[str] = []
        for each in sorted(ranked, key=lambda column: column.rank or 0.0):
            if width is not None and sum(map(letters, texts.values())) > width:
                del texts[each.title]
                self.left_out.append(each.title)
        self.columns = [*texts.values()]

    @property
    def rows(self) -> list[tuple[str, ...]]:
        """Titles of the columns, and the cells of each method."""
        columns = ([f"{first} {last}".strip(), *cells] for first, last, *cells in self.columns)
        return list(zip(*columns, strict=True))

    @property
    def notes(self) -> list[str]:
        """Sentences below the table."""
        left = [f"Left out for want of width: {', '.join(self.left_out)}."] if self.left_out else []
        return [*notes(self.report), *map(printable, left)]


def letters(column: list[str]) -> int:
    """Return the width of a column and of the space beside it."""
    return max(map(len, column)) + _GAP


def rows(report: Any) -> list[dict[str, Any]]:
    """Return the table of what must be a report."""
    from vpintegrator.rollout import Report

    of_kind("report", report, Report, "a report, as vp.compare or vp.open_rollout gives it")
    return list(report.table())


def terminal_table(report: Report, width: int | None = _WIDTH) -> Group:
    """Return a table for a terminal ``width`` characters wide, learned methods first, in bold.

    Without a width it has all columns. Numbers of a width that is too small for the columns that
    must not be left out are folded.

    Parameters
    ----------
    report
        A report of a comparison.
    width
        Letters in a line; None for as many as it takes.

    Examples
    --------
    >>> report = vp.compare(None, "rk4", system="pendulum", step=0.1, steps=20)
    >>> import rich
    >>> rich.print(vp.plotting.terminal_table(report))  # doctest: +SKIP
    """
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    printed = Printed(report, width)
    names, *others = printed.columns
    longest = None if width is None else max(8, width - _GAP - sum(map(letters, others)))
    table = Table(box=None, header_style="dim")
    table.add_column(Text("\n".join(names[:2])), overflow="fold", max_width=longest)
    for column in others:
        table.add_column(Text("\n".join(column[:2])), justify="right", overflow="fold")
    for row, run in zip(printed.rows[1:], report.runs.values(), strict=True):
        table.add_row(*map(Text, row), style="bold" if run.kind == "learned" else "")
    notes = Text(" ".join(printed.notes), style="dim")
    return Group(Text(title(report), style="bold"), table, notes)


def csv_table(report: Report) -> str:
    """Return a CSV table of all numbers at full precision; times in seconds.

    A title that a spreadsheet would take for a formula gets an apostrophe before it.

    Parameters
    ----------
    report
        A report of a comparison.

    Examples
    --------
    >>> report = vp.compare(None, "rk4", system="pendulum", step=0.1, steps=20)
    >>> vp.plotting.csv_table(report).splitlines()[0][:20]
    'method,kind,order,st'
    """
    table, text = rows(report), io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerows(map(_plain, line) for line in (table[0], *(row.values() for row in table)))
    return text.getvalue()


def _plain(value: Any) -> Any:
    """Return a value for a spreadsheet: words for truth values, and no formula."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if not isinstance(value, str):
        return value
    return ("'" if value.startswith(("=", "+", "-", "@")) else "") + printable(value)


def markdown_table(report: Report) -> str:
    """Return a GitHub-flavoured table.

    Parameters
    ----------
    report
        A report of a comparison.

    Examples
    --------
    >>> report = vp.compare(None, "rk4", system="pendulum", step=0.1, steps=20)
    >>> "RK4" in vp.plotting.markdown_table(report)
    True
    """
    printed = Printed(report)
    lines = [f"| {' | '.join(map(markdown, row))} |" for row in printed.rows]
    lines.insert(1, f"|---|{'---:|' * (len(printed.columns) - 1)}")
    table, below = "\n".join(lines), markdown(" ".join(printed.notes))
    return f"{markdown(title(report))}\n\n{table}\n\n{below}\n"


def latex_table(report: Report) -> str:
    """Return a ``tabular`` with booktabs rules, scaled down if it is wider than the text.

    Parameters
    ----------
    report
        A report of a comparison.

    Examples
    --------
    >>> report = vp.compare(None, "rk4", system="pendulum", step=0.1, steps=20)
    >>> "toprule" in vp.plotting.latex_table(report)
    True
    """
    printed = Printed(report)
    headers = zip(*(column[:2] for column in printed.columns), strict=True)
    # an empty group, lest a bracket or star be taken for an argument of the line's end before it
    body = [["{}" + escape(name), *map(latex, cells)] for name, *cells in printed.rows[1:]]
    places = "l" + "r" * (len(printed.columns) - 1)
    lines = [
        r"% \usepackage{booktabs,graphicx}",
        *(f"% {latex(note)}" for note in (title(report), *printed.notes)),
        r"\resizebox{\ifdim\width>\linewidth\linewidth\else\width\fi}{!}"
        rf"{{\begin{{tabular}}{{{places}}}",
        r"\toprule",
        *(" & ".join(map(escape, line)) + r" \\" for line in headers),
        r"\midrule",
        *(" & ".join(row) + r" \\" for row in body),
        r"\bottomrule",
        r"\end{tabular}}",
    ]
    return "\n".join(lines) + "\n"


def title(report: Report) -> str:
    """Return the title of the table, one line."""
    setting = f"to t = {grouped(report.times[-1])}, step {report.step:g} ({reference(report)})"
    return printable(f"{report.system.title}: {orbits(len(report.reference))} {setting}")


def reference(report: Report) -> str:
    """Return words on the reference: its origin, accuracy and end."""
    if report.is_reference_given:
        return "reference: the states given"
    if not report.reference_time > 0:
        return "no reference"
    error, end = report.accuracy, f", to t = {grouped(report.reference_time)}"
    words = f"reference accurate to about {error:.0e}" if error else "reference: the map itself"
    return words + end * bool(report.reference_time < report.times[-1])


def notes(report: Report) -> list[str]:
    """Return sentences that explain the numbers of the table."""
    runs, what, less = list(report.runs.values()), "Volume", ""
    if report.system.contracts:
        what, less = "Contraction", ", less that of the exact solution"
    seeds = ", ".join(run.title for run in runs if run.seeds)
    windows = ", ".join(run.title for run in runs if run.window > 1)
    but = " but those of a first window after the initial one" if windows else ""
    of_windows = f" (of windows: {windows})" if windows else ""
    through = "; for models of windows, of the map from z_0 to the newest state" if windows else ""
    ends = [run.volume["phase-space"].times[-1] for run in runs if "phase-space" in run.volume]
    means = [run.lyapunov.time for run in runs if run.lyapunov is not None]
    models = [m for m in report.step_table.models if m.name in report.members and m.rivals]
    sentences: dict[str, Any] = {
        **dict.fromkeys(map(report.step_table.sentence_of, models), True),
        "Median and worst are over the orbits; errors and drifts of invariants are the largest of "
        "any orbit.": True,
        f"Of {seeds} each number is the median over the seeds, the worst RMSE the largest; best "
        "and worst seed have the least and the largest median RMSE.": seeds,
        f"RMSE is that of a component, over all times of the reference{but}; the final distance is "
        "Euclidean.": True,
        f"{what}: largest |log|det|| of the derivative of one step{of_windows}, and of the "
        f"phase-space map z_0 → z_n{less}; yes where it is rounding.": True,
        f"The phase-space map is followed to t = {grouped(max(ends, default=0))}.": ends,
        f"Lyapunov exponents are means over a time of {grouped(max(means, default=0))}.": means,
        _on_invariants(report): True,
        "Symplecticity: largest entry of |D^T J D - J|, D the derivative of the map of one "
        f"step{through}.": any(run.symplecticity is not None for run in runs),
        "Diverged: orbits that are not finite, farther from the reference than ten times its "
        "extent, or with an invariant changed by a hundred times its size.": any(
            map(report.diverged, report.runs)
        ),
        "Derivatives of the vector field are finite differences: volumes and Lyapunov exponents of "
        "classical methods are known to about "
        "1e-9.": report.system.derivatives == "finite differences",
        attention_changes(runs): True,
        departures(report): True,
    }
    return [printable(sentence) for sentence, holds in sentences.items() if sentence and holds]


def _on_invariants(report: Report) -> str:
    """Return a sentence on invariants constant to rounding, for which there may be no column."""
    summaries = [(run.title, report.summary(name)) for name, run in report.runs.items()]
    parts = []
    for invariant, label in report.invariant_labels.items():
        kept = [title for title, summary in summaries if summary.invariants_kept[invariant]]
        if kept:
            names = "all" if len(kept) == len(summaries) else ", ".join(kept)
            parts.append(f"{label} by {names}")
    return f"Kept to rounding: {'; '.join(parts)}." if parts else ""


def attention_changes(runs: Iterable[Run]) -> str:
    """Return a sentence on the attention of models, if there is any."""
    parts = [f"{run.title}: {run.remark}" for run in runs if run.remark.startswith("attention: ")]
    return f"{'; '.join(parts)}." if parts else ""


def departures(report: Report) -> str:
    """Return a sentence on the models that left their training domain, if any did."""
    found = {run.title: report.summary(name) for name, run in report.runs.items()}
    parts = [
        f"{title} on {s.left_domain} of {orbits(s.trajectories)}, first at t = "
        f"{s.left_domain_time:.4g}"
        for title, s in found.items()
        if s.left_domain
    ]
    left = "Left the training domain, outside of which a model is a guess:"
    return f"{left} {'; '.join(parts)}." if parts else ""


def size(value: float, infinite: str = "diverged") -> str:
    """Return an error in words."""
    return f"{value:.1e}" if math.isfinite(value) else infinite


def error_size(value: float, report: Report) -> str:
    """Return an error of trajectories in words, a bound below the accuracy of the reference."""
    return f"< {report.accuracy:.0e}" if value < report.accuracy else size(value)


def _is_broken(column: Column, table: list[dict[str, Any]]) -> bool:
    """Whether it is a defect of what a method promises to keep, and does not."""
    lasting = [row for row in table if not row["diverged"]]  # far away rounding is large
    promising = (row for row in lasting if any(t in row["structure"] for t in column.promised))
    defects = (row[column.title] for row in promising)
    return any(value is not None and not value <= _ROUNDING for value in defects)


def _telling(column: Column, table: list[dict[str, Any]]) -> bool:
    """Whether a column says something about this comparison."""
    values = [row[column.title] for row in table]
    if column.style in ("hidden", "kept"):
        return column.style == "kept"
    if column.style == "count":
        return any(values)
    known = [value for value in values if value is not None and value != ""]
    return any(column.style != "failure" or math.isfinite(value) for value in known)


def _cell(column: Column, row: dict[str, Any], name: str, report: Report) -> str:
    value, style, beside = row[column.title], column.style, row.get(column.beside)
    if value is None or value == "":
        return _BLANK
    if style == "kept":
        return f"{'yes' if beside else 'no'} {size(value, 'collapsed')}"
    if style == "count":
        return f"{value} of {row['orbits']}" if value else _BLANK
    if isinstance(value, str | int):
        return printable(str(value))
    if style == "failure" and not math.isfinite(value):
        return f"> {report.threshold_passed(name):.4g}"
    signed = style == "drift"  # the drift of a diverged orbit has no meaning
    if value == math.inf and not signed and style != "duration":
        return "diverged"
    if not math.isfinite(value) or (signed and row["diverged"]):
        return _BLANK
    if style in ("failure", "short"):
        return f"{value:.4g}" if style == "failure" else f"{value:.3g}"
    if style in ("duration", "error"):
        return duration(value) if style == "duration" else error_size(value, report)
    uncertain = beside is not None and math.isfinite(beside)
    return f"{value:{'+' if signed else ''}.1e}" + (f" ± {beside:.0e}" if uncertain else "")
