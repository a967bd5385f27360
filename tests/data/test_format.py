"""The file as others see it: xarray with both engines, h5dump, ncdump, h5py."""

import json
import re
import shutil
import subprocess
from importlib.util import find_spec

import h5py
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
def test_all_of_it_as_a_tree(dataset, engine):
    with xarray.open_datatree(dataset.path, engine=engine) as tree:
        assert list(tree.children) == ["train", "validation", "test"]
        assert tree["test/state"].sel(component="z2").dims == ("trajectory", "time")


def test_lazily_by_component_and_time(dataset):
    with xarray.open_dataset(dataset.path, group="test") as data:  # whatever engine there is
        part = data.state.sel(component="z3", time=slice(1.0, 2.0))
        expected = dataset.states("test")[:, 5:11, 2]
        np.testing.assert_array_equal(part.values, expected)


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


@pytest.mark.parametrize(
    ("program", "patterns"),
    [
        ("ncdump", [r"double state\(trajectory, time, component\)", ":format_version = 1"]),
        ("h5dump", [r'DATASET "state"', r"\( 46, 21, 3 \) / \( 46, 21, 3 \)"]),
    ],
)
def test_command_line_tools_read_it(dataset, program, patterns):
    if shutil.which(program) is None:
        package = {"ncdump": "netcdf-bin", "h5dump": "hdf5-tools"}[program]
        pytest.skip(f"{program} is not installed (Debian's package {package})")
    flag = {"ncdump": "-h", "h5dump": "-H"}[program]
    result = subprocess.run([program, flag, dataset.path], capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    for pattern in patterns:
        assert re.search(pattern, result.stdout), pattern


def test_attributes_are_plain(dataset):
    """Text, numbers and arrays of numbers, which every HDF5 and netCDF reader knows."""
    with h5py.File(dataset.path) as file:
        for name, value in file.attrs.items():
            assert isinstance(value, str | np.integer | np.floating | np.ndarray), name
            assert not isinstance(value, np.bool_), name
