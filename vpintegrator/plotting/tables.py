"""The table of methods for terminals, CSV, Markdown and LaTeX.

CSV holds every number. The others hold the columns that say something about this comparison, as
many as can be read side by side, the most telling first, or those that are asked for. Columns that
show failures are never left out: median and worst error, diverged orbits, both volumes. Of the
others the errors and drifts of the first invariant are left out last.

The text of a value is made by :func:`value_text` alone, for tables and captions.
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from vpintegrator.arguments import of_kind, one_of
from vpintegrator.errors import InputError, printable
from vpintegrator.plotting.text import (
    capital,
    escape,
    grouped,
    latex,
    listed,
    markdown,
    orbits,
    shortened,
)
from vpintegrator.rich_display import duration
from vpintegrator.rollout.diagnostics.volume import VOLUMES

if TYPE_CHECKING:
    from rich.console import Group

    from vpintegrator.rollout import Report, Run
    from vpintegrator.rollout.variables import Column

_WIDTH = 108  # letters of a row
WIDEST = 200  # letters of a row on any screen
_GAP = 2
_BLANK = "–"
_ROUNDING = 1e-10  # defect that counts as rounding at least, in units of the state


class Printed:
    """A table of texts: its columns, the methods first, and the names of the columns left out.

    A column is its title in two lines, and the cell of each method.

    Parameters
    ----------
    report
        A report of a comparison.
    width
        Letters in a line, at most 200.
    columns
        Titles of the columns, as in CSV, beside the names of the methods; by default those that say
        something, as many as fit.

    Raises
    ------
    InputError
        If it is made of anything but a report, or a title is none.
    """

    def __init__(self, report: Report, width: int = _WIDTH, columns: Sequence[str] = ()) -> None:
        self.report = report
        table = rows(report)
        named = list(zip(table, report.runs, strict=True))
        width = min(width, WIDEST)
        selection = _chosen(report, table, columns)
        texts = {
            each.title: [
                *(each.header or each.title.rpartition(" ")[::2]),
                *(_cell(each, row, name, report) for row, name in named),
            ]
            for each in selection
        }
        ranked = [
            each for each in reversed(selection) if each.rank and not _is_broken(each, report)
        ]
        self.left_out: list[str] = []
        for each in [] if columns else sorted(ranked, key=lambda column: column.rank or 0.0):
            if sum(map(letters, texts.values())) > width:
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
        names = ", ".join(self.left_out)
        left = [f"Left out for want of width: {names}; vp-plot --columns chooses."] if names else []
        return [*notes(self.report), *map(printable, left)]


def letters(column: list[str]) -> int:
    """Return the width of a column and of the space beside it."""
    return max(map(len, column)) + _GAP


def rows(report: Any) -> list[dict[str, Any]]:
    """Return the table of what must be a report."""
    from vpintegrator.rollout import Report

    of_kind("report", report, Report, "a report, as vp.compare or vp.open_rollout gives it")
    return list(report.table())


def terminal_table(
    report: Report, width: int | None = _WIDTH, columns: Sequence[str] = ()
) -> Group:
    """Return a table for a terminal ``width`` characters wide, learned methods first, in bold.

    Numbers of a width that is too small for the columns that must not be left out are folded.

    Parameters
    ----------
    report
        A report of a comparison.
    width
        Letters in a line, at most 200; None for 200.
    columns
        Titles of the columns, as in CSV, beside the names of the methods; by default those that say
        something, as many as fit.

    Examples
    --------
    >>> report = vp.compare(None, "rk4", system="pendulum", step=0.1, steps=20)
    >>> import rich
    >>> rich.print(vp.plotting.terminal_table(report))  # doctest: +SKIP
    """
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    width = min(width or WIDEST, WIDEST)
    printed = Printed(report, width, columns)
    names, *others = printed.columns
    longest = max(8, width - _GAP - sum(map(letters, others)))
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
    table = rows(report)
    text = io.StringIO()
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


def markdown_table(report: Report, columns: Sequence[str] = ()) -> str:
    """Return a GitHub-flavoured table.

    Parameters
    ----------
    report
        A report of a comparison.
    columns
        Titles of the columns, as in CSV; by default those that say something, as many as fit.

    Examples
    --------
    >>> report = vp.compare(None, "rk4", system="pendulum", step=0.1, steps=20)
    >>> "RK4" in vp.plotting.markdown_table(report)
    True
    """
    printed = Printed(report, columns=columns)
    lines = [f"| {' | '.join(map(markdown, row))} |" for row in printed.rows]
    lines.insert(1, f"|---|{'---:|' * (len(printed.columns) - 1)}")
    table = "\n".join(lines)
    below = markdown(" ".join(printed.notes))
    return f"{markdown(title(report))}\n\n{table}\n\n{below}\n"


def latex_table(report: Report, columns: Sequence[str] = ()) -> str:
    """Return a ``tabular`` with booktabs rules, scaled down if it is wider than the text.

    Parameters
    ----------
    report
        A report of a comparison.
    columns
        Titles of the columns, as in CSV; by default those that say something, as many as fit.

    Examples
    --------
    >>> report = vp.compare(None, "rk4", system="pendulum", step=0.1, steps=20)
    >>> "toprule" in vp.plotting.latex_table(report)
    True
    """
    printed = Printed(report, columns=columns)
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
    error = report.accuracy
    end = f", to t = {grouped(report.reference_time)}"
    words = f"reference accurate to about {error:.0e}" if error else "reference: the map itself"
    return words + end * bool(report.reference_time < report.times[-1])


def notes(report: Report) -> list[str]:
    """Return sentences that explain the numbers of the table."""
    runs = list(report.runs.values())
    what = "Volume"
    less = ""
    if report.complete_system.contracts:
        what = "Contraction"
        less = ", less that of the exact solution"
    seeds = ", ".join(run.title for run in runs if run.seeds)
    windows = any(run.window > 1 for run in runs)
    but = " but those of a first window after the initial one" * windows
    through = "; for models of windows, of the map from z_0 to the newest state" * windows
    if any(run.structure.form == "lagrangian" for run in runs):
        through = "; of windows of positions, that of the form of their discrete Lagrangian"
    ends = [run.volume["phase-space"].times[-1] for run in runs if "phase-space" in run.volume]
    means = [run.lyapunov.time for run in runs if run.lyapunov is not None]
    sentences: dict[str, Any] = {
        **dict.fromkeys(cost_sentences(report), True),
        "Median and worst are over the orbits; errors and drifts of invariants are the largest of "
        "any orbit.": True,
        f"Of {seeds} each number is the median over the seeds, the worst RMSE the largest; best "
        "and worst seed have the least and the largest median RMSE.": seeds,
        f"RMSE is that of a component, over all times of the reference{but}; the final distance is "
        "Euclidean.": True,
        f"{what}: largest |log|det|| of the derivative of one step {spaces(report)}, and of the "
        f"phase-space map z_0 → z_n{less}; yes where it is rounding in the precision of the "
        "map.": True,
        f"The phase-space map is followed to t = {grouped(max(ends, default=0))}.": ends,
        f"Lyapunov exponents are means over a time of {grouped(max(means, default=0))}.": means,
        kept_by_some(report): True,
        _on_invariants(report): True,
        observed(report): True,
        "Symplecticity: largest entry of |D^T J D - J|, D the derivative of the map of one "
        f"step{through}.": any(
            value is not None
            for run in runs
            for value in (run.symplecticity, run.window_symplecticity)
        ),
        "Diverged: orbits that are not finite, farther from the reference than ten times its "
        "extent, or with an invariant changed by a hundred times its size. Other numbers of an "
        "orbit end there.": any(map(report.diverged, report.runs)),
        "Derivatives of the vector field are finite differences: volumes and Lyapunov exponents of "
        "classical methods are known to about "
        "1e-9.": report.system.derivatives == "finite differences",
        provenances(runs): True,
        attention_changes(runs): True,
        departures(report): True,
    }
    return [printable(sentence) for sentence, holds in sentences.items() if sentence and holds]


def spaces(report: Report) -> str:
    """Return words on the spaces of the maps of one step: ``in the space of states``."""
    named: dict[str, list[str]] = {}
    for run in report.runs.values():
        named.setdefault(run.space, []).append(shortened(run.title))
    if len(named) == 1:
        return f"in the space of {next(iter(named))}"
    others = [f"of {listed(names)} in that of {space}" for space, names in named.items()]
    of_states = [] if "states" not in named else ["in the space of states"]
    others = [words for words in others if not words.endswith("that of states")]
    return ", ".join([*of_states, *others])


def cost_sentences(report: Report) -> list[str]:
    """Return the comparison of each model with the cheapest classical method of its error.

    Of several models of one name it is that of median error.
    """
    table = report.step_table
    sentences: list[str] = []
    if report.complete is not None:  # models and methods have no states in common
        return sentences
    for run in report.runs.values():
        name = run.typical.name if run.seeds else run.name
        row = table.row(name)
        if row.kind != "model" or not table.methods:
            continue
        sentence = table.sentence_of(row)
        if run.seeds:
            middle = f"{name}, the median of {len(run.seeds)} seeds,"
            sentence = sentence.replace(name, middle, 1)
        sentences.append(printable(sentence))
    return sentences


def kept_by_some(report: Report) -> str:
    """Return a sentence on volumes that some models of one name keep and others do not."""
    parts = []
    for name, run in report.runs.items():
        most = report.summary(name).volume_rounding
        for key, words in VOLUMES.items():
            each = [report.summary(member.name).volume.get(key) for member in run.members]
            known = [value for value in each if value is not None]
            kept = sum(value <= most[key] for value in known)
            if 0 < kept < len(known):
                parts.append(f"the {words} by {kept} of {run.title}")
    return f"Kept by some seeds alone: {'; '.join(parts)}." if parts else ""


def _on_invariants(report: Report) -> str:
    """Return a sentence on invariants constant to rounding, for which there may be no column."""
    summaries = [(run.title, report.summary(name)) for name, run in report.runs.items()]
    parts = []
    for invariant, label in report.invariant_labels.items():
        kept = [title for title, summary in summaries if summary.invariants_kept.get(invariant)]
        if kept:
            names = "all" if len(kept) == len(summaries) else ", ".join(kept)
            parts.append(f"{label} by {names}")
    return f"Kept to rounding: {'; '.join(parts)}." if parts else ""


def observed(report: Report) -> str:
    """Return a sentence on observed states: starts of methods, and what is not known of models."""
    if report.complete is None:
        return ""
    whole = ", ".join(map(printable, report.complete.components[:8]))
    some = [run for run in report.runs.values() if run.is_complete]
    sentences = []
    if some:
        names = listed([shortened(run.title) for run in some])
        are = "starts" if len(some) == 1 else "start"
        sentences.append(
            f"{names} {are} from the complete states ({whole}), which no training has seen; errors "
            "are those of what is observed."
        )
    labels = report.invariant_labels
    for run in report.runs.values():
        unknown = [label for name, label in labels.items() if name not in run.invariants]
        if unknown:
            sentences.append(
                f"Not known of {shortened(run.title)}: {listed(unknown)}, as no complete state "
                "follows from what is observed, its rates or the momenta of the model."
            )
    return " ".join(sentences)


def provenances(runs: Iterable[Run]) -> str:
    """Return a sentence on what maps were made of: states or equations."""
    named: dict[str, list[str]] = {}
    for run in runs:
        if run.provenance:
            named.setdefault(run.provenance, []).append(shortened(run.title))
    parts = [f"{words}: {listed(titles)}" for words, titles in named.items()]
    return capital("; ".join(parts) + ".") if parts else ""


def attention_changes(runs: Iterable[Run]) -> str:
    """Return a sentence on the attention of models, if there is any."""
    parts = [f"{run.title}: {run.attention_summary}" for run in runs if run.attention_summary]
    return f"{'; '.join(parts)}." if parts else ""


def departures(report: Report) -> str:
    """Return a sentence on the models that left their training domain, if any did."""
    summaries = {run.title: report.summary(name) for name, run in report.runs.items()}
    parts = [
        f"{title} on {s.left_domain} of {orbits(s.trajectories)}, first at t = "
        f"{s.left_domain_time:.4g}"
        for title, s in summaries.items()
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


def _chosen(report: Report, table: list[dict[str, Any]], columns: Sequence[str]) -> list[Column]:
    """Return the columns that are asked for, or those that say something, in printed order."""
    if isinstance(columns, str):
        raise InputError(f"columns: give a list of titles, such as ['{printable(columns, 60)}']")
    if not columns:
        ordered = sorted(report.columns, key=lambda column: column.place)
        return [each for each in ordered if _telling(each, table)]
    known = {each.title.lower(): each for each in report.columns}
    titles = [title.lower() for title in columns]
    asked = [known[one_of("columns", title, known)] for title in titles]
    return list(dict.fromkeys([known["method"], *asked]))


def _is_broken(column: Column, report: Report) -> bool:
    """Whether it is a defect of what a method promises to keep, and does not."""
    for name, defect in (report.values(column.title) if column.promised else {}).items():
        run = report.runs[name]
        summary = report.summary(name)
        promises = any(word in summary.structure.words for word in column.promised)
        # far away rounding is large
        if promises and not summary.diverged and not defect <= _rounding(run):
            return True
    return False


def _rounding(run: Run) -> float:
    return max(_ROUNDING, run.derivative_rounding())


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
    """Return the text of a cell: its value, and what is printed beside it."""
    value = row[column.title]
    beside = row.get(column.beside)
    if value is None or value == "":
        return _BLANK
    text = value_text(column, value, report)
    if column.style == "kept":
        return f"{'yes' if beside else 'no'} {text}"
    if column.style == "count":
        return f"{value} of {row['orbits']}" if value else _BLANK
    if column.style == "failure" and not math.isfinite(value):
        return f"> {report.threshold_passed(name):.4g}"
    certain = text == _BLANK or beside is None or not math.isfinite(beside)
    return text if certain else f"{text} ± {beside:.0e}"


def value_text(column: Column, value: Any, report: Report) -> str:
    """Return the text of a value of a column, in tables and captions alike."""
    style = column.style
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, str | int):
        return printable(str(value))
    if style == "kept":
        return size(value, "collapsed")
    # nothing is known of the drift, cost or exponent of what has diverged
    if value == math.inf and style in ("number", "error"):
        return "diverged"
    if not math.isfinite(value):
        return _BLANK
    forms: dict[str, Callable[[float], str]] = {
        "failure": "{:.4g}".format,
        "short": "{:.3g}".format,
        "duration": duration,
        "error": lambda error: error_size(error, report),
        "drift": "{:+.1e}".format,
        "hidden": "{:.4g}".format,
    }
    return forms.get(style, size)(value)
