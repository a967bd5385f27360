"""Tables: complete as CSV, readable elsewhere, honest about what diverged."""

import csv
import dataclasses
import io

import numpy as np
from rich.console import Console

import vpintegrator as vp
from vpintegrator.overview import report_text
from vpintegrator.plotting import csv_table, latex_table, markdown_table, terminal_table
from vpintegrator.rollout import Volume


def printed(report, width=110):
    out = io.StringIO()
    Console(file=out, width=width or 1000).print(terminal_table(report, width))
    return out.getvalue()


def with_run(report, name, **changes):
    """The report with other things measured on one of its methods."""
    run = report.runs[name]
    measured = {key: changes.pop(key) for key in [*changes] if key in run.measurements}
    run = dataclasses.replace(run, measurements=run.measurements | measured, **changes)
    return dataclasses.replace(report, runs=report.runs | {name: run})


def cells(text, column):
    """A column of a Markdown table."""
    lines = [
        [cell.strip() for cell in line.split(" | ")]
        for line in text.splitlines()
        if line.startswith("| ")
    ]
    at = next(k for k, cell in enumerate(lines[0]) if cell.strip("| ") == column)
    return [line[at].strip("| ") for line in lines[1:]]


def test_csv_holds_the_numbers(body):
    rows = list(csv.DictReader(csv_table(body).splitlines()))
    assert [row["method"] for row in rows] == ["net", "Implicit midpoint", "RK4"]
    for row, name in zip(rows, body.runs, strict=True):
        summary = body.summary(name)
        assert float(row["median RMSE"]) == summary.error
        assert float(row["energy drift"]) == summary.drifts["energy"]
        assert float(row["energy drift ±"]) == summary.drift_errors["energy"]
        assert float(row["phase-space volume error"]) == summary.volume["phase-space"]
        for words, key in (("map", "step"), ("phase-space", "phase-space")):
            kept = row[f"{words} volume preserved"]
            assert kept == ("yes" if summary.volume[key] < 1e-12 else "no")
        assert row["orbits"] == "3"
        assert row["energy error kind"] == "relative"
    # a model of windows keeps the volume of these, and not that of phase space
    assert [row["map volume preserved"] for row in rows] == ["yes", "no", "no"]
    assert [row["phase-space volume preserved"] for row in rows] == ["no", "no", "no"]
    assert body.summary("net").volume["phase-space"] > 1e-3


def test_divergence_is_marked(oscillators):
    for text in (printed(oscillators), markdown_table(oscillators), latex_table(oscillators)):
        assert "diverged" in text
        assert "4 of 4" in text
    assert oscillators.table()[0]["diverged"] == 4


def exploded(report, name):
    """The report with an energy error of 1e11 on the second orbit, and all states finite."""
    invariants = dict(report.runs[name].invariants)
    change = invariants["energy"].error.copy()
    change[1, 40:] = 1e11
    invariants["energy"] = dataclasses.replace(invariants["energy"], error=change)
    return with_run(report, name, invariants=invariants)


def test_no_width_hides_a_failure(body, oscillators):
    """A diverged orbit, the worst error, both volumes, a structure that is promised and broken."""
    volumes = {
        "step": Volume(np.zeros(1), np.full((1, 1), 3.3e-3)),
        "phase-space": Volume(np.zeros(1), np.full((1, 1), -np.inf)),
    }
    broken = with_run(
        exploded(body, "rk4"),
        "net",
        volume=volumes,
        structure=vp.dynamics.Structure.of("volume", [np.diag([1.0, 1.0, -1.0])]),
        reversibility=7.7e-3,
        departure_time=np.array([np.nan, 3.0, 1.5]),
        title="a model with a name that is much longer than a narrow terminal is wide",
    )
    told = ["1 of 3", "2 of 3", "no collapsed", "worst", "median"]
    told += ["no 3.3e-03", "7.7e-03", f"{body.summary('rk4').worst_error:.1e}"]
    for width in range(60, 201, 10):
        text = printed(broken, width)
        assert max(len(line.rstrip()) for line in text.splitlines()) <= width
        # in fewer letters cells are folded
        assert width < 110 or [words for words in told if words not in text] == []
        assert "4 of 4" in printed(oscillators, width), width
    for text in (markdown_table(broken), latex_table(broken)):
        assert [words for words in told[:5] if words not in text] == []


def test_volume_is_lost_only_above_rounding(body):
    """Whatever a method promises: what is measured counts."""
    kept = Volume(np.zeros(1), np.full((1, 1), 4e-13))
    report = with_run(body, "rk4", volume={"step": kept})
    assert cells(markdown_table(report), "map volume kept")[2] == "yes 4.0e-13"
    assert cells(markdown_table(report), "phase-space volume kept")[2] == "–"
    assert report.summary("rk4").structure.form == "none"
    assert report.table()[2]["map volume preserved"] is True
    lost = Volume(np.zeros(1), np.full((1, 1), 4e-12))
    assert with_run(body, "rk4", volume={"step": lost}).table()[2]["map volume preserved"] is False


def test_invariants_that_are_kept_are_named():
    """Momenta are told from what drifts, however little room there is for columns."""
    report = vp.compare(
        None, ["rk4", "stoermer-verlet"], system="kepler", step=0.1, steps=100, trajectories=2
    )
    summary = report.summary("rk4")
    assert not any(summary.invariants_kept.values())
    assert summary.invariants["angular_momentum"] > 1e-7
    for text in (printed(report, 60), markdown_table(report)):
        assert "Kept to rounding: angular momentum by Störmer–Verlet." in " ".join(text.split())


def test_markdown_and_latex(body):
    text = markdown_table(body)
    assert text.count("\n| ") == 4
    assert cells(text, "phase-space volume kept")[0].startswith("no ")
    latex = latex_table(body)
    assert r"\toprule" in latex
    assert r"\cdot 10^{-" in latex
    assert latex.count(r"\\") == 5
    columns = {line.count("&") for line in latex.splitlines() if line.endswith(r"\\")}
    assert len(columns) == 1


def test_sentences_are_printed_where_they_are_asked_for(body):
    for width in (80, None):
        table, whole = report_text(body, width), report_text(body, width, notes=True)
        assert whole.startswith(table) and "RMSE is that" in whole.replace("\n", " ")
        assert len(table.splitlines()) == len(body.runs) + 3 + (width == 80)
