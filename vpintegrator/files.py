"""Writing files so that nobody ever meets a half-written one."""

from __future__ import annotations

import os
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from vpintegrator.errors import InputError

_UMASK = threading.Lock()


def check_output(path: str | os.PathLike[str], overwrite: bool) -> Path:
    """Say early, before any long work, whether ``path`` can be written.

    Raises
    ------
    InputError
        If the file exists and ``overwrite`` is false, or if its folder does not exist.
    """
    path = Path(path)
    if path.is_dir():
        raise InputError(f"cannot write {path}: it is a folder; give a file name")
    if path.exists() and not overwrite:
        raise InputError(
            f"{path} exists already; choose another name, or allow replacing it with --overwrite "
            "(overwrite=True in Python)"
        )
    if not path.parent.is_dir():
        raise InputError(f"cannot write {path}: the folder {path.parent} does not exist")
    return path


@contextmanager
def replacing(path: str | os.PathLike[str], overwrite: bool = False) -> Iterator[Path]:
    """Give a temporary path in the same folder that becomes ``path`` when the block succeeds.

    Whatever goes wrong inside, ``path`` stays as it was and the temporary file is removed.
    """
    path = check_output(path, overwrite)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".part")
    os.close(handle)
    temporary = Path(name)
    try:
        yield temporary
        # mkstemp makes private files; a result gets the permissions that open() would have given
        with _UMASK:  # it belongs to the process, and threads may write at the same time
            umask = os.umask(0)
            os.umask(umask)
        temporary.chmod(0o666 & ~umask)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
