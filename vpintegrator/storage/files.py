"""Atomic writing of files: readers never meet a partial file, and complete files are not lost."""

from __future__ import annotations

import contextlib
import errno
import itertools
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from uuid import uuid4

from vpintegrator.arguments import as_path
from vpintegrator.errors import InputError, printable

_PREFIX = 32  # letters of a file's name in that of its temporary file
_LONGEST_PART = 64  # bytes of a file's name that a name of untrusted text takes
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
# errors that another path can solve
_OF_THE_PATH = (
    *(errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOENT, errno.ENOTDIR),
    *(errno.ENAMETOOLONG, errno.EISDIR, errno.EEXIST, errno.ELOOP),
)


def check_output(path: str | os.PathLike[str], overwrite: bool) -> Path:
    """Say early, before any long work, whether ``path`` can be written.

    Raises
    ------
    InputError
        If the file exists and ``overwrite`` is false, if it is no ordinary file, if its folder does
        not exist or may not be written to, or if its name cannot be one.
    """
    path = as_path("path", path)
    with disk_errors(path):
        if not path.name or (path.exists() and not path.is_file()):
            raise InputError(f"cannot write {path}: it is a folder, a device or a pipe, not a file")
        if os.path.lexists(path) and not overwrite:
            raise InputError(
                f"{path} exists already; choose another name, or allow replacing it with "
                "--overwrite (overwrite=True in Python)"
            )
        is_there = path.parent.is_dir()
        if not is_there or not os.access(path.parent, os.W_OK | os.X_OK):
            problem = "may not be written to" if is_there else "does not exist"
            raise InputError(f"cannot write {path}: the folder {path.parent} {problem}")
    return path


def check_input(path: str | os.PathLike[str], expected: str) -> Path:
    """Raise InputError unless this is a file that may be read; ``expected`` says what of."""
    path = as_path("path", path)
    if not path.exists():
        raise InputError(f"there is no file {path}")
    if not path.is_file():
        what = "a folder" if path.is_dir() else "a device or a pipe"
        raise InputError(f"{path} is {what}, not {expected}")
    if not os.access(path, os.R_OK):
        raise InputError(f"{path} may not be read")
    return path


def check_version(path: str | os.PathLike[str], version: Any, newest: int) -> None:
    """Raise InputError for a file whose format version is none, or newer than ``newest``."""
    try:
        number = int(version)
    except (TypeError, ValueError, OverflowError):
        number = 0
    if not 1 <= number <= newest:
        raise InputError(
            f"{path} has format version {printable(str(version))}, but this vpintegrator reads "
            f"versions 1 to {newest}; install a newer vpintegrator, or make the file anew"
        )


@contextmanager
def replacing(path: str | os.PathLike[str], overwrite: bool = False) -> Iterator[Path]:
    """Give a temporary path in the same folder that becomes ``path`` when the block succeeds.

    Whatever goes wrong inside, ``path`` stays as it was and the temporary file is removed.

    Raises
    ------
    InputError
        If ``path`` cannot be written, see :func:`check_output`; or if ``overwrite`` is false and
        somebody else made the file meanwhile: it stays, and the new one stands beside it under the
        name that the message gives.
    OSError
        If there is no room on the disk.
    """
    path = check_output(path, overwrite)
    temporary = path.with_name(f".{path.name[:_PREFIX]}.{uuid4().hex}.part")
    try:
        with disk_errors(path, but=temporary):
            yield temporary
            _publish(temporary, path, overwrite)
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)


@contextmanager
def filling(folder: str | os.PathLike[str], overwrite: bool = False) -> Iterator[Path]:
    """Give a temporary folder whose files move into ``folder`` when the block succeeds.

    ``folder`` is made if need be. Each of the files is whole or absent there, and those that were
    there stay as they were if anything goes wrong inside.

    Raises
    ------
    InputError
        If ``folder`` cannot be made or written to, or files of these names exist and ``overwrite``
        is false.
    OSError
        If there is no room on the disk.
    """
    folder = as_path("folder", folder)
    made = not folder.exists()
    try:
        with disk_errors(folder):
            folder.mkdir(exist_ok=True)
            with TemporaryDirectory(".part", ".files.", folder) as name:
                yield Path(name)
                files = sorted(Path(name).iterdir())
                for file in files:
                    check_output(folder / file.name, overwrite)
                for file in files:
                    _publish(file, folder / file.name, overwrite)
    finally:
        if made:
            with contextlib.suppress(OSError):  # it is not empty, if all went well
                folder.rmdir()


@contextmanager
def locked(path: str | os.PathLike[str]) -> Iterator[None]:
    """Keep other processes from what this one does towards ``path``, as long as the block runs.

    A hidden file beside it is locked, and removed in the end. The operating system releases the
    lock when the process ends, for whatever reason.

    Raises
    ------
    InputError
        If another process has the lock.
    """
    from filelock import FileLock, Timeout

    path = Path(path)
    lock = FileLock(path.with_name(f".{path.name[:200]}.lock"), timeout=0)
    try:
        with disk_errors(path, but=Path(lock.lock_file)):
            lock.acquire()
    except Timeout:
        raise InputError(
            f"another process is at work on {path}; wait for it, or choose another name"
        ) from None
    try:
        yield
    finally:
        with contextlib.suppress(OSError):
            os.unlink(lock.lock_file)
        lock.release()


@contextmanager
def disk_errors(path: str | os.PathLike[str], but: Path | None = None) -> Iterator[None]:
    """Replace disk errors about ``path`` in the block by errors with one clear sentence.

    Errors about files other than ``path``, its folder and ``but`` are not changed.

    Raises
    ------
    InputError
        If another path would help: no permission, a disk for reading only, a name too long.
    OSError
        If there is no room. Other errors of the system are left as they are.
    """
    try:
        yield
    except OSError as error:
        names = [os.fspath(name) for name in (path, but, Path(path).parent) if name is not None]
        if error.filename is not None and str(error.filename) not in names:
            raise
        if error.errno in _NO_ROOM:
            text = "the disk is full; make room, or choose another disk"
            raise OSError(error.errno, text, os.fspath(path)) from None
        if error.errno not in _OF_THE_PATH or error.filename is None:
            raise
        raise InputError(f"cannot write {path}: {error.strerror}; choose another path") from None


def safe_name(text: str, otherwise: str = "unnamed") -> str:
    """Return ``text`` from an untrusted source as a part of a file's name.

    Letters, digits, ``_``, ``+``, ``-`` and dots that do not lead stay; so names of the catalogue
    do. Anything else, separators of folders among it, becomes ``-``. The result is short.
    """
    plain = re.sub(r"[^\w.+-]+", "-", text).strip("-.")
    cut = plain.encode("utf-8", "ignore")[:_LONGEST_PART].decode("utf-8", "ignore")
    return cut.strip("-.") or otherwise


def _publish(temporary: Path, path: Path, overwrite: bool) -> None:
    """Give a finished file its name when it is on the disk.

    Raises
    ------
    InputError
        If ``overwrite`` is false and somebody else made a file of that name meanwhile; then the
        next name that is free is taken, and told.
    """
    with temporary.open("rb") as file, contextlib.suppress(OSError):  # some disks cannot wait
        os.fsync(file.fileno())
    if overwrite or not os.path.lexists(path):
        temporary.replace(path)
        return
    names = (path.with_name(f"{path.stem}-{number}{path.suffix}") for number in itertools.count(2))
    free = next(name for name in names if not os.path.lexists(name))
    temporary.replace(free)
    raise InputError(f"{path} was made by somebody else meanwhile and stays; ours is now {free}")
