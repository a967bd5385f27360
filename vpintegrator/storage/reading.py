"""Reading of HDF5 files from untrusted sources.

A file may be damaged, come from a stranger, or be made to do harm. Whatever is read from one is
read through a :class:`StoredGroup`, which looks at what it is about to read first: that it is
there, of the kind and shape expected, of a size in proportion to the file, and in the file itself.
HDF5 would otherwise follow links to other files, take the bytes of any file of the disk for numbers
(external storage), load programs for filters, and make arrays of any size out of nothing.
"""

from __future__ import annotations

import atexit
import contextlib
import io
import json
import os
import struct
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn

import h5py
import numpy as np
from h5py import h5d, h5z

from vpintegrator.errors import InputError, printable
from vpintegrator.storage.file_kinds import KINDS, kind_of_format, kind_of_plain, refusal
from vpintegrator.storage.files import check_input, check_version

_LARGEST_ATTRIBUTE = 1 << 22  # bytes
LARGEST_UNSTORED = 1 << 24  # bytes of numbers that need not be backed by bytes of the file
COMPRESSION = 128  # beyond these, how many bytes of numbers for each byte of the file
_LARGEST_CHUNK = 1 << 26  # bytes; a chunk is read whole
_CHECKSUM = 4  # bytes
_DEEPEST = 64  # levels of JSON
_LZF = 32000
_FILTERS = {  # filters of h5py itself; HDF5 would load programs for others
    h5z.FILTER_DEFLATE,
    h5z.FILTER_SHUFFLE,
    h5z.FILTER_FLETCHER32,
    h5z.FILTER_SZIP,
    h5z.FILTER_NBIT,
    h5z.FILTER_SCALEOFFSET,
    _LZF,
}
_REQUIRED: Any = object()


