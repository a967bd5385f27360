"""The file as others see it: xarray with both engines, h5dump, ncdump, h5py."""

import json
from importlib.util import find_spec

import numpy as np
import pytest
import xarray

from vpintegrator.data import generate, import_dataset

ENGINES = [
    "h5netcdf",
    pytest.param(
        "netcdf4",
        marks=pytest.mark.skipif(not find_spec("netCDF4"), reason="netCDF4 is not installed"),
    ),
]


@pytest.fixture(scope="module")
def dataset(tmp_path_factory):
    path = tmp_path_factory.mktemp("data") / "a.h5"
    return generate("rigid-body", path, count=60, steps=20)


@pytest.mark.parametrize("engine", ENGINES)
def test_every_group(dataset, engine):
    for group, shape in dataset.shapes.items():
        with xarray.open_dataset(dataset.path, group=group, engine=engine) as data:
            assert dict(data.sizes) == dict(
                zip(("trajectory", "time", "component"), shape, strict=True)
            )
            assert data.state.dims == ("trajectory", "time", "component")
            assert data.component.values.tolist() == ["z1", "z2", "z3"]
            np.testing.assert_allclose(data.time.values, 0.2 * np.arange(21))
            np.testing.assert_array_equal(data.state.values, dataset.states(group))
            assert data.state.attrs["units"] == "1"
            assert data.time.attrs["long_name"] == "time"
    numbers = np.concatenate(
        [
            xarray.open_dataset(dataset.path, group=group, engine=engine).trajectory.values
            for group in dataset.shapes
        ]
    )
    np.testing.assert_array_equal(numbers, np.arange(60))


@pytest.mark.parametrize("engine", ENGINES)
def test_the_root_says_what_there_is(dataset, engine):
    with xarray.open_dataset(dataset.path, engine=engine) as data:
        assert data.group.values.tolist() == ["train", "validation", "test"]
        assert data.component.values.tolist() == ["z1", "z2", "z3"]
        assert data.trajectories.sel(group="train") == dataset.shapes["train"][0]
        assert data.times.values.tolist() == [21, 21, 21]
        assert data.last_time.values.tolist() == [4.0, 4.0, 4.0]
        assert data.attrs["format"] == "vpintegrator-dataset"
        assert data.attrs["title"].startswith("Free rigid body")
        assert data.attrs["step"] == 0.2
        assert data.attrs["seed"] == 1
        assert data.attrs["system_name"] == "rigid-body"
        assert "[vector_field]" in data.attrs["system"]
        assert json.loads(data.attrs["versions"])["numpy"] == np.__version__


@pytest.mark.parametrize("engine", ENGINES)
def test_missing_states_are_nan(engine, tmp_path):
    states = np.ones((6, 5, 1))
    states[0, 3:] = np.nan
    dataset = import_dataset(states, tmp_path / "a.h5", step=1.0)
    counts = []
    for group in dataset.shapes:
        with xarray.open_dataset(dataset.path, group=group, engine=engine) as data:
            counts.append(int(data.state.isnull().sum()))
    assert sum(counts) == 2
