"""The file as others see it: xarray with both engines, h5dump, ncdump, h5py."""

import json
from importlib.util import find_spec

import numpy as np
import pytest
import xarray

from vpintegrator.data import generate

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
def test_groups_and_root(dataset, engine):
    numbers = []
    for group, shape in dataset.shapes.items():
        with xarray.open_dataset(dataset.path, group=group, engine=engine) as data:
            assert data.state.dims == ("trajectory", "time", "component")
            assert data.state.shape == shape
            assert data.component.values.tolist() == ["z1", "z2", "z3"]
            np.testing.assert_allclose(data.time.values, 0.2 * np.arange(21))
            np.testing.assert_array_equal(data.state.values, dataset.states(group))
            assert data.state.attrs["units"] == "1"
            assert data.time.attrs["long_name"] == "time"
            numbers += data.trajectory.values.tolist()
    assert numbers == list(range(60))
    with xarray.open_dataset(dataset.path, engine=engine) as data:
        assert data.attrs["format"] == "vpintegrator-dataset"
        assert data.attrs["title"].startswith("Free rigid body")
        assert (data.attrs["step"], data.attrs["seed"]) == (0.2, 1)
        assert data.attrs["system_name"] == "rigid-body"
        assert "[vector_field]" in data.attrs["system"]
        assert json.loads(data.attrs["versions"])["numpy"] == np.__version__
