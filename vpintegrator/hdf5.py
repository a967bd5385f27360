"""HDF5 files that hold states: what datasets and rollouts share.

xarray, netCDF tools and h5py open them as they are: ``state (trajectory, time, component)`` in
float64, chunked and checksummed, with dimension scales, and attributes that say what it is.
"""

from __future__ import annotations

import functools
import json
import platform
from collections.abc import Sequence
from importlib.metadata import version

import h5py
import numpy as np

from vpintegrator.dynamics import System
from vpintegrator.errors import printable

_CHUNK_BYTES = 1 << 20


def write_header(
    file: h5py.File, format_name: str, format_version: int, system: System, step: float
) -> None:
    """Root attributes that every file of this package carries."""
    file.attrs["Conventions"] = "CF-1.10"
    file.attrs["format"] = format_name
    file.attrs["format_version"] = format_version
    file.attrs["system_name"] = printable(system.name)  # HDF5 takes no zero character
    file.attrs["system"] = system.text
    file.attrs["parameters"] = json.dumps(system.definitions)
    file.attrs["step"] = step
    file.attrs["versions"] = _versions()


@functools.cache
def _versions() -> str:
    packages = {name: version(name) for name in ("vpintegrator", "numpy", "scipy", "h5py", "sympy")}
    return json.dumps({"python": platform.python_version(), **packages})


def write_states(
    group: h5py.Group,
    state: np.ndarray | h5py.Dataset | h5py.VirtualLayout,
    times: np.ndarray,
    system: System,
    trajectories: int | np.ndarray = 0,
) -> h5py.Dataset:
    """``state (trajectory, time, component)`` with its dimension scales.

    ``trajectories`` are their numbers, or the first of consecutive ones.
    """
    time = group.create_dataset("time", data=np.asarray(times, dtype=np.float64))
    time.attrs["long_name"] = "time"
    time.attrs["units"] = "1"
    component = _names(group, "component", system.components, "component of the state")
    numbers = (
        trajectories + np.arange(state.shape[0]) if isinstance(trajectories, int) else trajectories
    )
    trajectory = group.create_dataset("trajectory", data=np.asarray(numbers, dtype=np.int64))
    trajectory.attrs["long_name"] = "number of the trajectory"
    for scale, name in ((trajectory, "trajectory"), (time, "time")):
        scale.make_scale(name)
    dataset = _fill(group, "state", state)
    dataset.attrs["long_name"] = f"state of the system: {printable(system.title)}"
    dataset.attrs["units"] = "1"
    for axis, scale in enumerate((trajectory, time, component)):
        dataset.dims[axis].attach_scale(scale)
    return dataset


def write_overview(file: h5py.File, system: System) -> None:
    """In the root, what a reader sees first: the components, the groups and what they hold."""
    groups = [name for name in file if isinstance(file[name], h5py.Group)]
    _names(file, "component", system.components, "component of the state")
    scale = _names(file, "group", groups, "group of trajectories, and of the file")
    states = [file[name]["state"] for name in groups]
    times = [file[name]["time"][...] for name in groups]
    ends = [(t[0], t[-1]) if len(t) else (np.nan, np.nan) for t in times]
    for name, values, title in (
        ("trajectories", np.array([s.shape[0] for s in states]), "number of trajectories"),
        ("times", np.array([s.shape[1] for s in states]), "number of times of each"),
        ("first_time", np.array([e[0] for e in ends]), "first of these times"),
        ("last_time", np.array([e[1] for e in ends]), "last of these times"),
    ):
        dataset = file.create_dataset(name, data=values)
        dataset.attrs["long_name"] = title
        dataset.dims[0].attach_scale(scale)


def write_shards(file: h5py.File, folder: str, sizes: Sequence[int]) -> None:
    """In the root, where the states are when other files hold them: a folder beside this one."""
    file.attrs["shards"] = folder
    scale = file.create_dataset("shard", data=np.arange(len(sizes), dtype=np.int64))
    scale.attrs["long_name"] = "number of the file in the folder of shards"
    scale.make_scale("shard")
    dataset = file.create_dataset("shard_size", data=np.asarray(sizes, dtype=np.int64))
    dataset.attrs["long_name"] = "its size in bytes"
    dataset.dims[0].attach_scale(scale)


def shard_name(number: int) -> str:
    """Name of a file in the folder of shards."""
    return f"{number:06d}.h5"


def _names(group: h5py.Group, name: str, names: Sequence[str], title: str) -> h5py.Dataset:
    """A dimension scale of words."""
    scale = group.create_dataset(
        name, data=np.array(names, dtype=object), dtype=h5py.string_dtype()
    )
    scale.attrs["long_name"] = title
    scale.make_scale(name)
    return scale


def create_series(group: h5py.Group, name: str, values: np.ndarray, title: str) -> h5py.Dataset:
    """Numbers (trajectory, time) beside the states of a group."""
    dataset = _fill(group, name, values)
    dataset.attrs["long_name"] = title
    for axis, scale in enumerate(("trajectory", "time")):
        dataset.dims[axis].attach_scale(group[scale])
    return dataset


def _fill(group: h5py.Group, name: str, values: np.ndarray | h5py.VirtualLayout) -> h5py.Dataset:
    """A chunked and checksummed dataset (trajectory, time, ...), written part by part.

    The values may be a view of a file larger than the memory, or a layout of other files.
    """
    if isinstance(values, h5py.VirtualLayout):
        return group.create_virtual_dataset(name, values, fillvalue=np.nan)
    size = 8 * int(np.prod(values.shape[2:], dtype=np.int64))
    columns = int(np.clip(_CHUNK_BYTES // size, 1, max(values.shape[1], 1)))
    rows = int(np.clip(_CHUNK_BYTES // (size * columns), 1, max(len(values), 1)))
    dataset = group.create_dataset(
        name,
        shape=values.shape,
        dtype=np.float64,
        chunks=(rows, columns, *values.shape[2:]) if values.size else None,
        fletcher32=bool(values.size),
    )
    for start in range(0, values.shape[1] if values.size else 0, columns):
        part = slice(start, start + columns)
        for first in range(0, len(values), 64 * rows):
            block = slice(first, first + 64 * rows)
            dataset[block, part] = values[block, part]
    return dataset
