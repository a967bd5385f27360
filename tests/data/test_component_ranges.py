"""Ranges of components: of all states, or of parts spread through a large file."""

import numpy as np
import pytest

import vpintegrator as vp


@pytest.fixture(scope="module")
def dataset(tmp_path_factory):
    path = tmp_path_factory.mktemp("ranges") / "pendulum.h5"
    missing = vp.data.Observation(missing=0.2)
    return vp.generate("pendulum", path, count=20, steps=30, observation=missing)


def states(dataset):
    return np.concatenate([dataset.states(group).reshape(-1, 2) for group in dataset.shapes])


def test_of_all_states(dataset):
    found, seen = vp.data.ranges(dataset), states(dataset)
    np.testing.assert_array_equal(found.low, np.nanmin(seen, axis=0))
    np.testing.assert_array_equal(found.high, np.nanmax(seen, axis=0))
    assert found.are_all and found.looked == found.states == 20 * 31


@pytest.mark.parametrize("part", [64, 700, 1 << 20])
def test_parts_cover_all_states_once(dataset, monkeypatch, part):
    monkeypatch.setattr("vpintegrator.data.component_ranges._PART_BYTES", part)
    found, whole = vp.data.ranges(dataset), vp.data.ranges(dataset, 1 << 30)
    assert found.looked == 20 * 31
    np.testing.assert_array_equal([found.low, found.high], [whole.low, whole.high])


def test_no_more_is_read_than_was_said(dataset, monkeypatch):
    monkeypatch.setattr("vpintegrator.data.component_ranges._PART_BYTES", 64)  # four states
    found = vp.data.ranges(dataset, most_bytes=1600)
    assert not found.are_all and 0.8 * 100 <= found.looked <= 100
    seen = states(dataset)
    assert np.all(found.low >= np.nanmin(seen, axis=0))
    assert np.all(found.high - found.low > 0.5 * np.ptp(seen[np.isfinite(seen[:, 0])], axis=0))


def test_what_was_never_observed_has_no_range(tmp_path):
    path = tmp_path / "lab.csv"
    path.write_text("t,x,y\n" + "\n".join(f"{n / 10},{n},{n * n}" for n in range(30)))
    dataset = vp.import_dataset(path, tmp_path / "lab.h5")
    found = vp.data.ranges(dataset)
    np.testing.assert_array_equal([found.low, found.high], [[0, 0], [29, 841]])


def test_shards_and_families_have_ranges(tmp_path):
    vary = {"step": (0.05, 0.4)}
    family = vp.generate("pendulum", tmp_path / "family.h5", count=8, steps=1, vary=vary)
    extended = vp.data.ranges(vp.data.ExtendedDataset(family))
    assert 0.05 <= extended.low[2] < extended.high[2] <= 0.4
    options = {"method": "LSODA", "count": 200, "steps": 5, "single_file": False, "rtol": 1e-8}
    sharded = vp.generate("pendulum", tmp_path / "shards.h5", **options)
    assert "shards" in sharded.attributes and vp.data.ranges(sharded).are_all
