"""Atomic writing of files: readers never meet a partial file, and complete files are not lost."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import itertools
import os
import platform
import re
import shutil
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any, BinaryIO

from vpintegrator.arguments import as_path
from vpintegrator.errors import InputError

_UMASK = threading.Lock()
_LONGEST_NAME = 255  # bytes of a file's name, on every usual file system
_BLOCK = 1 << 20
_LONGEST_PART = 64  # of those, bytes that a temporary name takes from the name of its file

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
_NO_ROOM = {
    errno.ENOSPC: "the disk is full",
    errno.EDQUOT: "the quota of the disk is used up",
    errno.EFBIG: "the disk takes no file so large",
}
_NO_LINKS = {errno.EPERM, errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOTSUP, errno.EMLINK, errno.EXDEV}


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


def check_output_last(
    path: str | os.PathLike[str], overwrite: bool, check: Callable[[], object]
) -> Path:
    """Return :func:`check_output`; where that fails, call ``check`` for an earlier mistake first.

    Parameters
    ----------
    path, overwrite
        Arguments of :func:`check_output`.
    check
        Raises InputError if an argument is wrong.
    """
    try:
        return check_output(path, overwrite)
    except InputError:
        check()
        raise


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

    Whatever goes wrong inside, ``path`` stays as it was and the temporary file is removed. What
    processes of this machine that were killed left behind, on their way to the same path, is
    removed first. When the block is left, the file is on the disk and not only on its way there.

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
    remove_leftovers(path)
    with disk_errors(path):
        handle, name = tempfile.mkstemp(
            dir=path.parent, prefix=f"{_start(path)}{os.getpid()}.", suffix=".part"
        )
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


def allocate(file: BinaryIO, size: int) -> None:
    """Make a file at least so long, on the disk and not only in name.

    Writing to a memory map of the file then cannot fail for a full disk, which would end the
    program.

    Raises
    ------
    OSError
        If there is no room.
    """
    file.flush()
    with contextlib.suppress(AttributeError):  # macOS and Windows have no such call
        try:
            os.posix_fallocate(file.fileno(), 0, size)
            return
        except OSError as error:
            if error.errno not in (errno.EINVAL, errno.ENOTSUP, errno.ENOSYS):
                raise
    file.seek(0, os.SEEK_END)
    while (missing := size - file.tell()) > 0:
        file.write(bytes(min(missing, _BLOCK)))
    file.flush()


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
    inside = folder / "files"
    with disk_errors(folder):
        made = not folder.exists()
        folder.mkdir(exist_ok=True)
    try:
        check_output(inside, overwrite=True)  # whether the folder may be written to
        remove_leftovers(inside)
        with disk_errors(folder, but=inside):
            name = tempfile.mkdtemp(".part", f"{_start(inside)}{os.getpid()}.", folder)
        temporary = Path(name)
        try:
            with disk_errors(folder):
                yield temporary
                files = sorted(temporary.iterdir())
                for file in files:
                    check_output(folder / file.name, overwrite)
                    _flush(file)
                for file in files:
                    _move(file, folder / file.name, overwrite)
                _flush(folder)
        finally:
            shutil.rmtree(temporary, ignore_errors=True)
    finally:
        if made:
            with contextlib.suppress(OSError):  # it is not empty, if all went well
                folder.rmdir()


def remove_leftovers(path: Path) -> None:
    """Delete temporary files for ``path`` whose processes, on this machine, are no more."""
    if os.name != "posix":
        return  # no way to ask for a process without harm
    pattern = re.compile(re.escape(_start(path)) + r"(\d+)\.\w+\.part")
    with contextlib.suppress(OSError), os.scandir(path.parent) as entries:
        for entry in entries:
            found = pattern.fullmatch(entry.name)
            if found and not _is_alive(int(found[1])):
                with contextlib.suppress(OSError):
                    if entry.is_dir(follow_symlinks=False):
                        shutil.rmtree(entry.path, ignore_errors=True)
                    else:
                        os.unlink(entry.path)


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
            text = f"{_NO_ROOM[error.errno]}; make room, or choose another disk"
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
    _flush(temporary)
    _move(temporary, path, overwrite)
    _flush(path.parent)


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


def _move(temporary: Path, path: Path, overwrite: bool) -> None:
    """Give the finished file its name, or without ``overwrite`` the next one that is free."""
    if overwrite:
        with contextlib.suppress(IsADirectoryError):  # it may have become a folder meanwhile
            temporary.replace(path)
            return
    elif _take(temporary, path):
        return
    for number in itertools.count(2):
        name = f"{path.stem[: _LONGEST_NAME // 4]}-{number}{path.suffix}"
        if _take(temporary, path.with_name(name)):
            _flush(path.parent)
            raise InputError(
                f"{path} was made by somebody else meanwhile and stays as it is; what was to be "
                f"written there is now {path.with_name(name)}"
            )


def _take(temporary: Path, path: Path) -> bool:
    """Rename ``temporary`` to ``path`` unless that exists; return whether it was done."""
    try:
        os.link(temporary, path)  # unlike a rename, this never replaces
        temporary.unlink()
        return True
    except FileExistsError:
        return False
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
    try:  # a file system without links: take the name first
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY))
    except FileExistsError:
        return False
    temporary.replace(path)
    return True


def _flush(path: Path) -> None:
    """Wait until a file, or the list of files in a folder, is on the disk."""
    folder = path.is_dir()
    if folder and os.name != "posix":
        return
    handle = os.open(path, os.O_RDONLY if os.name == "posix" else os.O_RDWR)
    try:
        os.fsync(handle)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP, errno.ENOSYS, errno.EBADF):
            raise  # the others: not on this file system
    finally:
        os.close(handle)


def _start(path: Path) -> str:
    """Return the prefix of temporary files for a path; the number of their process follows it."""
    return f".{_shortened(path.name)}.{_machine()}-"


def _shortened(name: str) -> str:
    """Return a file's name, shortened with a hash if it is too long."""
    if len(os.fsencode(name)) <= _LONGEST_NAME // 2:
        return name
    return f"{safe_name(name)}-{hashlib.sha256(os.fsencode(name)).hexdigest()[:16]}"


@cache
def _machine() -> str:
    """Return the name of this machine, with a mark of the scope of its process numbers.

    Machines may share a folder, a name, and, where containers run on one of them, even a kernel;
    a process is looked for only where its number means the same.
    """
    marks = []
    for read in (
        lambda: Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii"),
        lambda: os.readlink("/proc/self/ns/pid"),
    ):
        with contextlib.suppress(OSError):
            marks.append(read())
    mark = hashlib.sha256("|".join([platform.node(), *marks]).encode()).hexdigest()[:8]
    return f"{safe_name(platform.node(), 'host')[:24]}-{mark}"


def _is_alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except OSError:
        return True  # somebody else's
    return True
