"""Figures and tables of a study, from a record that is made by hand."""

import itertools
import math

import numpy as np
import pytest
from click.testing import CliRunner
from matplotlib.figure import Figure

import vpintegrator as vp
from vpintegrator.cli.plot import main
from vpintegrator.errors import InputError
from vpintegrator.plotting.figures.studies import (
    STUDY_FIGURES,
    QuantitiesFigure,
    StepCostFigure,
    common_curves,
    study_scene,
)
from vpintegrator.storage.studies import StudyRecord, write_study


def error(width, count, seed):
    return (0.1 / width + 1 / count) * (1 + 0.1 * seed)


def row(seed, size, **point):
    return {
        "seed": seed,
        "model": "resnet",
        "error": size,
        "deviation": 0.0,
        "validation_error": size,
        "seconds": 2.0,
        "epochs": 3,
        "parameters": 5,
        "cost": 1e-9 * point.get("width", 1),
        "stopped_by": "epochs",
        "note": "",
        "file": "a.safetensors",
        "curve": [[0.5, 1.0], [1.0, 0.5], [2.0, size]],
        **point,
    }


@pytest.fixture
def folder(tmp_path):
    """Widths, numbers of trajectories and seeds; one training has learned nothing."""
    record = StudyRecord({"model": "resnet"}, {"width": [2, 4, 32], "count": [10, 20]}, [0, 1, 2])
    for width, count, seed in itertools.product([2, 4, 32], [10, 20], [0, 1, 2]):
        size = math.inf if (width, count, seed) == (2, 10, 0) else error(width, count, seed)
        record.rows.append(row(seed, size, width=width, count=count))
    path = tmp_path / "my_study"
    path.mkdir()
    write_study(path, record)
    return path


def test_curves_are_medians_in_bands_of_all_seeds(folder):
    figure = QuantitiesFigure(study_scene(folder))
    axes = Figure().subplots()
    figure.panel(axes, "width")
    line = axes.lines[1]  # of 20 trajectories
    assert line.get_label() == "count 20" and axes.get_xscale() == "log"
    np.testing.assert_array_equal(line.get_xdata(), [2, 4, 32])
    np.testing.assert_allclose(line.get_ydata(), [error(w, 20, 1) for w in (2, 4, 32)])
    band = axes.collections[1].get_paths()[0].vertices
    assert math.isclose(band[:, 1].max(), error(2, 20, 2))
    assert math.isclose(band[:, 1].min(), error(32, 20, 0))
    first = axes.lines[0].get_ydata()[0]  # of the two seeds that have learned something
    assert math.isclose(first, np.median([error(2, 10, 1), error(2, 10, 2)]))


def test_costs_have_bars_of_all_seeds(folder):
    axes = StepCostFigure(study_scene(folder)).draw().axes[0]
    points = {
        (round(c.lines[0].get_xdata()[0]), c.lines[0].get_ydata()[0]) for c in axes.containers
    }
    assert (32, error(32, 20, 1)) in points and len(points) == 6


def test_words_have_places_of_their_own(tmp_path):
    record = StudyRecord({"model": None}, {"model": ["gru", "lstm"]}, [0])
    record.rows = [row(0, size, model=name) for name, size in (("gru", 0.1), ("lstm", 0.2))]
    write_study(tmp_path, record)
    axes = Figure().subplots()
    QuantitiesFigure(study_scene(tmp_path)).panel(axes, "model")
    assert [label.get_text() for label in axes.get_xticklabels()] == ["gru", "lstm"]
    np.testing.assert_array_equal(axes.lines[0].get_ydata(), [0.1, 0.2])


def test_curves_of_different_times_are_compared_where_all_have_some():
    first = np.array([[1.0, 2.0, 8.0], [0.9, 0.5, 0.1]])
    second = np.array([[2.0, 4.0], [0.8, 0.3]])
    times, errors = common_curves([first, second])
    assert (times[0], times[-1]) == (2.0, pytest.approx(4.0))
    assert errors[0].tolist() == [0.5] * len(times)
    assert errors[1][0] == 0.8 and errors[1][-2] == 0.8


def test_the_command_draws_a_study(folder, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(main, ["my_study", "-o", "f", "--format", "svg"])
    assert result.exit_code == 0, result.output
    names = {path.name for path in (tmp_path / "f").iterdir()}
    figures = {f"{name}.svg" for name in STUDY_FIGURES}
    assert names == figures | {"table.csv", "table.md", "table.tex", "captions.md"}
    lines = (tmp_path / "f" / "table.csv").read_text().splitlines()
    assert lines[0] == "width,count,seeds,median error,least error,largest error,cost / ns"
    assert lines[-1] == f"32,20,3,{error(32, 20, 1):.2e},{error(32, 20, 0):.2e}," + (
        f"{error(32, 20, 2):.2e},32"
    )
    words = " ".join((tmp_path / "f" / "captions.md").read_text().split())
    assert "18 trainings" in words and "against width and count: medians in bands" in words
    chosen = CliRunner().invoke(main, ["my_study", "-o", "g", "--figure", "step-cost"])
    assert chosen.exit_code == 0, chosen.output
    methods = CliRunner().invoke(main, ["my_study", "-o", "h", "--methods", "rk4"])
    assert (methods.exit_code, "my_study is a study" in methods.output) == (2, True)


def test_folders_without_a_study_are_refused(folder, tmp_path):
    with pytest.raises(InputError, match=r"there is no study\.json in"):
        vp.draw(tmp_path, tmp_path / "f")
    (folder / "study.json").write_text("{}")
    with pytest.raises(InputError, match="is no record of a study"):
        vp.draw(folder, tmp_path / "f")
    write_study(folder, StudyRecord({"model": "gru"}, {"window": [2]}, [0]))
    with pytest.raises(InputError, match="no training of the study is finished"):
        vp.draw(folder, tmp_path / "f")
    assert not (tmp_path / "f").exists()


def test_hostile_names_are_plain_text(tmp_path):
    name = r"$\input{x}|<b>_"
    record = StudyRecord({"model": "a"}, {name: ["<i>|", "$x"]}, [0])
    record.rows = [row(0, 0.1, **{name: "<i>|"}), row(0, 0.2, **{name: "$x"})]
    write_study(tmp_path, record)
    vp.draw(tmp_path, tmp_path / "f", ["svg"])
    table = (tmp_path / "f" / "table.md").read_text()
    assert r"\<i>\|" in table and {line.count(" | ") for line in table.splitlines()[2:]} == {5}