class StoredGroup:
    """Group of an HDF5 file, with methods that read values and check them.

    Made by :func:`open_hdf5`. Each method raises InputError, in a sentence that names the file and
    what is wrong in it, if what it should read is missing (unless there is a ``default``), of
    another kind or shape, damaged, too large, or not in the file itself.

    Parameters
    ----------
    group
        Group of h5py.
    path
        Path of the file, for messages.
    """

    def __init__(self, group: h5py.Group, path: str | os.PathLike[str]) -> None:
        self._group, self._path = group, Path(path)
        inside = str(group.name).strip("/")
        self._where = f"{path}, {inside}" if inside else str(path)

    def __str__(self) -> str:
        """Return the file and the place in it, for messages."""
        return self._where

    @property
    def raw(self) -> h5py.Group:
        """The group itself, of which nothing is checked."""
        return self._group

    # Attributes

    def has(self, key: str) -> bool:
        """Whether there is an attribute of this name."""
        with reading(self._where):
            return key in self._group.attrs

    @property
    def attributes(self) -> dict[str, Any]:
        """All attributes, as h5py gives them."""
        with reading(self._where):
            keys = list(self._group.attrs)
        return {key: self._attribute(key, None) for key in keys}

    def text(self, key: str, default: Any = _REQUIRED) -> str:
        """Return an attribute that must be a text."""
        value = self._attribute(key, default)
        if value is default:
            return default
        if isinstance(value, bytes):
            value = value.decode("utf-8", "surrogateescape")
        if not isinstance(value, str):
            self._refuse(key, "a text", value)
        try:
            value.encode()
        except UnicodeEncodeError:
            raise InputError(f"{self._where}: the attribute '{key}' is not UTF-8") from None
        return str(value)

    def number(
        self,
        key: str,
        default: Any = _REQUIRED,
        *,
        positive: bool = False,
        finite: bool = True,
    ) -> float:
        """Return an attribute that must be a number, and a finite one if ``finite``."""
        value = self._attribute(key, default)
        if value is default:
            return default
        found = np.asarray(value)
        what = "a positive number" if positive else "a number"
        if found.shape not in ((), (1,)) or found.dtype.kind not in "fiu":
            self._refuse(key, what, value)
        number = float(found.reshape(()))
        if (finite and not np.isfinite(number)) or (positive and number <= 0):
            self._refuse(key, what, number)
        return number

    def whole(self, key: str, default: Any = _REQUIRED, *, least: int = 0) -> int:
        """Return an attribute that must be a whole number, ``least`` or more."""
        value = self._attribute(key, default)
        if value is default:
            return default
        found = np.asarray(value)
        if found.shape not in ((), (1,)) or found.dtype.kind not in "iu" or found.min() < least:
            self._refuse(key, f"a whole number, {least} or more", value)
        return int(found.reshape(()))

    def numbers(self, key: str, length: int, default: Any = _REQUIRED) -> np.ndarray:
        """Return an attribute that must be an array of finite numbers, (length,), as float64."""
        value = self._attribute(key, default)
        if value is default:
            return default
        found = np.asarray(value)
        if found.shape != (length,) or found.dtype.kind not in "fiu":
            self._refuse(key, f"{length} numbers", value)
        result = found.astype(np.float64)
        if not np.isfinite(result).all():
            self._refuse(key, f"{length} finite numbers", value)
        return result

    def json(self, key: str, kind: type = dict, default: Any = _REQUIRED) -> Any:
        """Return an attribute that must be JSON: a ``dict`` or a ``list``, not deeply nested."""
        if default is not _REQUIRED and not self.has(key):
            return default
        return read_json(self.text(key), f"{self._where}: the attribute '{key}'", kind)

    def _attribute(self, key: str, default: Any) -> Any:
        if not self.has(key):
            if default is not _REQUIRED:
                return default
            raise InputError(f"{self._where}: the attribute '{key}' is missing")
        with reading(f"{self._where}: the attribute '{key}'"):
            found = self._group.attrs.get_id(key)
            if found.shape is None:
                raise InputError(f"{self._where}: the attribute '{key}' is empty")
            size = float(np.prod(found.shape, dtype=np.float64)) * found.dtype.itemsize
            if max(size, found.get_storage_size()) > _LARGEST_ATTRIBUTE:
                raise InputError(f"{self._where}: the attribute '{key}' is too large")
            return self._group.attrs[key]

    def _refuse(self, key: str, expected: str, value: Any) -> NoReturn:
        shown = printable(repr(value))
        shown = shown if len(shown) <= 40 else f"{shown[:40]}..."
        raise InputError(f"{self._where}: the attribute '{key}' must be {expected}, not {shown}")

    # Groups and datasets

    def __contains__(self, name: str) -> bool:
        """Whether there is something of this name in the group."""
        with reading(self._where):
            return "/" not in name and name in self._group.keys()  # noqa: SIM118 - not a dict

    @property
    def names(self) -> list[str]:
        """Names of everything in the group."""
        with reading(self._where):
            return list(self._group)

    @property
    def groups(self) -> list[str]:
        """Names of the groups in this one, as they stand in the file."""
        with reading(self._where):
            names = [name for name in self._group if self._is_inside(name)]
            return [n for n in names if self._group.get(n, getclass=True) is h5py.Group]

    def group(self, name: str) -> StoredGroup:
        """Return the group of this name in this group."""
        return StoredGroup(self._child(name, h5py.Group, "group"), self._path)

    def dataset(self, name: str, axes: Sequence[int | None], kind: str = "f") -> h5py.Dataset:
        """Return a dataset that is checked but not read.

        Parameters
        ----------
        name
            Its name in this group.
        axes
            The expected length of each axis, None for any.
        kind
            ``f`` for real numbers, ``i`` for whole ones.
        """
        found = self._child(name, h5py.Dataset, "dataset")
        where = f"{self._where}, {name}"
        with reading(where):
            check_dataset(found, where)
            check_shape(found, axes, where)
            if found.dtype.kind not in ("fiu" if kind == "f" else "iu"):
                numbers = "real numbers" if kind == "f" else "whole numbers"
                raise InputError(f"{where}: expected {numbers}, found {found.dtype}")
        return found

    def array(self, name: str, axes: Sequence[int | None], kind: str = "f") -> np.ndarray:
        """Return the numbers of a dataset, as float64 or int64; see :meth:`dataset`."""
        found = self.dataset(name, axes, kind)
        with reading(f"{self._where}, {name}"):
            values: np.ndarray = np.asarray(found[...])
            return values.astype(np.float64 if kind == "f" else np.int64)

    def labelled(self, name: str) -> StoredGroup:
        """Return a dataset, with access to its attributes."""
        return StoredGroup(self._child(name, h5py.Dataset, "dataset"), self._path)

    def _child(self, name: str, kind: type, word: str) -> Any:
        if name not in self:
            raise InputError(f"{self._where}: there is no {word} '{printable(name)}'")
        with reading(f"{self._where}, {printable(name)}"):
            if not self._is_inside(name):
                raise InputError(
                    f"{self._where}: '{printable(name)}' is a link to somewhere else, which is not "
                    "followed"
                )
            found = self._group[name]
            if not isinstance(found, kind):
                raise InputError(f"{self._where}: '{printable(name)}' is not a {word}")
            return found

    def _is_inside(self, name: str) -> bool:
        """Whether a name stands for the thing itself; links of any other kind are not followed."""
        return isinstance(self._group.get(name, getlink=True), h5py.HardLink)


