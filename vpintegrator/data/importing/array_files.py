"""Reading trajectories that others wrote: .npz, .npy, text, HDF5 and netCDF files.

Nothing in a file is executed or unpickled.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from vpintegrator.data.importing.arrays import STEPS, TIMES, Arrays, choose
from vpintegrator.data.importing.tables import read_table
from vpintegrator.errors import InputError


def read_arrays(path: str | os.PathLike[str], variable: str | None = None) -> Arrays:
    """Read the states in a file, by the ending of its name.

    Parameters
    ----------
    path
        A file .npz, .npy, .csv (also .txt, .tsv), .h5 (.hdf5, .he5, .mat of version 7.3) or .nc.
    variable
        Name of the array, where there are several; or names, with commas between, of arrays (or
        columns of a table) that are the components.

    Raises
    ------
    InputError
        If the file cannot be read, or it is not clear which array is meant.
    """
    path = Path(path)
    if not path.exists():
        raise InputError(f"there is no file {path}")
    if path.is_dir():
        raise InputError(f"{path} is a folder, not a file of arrays")
    readers: dict[str, Callable[[Path, str | None], Arrays]] = {
        ".npz": _read_numpy,
        ".npy": _read_numpy,
        ".csv": read_table,
        ".tsv": read_table,
        ".txt": read_table,
        ".dat": read_table,
        ".h5": _read_hdf5,
        ".hdf5": _read_hdf5,
        ".he5": _read_hdf5,
        ".mat": _read_hdf5,
        ".nc": _read_netcdf,
        ".nc4": _read_netcdf,
        ".cdf": _read_netcdf,
    }
    reader = readers.get(path.suffix.lower())
    if reader is None:
        raise InputError(
            f"{path}: cannot tell what a file '{path.suffix}' is; give .npz, .npy, .csv, .h5 or .nc"
        )
    return reader(path, variable)


def _read_numpy(path: Path, variable: str | None) -> Arrays:
    try:
        # with pickles a file could execute anything
        with path.open("rb") as file:
            found = np.load(file, allow_pickle=False)
            if isinstance(found, np.ndarray):
                return choose({"array": found}, str(path), None)
            arrays = {name: found[name] for name in found.files}
    except (ValueError, OSError, EOFError, KeyError) as error:
        if "pickle" in str(error):
            raise InputError(
                f"{path} holds Python objects, which are not read as they could do harm; save "
                "plain arrays of numbers"
            ) from None
        raise InputError(f"{path} cannot be read as NumPy arrays: {error}") from None
    except Exception as error:  # zipfile's own, of a damaged file
        raise InputError(f"{path} is damaged: {error}") from None
    return choose(arrays, str(path), variable)


def _read_hdf5(path: Path, variable: str | None) -> Arrays:
    if not h5py.is_hdf5(path):
        raise InputError(f"{path} is not an HDF5 file")
    arrays: dict[str, h5py.Dataset] = {}

    def visit(name: str, item: Any) -> None:
        if isinstance(item, h5py.Dataset) and item.dtype.kind in "fiu" and item.shape is not None:
            arrays[name] = item

    try:
        with h5py.File(path, "r") as file:
            file.visititems(visit)
            axes = {name: _axes(dataset) for name, dataset in arrays.items()}
            values = {name: _Lazy(dataset) for name, dataset in arrays.items()}
            found = _with_step(choose(values, str(path), variable, axes.get), file.attrs)
            first = arrays[found.variable.split(",")[0]]
            if found.names is None:
                found = replace(found, names=_component_names(first, found.states.shape[-1]))
            if found.times is None:
                found = replace(found, times=_time_scale(first))
            return found
    except OSError as error:
        raise InputError(f"{path} cannot be read, it may be damaged: {error}") from None


class _Lazy:
    """A dataset of a file that becomes an array when it is asked for, missing values as NaN."""

    def __init__(self, dataset: h5py.Dataset) -> None:
        self._dataset, self.shape = dataset, dataset.shape

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        values = np.asarray(self._dataset[...])
        attributes = self._dataset.attrs
        result = values.astype(np.float64)
        for key in ("_FillValue", "missing_value"):
            if key in attributes:
                result[values == np.asarray(attributes[key]).reshape(-1)[0]] = np.nan
        for key, apply in (("scale_factor", np.multiply), ("add_offset", np.add)):
            if key in attributes:
                result = apply(result, np.asarray(attributes[key], dtype=np.float64).reshape(-1)[0])
        return result


def _axes(dataset: h5py.Dataset) -> tuple[str, ...]:
    """Names of a dataset's dimensions, empty where they have none."""
    return tuple(
        axis.label or (axis[0].name.rpartition("/")[2] if len(axis) else "")
        for axis in dataset.dims
    )


def _time_scale(dataset: h5py.Dataset) -> np.ndarray | None:
    """The values along the dimension that is named for the time."""
    for axis, name in zip(dataset.dims, _axes(dataset), strict=True):
        if name.lower() in TIMES and len(axis) and axis[0].dtype.kind in "fiu":
            return np.asarray(axis[0][...], dtype=np.float64)
    return None


def _component_names(dataset: h5py.Dataset, count: int) -> tuple[str, ...] | None:
    """Words that are attached to one of the dimensions."""
    for axis in dataset.dims:
        if len(axis) and axis[0].dtype.kind in "OS" and axis[0].shape == (count,):
            return tuple(w.decode() if isinstance(w, bytes) else str(w) for w in axis[0][...])
    return None


def _with_step(found: Arrays, attributes: Any) -> Arrays:
    """With the step that is an attribute of the file, if none was found before."""
    for key in STEPS:
        if found.step is None and key in attributes and np.size(attributes[key]) == 1:
            return replace(found, step=float(np.asarray(attributes[key]).reshape(())))
    return found


def _read_netcdf(path: Path, variable: str | None) -> Arrays:
    """netCDF-4 is HDF5; the classic format is read by SciPy."""
    if h5py.is_hdf5(path):
        return _read_hdf5(path, variable)
    from scipy.io import netcdf_file

    try:
        with netcdf_file(path, "r", mmap=False, maskandscale=True) as file:
            arrays = {
                name: np.ma.filled(np.ma.asarray(item[...], dtype=np.float64), np.nan)
                for name, item in file.variables.items()
                if item.data.dtype.kind in "fiu"
            }
            axes = {name: tuple(item.dimensions) for name, item in file.variables.items()}
            attributes = dict(file._attributes)
    except (OSError, TypeError, ValueError, AssertionError) as error:
        raise InputError(f"{path} is not a netCDF file, or damaged: {error}") from None
    return _with_step(choose(arrays, str(path), variable, axes.get), attributes)
