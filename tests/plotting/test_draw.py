"""Figures and tables of real rollouts: complete, and faithful to the numbers."""

import csv
import math

import matplotlib.image
import numpy as np
import pytest
import torch

from vpintegrator import models
from vpintegrator.errors import InputError
from vpintegrator.plotting import csv_table, draw, latex_table, markdown_table
from vpintegrator.plotting.draw import FORMATS
from vpintegrator.plotting.errors import draw_error_growth, draw_largest_so_far
from vpintegrator.plotting.phase import draw_plane, on_sphere, planes
from vpintegrator.plotting.scene import Scene
from vpintegrator.plotting.style import SMALLEST, floored, looks, mathtext, thinned
from vpintegrator.rollout import compare

FIGURES = ("overview", "phase", "coordinates", "errors", "invariants", "volume")


def untrained(dim, step, system):
    torch.manual_seed(0)
    model = models.VolumePreservingTransformer(dim=dim, window=3, width=4)
    model.metadata = {"step": repr(step), "system": system, "system_name": "test"}
    return model


@pytest.fixture(scope="module")
def body():
    from vpintegrator.dynamics import load_system

    model = untrained(3, 0.2, load_system("rigid-body").text)
    return compare({"net": model}, ["implicit-midpoint", "rk4"], steps=60, trajectories=3)


@pytest.fixture(scope="module")
def oscillators():
    """Explicit Euler grows without bound here, and the step is too long for its patience."""
    methods = ["explicit-euler", "stoermer-verlet"]
    return compare(None, methods, system="coupled-oscillators", steps=500, step=2.5)


@pytest.mark.parametrize("name", ["body", "oscillators"])
def test_everything_is_drawn(name, request, tmp_path):
    paths = draw(request.getfixturevalue(name), tmp_path / "figures")
    names = {path.name for path in paths}
    assert names >= {f"{figure}.{suffix}" for figure in FIGURES for suffix in FORMATS}
    assert names >= {"table.csv", "table.md", "table.tex"}
    for path in paths:
        if path.suffix == ".png":
            image = matplotlib.image.imread(path)
            assert image.std() > 0.02, f"{path} is blank"
        if path.suffix == ".pdf":
            assert b"/FontFile2" in path.read_bytes(), "fonts are not embedded as TrueType"


def test_drawing_from_a_file_equals_drawing_the_report(body, tmp_path):
    body.save(tmp_path / "rollout.h5")
    first = draw(body, tmp_path / "a", formats=["png"])
    second = draw(tmp_path / "rollout.h5", tmp_path / "b", formats=["png"])
    for one, other in zip(first, second, strict=True):
        if one.suffix == ".png":
            images = [matplotlib.image.imread(p) for p in (one, other)]
            np.testing.assert_array_equal(*images)


def test_csv_holds_the_numbers(body):
    rows = list(csv.DictReader(csv_table(body).splitlines()))
    assert [row["method"] for row in rows] == ["net", "Implicit midpoint", "RK4"]
    for row, name in zip(rows, body.runs, strict=True):
        assert float(row["RMSE"]) == body.summary(name).error


def test_tables_render_every_kind_of_cell(body, oscillators):
    text = markdown_table(body)
    assert text.count("\n| ") == 4
    assert "volume error" in text
    latex = latex_table(body)
    assert r"\toprule" in latex
    assert r"\cdot 10^{-" in latex
    assert latex.count(r"\\") == 4
    assert "diverged" in markdown_table(oscillators)


def axes():
    from matplotlib.figure import Figure

    return Figure().subplots()


def test_a_line_ends_with_a_cross_where_a_method_failed():
    times = np.arange(1.0, 101.0)
    error = np.full((2, 100), 1e-3)
    error[:, 60:] = np.nan
    panel = axes()
    look = looks(["rk4"], [])["rk4"]
    draw_error_growth(panel, times, error, look)
    draw_largest_so_far(panel, times, error, look)
    crosses = [line for line in panel.lines if line.get_marker() == "X"]
    assert [cross.get_xdata()[0] for cross in crosses] == [60.0, 60.0]


def test_the_running_maximum_never_falls():
    times = np.linspace(0, 10, 500)
    panel = axes()
    draw_largest_so_far(panel, times, np.sin(times)[None], looks(["rk4"], [])["rk4"])
    drawn = panel.lines[0].get_ydata()
    assert (np.diff(drawn) >= 0).all()
    assert drawn[-1] == pytest.approx(1, abs=1e-3)


def test_a_runaway_does_not_push_the_rest_into_a_corner():
    circle = np.stack([np.cos(np.arange(99)), np.sin(np.arange(99))], -1)[None]
    panel = axes()
    draw_plane(panel, 1e6 * circle, circle, looks(["heun"], [])["heun"], (0, 1), ("q", "p"))
    assert max(np.abs(panel.get_xlim())) < 2


def test_spheres_are_found_in_the_states():
    points = np.random.default_rng(0).normal(size=(5, 9, 3))
    on_it = 2 * points / np.linalg.norm(points, axis=-1, keepdims=True)
    assert on_sphere(on_it) == pytest.approx(2)
    assert on_sphere(points) is None
    assert on_sphere(on_it[..., :2]) is None


def test_small_helpers():
    assert floored(np.array([0.0, -1.0, np.inf]))[:2].tolist() == [SMALLEST, 1.0]
    assert math.isnan(floored(np.array([np.inf]))[0])
    assert mathtext("q[0]") == "$q_{0}$"
    assert mathtext("z12") == "$z_{12}$"
    assert planes(("q1", "q2", "p1", "p2"), True) == [(0, 2), (1, 3)]
    index = thinned(10**6, logarithmic=True)
    assert index[0] == 0
    assert index[-1] == 10**6 - 1
    assert len(index) < 1000


def test_looks_are_fixed_and_models_stand_out(body):
    scene = Scene(body)
    assert scene.looks["rk4"] == looks(["heun", "rk4"], [])["rk4"]
    assert scene.looks["net"].width > scene.looks["rk4"].width
    many = looks(["a", "b", "c"], ["a", "b", "c"])
    assert len({look.colour for look in many.values()}) == 3


def test_existing_figures_are_kept(body, tmp_path):
    (tmp_path / "overview.png").write_text("precious")
    with pytest.raises(InputError, match="exists already"):
        draw(body, tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["overview.png"]
    draw(body, tmp_path, formats=["png"], overwrite=True)
    assert (tmp_path / "overview.png").stat().st_size > 1000
    with pytest.raises(InputError, match="'svg' is none of png, pdf"):
        draw(body, tmp_path, formats=["svg"])
    with pytest.raises(InputError, match="it is a file; name a folder"):
        draw(body, tmp_path / "overview.png")
