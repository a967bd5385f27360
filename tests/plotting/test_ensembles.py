"""Figures of ensembles: what they show, what they say, and beside one another."""

from dataclasses import replace

import matplotlib.figure
import numpy as np
import pytest
from click.testing import CliRunner

import vpintegrator as vp
from vpintegrator.cli import plot
from vpintegrator.dynamics.training_domain import Domain
from vpintegrator.errors import InputError
from vpintegrator.plotting.density import (
    FEW,
    coarser,
    draw_counts,
    ends_of_scale,
    scale_of_counts,
)
from vpintegrator.plotting.ensemble_scene import EnsembleScene, InitialCells, coordinate
from vpintegrator.plotting.figures import ENSEMBLE_FIGURES
from vpintegrator.plotting.figures.rotation_profile import branch
from vpintegrator.plotting.style import STYLES, luminance
from vpintegrator.rollout.ensembles.escape import Escape


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("ensembles")
    system = vp.load_system("pendulum")
    for method in ("stoermer-verlet", "rk4"):
        flow = vp.rollout.as_flow(method, system, 0.2)
        measures = vp.rollout.EnsembleMeasures(
            resolution=100, escape="p > 1.1", rotation=(0.0, 0.0)
        )
        initial = np.stack(np.meshgrid(np.linspace(-1, 1, 20), np.linspace(-1, 1, 20)), -1)
        options = {"initial": initial.reshape(-1, 2), "steps": 120, "measures": measures}
        vp.rollout.ensemble(flow, folder / f"{method}.h5", **options)
    return folder


@pytest.mark.thorough
def test_every_figure_of_every_style(folder, tmp_path):
    for style in STYLES:
        paths = vp.draw(
            folder / "rk4.h5",
            tmp_path / style,
            formats=["png"],
            style=style,
            beside=[folder / "stoermer-verlet.h5"],
        )
        names = {path.name for path in paths}
        assert names == {
            *("density.png", "rotation.png", "escape.png", "table.csv", "captions.md"),
        }
    text = (tmp_path / "dark" / "captions.md").read_text(encoding="utf-8")
    assert "of 400 trajectories are outside" in text and "the plane (q, p)" in text


def test_what_is_beside_must_be_of_the_same_plane(folder, tmp_path):
    flow = vp.rollout.as_flow("rk4", vp.load_system("henon-heiles"), 0.2)
    vp.rollout.ensemble(flow, tmp_path / "other.h5", initial=3, steps=2)
    report = vp.compare(None, "rk4", system="pendulum", steps=3)
    for first, said in ((folder / "rk4.h5", "not of the same plane"), (report, "only an ensemble")):
        with pytest.raises(InputError, match=said):
            vp.draw(first, tmp_path / "figures", beside=[tmp_path / "other.h5"])


