"""Locks on files and folders, so that only one process at a time writes to each.

The operating system releases a lock when its process ends, for whatever reason. Windows, and file
systems without locks, do without.

The package ``filelock`` does not serve: it leaves its file behind, cannot lock a folder, and on
file systems without locks it relies on a file that a killed process leaves for ever.
"""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from vpintegrator.errors import InputError
from vpintegrator.storage.files import disk_errors

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]


@contextmanager
def claim(path: str | os.PathLike[str]) -> Iterator[None]:
    """Keep other processes from what this one does towards ``path``, as long as the block runs.

    A hidden file beside it is locked, and removed in the end.

    Raises
    ------
    InputError
        If another process has claimed it.
    """
    path = Path(path)
    if fcntl is None:
        yield
        return
    lock = path.with_name(f".{path.name[:200]}.lock")
    with disk_errors(path, but=lock):
        while (handle := _lock(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC)) is not None:
            if _is_open(lock, handle):
                break
            os.close(handle)  # whoever held it has just removed it
    if handle is None:
        raise InputError(
            f"another process is at work on {path}; wait for it, or choose another name"
        )
    try:
        yield
    finally:
        try:
            with contextlib.suppress(OSError):
                lock.unlink(missing_ok=True)
        finally:
            os.close(handle)


@contextmanager
def claim_folder(folder: str | os.PathLike[str], busy: str) -> Iterator[None]:
    """Keep other processes that ask for it from a folder.

    Raises
    ------
    InputError
        If another process has it; ``busy`` says what for, as in "another process writes to".
    """
    if fcntl is None:
        yield
        return
    handle = _lock(folder, os.O_RDONLY)
    try:
        if handle is None or not _is_open(folder, handle):  # whoever had it has just deleted it
            raise InputError(f"{busy} {folder}; wait for it, or stop it")
        yield
    finally:
        if handle is not None:
            os.close(handle)


def _lock(path: str | os.PathLike[str], flags: int) -> int | None:
    """Open and lock a file or folder; None where another process has locked it."""
    handle = os.open(path, flags, 0o666)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in (errno.EWOULDBLOCK, errno.EACCES):
            os.close(handle)
            return None
    return handle  # some file systems have no locks


def _is_open(path: str | os.PathLike[str], handle: int) -> bool:
    """Whether the path still leads to what was opened."""
    with contextlib.suppress(OSError):
        return os.path.samestat(os.fstat(handle), os.stat(path))
    return False
