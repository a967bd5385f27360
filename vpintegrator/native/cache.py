"""Cache of compiled libraries on the disk, protected from changes by other users.

A library is code that runs with the user's rights. It is taken from a folder that only the user
(or root) can change, and only if its content is what was put there: its SHA-256 stands in its name.
"""

from __future__ import annotations

import atexit
import functools
import hashlib
import os
import re
import shutil
import stat
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

LARGEST = 1 << 30  # bytes of all libraries
OLDEST = 90 * 86400  # seconds since a library was used last
_KILLED = 86400  # seconds after which no compiler is at work in a folder any more
_PREFIX = "making-"
# names of libraries by this version and by earlier ones, which had some for GPUs
_LIBRARY = re.compile(r"[0-9a-f]{32}(-[0-9a-f]{64})?\.(so|cubin)")
_WORKSHOP = re.compile(rf"({_PREFIX}|tmp)[a-z0-9_]{{8}}")


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
        If the folder cannot be used, or other users could change its files.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = Path(os.path.abspath(folder))
        self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        if os.name == "posix":
            _check_owners(self.folder)

    def find(self, name: str) -> Path | None:
        """Return an unchanged library from the cache; remove others of the same name."""
        for path in sorted(self.folder.glob(f"{name}-*.so")):
            if _is_as_made(path):
                with suppress(OSError):  # removed meanwhile, which shows when it is loaded
                    # used now, made when it was
                    os.utime(path, ns=(time.time_ns(), path.stat().st_mtime_ns))
                return path
            with suppress(OSError):
                path.unlink()
        return None

    def add(self, name: str, made: Path) -> Path:
        """Move a library that has been made into the cache; it is found by ``name`` from now on."""
        made.chmod(0o700)
        with made.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        path = self.folder / f"{name}-{digest}.so"
        made.replace(path)  # another program may have made the same library
        self.prune(path)
        return path

    def workshop(self) -> tempfile.TemporaryDirectory[str]:
        """Return a new folder in which to make a library."""
        return tempfile.TemporaryDirectory(prefix=_PREFIX, dir=self.folder)

    def prune(self, kept: Path | None = None) -> None:
        """Remove what was used longest ago, and what killed programs have left behind."""
        now, total = time.time(), 0
        libraries = sorted(self._libraries(now), key=lambda found: found[1], reverse=True)
        for path, used, size in libraries:
            total += size
            if path != kept and (now - used > OLDEST or total > LARGEST):
                with suppress(OSError):  # another program was faster
                    path.unlink()

    def _libraries(self, now: float) -> Iterator[tuple[Path, float, int]]:
        """Yield libraries with their last use and size; remove other leftovers."""
        for path in list(self.folder.iterdir()):
            with suppress(OSError):
                found = path.lstat()
                if _LIBRARY.fullmatch(path.name) and not stat.S_ISDIR(found.st_mode):
                    yield path, max(found.st_atime, found.st_mtime), found.st_size
                elif (
                    _WORKSHOP.fullmatch(path.name)
                    and stat.S_ISDIR(found.st_mode)
                    and now - found.st_mtime > _KILLED
                ):
                    shutil.rmtree(path, ignore_errors=True)


def _is_as_made(path: Path) -> bool:
    """Whether a library is a file of the user's own with the content that its name says."""
    flags = (getattr(os, name, 0) for name in ("O_NOFOLLOW", "O_CLOEXEC", "O_NONBLOCK", "O_BINARY"))
    try:
        with os.fdopen(os.open(path, os.O_RDONLY | sum(flags)), "rb") as file:
            found = os.fstat(file.fileno())
            if not stat.S_ISREG(found.st_mode) or (os.name == "posix" and _is_open(found)):
                return False
            digest = hashlib.file_digest(file, "sha256").hexdigest()
    except OSError:
        return False
    return path.stem.endswith(f"-{digest}")


def _is_open(found: os.stat_result) -> bool:
    """Whether others than the user may write to a file or folder, or own it."""
    return found.st_uid != os.getuid() or bool(found.st_mode & (stat.S_IWGRP | stat.S_IWOTH))


def _check_owners(folder: Path) -> None:
    """Make sure that nobody else can change a folder, or put another in its place.

    Who can rename a folder on the way to it, or redirect a symbolic link, could do that.
    """
    real = folder.resolve()
    if _is_open(real.stat()):
        raise PermissionError(f"{real} must belong to you, and be writable by nobody else")
    for path in sorted({folder, *folder.parents, *real.parents}):
        found = path.lstat()
        trusted = found.st_uid in (0, os.getuid())
        if not stat.S_ISLNK(found.st_mode):  # whose own permissions mean nothing
            # a folder that others may write to is safe if they can rename only their own files
            kept = found.st_mode & stat.S_ISVTX or not _others_write(found)
            trusted = trusted and bool(kept)
        if not trusted:
            raise PermissionError(f"other users can change {path}, on the way to it")


def _others_write(found: os.stat_result) -> bool:
    """Whether others than root and the user may write; a group of the user alone may."""
    if found.st_mode & stat.S_IWOTH:
        return True
    if not found.st_mode & stat.S_IWGRP or found.st_gid == 0:
        return False
    import grp
    import pwd

    try:
        group, user = grp.getgrgid(found.st_gid), pwd.getpwuid(os.getuid())
    except KeyError:
        return True
    return group.gr_name != user.pw_name or not {*group.gr_mem} <= {user.pw_name}
