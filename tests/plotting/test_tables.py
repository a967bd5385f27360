"""Tables: complete as CSV, readable elsewhere, honest about what diverged."""

import csv
import io

import pytest
from rich.console import Console

from vpintegrator.plotting import csv_table, latex_table, markdown_table, terminal_table
from vpintegrator.plotting.tables import duration, full_rows


def printed(report, width=110):
    out = io.StringIO()
    Console(file=out, width=width).print(terminal_table(report, width))
    return out.getvalue()


def test_csv_holds_the_numbers(body):
    rows = list(csv.DictReader(csv_table(body).splitlines()))
    assert [row["method"] for row in rows] == ["net", "Implicit midpoint", "RK4"]
    for row, name in zip(rows, body.runs, strict=True):
        summary = body.summary(name)
        assert float(row["RMSE"]) == summary.error
        assert float(row["energy drift"]) == summary.drifts["energy"]
        assert float(row["energy drift ±"]) == summary.drift_errors["energy"]
        assert float(row["phase-space volume error"]) == summary.volume["phase-space"]
        preserved = "volume-preserving" in summary.structure
        assert preserved == (summary.volume["step"] < 1e-12)
        assert (row["volume preserved"] != "no") == preserved
    # a model of windows keeps the volume of these, and not that of phase space
    assert [row["volume preserved"] for row in rows] == ["windows", "no", "no"]
    assert body.summary("net").volume["phase-space"] > 1e-3


def test_csv_has_every_column_of_the_report(body):
    (header, *_) = csv_table(body).splitlines()
    assert set(header.split(",")) == {*body.table()[0], "volume preserved"}


@pytest.mark.parametrize("width", [80, 110, 200])
@pytest.mark.parametrize("name", ["body", "oscillators", "thinned", "flow"])
def test_a_row_fits_a_terminal(name, width, request):
    report = request.getfixturevalue(name)
    lines = printed(report, width).splitlines()
    table = lines[-2 - len(report.runs) :]  # two lines of header, a line a method
    assert table[1].split()[0] == "method"
    assert max(len(line.rstrip()) for line in table) <= width
    assert "…" not in "".join(lines)


def test_what_tells_the_methods_apart_stays(body):
    text = printed(body)
    for column in ("RMSE", "energy", "drift", "volume", "preserved", "per step"):
        assert column in text
    assert "diverged" not in text


def test_divergence_is_marked(oscillators):
    for text in (printed(oscillators), markdown_table(oscillators), latex_table(oscillators)):
        assert "diverged" in text
        assert "4 of 4" in text
    row = full_rows(oscillators)[0]
    assert row["diverged"] == 4
    lines = markdown_table(oscillators).splitlines()
    column = [cell.strip() for cell in lines[2].split("|")].index("energy drift")
    assert lines[4].split("|")[column].strip() == "–"


def test_markdown_and_latex(body):
    text = markdown_table(body)
    assert text.count("\n| ") == 4
    assert "volume error" in text
    latex = latex_table(body)
    assert r"\toprule" in latex
    assert r"\cdot 10^{-" in latex
    assert latex.count(r"\\") == 5
    columns = {line.count("&") for line in latex.splitlines() if line.endswith(r"\\")}
    assert len(columns) == 1


def test_durations():
    assert [duration(x) for x in (2.0, 1.5e-3, 2e-6, 3e-9)] == ["2 s", "1.5 ms", "2 µs", "3 ns"]
