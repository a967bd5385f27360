"""Atomic writing of HDF5 files, safe against full disks and interruptions.

Texts that this package reads again have a fixed length. Those of variable length lie in a heap of
the file, and HDF5 may go round for ever in a heap that is damaged.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any
from uuid import uuid4

import h5py
import numpy as np

from vpintegrator.storage.files import check_output, replacing

_CHUNK_BYTES = 1 << 20
_GROWTH = 1 << 24  # bytes by which a file in memory grows
_WORDS = h5py.string_dtype()  # of variable length: xarray takes these for words, and no others


@contextmanager
def create_hdf5(path: str | os.PathLike[str], overwrite: bool = False) -> Iterator[h5py.File]:
    """Give an empty HDF5 file that becomes ``path`` when the block succeeds.

    It is made in memory and written at once: HDF5 ends the process when a disk is full.

    Raises
    ------
    InputError, OSError
        Errors of :func:`vpintegrator.storage.files.replacing`.
    """
    path = check_output(path, overwrite)
    memory = {"driver": "core", "backing_store": False, "block_size": _GROWTH}
    with h5py.File(f"{uuid4()}", "w", track_order=True, **memory) as file:
        yield file
        file.flush()
        image = file.id.get_file_image()
    with replacing(path, overwrite) as temporary:
        temporary.write_bytes(image)


def write_attributes(item: h5py.Group | h5py.Dataset, values: Mapping[str, Any]) -> None:
    """Write attributes: texts of fixed length in UTF-8, numbers and arrays of them."""
    for key, value in values.items():
        if isinstance(value, str):
            data = value.encode()
            value = np.array(data, dtype=h5py.string_dtype("utf-8", max(len(data), 1)))
        item.attrs[key] = value


def write_words(group: h5py.Group, name: str, names: Sequence[str], title: str) -> h5py.Dataset:
    """Write a dimension scale of words, for other readers: nothing here reads them again."""
    scale = group.create_dataset(name, data=np.array(names, dtype=object), dtype=_WORDS)
    write_attributes(scale, {"long_name": title})
    scale.make_scale(name)
    return scale


def fill(group: h5py.Group, name: str, values: np.ndarray | h5py.VirtualLayout) -> h5py.Dataset:
    """Write a chunked and checksummed dataset (trajectory, time, ...), part by part.

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
