"""Atomic writing of HDF5 files, safe against full disks and interruptions."""

from __future__ import annotations

import io
import os
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import h5py
import numpy as np

from vpintegrator.runtime.interrupts import held_back
from vpintegrator.storage.files import replacing

_CHUNK_BYTES = 1 << 20
_PAGE_BYTES = 1 << 16
TEXT = h5py.string_dtype()


@contextmanager
def create_hdf5(path: str | os.PathLike[str], overwrite: bool = False) -> Iterator[h5py.File]:
    """Give an empty HDF5 file that becomes ``path`` when the block succeeds.

    HDF5 does not survive a write that fails, on a full disk for one: it tries again when it closes
    the file, and ends the process. So it writes to a stream that takes everything, and what went
    wrong is raised when the file is closed.

    Raises
    ------
    InputError, OSError
        Errors of :func:`vpintegrator.storage.files.replacing`.
    """
    # HDF5 does not survive Ctrl-C and SIGTERM either
    with replacing(path, overwrite) as name, _Stream(name) as stream, held_back() as held:
        before = getattr(_writing, "current", (None, None))
        _writing.current = stream, held
        try:
            with h5py.File(stream, "w", track_order=True) as file:
                yield file
        except Exception:
            stream.check()  # raise the first error, rather than HDF5's reaction to it
            raise
        finally:
            _writing.current = before
        stream.check()


class _Stream:
    """File for HDF5 to write to; after the first error, further data stay in memory.

    HDF5 may read the data again, until the writer pauses and the error is raised.
    """

    def __init__(self, path: os.PathLike[str]) -> None:
        self._file = io.FileIO(path, "w+")
        self._position = self._size = 0
        self._error: Exception | None = None
        self._pages: dict[int, bytearray] = {}  # pages in memory by number

    def write(self, data: bytes) -> int:
        start, rest = self._position, memoryview(data).cast("B")
        self._position += len(rest)
        self._size = max(self._size, self._position)
        if self._error is None:
            try:
                self._file.seek(start)
                done = 0
                while done < len(rest):
                    done += self._file.write(rest[done:])
                return len(rest)
            except Exception as error:
                self._error = error
        for page, inside, part in _pages(start, len(rest)):
            if page not in self._pages:
                self._pages[page] = self._stored(page)
            self._pages[page][inside] = rest[part]
        return len(rest)

    def readinto(self, buffer: memoryview) -> int:
        start, whole = self._position, memoryview(buffer).cast("B")
        self._position += len(whole)
        for page, inside, part in _pages(start, len(whole)):
            whole[part] = (self._pages.get(page) or self._stored(page))[inside]
        return len(whole)

    def read(self, size: int) -> bytes:
        data = bytearray(size)
        self.readinto(memoryview(data))
        return bytes(data)

    def _stored(self, page: int) -> bytearray:
        """Return the bytes of a page on the disk, with zeros beyond the end of the file."""
        data = bytearray(_PAGE_BYTES)
        try:
            self._file.seek(page * _PAGE_BYTES)
            self._file.readinto(data)
        except Exception as error:
            self._error = self._error or error
        return data

    def truncate(self, size: int) -> int:
        try:
            if self._error is None:
                self._file.truncate(size)
        except Exception as error:
            self._error = error
        self._size = size
        return size

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        start = {os.SEEK_SET: 0, os.SEEK_CUR: self._position, os.SEEK_END: self._size}[whence]
        self._position = start + offset
        return self._position

    def tell(self) -> int:
        return self._position

    def flush(self) -> None:
        """Do nothing, as all data are written at once."""

    def check(self) -> None:
        """Raise what went wrong."""
        if self._error is not None:
            raise self._error

    def __enter__(self) -> _Stream:
        return self

    def __exit__(self, *exception: object) -> None:
        self._error = self._error or ValueError("the file is closed")
        self._file.close()
        self._pages.clear()


def _pages(start: int, length: int) -> Iterator[tuple[int, slice, slice]]:
    """Yield each page that a range touches: number, bytes in the page, bytes in the range."""
    done = 0
    while done < length:
        page, first = divmod(start + done, _PAGE_BYTES)
        count = min(_PAGE_BYTES - first, length - done)
        yield page, slice(first, first + count), slice(done, done + count)
        done += count


_writing = threading.local()  # the stream that this thread writes to, and the signals held back


def _pause() -> None:
    """Raise signals and errors that were held back; call it only while HDF5 is not at work."""
    stream, held = getattr(_writing, "current", (None, None))
    if stream is not None and held is not None:
        held.let_through()
        stream.check()


def write_words(group: h5py.Group, name: str, names: Sequence[str], title: str) -> h5py.Dataset:
    """Write a dimension scale of words."""
    scale = group.create_dataset(name, data=np.array(names, dtype=object), dtype=TEXT)
    scale.attrs["long_name"] = title
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
            _pause()
            block = slice(first, first + 64 * rows)
            dataset[block, part] = values[block, part]
    return dataset
