"""HDF5 files that hold states: what datasets and rollouts share.

xarray, netCDF tools and h5py open them as they are: ``state (trajectory, time, component)`` in
float64, chunked and checksummed, with dimension scales, and attributes that say what it is.
"""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path

import h5py
import numpy as np

from vpintegrator.dynamics import System
from vpintegrator.errors import InputError

_CHUNK_BYTES = 1 << 20


def write_header(
    file: h5py.File, format_name: str, format_version: int, system: System, step: float
) -> None:
    """Root attributes that every file of this package carries."""
    file.attrs["Conventions"] = "CF-1.10"
    file.attrs["format"] = format_name
    file.attrs["format_version"] = format_version
    file.attrs["system_name"] = system.name
    file.attrs["system"] = system.text
    file.attrs["parameters"] = json.dumps(system.definitions)
    file.attrs["step"] = step
    packages = {name: version(name) for name in ("vpintegrator", "numpy", "scipy", "h5py", "sympy")}
    file.attrs["versions"] = json.dumps({"python": platform.python_version(), **packages})


def write_states(
    group: h5py.Group, state: np.ndarray, times: np.ndarray, system: System
) -> h5py.Dataset:
    """``state (trajectory, time, component)`` with its dimension scales."""
    time = group.create_dataset("time", data=np.asarray(times, dtype=np.float64))
    time.attrs["long_name"] = "time"
    time.attrs["units"] = "1"
    component = group.create_dataset(
        "component", data=np.array(system.components, dtype=object), dtype=h5py.string_dtype()
    )
    component.attrs["long_name"] = "component of the state"
    trajectory = group.create_dataset("trajectory", data=np.arange(len(state), dtype=np.int64))
    trajectory.attrs["long_name"] = "number of the trajectory"
    for scale, name in ((trajectory, "trajectory"), (time, "time"), (component, "component")):
        scale.make_scale(name)
    dataset = _fill(group, "state", state)
    dataset.attrs["long_name"] = f"state of the system: {system.title}"
    dataset.attrs["units"] = "1"
    for axis, scale in enumerate((trajectory, time, component)):
        dataset.dims[axis].attach_scale(scale)
    return dataset


def create_series(group: h5py.Group, name: str, values: np.ndarray, title: str) -> h5py.Dataset:
    """Numbers (trajectory, time) beside the states of a group."""
    dataset = _fill(group, name, values)
    dataset.attrs["long_name"] = title
    for axis, scale in enumerate(("trajectory", "time")):
        dataset.dims[axis].attach_scale(group[scale])
    return dataset


def _fill(group: h5py.Group, name: str, values: np.ndarray) -> h5py.Dataset:
    """A chunked and checksummed dataset (trajectory, time, ...), written part by part.

    The values may be a view of a file larger than the memory.
    """
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


@contextmanager
def open_hdf5(
    path: str | os.PathLike[str], format_name: str, newest: int, oldest: int = 1
) -> Iterator[h5py.File]:
    """Open one of this package's HDF5 files for reading.

    Raises
    ------
    InputError
        If there is no such file, it is no HDF5 file, damaged, or holds something else.
    """
    path = Path(path)
    kind = format_name.removeprefix("vpintegrator-")
    if not path.exists():
        raise InputError(f"there is no file {path}")
    if path.is_dir():
        raise InputError(f"{path} is a folder, not a {kind} file")
    if not h5py.is_hdf5(path):
        raise InputError(f"{path} is not an HDF5 file; expected a {kind} file")
    try:
        file = h5py.File(path, "r")
    except OSError as error:
        raise InputError(f"{path} cannot be opened as HDF5, it may be damaged: {error}") from None
    with file:
        found = file.attrs.get("format")
        if found != format_name:
            what = f"a {found} file" if isinstance(found, str) else "an HDF5 file of another kind"
            raise InputError(f"{path} is {what}, not a {format_name} file")
        if int(file.attrs.get("format_version", 0)) < oldest:
            raise InputError(
                f"{path} was written by an older version of vpintegrator, in a format that is no "
                f"longer read; make the {kind} anew"
            )
        if int(file.attrs["format_version"]) > newest:
            raise InputError(
                f"{path} has format version {file.attrs.get('format_version')}, but this version "
                f"of vpintegrator reads up to {newest}; install a newer one"
            )
        try:
            yield file
        except (KeyError, OSError) as error:
            raise InputError(f"{path} is damaged or incomplete: {error}") from None
