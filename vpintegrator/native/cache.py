"""Cache of compiled libraries on the disk.

A library is code that runs with the user's rights: the folder must be the user's, and writable by
nobody else.
"""

from __future__ import annotations

import atexit
import functools
import os
import re
import shutil
import tempfile
import time
from contextlib import suppress
from pathlib import Path

LARGEST = 1 << 30  # bytes of all libraries
OLDEST = 90 * 86400  # seconds since a library was used last
_KILLED = 86400  # seconds after which no compiler is at work in a folder any more
_PREFIX = "making-"
_LIBRARY = re.compile(r"[0-9a-f]{32}\.so")


def cache_folder() -> Path:
    """Return the folder of compiled models, ``$VPINTEGRATOR_CACHE`` or one in the user's cache."""
    chosen = os.environ.get("VPINTEGRATOR_CACHE")
    if chosen:
        return Path(chosen)
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "vpintegrator"


def open_cache(name: str) -> LibraryCache:
    """Return the cache for a library: the user's, or a temporary one if that cannot be written.

    A cache that is only read is used where it has the library.
    """
    with suppress(OSError, RuntimeError):  # RuntimeError: there is no home folder
        cache = LibraryCache(cache_folder())
        if os.access(cache.folder, os.W_OK | os.X_OK) or cache.find(name) is not None:
            return cache
    return LibraryCache(_temporary_folder())


@functools.cache
def _temporary_folder() -> Path:
    """Return a folder that is deleted when the program ends."""
    folder = tempfile.mkdtemp(prefix="vpintegrator-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return Path(folder)


class LibraryCache:
    """Cache of libraries in a folder, by names that depend on their sources.

    Several programs may use the cache at the same time.

    Parameters
    ----------
    folder
        Folder of the cache; it is made if need be.

    Raises
    ------
    OSError
        If the folder cannot be used, is not the user's, or may be written by others.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = Path(os.path.abspath(folder))
        self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        found = self.folder.stat()
        if os.name == "posix" and (found.st_uid != os.getuid() or found.st_mode & 0o022):
            raise PermissionError(f"{folder} must belong to you, and be writable by nobody else")

    def find(self, name: str) -> Path | None:
        """Return a library of the cache, which is used now; None if it is not there."""
        path = self.folder / f"{name}.so"
        try:  # used now, made when it was
            os.utime(path, ns=(time.time_ns(), path.stat().st_mtime_ns))
        except FileNotFoundError:
            return None
        except OSError:  # a cache that is only read
            pass
        return path

    def add(self, name: str, made: Path) -> Path:
        """Move a library that has been made into the cache; it is found by ``name`` from now on."""
        path = self.folder / f"{name}.so"
        made.replace(path)  # another program may have made the same library
        self.prune(path)
        return path

    def workshop(self) -> tempfile.TemporaryDirectory[str]:
        """Return a new folder in which to make a library."""
        return tempfile.TemporaryDirectory(prefix=_PREFIX, dir=self.folder)

    def prune(self, kept: Path | None = None) -> None:
        """Remove what was used longest ago, and what killed programs have left behind."""
        now, found = time.time(), []
        for path in list(self.folder.iterdir()):
            with suppress(OSError):
                about = path.stat()
                if _LIBRARY.fullmatch(path.name):
                    found.append((max(about.st_atime, about.st_mtime), about.st_size, path))
                elif path.name.startswith(_PREFIX) and now - about.st_mtime > _KILLED:
                    shutil.rmtree(path, ignore_errors=True)
        total = 0
        for used, size, path in sorted(found, reverse=True):
            total += size
            if path != kept and (now - used > OLDEST or total > LARGEST):
                path.unlink(missing_ok=True)