class Guarded:
    """A dataset that was checked, to be read in parts; damage found then is told in a sentence."""

    def __init__(self, dataset: h5py.Dataset, where: str) -> None:
        self._dataset, self._where = dataset, where
        self.shape, self.chunks = dataset.shape, dataset.chunks

    def __getitem__(self, key: Any) -> Any:
        with reading(self._where, (OSError, RuntimeError)):  # others are mistakes in the key
            return self._dataset[key]


@contextmanager
def open_hdf5(path: str | os.PathLike[str], format_name: str, newest: int) -> Iterator[StoredGroup]:
    """Open one of this package's HDF5 files for reading.

    Raises
    ------
    InputError
        If there is no such file, it is no HDF5 file, damaged, or holds something else. What the
        caller's block raises is left as it is.
    """
    kind = format_name.removeprefix("vpintegrator-")
    with open_any(path, KINDS[kind].name) as file:
        root = StoredGroup(file, path)
        found = root.text("format", "")
        if found != format_name:
            raise InputError(refusal(path, kind_of_format(found) or "hdf5", KINDS[kind].name))
        check_version(path, root.whole("format_version", None), newest)
        yield root


def kind_of(path: str | os.PathLike[str]) -> str | None:
    """Return the kind of a file, a key of ``storage.file_kinds.KINDS``, or None if unknown.

    Raises
    ------
    InputError
        If there is no such file, or HDF5 cannot open it.
    """
    with reading(str(path)):
        path = check_input(path, "a file")
        if not h5py.is_hdf5(path):
            return kind_of_plain(path)
    with open_any(path) as file:
        return kind_of_format(StoredGroup(file, path).text("format", "")) or "hdf5"


def check_kind(path: str | os.PathLike[str], *expected: str) -> None:
    """Raise InputError if a file is of another known kind; say which command takes the file."""
    found = kind_of(path)
    if found is not None and found not in expected:
        words = [KINDS[name].name for name in expected]
        last = words.pop()
        raise InputError(refusal(path, found, f"{', '.join(words)} or {last}" if words else last))


@contextmanager
def open_any(path: str | os.PathLike[str], expected: str = "a file of arrays") -> Iterator[Any]:
    """Open any HDF5 file for reading, as ``h5py.File``.

    Raises
    ------
    InputError
        If there is no such file, or it cannot be opened as HDF5; ``expected`` says what was.
    """
    with reading(str(path)):
        path = check_input(path, expected)
        if not h5py.is_hdf5(path):
            if kind := kind_of_plain(path):
                raise InputError(refusal(path, kind, expected))
            raise InputError(f"{path} is not an HDF5 file; expected {expected}")
        stream = _Watched(path)
        file = h5py.File(stream, "r")
    _OPEN[id(file)] = file
    try:
        yield file
    finally:
        _OPEN.pop(id(file), None)
        with reading(str(path)):
            file.close()
            stream.close()


_OPEN: dict[int, h5py.File] = {}  # files by identity: a damaged file has no hash


@atexit.register
def _close_all() -> None:
    """Close what is still open while Python is there; HDF5 would ask it for blocks afterwards."""
    while _OPEN:
        with contextlib.suppress(Exception):
            _OPEN.popitem()[1].close()


