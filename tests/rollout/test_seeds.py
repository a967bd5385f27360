"""Several models of one name: one row of the table, one curve, one run of the file."""

import h5py
import numpy as np
import pandas as pd
import pytest
import torch

import vpintegrator as vp
from tests.rollout.systems import system
from vpintegrator.errors import InputError
from vpintegrator.models import VolumePreservingTransformer
from vpintegrator.plotting.figures import FIGURES
from vpintegrator.plotting.scene import Scene
from vpintegrator.storage.hdf5 import write_attributes


@pytest.fixture(scope="module")
def models():
    found = []
    for seed in range(3):
        torch.manual_seed(seed)
        model = VolumePreservingTransformer(dim=3, window=3, width=4, initial_scale=0.02)
        model.origin = vp.models.Origin(system("rigid-body"), 0.2)
        found.append(model)
    return found


COMMON = {"against": "rk4", "steps": 30, "trajectories": 4, "compiled": False}


@pytest.fixture(scope="module")
def report(models):
    return vp.compare({"VPT": models}, **COMMON)


def test_one_row_holds_medians_over_the_models(models, report):
    """The oracle is a comparison of the same models, each with a name of its own."""
    single = vp.compare(dict(zip("abc", models, strict=True)), **COMMON).to_frame().loc[[*"abc"]]
    assert list(report.runs) == ["VPT", "rk4"] and len(report.runs["VPT"].seeds) == 3
    frame = report.to_frame()
    assert list(frame.index) == ["VPT (3 seeds)", "RK4"]
    row = frame.iloc[0]
    for name in ("median RMSE", "median final error", "energy error", "phase-space volume error"):
        assert row[name] == np.median(single[name]), name
    assert row["worst RMSE"] == single["worst RMSE"].max()
    assert row["best seed"] == single["median RMSE"].min() < row["worst seed"]
    assert row["worst seed"] == single["median RMSE"].max()
    assert (row["seeds"], row["orbits"], row["kind"]) == (3, 12, "learned")
    assert row["phase-space volume preserved"] == single["phase-space volume preserved"].all()
    assert np.isnan(frame.iloc[1]["seeds"])
    # the run that is drawn is that of the model in the middle
    typical = report.runs["VPT"].root_mean_square_error
    assert np.median(typical) == row["median RMSE"]


def test_the_file_holds_all_models(report, tmp_path):
    report.save(tmp_path / "a.h5")
    again = vp.open_rollout(tmp_path / "a.h5")
    pd.testing.assert_frame_equal(again.to_frame(), report.to_frame())
    with h5py.File(tmp_path / "a.h5", "r+") as file:
        write_attributes(file, {"seeds": "[]"})
    with pytest.raises(InputError, match="seeds"):
        vp.open_rollout(tmp_path / "a.h5")


def test_curves_are_medians_in_bands(report):
    scene = Scene(report)
    axes = vp.plotting.errors(report)
    errors = np.stack([each.error for each in report.runs["VPT"].seeds])
    line = np.median(np.median(errors, axis=1), axis=0)[3:]
    np.testing.assert_allclose(axes.lines[0].get_ydata(), line)
    assert axes.lines[0].get_label() == "VPT (3 seeds)"
    low, high = np.sort(axes.collections[0].get_paths()[0].vertices[:, 1])[[0, -1]]
    medians = np.median(errors, axis=1)[:, 3:]
    np.testing.assert_allclose([low, high], [medians.min(), medians.max()])
    assert "medians over the seeds" in FIGURES["errors"](scene).caption()


def test_names(models):
    alone = vp.compare({"VPT": models[:1]}, **COMMON)
    assert list(alone.runs) == ["VPT", "rk4"] and not alone.runs["VPT"].seeds
    twice = {"VPT": models, "VPT 1": models[0]}
    for wrong in ({"VPT": []}, {"rk4": models}, {"a/b": models}, twice):
        with pytest.raises(InputError):
            vp.compare(wrong, **COMMON)
