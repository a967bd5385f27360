"""Storage of a long rollout: in memory, or in a folder from which the rollout can be resumed.

The folder holds a plain .npy file for each array, filled in during the rollout, and one small
``progress.npz`` with the number of valid entries. Only ``progress.npz`` is replaced in one move,
after the arrays are on the disk. So whenever the program stops, or the power fails, the folder
stays at the last progress written.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import math
import os
import shutil
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from vpintegrator.errors import InputError
from vpintegrator.rollout.memory import check_memory, in_bytes
from vpintegrator.storage.files import allocate, check_version, disk_errors, replacing
from vpintegrator.storage.lock_file import claim_folder

_IDENTITY = "rollout.json"
_PROGRESS = "progress.npz"
_DIGEST = "digest"
FORMAT = "vpintegrator-rollout-checkpoint"
FORMAT_VERSION = 2  # 1: without the digest of the progress
_FEWER = "keep fewer states (--every), or take fewer trajectories (--trajectories)"
RECORD_SECONDS = 10.0  # between two records of the progress


class Recording:
    """Arrays by name, in memory; nothing outlives the program."""

    def array(self, name: str, shape: tuple[int, ...], begun: bool = False) -> np.ndarray:
        """Return a float64 array: of zeros, or as recorded if its part of the work is ``begun``."""
        return np.zeros(shape)

    def reserve(self, values: int) -> None:
        """Say before the work where so many numbers, in all arrays, would not fit.

        Raises
        ------
        InputError
            If they would not.
        """
        check_memory("the states and what is measured on them", values, _FEWER)

    def progress(self) -> dict[str, np.ndarray]:
        """Return all recorded progress; empty at the start."""
        return {}

    def record(self, progress: Mapping[str, np.ndarray]) -> None:
        """Make entries of the progress safe, besides those recorded under other names."""

    def close(self) -> None:
        """Release the folder; the recording stays."""

    def remove(self) -> None:
        """Delete the recorded arrays and progress."""


class FolderRecording(Recording):
    """Arrays in the files of a folder, which one process at a time works on.

    Parameters
    ----------
    folder
        Folder of the arrays; it is made if need be.
    identity
        Settings that must be the same to resume: system, methods, step, initial states.
    resume
        Whether to continue the recorded work; an empty folder begins anew.

    Raises
    ------
    InputError
        If the folder holds another rollout or other files, is damaged, or is in use by another
        process; or if it holds a rollout and ``resume`` is false.
    """

    def __init__(
        self, folder: str | os.PathLike[str], identity: Mapping[str, Any], resume: bool
    ) -> None:
        self.folder = Path(folder)
        self._recorded: dict[str, np.ndarray] = {}
        self._maps: list[np.memmap] = []
        self._made = False
        self._lock = contextlib.ExitStack()
        try:
            self._open({"format": f"{FORMAT}-{FORMAT_VERSION}", **identity}, resume)
        except BaseException:
            self.close()
            raise

    def array(self, name: str, shape: tuple[int, ...], begun: bool = False) -> np.ndarray:
        path = self.folder / f"{hashlib.sha256(name.encode()).hexdigest()[:16]}.npy"
        if 0 in shape:
            return np.zeros(shape)
        if not begun:
            _create(path, shape)
        array = self._map(path, shape)
        self._maps.append(array)
        return array

    def reserve(self, values: int) -> None:
        there = sum(path.stat().st_size for path in self.folder.glob("*.npy"))
        # twice: they are in the rollout file too before they are deleted here
        needed, free = 16 * values - there, shutil.disk_usage(self.folder).free
        if needed > free:
            raise InputError(
                f"the rollout needs {in_bytes(needed)} more on the disk of {self.folder.parent}, "
                f"and {in_bytes(free)} are free; choose another disk with -o, {_FEWER}"
            )

    def progress(self) -> dict[str, np.ndarray]:
        return dict(self._recorded)

    def record(self, progress: Mapping[str, np.ndarray]) -> None:
        for array in self._maps:
            array.flush()  # they are on the disk before it is said that they are
        recorded = {**self._recorded, **progress}
        with (
            replacing(self.folder / _PROGRESS, overwrite=True) as temporary,
            temporary.open("wb") as file,
        ):
            np.savez(file, **recorded, **{_DIGEST: _digest(recorded)})  # type: ignore[arg-type]
        self._recorded = recorded

    def close(self) -> None:
        if self._made and not self._recorded:
            self.remove()
        self._lock.close()

    def remove(self) -> None:
        with contextlib.suppress(OSError):  # without it the rest says nothing, if this is stopped
            (self.folder / _PROGRESS).unlink(missing_ok=True)
        shutil.rmtree(self.folder, ignore_errors=True)
        self._lock.close()

    def _open(self, identity: Mapping[str, Any], resume: bool) -> None:
        if not self.folder.parent.is_dir():
            raise InputError(
                f"cannot write {self.folder}: the folder {self.folder.parent} does not exist"
            )
        with disk_errors(self.folder):
            try:
                self.folder.mkdir()
                self._made = True
            except FileExistsError:
                if not self.folder.is_dir():
                    raise InputError(f"cannot write {self.folder}: it is no folder") from None
            self._lock.enter_context(claim_folder(self.folder, "another rollout is at work in"))
        if not self._made and not resume:
            raise InputError(
                f"{self.folder} holds an interrupted rollout: continue it by --resume "
                "(resume=True in Python), or delete the folder to start anew"
            )
        path = self.folder / _IDENTITY
        if path.exists():
            version = self._check(path, identity)
            self._recorded = self._read(self.folder / _PROGRESS, version)
        elif any(not entry.name.endswith(".part") for entry in self.folder.iterdir()):
            raise InputError(
                f"{self.folder} holds no interrupted rollout, as {_IDENTITY} is missing; move it "
                "away, or choose another output"
            )
        else:
            with replacing(path) as temporary:
                temporary.write_text(json.dumps(identity, indent=1), encoding="utf-8")

    def _check(self, path: Path, identity: Mapping[str, Any]) -> int:
        """Check that the folder holds this comparison, and return the version of the folder."""
        try:
            saved = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError, RecursionError) as error:
            raise self._damaged(path, error) from None
        if not isinstance(saved, dict):
            raise self._damaged(path, "it holds no JSON object")
        name, _, number = str(saved.get("format")).rpartition("-")
        if name != FORMAT:
            raise self._damaged(path, "its format is not that of a rollout")
        version = check_version(self.folder, number, FORMAT_VERSION)
        wanted = json.loads(json.dumps({**identity, "format": saved["format"]}))
        for key, value in wanted.items():
            if saved.get(key) != value:
                raise InputError(
                    f"{self.folder} belongs to another rollout ({key} differs); give the arguments "
                    "of the interrupted one, or delete the folder to start anew"
                )
        return version

    def _read(self, path: Path, version: int) -> dict[str, np.ndarray]:
        if not path.exists():
            return {}
        try:
            with zipfile.ZipFile(path) as archive:
                if any(entry.compress_type != zipfile.ZIP_STORED for entry in archive.infolist()):
                    raise ValueError("it is compressed")  # compressed arrays may expand to any size
            with np.load(path, allow_pickle=False) as arrays:
                recorded = {name: arrays[name] for name in arrays.files}
            if not all(isinstance(array, np.ndarray) for array in recorded.values()):
                raise ValueError("it holds something other than arrays")
        except Exception as error:  # NumPy raises almost anything about a damaged archive
            raise self._damaged(path, error) from None
        digest = recorded.pop(_DIGEST, None)
        if version > 1 and not np.array_equal(digest, _digest(recorded)):
            raise self._damaged(path, "its digest does not fit its content")
        return recorded

    def _map(self, path: Path, shape: tuple[int, ...]) -> np.memmap:
        """Return the array of a file, mapped for writing."""
        size = 8 * math.prod(shape)
        try:
            with path.open("rb") as file:
                version = np.lib.format.read_magic(file)
                header = np.lib.format.read_array_header_1_0(file)
                offset = file.tell()
        except Exception as error:  # here too
            raise self._damaged(path, error) from None
        if version != (1, 0) or header != (shape, False, np.float64):
            raise self._damaged(path, "it holds another array")
        if path.is_symlink() or path.stat().st_size != offset + size:
            raise self._damaged(path, "it has another size")
        with disk_errors(path), path.open("r+b") as file:
            allocate(file, offset + size)
        return np.memmap(path, np.float64, "r+", offset, shape)

    def _damaged(self, path: Path, reason: object) -> InputError:
        return InputError(f"{path} is damaged, delete {self.folder} to start anew: {reason}")


def is_recorded(folder: str | os.PathLike[str]) -> bool:
    """Whether a checkpoint holds anything that a rollout could go on from."""
    return (Path(folder) / _PROGRESS).exists()


def _digest(arrays: Mapping[str, np.ndarray]) -> np.ndarray:
    """Return the SHA-256 of arrays and their names, as four numbers."""
    digest = hashlib.sha256()
    for name, array in sorted(arrays.items()):
        digest.update(f"{name} {array.dtype.str} {array.shape} ".encode())
        digest.update(np.ascontiguousarray(array).tobytes())
    return np.frombuffer(digest.digest(), dtype="<i8")


def _create(path: Path, shape: tuple[int, ...]) -> None:
    """Create an array of zeros in a file, with all of its space allocated."""
    with replacing(path, overwrite=True) as temporary, temporary.open("wb") as file:
        header = {"descr": "<f8", "fortran_order": False, "shape": shape}
        np.lib.format.write_array_header_1_0(file, header)
        allocate(file, file.tell() + 8 * math.prod(shape))
