"""Looking through a dataset, and its preview."""

import numpy as np
import pytest

import vpintegrator as vp
from vpintegrator.data import generate, import_dataset
from vpintegrator.data.inspection import inspect_dataset
from vpintegrator.errors import InputError


@pytest.fixture(scope="module")
def body(tmp_path_factory):
    return generate("rigid-body", tmp_path_factory.mktemp("data") / "a.h5", count=40, steps=30)


def test_a_few_trajectories_at_a_time(body, monkeypatch):
    groups = inspect_dataset(body)
    monkeypatch.setattr("vpintegrator.data.inspection._PART_BYTES", 2000)
    for name, group in inspect_dataset(body.path).items():
        assert group.shape == body.shapes[name]
        assert group.missing == group.infinite == 0
        np.testing.assert_array_equal(group.low, groups[name].low)
        assert group.changes == groups[name].changes


def test_what_is_missing_is_counted(tmp_path):
    states = np.random.default_rng(0).normal(size=(5, 8, 2))
    states[0, 2:] = np.nan
    states[3, 7:] = np.nan
    dataset = import_dataset(states, tmp_path / "a.h5", step=1.0, split="time", system="pendulum")
    groups = inspect_dataset(dataset)
    assert [group.missing for group in groups.values()] == [2, 2, 3]
    assert np.isfinite(groups["train"].low).all()
    assert np.isfinite(groups["train"].changes["energy"])


@pytest.mark.parametrize(
    ("shape", "options", "ending"),
    [
        ((1, 30, 1), {}, "png"),  # one component has no portrait
        ((6, 9, 3), {}, "pdf"),
        ((6, 9, 8), {}, "png"),
        ((6, 9, 2), {"title": "costs $5"}, "png"),
    ],
)
def test_preview_of_anything(shape, options, ending, tmp_path):
    states = np.random.default_rng(0).normal(size=shape)
    if len(states) > 1:
        states[0, 3:] = np.nan
    dataset = import_dataset(states, tmp_path / "a.h5", step=1.0, **options)
    path = tmp_path / f"a.{ending}"
    vp.show(dataset).draw(path)
    assert path.stat().st_size > 10_000
    for wrong, said in ((path, "exists already"), (tmp_path / "a.gif", "must be one of png")):
        with pytest.raises(InputError, match=said):
            vp.show(dataset).draw(wrong)


def test_each_trajectory_is_judged_with_its_own_parameters(tmp_path):
    vary = {"step": {"low": 0.01, "high": 0.5, "log": True}, "I1": [1.5, 2.5], "I2": [0.8, 1.2]}
    dataset = generate("rigid-body", tmp_path / "a.h5", count=40, steps=10, vary=vary)
    groups = inspect_dataset(dataset)
    assert all(group.changes["energy"] < 1e-12 for group in groups.values())
    vp.show(dataset).draw(tmp_path / "a.png")
    assert (tmp_path / "a.png").stat().st_size > 10_000
