"""Reading trajectories that others wrote: .npz, .npy, text, HDF5 and netCDF files.

Nothing in a file is executed or unpickled.
"""

from __future__ import annotations

import contextlib
import io
import math
import os
import zipfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import IO, Any

import h5py
import numpy as np

from vpintegrator.data.importing.arrays import STEPS, TIMES, Arrays, choose
from vpintegrator.data.importing.tables import read_table
from vpintegrator.errors import InputError
from vpintegrator.stored import COMPRESSION, LARGEST_UNSTORED, check_dataset, open_any, reading

_MOST_ARRAYS = 10_000
_OCTAVE = ("OCTAVE_NEW_FORMAT", "OCTAVE_GLOBAL")


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
    with reading(str(path)):
        if not path.exists():
            raise InputError(f"there is no file {path}")
        if not path.is_file():
            what = "a folder" if path.is_dir() else "a device or a pipe"
            raise InputError(f"{path} is {what}, not a file of arrays")
        if not os.access(path, os.R_OK):
            raise InputError(f"{path} may not be read")
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
    with _damage_told(path, "NumPy arrays"), path.open("rb") as file:
        if not zipfile.is_zipfile(file):
            file.seek(0)
            _check_array(file, path.stat().st_size, str(path))
            file.seek(0)
            found = np.load(file, allow_pickle=False)
            arrays = {"array": found}
        else:
            _check_archive(file, path)
            file.seek(0)
            # with pickles a file could execute anything
            with np.load(file, allow_pickle=False) as archive:
                arrays = {name: archive[name] for name in archive.files}
    return choose(arrays, str(path), variable if len(arrays) > 1 else None)


def _check_archive(file: IO[bytes], path: Path) -> None:
    """Make sure that all arrays of an archive are plain, and in proportion to the file."""
    with zipfile.ZipFile(file) as archive:
        sizes = [entry.file_size for entry in archive.infolist()]
        if sum(sizes) > LARGEST_UNSTORED + COMPRESSION * path.stat().st_size:
            raise InputError(
                f"{path}: its arrays are out of proportion to the file, {sum(sizes):,} bytes"
            )
        for entry in archive.infolist():
            if entry.filename.endswith(".npy"):
                with archive.open(entry) as array:
                    _check_array(array, entry.file_size, f"{path}, {entry.filename[:-4]}")


def _check_array(file: IO[bytes], size: int, where: str) -> None:
    """Make sure that a .npy file of ``size`` bytes holds plain numbers, as many as it says."""
    version = np.lib.format.read_magic(file)
    if version[0] > 2:
        raise InputError(f"{where}: expected real numbers, found a table of named columns")
    read_header = (np.lib.format.read_array_header_1_0, np.lib.format.read_array_header_2_0)
    shape, _, dtype = read_header[version[0] - 1](file)
    if dtype.hasobject:
        raise InputError(
            f"{where} holds Python objects, which are not read as they could do harm; save plain "
            "arrays of numbers"
        )
    if any(length < 0 for length in shape) or math.prod(shape) * dtype.itemsize > size:
        raise InputError(f"{where}: there are not as many numbers as its shape {shape} says")


@contextmanager
def _damage_told(path: Path, what: str) -> Iterator[None]:
    """Libraries raise almost anything about a damaged file; only their calls stand in the block."""
    try:
        yield
    except InputError:
        raise
    except MemoryError:
        raise InputError(f"{path} does not fit into the memory") from None
    except Exception as error:
        raise InputError(f"{path} cannot be read as {what}, it may be damaged: {error}") from None


def _read_hdf5(path: Path, variable: str | None) -> Arrays:
    if path.suffix.lower() == ".mat" and not h5py.is_hdf5(path):
        raise InputError(
            f"{path} is not a MATLAB file of version 7.3; save it in MATLAB with -v7.3"
        )
    with open_any(path) as file:
        arrays = _find_arrays(file, path)
        with reading(str(path)):
            axes = {name: _axes(array) for name, array in arrays.items()}
        found = _with_step(choose(arrays, str(path), variable, axes.get), _attributes(file))
        first = arrays[found.variable.split(",")[0]]
        with reading(f"{path}, {first.name}"):
            if found.names is None:
                found = replace(found, names=_component_names(first, found.states.shape[-1]))
            if found.times is None:
                found = replace(found, times=_time_scale(first))
        return found


def _find_arrays(file: h5py.File, path: Path) -> dict[str, _Lazy]:
    """All arrays of real numbers in a file, by name. Links to other files are not followed."""
    arrays: dict[str, _Lazy] = {}

    def visit(name: str, item: Any) -> None:
        if not isinstance(item, h5py.Dataset) or item.shape is None or name.startswith("#"):
            return  # MATLAB keeps what is no variable under # names
        if item.dtype.kind in "fiu" and _matlab_class(item) not in ("char", "logical"):
            if len(arrays) == _MOST_ARRAYS:
                raise InputError(f"{path} holds more than {_MOST_ARRAYS} arrays; copy a few out")
            arrays[name] = _Lazy(item, str(path))

    with reading(str(path)):
        file.visititems(visit)
    return arrays


