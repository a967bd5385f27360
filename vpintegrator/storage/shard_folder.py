"""Folder of the finished shards of a file.

dataset.h5                      the file
dataset.h5.shards/
    dataset.json               what the numbers depend on
    000000.h5 ...               the shards, each renamed to this name when it is complete
"""

from __future__ import annotations

import errno
import hashlib
import json
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import h5py

from vpintegrator.errors import InputError
from vpintegrator.runtime.workers import versions
from vpintegrator.storage.files import disk_errors, replacing
from vpintegrator.storage.lock_file import claim_folder

Found = TypeVar("Found")


class ShardFolder:
    """The folder of one file's shards.

    Parameters
    ----------
    path
        The file.
    kind
        Kind of the file, ``"dataset"``.
    making
        Noun for an interrupted call, ``"generation"``.
    depends
        Inputs that the numbers depend on, as in JSON, besides
        :func:`vpintegrator.runtime.workers.versions`.

    Attributes
    ----------
    path
        Path of the file.
    folder
        ``path`` with ``.shards`` at its end.
    identity
        Hash of all that the numbers depend on.
    complete
        Whether the file was made, so that shards are not useless if something fails afterwards.
    """

    def __init__(self, path: Path, kind: str, making: str, depends: Mapping[str, Any]) -> None:
        self.path, self.folder = path, folder_of(path)
        self.complete = False
        self._kind, self._making = kind, making
        self._record = self.folder / f"{kind}.json"
        self._depends = dict(depends)
        self.identity = hashlib.sha256(json.dumps(self._depends).encode()).hexdigest()

    @contextmanager
    def open(self, resume: bool, overwrite: bool) -> Iterator[None]:
        """Make the folder or take over what is in it, and keep others from writing to it.

        Afterwards it is gone if it holds nothing of use.

        Raises
        ------
        InputError
            If it holds shards and ``resume`` is false, or those of something else, or somebody
            else writes to it.
        """
        with disk_errors(self.folder):
            self.folder.mkdir(exist_ok=True)
        with claim_folder(self.folder, "another process writes to"):
            found = self._prepare(resume, overwrite)
            try:
                yield
            except InputError:
                if not found and not self.complete:
                    remove_shards(self.path)  # nothing can come of them
                raise
            finally:
                if not self._finished():
                    remove_shards(self.path)

    def replace(self) -> None:
        """Prepare for the deletion of the shards of another file."""

    def _prepare(self, resume: bool, overwrite: bool) -> bool:
        """Whether there are shards to go on with."""
        found = self._finished()
        difference = self._difference() if found else None
        if found and overwrite and (difference or not resume):
            self.replace()
        elif found and not resume:
            raise InputError(
                f"{self.folder} is what an interrupted {self._making} left, or a part of a "
                f"{self._kind}: go on with it by --resume (resume=True in Python), or start anew "
                "with --overwrite"
            )
        elif found and difference:
            raise InputError(
                f"{self.folder} belongs to another {self._kind} ({difference}): repeat the command "
                "that was interrupted, or start anew with --overwrite"
            )
        elif found:
            for left in self.folder.glob(".*.part"):
                left.unlink(missing_ok=True)
            return True
        for left in self.folder.iterdir():
            left.unlink(missing_ok=True)
        with replacing(self._record) as temporary:
            temporary.write_text(json.dumps(self._depends, indent=1), encoding="utf-8")
        return False

    def _finished(self) -> bool:
        return any(self.folder.glob("*.h5"))

    def _difference(self) -> str | None:
        """Return the first difference between this task and that of the shards in the folder.

        None if there is no difference.
        """
        try:
            saved = json.loads(self._record.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return f"{self._record.name} is missing or damaged"
        if not isinstance(saved, dict):
            return f"{self._record.name} is damaged"
        for key, value in self._depends.items():
            if saved.get(key) != value:
                if key in versions():
                    return f"it was begun with {key} {saved.get(key)}, and this is {value}"
                return f"{key} differs"
        return None


def folder_of(path: Path) -> Path:
    """Return the folder of shards that belongs to a file."""
    return path.with_name(f"{path.name}.shards")


def remove_shards(path: Path) -> None:
    """Delete the folder of shards, if there is one."""
    shutil.rmtree(folder_of(path), ignore_errors=True)


@contextmanager
def write_shard(path: Path, form: str, identity: str, number: int) -> Iterator[h5py.File]:
    """Give an empty HDF5 file that becomes a shard when the block succeeds, whole or not at all.

    It is made in memory and written at once, because HDF5 does not recover from a full disk.

    Parameters
    ----------
    path
        The file.
    form, identity, number
        Format of the shard, identity of the task, and number of the shard.

    Raises
    ------
    OSError
        If it cannot be written.
    """
    with h5py.File("shard", "w", driver="core", backing_store=False) as file:
        yield file
        file.attrs["format"], file.attrs["identity"] = form, identity
        file.attrs["number"] = number
        file.flush()
        image = file.id.get_file_image()
    try:
        with replacing(path, overwrite=True) as temporary:
            temporary.write_bytes(image)
    except OSError as error:
        if error.errno != errno.ENOSPC:
            raise
        raise disk_full(path.parent) from None


def read_shard(
    path: Path, form: str, identity: str, number: int, read: Callable[[h5py.File], Found | None]
) -> Found | None:
    """Return what ``read`` finds in a shard; None if it is missing, damaged or of another task."""
    try:
        with h5py.File(path) as file:
            found = file.attrs["format"], file.attrs["identity"], int(file.attrs["number"])
            return read(file) if found == (form, identity, number) else None
    except (OSError, KeyError, ValueError, TypeError, RuntimeError):
        return None


def disk_full(folder: Path) -> OSError:
    """Return the error for a full disk."""
    text = "the disk is full; make room and go on with --resume (resume=True in Python)"
    return OSError(errno.ENOSPC, text, str(folder))
