"""Tables: complete as CSV, readable elsewhere, honest about what diverged."""

import csv
import dataclasses
import io
import re

import numpy as np
import pytest
import torch
from rich.console import Console

import vpintegrator as vp
from vpintegrator.errors import InputError
from vpintegrator.overview import report_text
from vpintegrator.plotting import csv_table, latex_table, markdown_table, terminal_table
from vpintegrator.plotting.figures import FIGURES
from vpintegrator.plotting.scene import Scene
from vpintegrator.plotting.tables import cost_sentences
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
    ends = np.array([np.nan, report.times[40], np.nan])
    return with_run(report, name, invariants=invariants, divergence_time=ends)


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


@pytest.fixture(scope="module")
def wide():
    """Several models of one name, of windows, with attention, beside methods: every column."""
    models = []
    for seed in range(2):
        torch.manual_seed(seed)
        model = vp.models.VolumePreservingTransformer(dim=4, window=3, width=4, initial_scale=0.02)
        words = "attention: 60 weights, relative change 1.2e-03, rotations by 4.5e-02 rad"
        model.origin = vp.models.Origin(vp.load_system("henon-heiles"), 0.1)
        model.record = vp.models.Record(attention=words)
        models.append(model)
    return vp.compare({"VPT": models}, ["rk4", "yoshida-4"], steps=40, trajectories=2)


def test_errors_and_drifts_of_the_energy_are_lost_last(wide):
    """Nothing that may be left out stays where they go."""
    may = {column.title: column.rank for column in wide.columns if column.rank}
    last = sorted(may, key=may.get)[-2:]
    assert last == ["energy drift", "energy error"]
    for text in (markdown_table(wide), latex_table(wide)):
        (left,) = re.findall(r"Left out for want of width: (.*); vp-plot --columns chooses", text)
        assert "worst seed" in left and "energy" not in left
        assert text.count("energy") >= 2


def test_no_line_on_a_screen_has_more_than_200_characters(wide):
    for width in (200, 250, 1000, None):
        lines = report_text(wide, width, notes=True).splitlines()
        assert max(map(len, lines)) <= 200
    every = report_text(wide, None)
    assert "rel. error" in every and "attention" not in every
    notes = " ".join(report_text(wide, None, notes=True).split())
    assert "VPT (2 seeds): attention: 60 weights" in notes


def test_columns_are_those_that_are_asked_for(wide, tmp_path):
    """In their order, hidden ones too; CSV has all."""
    asked = ["energy drift", "Parameters", "structure", "map volume preserved"]
    text = markdown_table(wide, asked)
    header = next(line for line in text.splitlines() if line.startswith("| "))
    titles = [each.strip() for each in header.strip("|").split("|")]
    assert titles == ["method", "energy drift", "parameters", "structure", "map volume preserved"]
    assert cells(text, "map volume preserved") == ["yes", "no", "yes"]
    assert "Left out" not in text
    assert latex_table(wide, asked).count("&") == 4 * (3 + 2)
    paths = vp.draw(wide, tmp_path, ["svg"], columns=asked)
    files = {path.name: path.read_text(encoding="utf-8") for path in paths if path.suffix != ".svg"}
    assert files["table.md"] == text and files["table.csv"] == csv_table(wide)
    for wrong, message in ((["energy drfit"], "did you mean 'energy drift'"), ("order", r"\['ord")):
        with pytest.raises(InputError, match=message):
            markdown_table(wide, wrong)
    with pytest.raises(InputError, match="columns: chosen figures come without tables"):
        vp.draw(wide, tmp_path / "more", figures=["errors"], columns=asked)


def test_the_space_of_a_volume_is_told(wide, body):
    volume = FIGURES["volume"](Scene(wide)).caption()
    assert "in the space of states, of VPT (2 seeds) in that of windows of 3 states: " in volume
    assert "Of z_0 → z_t in phase space: " in volume
    assert "in that of windows of 3 states" in FIGURES["overview"](Scene(wide)).caption()
    assert "of VPT (2 seeds) in that of windows of 3 states" in markdown_table(wide)
    alone = Scene(body, methods=["rk4"])
    assert "Of one step in the space of states: " in FIGURES["volume"](alone).caption()
    alone = Scene(body, methods=["net"])
    assert "Of one step in the space of windows of 3 states: " in FIGURES["volume"](alone).caption()


def test_the_sentence_on_cost_is_of_every_model(wide, body):
    sentences = cost_sentences(wide)
    assert len(sentences) == 1 and "the median of 2 seeds, errs by" in sentences[0]
    run = body.runs["net"]
    row = dataclasses.replace(body.step_table.row("net"), name="other")
    table = dataclasses.replace(body.step_table, rows=(*body.step_table.rows, row))
    runs = body.runs | {"other": dataclasses.replace(run, name="other", title="other")}
    both = cost_sentences(dataclasses.replace(body, runs=runs, step_table=table))
    assert [each.split()[0] for each in both] == ["net", "other"]
