"""Reading trajectories that others wrote: .npz, .npy, text, HDF5 and netCDF files.

Nothing in a file is executed or unpickled.
"""

from __future__ import annotations

import io
import math
import os
import zipfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import IO

import h5py
import numpy as np

from vpintegrator.data.importing.arrays import Arrays, choose, with_step
from vpintegrator.data.importing.hdf5_arrays import read_hdf5
from vpintegrator.data.importing.tables import read_table
from vpintegrator.errors import InputError
from vpintegrator.storage.files import check_input
from vpintegrator.storage.reading import COMPRESSION, LARGEST_UNSTORED, check_kind, reading


def read_arrays(
    path: str | os.PathLike[str],
    variable: str | None = None,
    decimal: str | None = None,
    columns: Sequence[str] | Mapping[str, str] | None = None,
    step: float | None = None,
    parameters: Sequence[str] = (),
) -> Arrays:
    """Read the states in a file, by the ending of its name.

    Parameters
    ----------
    path
        A file .npz, .npy, .csv (also .txt, .tsv, .dat, each also packed: .csv.gz), .h5 (.hdf5,
        .he5), .mat or .nc.
    variable
        Name of the array, where there are several; or names, with commas between, of arrays (or
        columns of a table) that are the components.
    decimal, columns, step
        Options of a text file, see :func:`vpintegrator.data.importing.tables.read_table`.
    parameters
        Names of arrays or columns that are parameters.

    Raises
    ------
    InputError
        If the file cannot be read, or it is not clear which array is meant.
    """
    path = Path(path)
    with reading(str(path)):
        check_input(path, "a file of arrays")
    if variable is None:
        check_kind(path, "arrays", "hdf5")
    readers: dict[str, Callable[[Path, str | None, Sequence[str]], Arrays]] = {
        ".npz": _read_numpy,
        ".npy": _read_numpy,
        ".h5": read_hdf5,
        ".hdf5": read_hdf5,
        ".he5": read_hdf5,
        ".mat": _read_matlab,
        ".nc": _read_netcdf,
        ".nc4": _read_netcdf,
        ".cdf": _read_netcdf,
    }
    inner = path.with_suffix("") if path.suffix.lower() == ".gz" else path
    if inner.suffix.lower() in (".csv", ".tsv", ".txt", ".dat"):
        return read_table(path, variable, decimal, columns, step, parameters)
    for option, value in (("decimal", decimal), ("columns", columns)):
        if value is not None:
            raise InputError(
                f"--{option} is for text files, and {path} is none ({option}= in Python)"
            )
    reader = readers.get(path.suffix.lower())
    if reader is None:
        raise InputError(
            f"{path}: cannot tell what a file '{path.suffix}' is; give .npz, .npy, .csv, .h5 or .nc"
        )
    return reader(path, variable, parameters)


def _read_numpy(path: Path, variable: str | None, parameters: Sequence[str]) -> Arrays:
    with _reading(path, "NumPy arrays"), path.open("rb") as file:
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
    variable = variable if len(arrays) > 1 else None
    return choose(arrays, str(path), variable, parameters=parameters)


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


def _reading(path: Path, what: str) -> AbstractContextManager[None]:
    return reading(str(path), said=f"cannot be read as {what}, it may be damaged")


def _read_matlab(path: Path, variable: str | None, parameters: Sequence[str]) -> Arrays:
    """Files of version 7.3 are HDF5; those of versions 4 to 7 are read by SciPy."""
    if h5py.is_hdf5(path):
        return read_hdf5(path, variable, parameters)
    from scipy.io import loadmat

    with _reading(path, "MATLAB's variables"):
        held = loadmat(path)
    arrays = {
        name: value
        for name, value in held.items()
        if isinstance(value, np.ndarray) and value.dtype.kind in "fiu"
    }
    return choose(arrays, str(path), variable, parameters=parameters)


def _read_netcdf(path: Path, variable: str | None, parameters: Sequence[str]) -> Arrays:
    """netCDF-4 is HDF5; the classic format is read by SciPy."""
    if h5py.is_hdf5(path):
        return read_hdf5(path, variable, parameters)
    from scipy.io import netcdf_file

    with (
        _reading(path, "netCDF"),
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
    return with_step(choose(arrays, str(path), variable, axes.get, parameters), attributes)


class _Clamped(io.BufferedReader):
    """A file of which no more is read than there is, whatever its header says."""

    def __init__(self, path: Path) -> None:
        super().__init__(io.FileIO(path))
        self._size = path.stat().st_size

    def read(self, size: int | None = -1, /) -> bytes:
        left = max(self._size - self.tell(), 0)
        return super().read(left if size is None or size < 0 else min(size, left))
