"""A rollout from a stranger is drawn and typeset; nothing in its names is obeyed."""

import re
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.plotting.conftest import captions
from tests.plotting.test_tables import printed
from vpintegrator.plotting import csv_table, latex_table, markdown_table
from vpintegrator.plotting.figure import markdown_paragraphs
from vpintegrator.plotting.figures import FIGURES
from vpintegrator.plotting.scene import Scene
from vpintegrator.plotting.style import PAPER

HOSTILE = [
    r"\write18{rm -rf ~}",
    r"\immediate\write18{ls}}\end{tabular}",
    *("\n\\input{x}\n", "\r\\input{x}", "\x85\\input{x}\u2028\\input{y}", "^^5cinput{x}"),
    *("$\\sum_{", "$x$", "$", "\\$", "\\", "{", "}", "%", "&", "#1", "[2cm]", "*", "~^_", "_a"),
    *("$|log|det||$", "1e5_z_\\x", "![x](http://example.org/x.png)", "<script>", "[/b]", "[bold"),
    *("\x1b[31m", "\u202eabc", "\ud800", "=1+1", "|", "`x`", "x" * 3000, ""),
]
KNOWN = """
    begin end centering includegraphics caption label toprule midrule bottomrule textbackslash
    textasciitilde textasciicircum textdollar ldots mu pm times to leq infty dagger cdot log det
    usepackage resizebox ifdim width linewidth textheight else fi
"""
CAPTIONS = ["overview", "phase", "errors", "invariants", "volume"]
names = st.lists(st.sampled_from(HOSTILE) | st.text(max_size=8), max_size=4).map("".join)


def obeyed(text):
    """What TeX would obey in a text and this package never writes; empty if all is well."""
    found = [c for c in re.findall(r"\\([A-Za-z]+|[^A-Za-z])", text) if len(c) > 1 or c.isalpha()]
    found = [c for c in found if c not in KNOWN.split()]
    rest = re.sub(r"\\([A-Za-z]+|[^A-Za-z])", "", text)
    found += re.findall(
        r"\^\^|\^(?!\{-?\d+\})|#|~|(?<!\A)(?<!\n)%|[\x00-\x09\x0b-\x1f\x7f-\x9f]", rest
    )
    if rest.count("$") % 2 or rest.count("{") != rest.count("}"):
        found.append("unbalanced")
    return found


def renamed(report, title):
    """A report whose every text is another."""
    system = object.__new__(type(report.system))
    system.__dict__.update(report.system.__dict__)
    system.title = system.name = system.description = title
    system.invariants = {
        f"{name} {title}": function for name, function in report.system.invariants.items()
    }
    runs = {
        name: replace(
            run,
            title=title,
            description=title,
            measurements=run.measurements
            | {"invariants": {f"{key} {title}": v for key, v in run.invariants.items()}},
        )
        for name, run in report.runs.items()
    }
    return replace(report, system=system, runs=runs)


@pytest.fixture(scope="module")
def rename(thinned):
    """A report by its title (a function, as Hypothesis prints its arguments)."""
    return lambda title=None: thinned if title is None else renamed(thinned, title)


@settings(max_examples=15)
@given(names)
def test_nothing_is_obeyed(rename, title):
    report, known = rename(title), rename()
    text = latex_table(report)
    assert obeyed(text) == []
    rows = text.splitlines()
    assert not any(row.startswith(("[", "*")) for row in rows)
    assert len(rows) == len(latex_table(known).splitlines())
    assert len(markdown_table(report).splitlines()) == len(markdown_table(known).splitlines())
    text = markdown_table(report) + markdown_paragraphs(captions(Scene(report), CAPTIONS))
    assert not re.search(r"(?<!\\)[<`]|\]\(", text)
    assert text.isprintable() or {c for c in text if not c.isprintable()} == {"\n"}
    for line in csv_table(report).splitlines()[1:]:
        assert not re.match(r'"?[=+@-]', line)
    for words in (text, latex_table(report), csv_table(report)):
        words.encode()
    assert not {"\x1b", "\x07", "\u202e"} & {*printed(report, 120)}


@pytest.mark.parametrize("title", ["$\\sum_{", "\\$x$ {" + "x" * 3000, "_$a$ b\n\\frac \ud800 $"])
def test_figures_show_the_names_as_they_are(rename, title):
    scene = Scene(rename(title))
    with PAPER.applied():
        for name in ("overview", "errors"):
            FIGURES[name](scene).draw().draw_without_rendering()


def test_methods_whose_names_begin_with_an_underscore_are_in_the_legend(thinned):
    figure = FIGURES["errors"](Scene(renamed(thinned, "_net"))).draw()
    assert [text.get_text().strip() for text in figure.legends[0].get_texts()] == ["_net"] * 2