class _Lazy:
    """A dataset of a file that becomes an array when it is asked for, missing values as NaN.

    MATLAB and Octave store arrays by columns, and HDF5 tells the axes in the order of the bytes:
    they are turned round again.
    """

    def __init__(self, dataset: h5py.Dataset, where: str) -> None:
        self.dataset, self.name = dataset, str(dataset.name).strip("/")
        self._where = f"{where}, {self.name}"
        self.by_columns = _matlab_class(dataset) is not None or any(
            mark in holder.attrs for holder in (dataset, dataset.parent) for mark in _OCTAVE
        )
        self.shape = dataset.shape[::-1] if self.by_columns else dataset.shape

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        with reading(self._where):
            check_dataset(self.dataset, self._where)
            values = np.asarray(self.dataset[...])
            result = values.astype(np.float64)
        attributes = _attributes(self.dataset)
        for key in ("_FillValue", "missing_value"):
            if key in attributes:
                result[values == attributes[key]] = np.nan
        for key, apply in (("scale_factor", np.multiply), ("add_offset", np.add)):
            if key in attributes:
                result = apply(result, np.float64(attributes[key]))
        return result.T if self.by_columns else result


def _attributes(item: h5py.Group | h5py.Dataset) -> dict[str, Any]:
    """Those attributes of use here that are single numbers."""
    found: dict[str, Any] = {}
    for key in (*STEPS, "_FillValue", "missing_value", "scale_factor", "add_offset"):
        with contextlib.suppress(Exception):  # one that cannot be read says nothing
            if key in item.attrs and item.attrs.get_id(key).shape in ((), (1,)):
                value = np.asarray(item.attrs[key]).reshape(())
                if value.dtype.kind in "fiu":
                    found[key] = value[()]
    return found


def _matlab_class(dataset: h5py.Dataset) -> str | None:
    """What MATLAB says that an array is, ``double``, ``char``, ...; None where it did not write."""
    kind = dataset.attrs.get("MATLAB_class")
    return kind.decode("ascii", "replace") if isinstance(kind, bytes) else kind


def _axes(array: _Lazy) -> tuple[str, ...]:
    """Names of an array's dimensions, empty where they have none."""
    names = tuple(
        axis.label or (axis[0].name.rpartition("/")[2] if len(axis) else "")
        for axis in array.dataset.dims
    )
    return names[::-1] if array.by_columns else names


def _time_scale(array: _Lazy) -> np.ndarray | None:
    """The values along the dimension that is named for the time."""
    names = _axes(array)[::-1] if array.by_columns else _axes(array)
    for axis, name in zip(array.dataset.dims, names, strict=True):
        if name.lower() in TIMES and len(axis) and axis[0].dtype.kind in "fiu":
            check_dataset(axis[0], f"{axis[0].name}")
            return np.asarray(axis[0][...], dtype=np.float64)
    return None


def _component_names(array: _Lazy, count: int) -> tuple[str, ...] | None:
    """Words that are attached to one of the dimensions."""
    for axis in array.dataset.dims:
        if len(axis) and axis[0].dtype.kind in "OS" and axis[0].shape == (count,):
            check_dataset(axis[0], f"{axis[0].name}")
            words = axis[0][...]
            return tuple(w.decode() if isinstance(w, bytes) else str(w) for w in words)
    return None


def _with_step(found: Arrays, attributes: Mapping[str, Any]) -> Arrays:
    """With the step that is an attribute of the file, if none was found before."""
    for key in STEPS:
        if found.step is None and key in attributes:
            return replace(found, step=float(attributes[key]))
    return found


def _read_netcdf(path: Path, variable: str | None) -> Arrays:
    """netCDF-4 is HDF5; the classic format is read by SciPy."""
    if h5py.is_hdf5(path):
        return _read_hdf5(path, variable)
    from scipy.io import netcdf_file

    with (
        _damage_told(path, "netCDF"),
        _Clamped(path) as stream,
        netcdf_file(stream, "r", mmap=False, maskandscale=True) as file,
    ):
        arrays = {
            name: np.ma.filled(np.ma.asarray(item[...], dtype=np.float64), np.nan)
            for name, item in file.variables.items()
            if item.data.dtype.kind in "fiu"
        }
        axes = {name: tuple(item.dimensions) for name, item in file.variables.items()}
        attributes = {
            key: np.asarray(value).reshape(())
            for key, value in file._attributes.items()
            if np.size(value) == 1 and np.asarray(value).dtype.kind in "fiu"
        }
    return _with_step(choose(arrays, str(path), variable, axes.get), attributes)


class _Clamped(io.BufferedReader):
    """A file of which no more is read than there is, whatever its header says."""

    def __init__(self, path: Path) -> None:
        super().__init__(io.FileIO(path))
        self._size = path.stat().st_size

    def read(self, size: int | None = -1, /) -> bytes:
        left = max(self._size - self.tell(), 0)
        return super().read(left if size is None or size < 0 else min(size, left))
