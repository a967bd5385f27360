"""The reproduction of the published experiment, with hardly any training."""

import csv
import importlib
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch

import vpintegrator as vp
from tests.scripts.conftest import run
from vpintegrator.training.training_data import TrainingData

SCRIPTS = Path(__file__).parents[2] / "scripts"


@pytest.fixture
def study(monkeypatch):
    monkeypatch.syspath_prepend(SCRIPTS)
    return importlib.import_module("reproduce_rigid_body")


@pytest.mark.filterwarnings("ignore:.* is not to be relied on")
def test_the_rigid_body(study, monkeypatch, tmp_path):

    def draw(report, folder, overwrite):
        folder.mkdir(exist_ok=overwrite)

    monkeypatch.setattr(vp, "draw", draw)
    monkeypatch.setattr(vp, "compare", partial(vp.compare, compiled=False))
    folder = tmp_path / "study"
    short = ["--seconds", "0.5", "--time", "2", "--count", "60"]
    fewer = ["--train", "--epochs", "2", "--seeds", "2", *short]
    output = run(study, *fewer, "-o", str(folder))
    lines = {line[:32].strip() for line in output.splitlines()}
    titles = {f"{name} (2 seeds)" for name in study.NETWORKS}
    assert {*titles, "our VPT", "RK4", "VPT, published weights"} <= lines
    for source, orbits in study.ORBITS.items():
        report = vp.open_rollout(folder / f"rollout-{source}.h5")
        assert {*study.NETWORKS} < {*report.runs}
        assert report.is_reference_given
        states = vp.integrate("rigid-body", "implicit-midpoint", orbits.initial, 0.2, 10)
        np.testing.assert_array_equal(report.reference, states)
    model = vp.load(folder / "vpt-1.safetensors")
    assert (model.scale == 1).all()  # as published
    assert model.record.history.optimizer == "adam, as published"
    for kind in ("png", "pdf"):
        assert (folder / "figures" / f"training-loss.{kind}").exists()
    with (folder / "training-times.csv").open() as file:
        times = {row["network"]: row for row in csv.DictReader(file)}
    assert times["standard transformer"]["parameters"] == "213"
    assert times["VPT"]["epochs"] == "2" and float(times["VPT"]["seconds"]) > 0
    run(study, *fewer, "-o", str(folder))
    with (folder / "training-times.csv").open() as file:
        again = {row["network"]: row for row in csv.DictReader(file)}
    assert all(again[name] == times[name] for name in study.NETWORKS)  # nothing is trained again


def test_stored_weights_are_used(study, monkeypatch, tmp_path):
    """They err as their files say, on orbits that were not among their data."""
    monkeypatch.setattr(vp, "draw", lambda report, folder, overwrite: folder.mkdir())
    monkeypatch.setattr(vp, "compare", partial(vp.compare, compiled=False))
    fewer = ["--seconds", "0.5", "--time", "2", "--count", "60"]
    output = run(study, *fewer, "-o", str(tmp_path / "study"))
    data = TrainingData(vp.open_dataset(tmp_path / "study/dataset.h5"))
    for name in study.NETWORKS:
        model = vp.load(study.WEIGHTS / study.file_name(name))
        history = model.record.history
        assert history.epochs == 50_000 and len(history.epoch) >= 200
        assert any(line.startswith(name) and " 50000 " in line for line in output.splitlines())
        assert 0.3 < data.held_out_error(model)[0] / history.test_error < 3
    assert "--train" in run(study, "--epochs", "2", code=2)


def test_orbits_are_those_of_the_literature(study):
    paper = [[np.sin(1.1), 0, np.cos(1.1)], [0, np.sin(1.1), np.cos(1.1)]]
    np.testing.assert_allclose(study.ORBITS["paper"].initial, paper)
    assert study.ORBITS["paper"].time == 100
    assert study.ORBITS["tutorial"].time == 120


@pytest.mark.parametrize("name", ["feed-forward", "VPT", "standard transformer"])
def test_weights_of_size_one(study, name):
    """They fill the interval of Glorot and Bengio, and the biases are zero."""
    torch.manual_seed(0)
    model = study.NETWORKS[name]()
    study.set_glorot(model)
    for part, weight in model.named_parameters():
        if part.endswith("bias"):
            assert not weight.any()
        else:
            bound = (6 / (1 + 3)) ** 0.5 if weight.ndim == 1 else 1.0
            assert 0 < weight.abs().max() <= bound
    matrices = [weight.flatten() for part, weight in model.named_parameters() if "bias" not in part]
    assert torch.cat(matrices).abs().max() > 0.9


def test_losses_have_the_colours_of_the_rollout(study, tmp_path, monkeypatch):
    report = vp.compare(None, ["rk4", "implicit-midpoint"], system="pendulum", steps=5)
    scene = study.Scene(report)
    history = vp.training.History("adam", 0, 1, epoch=[1, 2], training_error=[0.5, 0.1])
    drawn = []
    monkeypatch.setattr(study.pyplot, "close", drawn.append)
    study._draw_losses(dict.fromkeys(("implicit-midpoint", "rk4"), history), scene, tmp_path)
    lines = {line.get_label(): line.get_color() for line in drawn[0].axes[0].lines}
    assert lines == {name: scene.colour(name) for name in ("implicit-midpoint", "rk4")}
