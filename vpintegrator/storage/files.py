"""Atomic writing of files: readers never meet a partial file, and complete files are not lost."""

from __future__ import annotations

import contextlib
import errno
import glob
import itertools
import os
import re
import shutil
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from vpintegrator.arguments import as_path
from vpintegrator.errors import InputError

_UMASK = threading.Lock()
_PREFIX = 32  # letters of a file's name in that of its temporary file
_KILLED = 86400  # seconds after which no program writes to a temporary file any more
_LONGEST_NAME = 255  # bytes of a file's name, on every usual file system
_LONGEST_PART = 64  # of those, bytes that a name of untrusted text takes

# errors that another path or more room can solve, and their messages
_REFUSALS = {
    errno.EACCES: "its folder or the file may not be written to",
    errno.EPERM: "its folder or the file may not be written to",
    errno.EROFS: "its disk is mounted for reading only",
    errno.ENOENT: "its folder does not exist",
    errno.ENOTDIR: "its folder is a file",
    errno.ENAMETOOLONG: "the name is too long",
    errno.EISDIR: "it is a folder",
    errno.ELOOP: "its links lead in a circle",
}
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


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
        if "\0" in str(path):
            raise InputError(f"cannot write {str(path)!r}: a name holds no zero character")
        if not path.name or path.is_dir():
            raise InputError(f"cannot write {path}: it is a folder; give a file name")
        if os.path.lexists(path) and not overwrite:
            raise InputError(
                f"{path} exists already; choose another name, or allow replacing it with "
                "--overwrite (overwrite=True in Python)"
            )
        if path.exists() and not path.is_file():
            raise InputError(f"cannot write {path}: it is a device or a pipe, not a file")
        if not path.parent.is_dir():
            raise InputError(f"cannot write {path}: the folder {path.parent} does not exist")
        if len(os.fsencode(path.name)) > _LONGEST_NAME:
            raise InputError(f"cannot write {path}: the name is too long")
        if not os.access(path.parent, os.W_OK | os.X_OK):
            raise InputError(
                f"cannot write {path}: the folder {path.parent} may not be written to; choose "
                "another one"
            )
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


def check_version(path: str | os.PathLike[str], version: Any, newest: int) -> int:
    """Return the format version of a file as an integer.

    Raises
    ------
    InputError
        If it is newer than ``newest``, or no version at all.
    """
    try:
        number = int(version)
    except (TypeError, ValueError, OverflowError):
        number = 0
    if number < 1:
        raise InputError(f"{path} is damaged: its format version {version!r} is none; make it anew")
    if number > newest:
        raise InputError(
            f"{path} has format version {number}, but this vpintegrator reads versions up to "
            f"{newest}; install a newer vpintegrator"
        )
    return number


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
    prefix = f".{path.name[:_PREFIX]}."
    _remove_leftovers(path.parent, prefix)
    with disk_errors(path):
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=prefix, suffix=".part")
    os.close(handle)
    temporary = Path(name)
    try:
        with disk_errors(path, but=temporary):
            yield temporary
            # mkstemp makes private files; a result gets the permissions open() would have given
            with _UMASK:  # it belongs to the process, and threads may write at the same time
                umask = os.umask(0)
                os.umask(umask)
            temporary.chmod(0o666 & ~umask)
            publish(temporary, path, overwrite)
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)


@contextmanager
def filling(folder: str | os.PathLike[str], overwrite: bool = False) -> Iterator[Path]:
    """Give a temporary folder whose files move into ``folder`` when the block succeeds.

    ``folder`` is made if need be. Each of the files is whole or absent there, and those that were
    there stay as they were if anything goes wrong inside; a folder that was made is removed then.

    Raises
    ------
    InputError
        If ``folder`` cannot be made or written to, or files of these names exist and ``overwrite``
        is false.
    OSError
        If there is no room on the disk.
    """
    folder = as_path("folder", folder)
    if folder.exists() and not folder.is_dir():
        raise InputError(f"cannot write to {folder}: it is a file; name a folder")
    if not folder.parent.is_dir():
        raise InputError(f"cannot make {folder}: the folder {folder.parent} does not exist")
    with disk_errors(folder):
        made = not folder.exists()
        folder.mkdir(exist_ok=True)
        _remove_leftovers(folder, ".files.")
        name = tempfile.mkdtemp(".part", ".files.", folder)
    temporary = Path(name)
    try:
        with disk_errors(folder):
            yield temporary
            files = sorted(temporary.iterdir())
            for file in files:
                check_output(folder / file.name, overwrite)
            for file in files:
                publish(file, folder / file.name, overwrite)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
        if made:
            with contextlib.suppress(OSError):  # it is not empty, if all went well
                folder.rmdir()


def _remove_leftovers(folder: Path, prefix: str) -> None:
    """Delete temporary files and folders that killed programs left long ago."""
    for left in folder.glob(f"{glob.escape(prefix)}*.part"):
        with contextlib.suppress(OSError):  # another program was faster
            if time.time() - left.stat().st_mtime > _KILLED:
                shutil.rmtree(left) if left.is_dir() else left.unlink()


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
        ours = error.filename is not None and str(error.filename) in names
        if error.errno in _NO_ROOM and (ours or error.filename is None):
            text = "the disk is full; make room, or choose another disk"
            raise OSError(error.errno, text, os.fspath(path)) from None
        if error.errno in _REFUSALS and ours:
            raise InputError(
                f"cannot write {path}: {_REFUSALS[error.errno]}; choose another path"
            ) from None
        raise


def safe_name(text: str, otherwise: str = "unnamed") -> str:
    """Return ``text`` from an untrusted source as a part of a file's name.

    Letters, digits, ``_``, ``+``, ``-`` and dots that do not lead stay; so names of the catalogue
    do. Anything else, separators of folders among it, becomes ``-``. The result is short.
    """
    plain = re.sub(r"[^\w.+-]+", "-", text).strip("-.")
    cut = plain.encode("utf-8", "ignore")[:_LONGEST_PART].decode("utf-8", "ignore")
    return cut.strip("-.") or otherwise


def publish(temporary: Path, path: Path, overwrite: bool) -> None:
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
    raise InputError(
        f"{path} was made by somebody else meanwhile and stays as it is; what was to be written "
        f"there is now {free}"
    )


def check_space(path: Path, needed: float) -> None:
    """Say before the work that ``needed`` bytes more will not fit on the disk of ``path``.

    Raises
    ------
    InputError
        If they will not.
    """
    free = shutil.disk_usage(path.parent).free
    if needed > free:
        raise InputError(
            f"{path} needs {needed / 2**20:,.3g} MiB more, but {free / 2**20:,.3g} MiB are free on "
            "its disk; choose another disk with -o, or make a smaller dataset"
        )