class _Watched(io.FileIO):
    """File that HDF5 reads block by block, without blocks that would crash it.

    A collection of texts in which a free space has the length 0 keeps it busy for ever.
    """

    def readinto(self, buffer: Any) -> int:
        block = memoryview(buffer).cast("B")
        start = self.tell()
        count = super().readinto(block) or 0
        block[count:] = bytes(len(block) - count)
        if block[:4] == b"GCOL":
            self._check_collection(block, start)
        return len(block)

    def _check_collection(self, block: memoryview, start: int) -> None:
        (size,) = struct.unpack_from("<Q", block, 8)
        at = 16
        while at + 16 <= min(size, len(block)):  # a longer one is read a second time, as a whole
            number, length = struct.unpack_from("<H6xQ", block, at)
            length = 16 + -(-length // 8) * 8 if number else length
            if not 16 <= length <= size - at:
                raise InputError(f"{self.name} is damaged: its texts, {start} bytes from its start")
            at += length


@contextmanager
def reading(
    where: str,
    errors: type[Exception] | tuple[type[Exception], ...] = Exception,
    said: str = "is damaged or incomplete",
) -> Iterator[None]:
    """Call what a library, such as h5py, says of ``where`` a damaged file.

    Libraries raise almost anything about one, so the block must hold nothing but their calls.
    """
    try:
        yield
    except InputError:
        raise
    except MemoryError:
        raise InputError(f"{where} does not fit into the memory") from None
    except errors as error:
        if isinstance(error.__cause__ or error.__context__, KeyboardInterrupt):
            raise KeyboardInterrupt from None  # it came while a block was read
        reason = printable(str(error.args[0] if error.args else type(error).__name__))[:200]
        raise InputError(f"{where} {said}: {reason}") from None


def check_dataset(dataset: h5py.Dataset, where: str) -> None:
    """Make sure that a dataset's numbers are in the file, and no more than it can hold.

    Raises
    ------
    InputError
        If they lie in another file, need a filter that is not known, or a program, or are out of
        proportion to the bytes that are stored.
    """
    properties = dataset.id.get_create_plist()
    if properties.get_external_count():
        raise InputError(f"{where}: its numbers lie in other files, which are not read")
    if properties.get_layout() == h5d.VIRTUAL:
        raise InputError(f"{where}: it is a view of other files, which is not followed")
    codes = [properties.get_filter(number)[0] for number in range(properties.get_nfilters())]
    for code in codes:
        if code not in _FILTERS:
            raise InputError(
                f"{where}: it is compressed by a filter that is not known here (number {code}); "
                "rewrite the file with h5repack -f GZIP=4"
            )
    if dataset.shape is None:
        raise InputError(f"{where} is empty")
    size = _bytes(dataset.shape, dataset)
    if dataset.chunks is not None and _bytes(dataset.chunks, dataset) > _LARGEST_CHUNK:
        raise InputError(f"{where}: its chunks are too large to be read")
    # HDF5 takes a chunk without room for its checksum for one of 2^32 bytes, and crashes
    if h5z.FILTER_FLETCHER32 in codes and dataset.id.chunk_iter(_is_cut_short):
        raise InputError(f"{where} is damaged: a part of its numbers is cut short")
    if size > LARGEST_UNSTORED + COMPRESSION * dataset.id.get_storage_size():
        raise InputError(
            f"{where}: {dataset.shape} numbers are out of proportion to the "
            f"{dataset.id.get_storage_size()} bytes that the file stores of them"
        )


def _is_cut_short(chunk: Any) -> bool | None:
    return True if chunk.size <= _CHECKSUM else None


def check_shape(dataset: h5py.Dataset, axes: Sequence[int | None], where: str) -> None:
    """Compare the shape of a dataset with the lengths expected, None for any.

    Raises
    ------
    InputError
        If they differ.
    """
    found = dataset.shape
    if len(found) != len(axes) or any(
        wanted not in (None, length) for wanted, length in zip(axes, found, strict=True)
    ):
        lengths = ", ".join("any" if length is None else str(length) for length in axes)
        raise InputError(f"{where}: expected the shape ({lengths}), found {found}")


def read_json(text: str, where: str, kind: type = dict) -> Any:
    """Parse JSON from a file: a ``dict`` or a ``list``.

    Raises
    ------
    InputError
        If it is something else, deeply nested, or says something twice.
    """
    try:
        value = json.loads(text, object_pairs_hook=_unique)
    except RecursionError:
        raise InputError(f"{where} is nested too deeply") from None
    except ValueError as error:
        raise InputError(f"{where} is not JSON: {printable(str(error))}") from None
    level, depth = [value], 0
    while level:
        depth += 1
        if depth > _DEEPEST:
            raise InputError(f"{where} is nested too deeply")
        level = [
            entry
            for part in level
            if isinstance(part, dict | list)
            for entry in (part.values() if isinstance(part, dict) else part)
        ]
    if not isinstance(value, kind):
        raise InputError(f"{where} must be {'a list' if kind is list else 'an object'} in JSON")
    return value


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    entries = dict(pairs)
    if len(entries) < len(pairs):
        raise ValueError("a key stands twice in an object")
    return entries


def _bytes(shape: Sequence[int], dataset: h5py.Dataset) -> float:
    return float(np.prod(shape, dtype=np.float64)) * dataset.dtype.itemsize
