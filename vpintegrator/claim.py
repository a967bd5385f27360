"""One process at a time works towards a file."""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from vpintegrator.errors import InputError
from vpintegrator.files import disk_errors

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]


@contextmanager
def claim(path: str | os.PathLike[str]) -> Iterator[None]:
    """Keep other processes from what this one does towards ``path``, as long as the block runs.

    A hidden file beside it is locked, and removed in the end. The lock ends with the process,
    however it ends. File systems that know no locks, and Windows, go without.

    Raises
    ------
    InputError
        If another process has claimed it.
    """
    path = Path(path)
    lock = path.with_name(f".{path.name[:200]}.lock")
    handle = None
    if fcntl is not None:
        with disk_errors(path, but=lock):
            handle = _locked(lock, path)
    try:
        yield
    finally:
        if handle is not None:
            try:
                with contextlib.suppress(OSError):
                    lock.unlink(missing_ok=True)
            finally:
                os.close(handle)


def _locked(lock: Path, path: Path) -> int:
    while True:
        handle = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            if error.errno in (errno.EWOULDBLOCK, errno.EACCES):
                os.close(handle)
                raise InputError(
                    f"another process is at work on {path}; wait for it, or choose another name"
                ) from None
            return handle  # there are no locks here
        with contextlib.suppress(OSError):
            if os.path.samestat(os.fstat(handle), os.stat(lock)):
                return handle
        os.close(handle)  # whoever held it has just removed it
