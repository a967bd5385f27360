"""Reading of HDF5 files, which may be damaged or come from a stranger.

Whatever is read from a file is read through a :class:`StoredGroup`, which looks at what it is about
to read first: that it is there, of the kind and shape expected, of a size in proportion to the
file, and in the file itself. HDF5 would otherwise follow links to other files. Texts of variable
length are refused: HDF5 may search a damaged heap of them for ever.
"""

from __future__ import annotations

import json
import mmap
import os
import re
import struct
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn

import h5py
import numpy as np
from h5py import h5d, h5t

from vpintegrator.errors import InputError, printable
from vpintegrator.storage.file_kinds import KINDS, kind_of_format, kind_of_plain, refusal
from vpintegrator.storage.files import check_input, check_version

LARGEST_UNSTORED = 1 << 24  # bytes of numbers that need not be backed by bytes of the file
COMPRESSION = 128  # beyond these, how many bytes of numbers for each byte of the file
_CHECKSUM = 4  # bytes
_HEAP = b"GCOL\x01\0\0\0"  # signature, version and reserved bytes of a global heap
_REQUIRED: Any = object()
_LOCKED = re.compile("unable to lock file|already open for write")  # messages of HDF5


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
    own
        Whether the file is one of this package, whose texts have a fixed length.
    """

    def __init__(
        self, group: h5py.Group, path: str | os.PathLike[str], *, own: bool = True
    ) -> None:
        self._group = group
        self._path = Path(path)
        self._own = own
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
        """All attributes: texts, numbers and arrays."""
        with reading(self._where):
            names = list(self._group.attrs)
        return {name: _decoded(self._attribute(name)) for name in names}

    def text(self, key: str, default: Any = _REQUIRED) -> str:
        """Return an attribute that must be a text."""
        value = self._attribute(key, default)
        if value is default:
            return default
        value = _decoded(value)
        if not isinstance(value, str) or re.search(r"[\ud800-\udfff]", value):
            self._refuse(key, "a text in UTF-8", value)
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
        least = np.nextafter(0.0, 1.0) if positive else -np.inf
        numbers = self.numbers(key, 1, default, least=least, finite=finite)
        return numbers if numbers is default else float(numbers[0])

    def whole(self, key: str, default: Any = _REQUIRED, *, least: int = 0) -> int:
        """Return an attribute that must be a whole number, ``least`` or more."""
        numbers = self.numbers(key, 1, default, kinds="iu", least=least)
        return numbers if numbers is default else int(numbers[0])

    def numbers(
        self,
        key: str,
        length: int,
        default: Any = _REQUIRED,
        *,
        kinds: str = "fiu",
        least: float = -np.inf,
        finite: bool = True,
    ) -> np.ndarray:
        """Return an attribute that must be an array of numbers, (length,), or one number.

        ``kinds`` are those of NumPy: ``iu`` for whole numbers, which come as int64, and ``fiu`` for
        real ones, which come as float64.
        """
        value = self._attribute(key, default)
        if value is default:
            return default
        array = np.asarray(value)
        fits = array.size == length and array.ndim < 2 and array.dtype.kind in kinds
        if not fits or (finite and not np.isfinite(array).all()) or (array < least).any():
            kind = "positive" if least > 0 else "finite"
            kind = f"whole (at least {least})" if kinds == "iu" else kind
            many = f"a {kind} number" if length == 1 else f"{length} {kind} numbers"
            self._refuse(key, many, array.tolist())
        return array.astype(np.int64 if kinds == "iu" else np.float64).reshape(length)

    def json(self, key: str, kind: type = dict, default: Any = _REQUIRED) -> Any:
        """Return an attribute that must be JSON: a ``dict`` or a ``list``, not deeply nested."""
        if default is not _REQUIRED and not self.has(key):
            return default
        return read_json(self.text(key), f"{self._where}: the attribute '{key}'", kind)

    def _attribute(self, key: str, default: Any = _REQUIRED) -> Any:
        with reading(f"{self._where}: the attribute '{key}'"):
            if key in self._group.attrs:
                if self._own and has_variable_length(self._group, key):
                    raise InputError(
                        f"{self._where}: the attribute '{key}' has a variable length, and those of "
                        "this package have a fixed one; make the file again"
                    )
                return self._group.attrs[key]
        if default is _REQUIRED:
            raise InputError(f"{self._where}: the attribute '{key}' is missing")
        return default

    def _refuse(self, key: str, expected: str, value: Any) -> NoReturn:
        text = printable(repr(_decoded(value)), 50)
        raise InputError(f"{self._where}: the attribute '{key}' must be {expected}, not {text}")

    # Groups and datasets

    @property
    def names(self) -> list[str]:
        """Names of everything in the group."""
        with reading(self._where):
            return list(self._group)

    def __contains__(self, name: str) -> bool:
        """Whether there is something of this name in the group."""
        return name in self.names

    @property
    def groups(self) -> list[str]:
        """Names of the groups in this one, as they stand in the file."""
        names = [name for name in self.names if self._is_inside(name)]
        with reading(self._where):
            return [n for n in names if self._group.get(n, getclass=True) is h5py.Group]

    def group(self, name: str) -> StoredGroup:
        """Return the group of this name in this group."""
        return StoredGroup(self._child(name, h5py.Group, "group"), self._path, own=self._own)

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
        dataset = self._child(name, h5py.Dataset, "dataset")
        where = f"{self._where}, {name}"
        with reading(where):
            check_dataset(dataset, where)
            check_shape(dataset, axes, where)
            if dataset.dtype.kind not in ("fiu" if kind == "f" else "iu"):
                numbers = "real numbers" if kind == "f" else "whole numbers"
                raise InputError(f"{where}: expected {numbers}, found {dataset.dtype}")
        return dataset

    def array(self, name: str, axes: Sequence[int | None], kind: str = "f") -> np.ndarray:
        """Return the numbers of a dataset, as float64 or int64; see :meth:`dataset`."""
        dataset = self.dataset(name, axes, kind)
        with reading(f"{self._where}, {name}"):
            values: np.ndarray = np.asarray(dataset[...])
            return values.astype(np.float64 if kind == "f" else np.int64)

    def labelled(self, name: str) -> StoredGroup:
        """Return a dataset, with access to its attributes."""
        child = self._child(name, h5py.Dataset, "dataset")
        return StoredGroup(child, self._path, own=self._own)

    def _child(self, name: str, kind: type, word: str) -> Any:
        where = self._where
        shown = printable(name)
        if name not in self:
            raise InputError(f"{where}: there is no {word} '{shown}'")
        with reading(f"{where}, {shown}"):
            if not self._is_inside(name):
                raise InputError(f"{where}: '{shown}' is a link to somewhere else; it is not read")
            child = self._group[name]
            if not isinstance(child, kind):
                raise InputError(f"{where}: '{shown}' is not a {word}")
            return child

    def _is_inside(self, name: str) -> bool:
        """Whether a name stands for the thing itself; links of any other kind are not followed."""
        return isinstance(self._group.get(name, getlink=True), h5py.HardLink)


def check_heaps(path: str | os.PathLike[str]) -> None:
    """Raise InputError unless the heaps of a file that hold texts of variable length are sound.

    HDF5 goes from object to object by their sizes, and round for ever where a size is wrong
    (HDF5 File Format Specification, section III.E).
    """
    with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        start = data.find(_HEAP)
        while start >= 0:
            (length,) = (
                struct.unpack_from("<Q", data, start + 8) if start + 16 <= len(data) else (0,)
            )
            place = start + 16
            end = start + length
            number = 1
            while number and place + 16 <= end <= len(data):
                number, _, _, size = struct.unpack_from("<HHIQ", data, place)
                place += 16 + -(-size // 8) * 8 if number else size
            if place > end or end > len(data):
                raise InputError(f"{path} is damaged: a heap of its texts is not consistent")
            start = data.find(_HEAP, start + 4)


def has_variable_length(item: h5py.Group | h5py.Dataset, key: str) -> bool:
    """Whether the type of an attribute has a variable length; its value is not read."""
    return _is_variable(item.attrs.get_id(key).get_type())


def fixed_attribute(item: h5py.Group | h5py.Dataset, key: str) -> Any:
    """Return an attribute of any file; None where it is missing, or has a variable length."""
    if key not in item.attrs or has_variable_length(item, key):
        return None
    return item.attrs[key]


def _is_variable(kind: Any) -> bool:
    """Whether a type of HDF5, or one that it is made of, has a variable length."""
    if isinstance(kind, h5t.TypeStringID):
        return bool(kind.is_variable_str())
    if isinstance(kind, h5t.TypeCompoundID):
        members = map(kind.get_member_type, range(kind.get_nmembers()))
        return any(_is_variable(member) for member in members)
    if isinstance(kind, h5t.TypeArrayID):
        return _is_variable(kind.get_super())
    return bool(kind.get_class() == h5t.VLEN)


def _decoded(value: Any) -> Any:
    return value.decode("utf-8", "surrogateescape") if isinstance(value, bytes) else value


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
        name = root.text("format", "")
        if name != format_name:
            raise InputError(refusal(path, kind_of_format(name) or "hdf5", KINDS[kind].name))
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
        with reading(str(path)):
            if "format" in file.attrs and has_variable_length(file, "format"):
                return "hdf5"
        return kind_of_format(StoredGroup(file, path).text("format", "")) or "hdf5"


def check_kind(path: str | os.PathLike[str], *expected: str) -> None:
    """Raise InputError if a file is of another known kind; say which command takes the file."""
    kind = kind_of(path)
    if kind is not None and kind not in expected:
        raise InputError(refusal(path, kind, " or ".join(KINDS[name].name for name in expected)))


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
        try:
            file = h5py.File(path, "r")
        except OSError as error:
            if _LOCKED.search(str(error)):
                raise InputError(
                    f"{path} is open for writing in another program, or was not closed by it; "
                    "close the file there, and read it then"
                ) from None
            raise
    try:
        yield file
    finally:
        with reading(str(path)):
            file.close()


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
        reason = printable(str(error.args[0] if error.args else type(error).__name__))[:200]
        raise InputError(f"{where} {said}: {reason}") from None


def check_dataset(dataset: h5py.Dataset, where: str) -> None:
    """Make sure that a dataset's numbers are in the file, and no more than it can hold.

    Raises
    ------
    InputError
        If they lie in another file, or are out of proportion to the bytes that are stored.
    """
    properties = dataset.id.get_create_plist()
    stored = dataset.id.get_storage_size()
    if properties.get_external_count() or properties.get_layout() == h5d.VIRTUAL:
        raise InputError(f"{where}: its numbers lie in other files, which are not read")
    if dataset.shape is None:
        raise InputError(f"{where} is empty")
    # HDF5 takes a chunk without room for its checksum for one of 2^32 bytes, and crashes
    if dataset.fletcher32 and dataset.id.chunk_iter(_is_cut_short):
        raise InputError(f"{where} is damaged: a part of its numbers is cut short")
    size = float(np.prod(dataset.shape, dtype=np.float64)) * dataset.dtype.itemsize
    if size > LARGEST_UNSTORED + COMPRESSION * stored:
        raise InputError(
            f"{where}: {dataset.shape} numbers are out of proportion to the {stored} bytes "
            "that the file stores of them"
        )


def _is_cut_short(chunk: Any) -> bool | None:
    return True if chunk.size <= _CHECKSUM else None


def check_shape(dataset: h5py.Dataset, axes: Sequence[int | None], where: str) -> None:
    """Raise InputError unless a dataset has the lengths expected, None for any."""
    shape = dataset.shape
    same = len(shape) == len(axes)
    if not same or any(b not in (None, a) for a, b in zip(shape, axes, strict=True)):
        lengths = ", ".join("any" if length is None else str(length) for length in axes)
        raise InputError(f"{where}: expected the shape ({lengths}), found {shape}")


def read_json(text: str, where: str, kind: type = dict) -> Any:
    """Parse JSON from a file: a ``dict`` or a ``list``.

    Raises
    ------
    InputError
        If it is something else, or nested deeply.
    """
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{where} is not JSON: {printable(str(error))}") from None
    if not isinstance(value, kind):
        raise InputError(f"{where} must be {'a list' if kind is list else 'an object'} in JSON")
    return value