@pytest.mark.thorough
def test_the_command(folder, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    file, other = folder / "rk4.h5", folder / "stoermer-verlet.h5"
    given = [str(file), "--beside", str(other), "--beside", str(file), "--format", "png", "--json"]
    result = CliRunner().invoke(plot.main, given)
    assert result.exit_code == 0, result.output
    assert '"trajectories": 400' in result.stdout
    assert len((tmp_path / "figures" / "table.csv").read_text().splitlines()) == 4


def test_rotation_is_one_curve(folder):
    """Turns are known up to whole ones: across a half they go on, and do not jump."""
    found = vp.rollout.open_ensemble(folder / "stoermer-verlet.h5")
    initial = np.stack([np.linspace(0.1, 1, 400), np.zeros(400)], axis=1)
    turns = np.linspace(0.3, 0.8, 400)
    values = {"left": np.full(400, -1), "change": np.zeros(400), "initial": initial}
    found = type(found)(**{**vars(found), **values, "rotation": turns - np.round(turns)})
    where, curve, _ = branch(found)
    assert np.abs(np.diff(curve)).max() < 0.01 and coordinate(found)[1] == "initial q"
    np.testing.assert_array_equal(where, initial[:, 0])
    figure = ENSEMBLE_FIGURES["rotation"].draw(EnsembleScene({"one": found}))
    assert figure.axes[0].get_ylabel() == "turns per step"


def test_frequency_maps_are_of_many_orbits_over_a_plane(tmp_path):
    system = vp.load_system("harmonic-oscillator")
    generator = np.random.default_rng(0)
    initial = generator.uniform(-1, 1, (600, 2))
    flow = vp.rollout.as_flow("implicit-midpoint", system, 0.5)
    found = vp.rollout.ensemble(flow, tmp_path / "a.h5", initial=initial, steps=50)
    declared = ENSEMBLE_FIGURES["frequency"]
    scene = EnsembleScene({"one": found})
    assert declared.applies(scene)
    image = declared.draw(scene).axes[0].images[0].get_array()
    np.testing.assert_allclose(image.compressed(), -np.arctan(0.25) / np.pi, atol=1e-7)
    cells = InitialCells(found)
    assert cells.count.sum() == 600
    np.testing.assert_allclose(
        np.nansum(cells.mean(initial[:, 0], np.ones(600, bool)) * cells.count), initial[:, 0].sum()
    )
    few = type(found)(**{**vars(found), "initial": initial * [1, 0]})
    assert not declared.applies(EnsembleScene({"one": few}))


def test_colours_differ_where_most_counts_lie():
    counts = np.full((100, 100), 1000)
    counts[0, :3], counts[1, 0], counts[2:4] = 1, 10**6, 0
    low, high = ends_of_scale([counts])
    assert low == 1000 and high == 2000
    assert ends_of_scale([counts * 0]) == (1.0, 2.0)


def test_counts_in_larger_cells():
    counts = np.arange(35).reshape(5, 7)
    assert coarser(counts, 7) is counts
    larger = coarser(counts, 4)
    assert larger.shape == (3, 4) and larger.sum() == counts.sum()
    assert larger[0, 0] == counts[:2, :2].sum()


@pytest.mark.parametrize("style", STYLES.values(), ids=lambda style: style.name)
def test_a_single_point_stands_out_and_more_do_more(style):
    """Contrast by WCAG 2.1, monotonic; 1.5 is what a pale line has."""

    def contrast(colour):
        pair = sorted([luminance(colour), luminance(style.background)])
        return (pair[1] + 0.05) / (pair[0] + 0.05)

    found = [contrast(tuple(colour[:3])) for colour in scale_of_counts(style)(np.arange(256))]
    assert found[0] > 1.5 and found[-1] > 8 and (np.diff(found) > -0.05).all()


def test_few_points_are_dots():
    axes = matplotlib.figure.Figure().subplots()
    counts = np.zeros((4, 4), int)
    counts[1, 2] = 3
    assert draw_counts(axes, counts, ((0, 4), (0, 4)), STYLES["paper"], (1.0, 3.0)) is None
    np.testing.assert_array_equal(axes.collections[0].get_offsets(), [[2.5, 1.5]])
    image = draw_counts(axes, counts * FEW, ((0, 4), (0, 4)), STYLES["paper"], (1.0, 3.0))
    assert image.get_array().mask.sum() == 15


def test_who_leaves_the_training_domain_is_told_and_none_is_no_number(folder, tmp_path):
    """A file whose trajectories all stay says so beside one of which some leave."""
    left = vp.rollout.open_ensemble(folder / "rk4.h5")
    domain = Domain({"q": (-0.5, 0.5)}, {})
    plan = replace(left.plan, escape=Escape("q > 9"), domain=domain)
    strayed = np.where(np.abs(left.initial[:, 0]) > 0.55, 0, -1)
    stayed = np.full(400, -1)
    learned = replace(left, kind="learned", title="m", plan=plan, left=stayed, left_domain=strayed)
    learned.save(tmp_path / "m.h5")
    paths = vp.draw(tmp_path / "m.h5", tmp_path / "m", formats=["png"], beside=[folder / "rk4.h5"])
    assert "escape.png" in {path.name for path in paths}
    text = " ".join((tmp_path / "m" / "captions.md").read_text(encoding="utf-8").split())
    assert "nan" not in text and "m: none of 400 trajectories are outside (q > 9)" in text
    assert (
        text.count(f"{(strayed >= 0).sum()} of 400 trajectories are out of the training domain")
        == 3
    )
