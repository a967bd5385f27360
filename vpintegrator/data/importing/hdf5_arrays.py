"""Arrays in HDF5 files of other programs, netCDF-4 and MATLAB 7.3 among them."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from vpintegrator.data.importing.arrays import STEPS, TIMES, Arrays, choose, with_step
from vpintegrator.errors import InputError
from vpintegrator.storage.reading import check_dataset, open_any, reading

_MOST_ARRAYS = 10_000
_OCTAVE = ("OCTAVE_NEW_FORMAT", "OCTAVE_GLOBAL")


def read_hdf5(path: Path, variable: str | None, parameters: Sequence[str] = ()) -> Arrays:
    """States, times and step in an HDF5 file, found by names, dimension scales and attributes.

    Raises
    ------
    InputError
        If the file cannot be read, or it is not clear which array is meant.
    """
    with open_any(path) as file:
        arrays = _find_arrays(file, path)
        found = choose(arrays, str(path), variable, _names_of(arrays), parameters)
        found = with_step(found, _attributes(file))
        first = arrays[found.variable.split(",")[0]]
        with reading(f"{path}, {first.name}"):
            axes = _axes(first.dataset)
            if found.names is None:
                names = _component_names(axes, found.states.shape[-1], str(path))
                found = replace(found, names=names)
            if found.times is None:
                found = replace(found, times=_time_scale(axes, str(path)))
        return found


def _names_of(arrays: Mapping[str, _Lazy]) -> Callable[[str], tuple[str, ...] | None]:
    """Return a function that tells the names of an array's dimensions."""

    def names(variable: str) -> tuple[str, ...]:
        array = arrays[variable]
        with reading(f"{array.where}"):
            found = tuple(axis.name for axis in _axes(array.dataset))
        return found[::-1] if array.by_columns else found

    return names


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
        self.where = f"{where}, {self.name}"
        self.by_columns = _matlab_class(dataset) is not None or any(
            mark in holder.attrs for holder in (dataset, dataset.parent) for mark in _OCTAVE
        )
        self.shape = dataset.shape[::-1] if self.by_columns else dataset.shape

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        with reading(self.where):
            check_dataset(self.dataset, self.where)
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
    """Return those used attributes of an item that are single numbers."""
    found: dict[str, Any] = {}
    for key in (*STEPS, "_FillValue", "missing_value", "scale_factor", "add_offset"):
        with contextlib.suppress(Exception):  # attributes that cannot be read are ignored
            if key in item.attrs and item.attrs.get_id(key).shape in ((), (1,)):
                value = np.asarray(item.attrs[key]).reshape(())
                if value.dtype.kind in "fiu":
                    found[key] = value[()]
    return found


def _matlab_class(dataset: h5py.Dataset) -> str | None:
    """Return the MATLAB class of an array, ``double``, ``char``, ..., or None for other files."""
    kind = dataset.attrs.get("MATLAB_class")
    return kind.decode("ascii", "replace") if isinstance(kind, bytes) else kind


@dataclass(frozen=True)
class _Axis:
    """Dimension of a netCDF or HDF5 array: its name, and its coordinate array."""

    name: str = ""
    scale: h5py.Dataset | None = None


def _axes(dataset: h5py.Dataset) -> list[_Axis]:
    """Return the dimensions of a dataset as they are described.

    The library's own functions end the process where the attributes that describe them are not
    what they should be.
    """
    axes = [_Axis()] * len(dataset.shape)
    found = dataset.attrs.get_id("DIMENSION_LIST") if "DIMENSION_LIST" in dataset.attrs else None
    if found is not None and found.shape == (len(axes),):
        inner = h5py.check_vlen_dtype(found.dtype)
        if inner is not None and h5py.check_ref_dtype(inner) is h5py.Reference:
            for k, references in enumerate(dataset.attrs["DIMENSION_LIST"]):
                scale = dataset.file[references[0]] if len(references) and references[0] else None
                if isinstance(scale, h5py.Dataset):
                    axes[k] = _Axis(str(scale.name).rpartition("/")[2], scale)
    if "DIMENSION_LABELS" in dataset.attrs:
        found = dataset.attrs.get_id("DIMENSION_LABELS")
        if found.shape == (len(axes),) and h5py.check_string_dtype(found.dtype) is not None:
            labels = [_word(label) for label in dataset.attrs["DIMENSION_LABELS"]]
            axes = [
                replace(axis, name=label or axis.name)
                for axis, label in zip(axes, labels, strict=True)
            ]
    return axes


def _word(text: Any) -> str:
    return text.decode("utf-8", "replace") if isinstance(text, bytes) else str(text)


def _time_scale(axes: list[_Axis], where: str) -> np.ndarray | None:
    """Return the values along the dimension that is named for the time."""
    for axis in axes:
        scale = axis.scale
        if axis.name.lower() in TIMES and scale is not None and scale.dtype.kind in "fiu":
            check_dataset(scale, f"{where}, {scale.name}")
            return np.asarray(scale[...], dtype=np.float64)
    return None


def _component_names(axes: list[_Axis], count: int, where: str) -> tuple[str, ...] | None:
    """Return words that are attached to one of the dimensions."""
    for axis in axes:
        scale = axis.scale
        if scale is None or scale.shape != (count,):
            continue
        if h5py.check_string_dtype(scale.dtype) is not None:
            check_dataset(scale, f"{where}, {scale.name}")
            return tuple(map(_word, scale[...]))
    return None
