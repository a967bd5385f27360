"""Tables: complete as CSV, readable elsewhere, honest about what diverged."""

import csv
import dataclasses
import io

import numpy as np
import pytest
from rich.console import Console

import vpintegrator as vp
from vpintegrator.errors import InputError
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


@pytest.mark.parametrize("width", [80, 110, 200])
@pytest.mark.parametrize("name", ["body", "oscillators", "thinned", "flow"])
def test_a_row_fits_a_terminal(name, width, request):
    report = request.getfixturevalue(name)
    text = printed(report, width)
    assert max(len(line.rstrip()) for line in text.splitlines()) <= width
    assert "…" not in text


def test_divergence_is_marked(oscillators):
    for text in (printed(oscillators), markdown_table(oscillators), latex_table(oscillators)):
        assert "diverged" in text
        assert "4 of 4" in text
    assert oscillators.table()[0]["diverged"] == 4
    assert cells(markdown_table(oscillators, columns=["energy drift"]), "energy drift")[0] == "–"


def exploded(report, name):
    """The report with an energy error of 1e11 on the second orbit, and all states finite."""
    invariants = dict(report.runs[name].invariants)
    change = invariants["energy"].error.copy()
    change[1, 40:] = 1e11
    invariants["energy"] = dataclasses.replace(invariants["energy"], error=change)
    return with_run(report, name, invariants=invariants)


def astray(report, name):
    """The report with an orbit eleven times farther away than the reference is large."""
    centre = report.reference.mean(axis=(0, 1))
    error = report.runs[name].error.copy()
    error[2, 30] = 11 * np.linalg.norm(report.reference - centre, axis=-1).max()
    return with_run(report, name, error=error)


def test_what_explodes_and_stays_finite_has_diverged(body):
    assert body.table()[2]["diverged"] == 0
    for report, orbit, at in ((exploded(body, "rk4"), 1, 40), (astray(body, "rk4"), 2, 30)):
        assert [row["diverged"] for row in report.table()] == [0, 0, 1]
        times = report.divergence_time("rk4")
        assert np.flatnonzero(np.isfinite(times)).tolist() == [orbit]
        assert times[orbit] == report.times[at]
        assert report.summary("rk4").diverged == 1


WIDTHS = range(40, 201, 4)


def test_no_width_hides_a_failure(body, oscillators):
    """A diverged orbit, the worst error, both volumes, a structure that is promised and broken."""
    broken = with_run(
        exploded(body, "rk4"),
        "net",
        volume={
            "step": Volume(np.zeros(1), np.full((1, 1), 3.3e-3)),
            "phase-space": Volume(np.zeros(1), np.full((1, 1), -np.inf)),
        },
        structure=vp.dynamics.Structure.of("volume", [np.diag([1.0, 1.0, -1.0])]),
        reversibility=7.7e-3,
        departure_time=np.array([np.nan, 3.0, 1.5]),
        title="a model with a name that is much longer than a narrow terminal is wide",
    )
    worst = f"{body.summary('rk4').worst_error:.1e}"
    for width in WIDTHS:
        text = printed(broken, width)
        assert max(len(line.rstrip()) for line in text.splitlines()) <= width
        for words in (
            "1 of 3",
            "2 of 3",
            worst,
            "no 3.3e-03",
            "no collapsed",
            "7.7e-03",
            "worst",
            "median",
        ):
            assert words in text, (width, words)
        assert "4 of 4" in printed(oscillators, width), width
    for text in (markdown_table(broken), csv_table(broken)):
        assert "worst RMSE" in text
        assert "median RMSE" in text
    for text in (markdown_table(broken), latex_table(broken)):
        for words in ("1 of 3", "2 of 3", "no collapsed", "map volume", "phase-space"):
            assert words in text


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


def test_half_of_the_orbits_failing_is_a_time(thinned):
    first = thinned.run("rk4").threshold_time.copy()
    first[:] = [7.0, np.nan]
    report = with_run(thinned, "rk4", threshold_time=first)
    assert report.summary("rk4").threshold_time == 7.0
    assert (
        cells(markdown_table(report, columns=["median time to failure"]), "median time to failure")[
            1
        ]
        == "7"
    )


def test_errors_of_invariants_say_what_they_are_relative_to(body, oscillators):
    assert "energy rel. error" in markdown_table(body)
    change = dataclasses.replace(body.runs["net"].invariants["energy"], relative=False)
    report = with_run(body, "net", invariants=body.runs["net"].invariants | {"energy": change})
    assert "energy abs. error" in markdown_table(report)


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


def test_a_lyapunov_exponent_has_its_uncertainty_beside_it(body):
    summary = body.summary("rk4")
    assert f"{summary.lyapunov:.1e} ± {summary.lyapunov_error:.0e}" in printed(body, None)
    assert csv_table(body).splitlines()[0].count("Lyapunov exponent") == 3


CHOSEN = ["Worst-RMSE", "order", "energy error kind"]


def test_chosen_columns_stand_in_every_table(body):
    """In the order given, hidden ones too, whatever the width."""
    header, *rows = csv.reader(io.StringIO(csv_table(body, CHOSEN)))
    assert header == ["method", "worst RMSE", "order", "energy error kind"]
    assert rows[2][0] == "RK4" and rows[2][2:] == ["4", "relative"]
    lines = markdown_table(body, CHOSEN).splitlines()
    assert lines[2] == "| method | worst RMSE | order | energy error kind |"
    assert "Left out" not in lines[-1]
    assert "{lrrr}" in latex_table(body, CHOSEN)
    out = io.StringIO()
    Console(file=out, width=200).print(terminal_table(body, 40, CHOSEN))
    assert (
        out.getvalue().count("relative") >= 3 and "drift" not in out.getvalue().split("Median")[0]
    )


@pytest.mark.parametrize("table", [csv_table, markdown_table, latex_table, terminal_table])
def test_a_column_that_is_not_there_is_told_with_the_nearest(body, table):
    with pytest.raises(InputError, match="no column 'median RMS'; did you mean 'median RMSE'"):
        table(body, columns=["median RMS"])


def test_the_note_on_the_error_says_which_times_it_is_over(body, oscillators):
    """The initial state counts, of which all are given; the rest of a first window does not."""
    left_out = "over all times of the reference but those of a first window after the initial one;"
    assert left_out in markdown_table(body)
    reference, run = body.reference, body.runs["net"]
    distance = np.linalg.norm(run.states[:, : reference.shape[1]] - reference, axis=-1)
    assert not distance[:, : run.window].any()
    count = reference.shape[1] - (run.window - 1)
    expected = np.sqrt((distance**2).sum(axis=1) / (3 * count))
    np.testing.assert_allclose(run.root_mean_square_error, expected, rtol=1e-12)
    assert "over all times of the reference;" in markdown_table(oscillators)
