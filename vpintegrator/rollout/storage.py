"""Where a long rollout keeps what it has: in memory, or in a folder from which it can go on.

The folder holds a plain .npy file for each array, filled in as the rollout goes, and one small
``progress.npz`` that says how far they are valid. Only the latter is replaced in one move, so
whenever the program is stopped, the folder stands at the last progress written.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from vpintegrator.errors import InputError
from vpintegrator.files import check_version, replacing

_IDENTITY = "rollout.json"
_PROGRESS = "progress.npz"
FORMAT = "vpintegrator-rollout-checkpoint"
FORMAT_VERSION = 1


class Storage:
    """Arrays by name, in memory; nothing outlives the program."""

    def array(self, name: str, shape: tuple[int, ...]) -> np.ndarray:
        """A float64 array that starts as zeros, or as it was left."""
        return np.zeros(shape)

    def progress(self) -> dict[str, np.ndarray]:
        """All that was recorded; empty at the start."""
        return {}

    def record(self, progress: Mapping[str, np.ndarray]) -> None:
        """Make entries of the progress safe, besides those recorded under other names."""

    def remove(self) -> None:
        """Delete what is no longer needed."""


class FolderStorage(Storage):
    """Arrays in the files of a folder.

    Parameters
    ----------
    folder
        Made if need be.
    identity
        What must be the same to go on: system, methods, step, initial states.
    resume
        Whether to go on from what is there.

    Raises
    ------
    InputError
        If the folder holds another rollout, or one and ``resume`` is false, or none and it is true.
    """

    def __init__(
        self, folder: str | os.PathLike[str], identity: Mapping[str, Any], resume: bool
    ) -> None:
        self.folder = Path(folder)
        self._recorded: dict[str, np.ndarray] = {}
        identity = {"format": f"{FORMAT}-{FORMAT_VERSION}", **identity}
        if resume:
            self._check(identity)
            self._recorded = self._read()
            return
        if self.folder.exists():
            raise InputError(
                f"{self.folder} is what an interrupted rollout left: go on with it by --resume "
                "(resume=True in Python), or delete the folder to start anew"
            )
        try:
            self.folder.mkdir()
        except FileNotFoundError:
            raise InputError(
                f"cannot write {self.folder}: the folder {self.folder.parent} does not exist"
            ) from None
        with replacing(self.folder / _IDENTITY) as temporary:
            temporary.write_text(json.dumps(identity, indent=1), encoding="utf-8")

    def array(self, name: str, shape: tuple[int, ...]) -> np.ndarray:
        path = self.folder / f"{hashlib.sha256(name.encode()).hexdigest()[:16]}.npy"
        if 0 in shape:
            return np.zeros(shape)
        if path.exists():
            array = np.lib.format.open_memmap(path, mode="r+")
            if array.shape == shape and array.dtype == np.float64:
                return array
        # the file is sparse: zeros that are never written take no room on the disk
        return np.lib.format.open_memmap(path, mode="w+", dtype=np.float64, shape=shape)

    def progress(self) -> dict[str, np.ndarray]:
        return dict(self._recorded)

    def record(self, progress: Mapping[str, np.ndarray]) -> None:
        # the pages of the arrays belong to the system, which keeps them when this process dies
        self._recorded.update(progress)
        with (
            replacing(self.folder / _PROGRESS, overwrite=True) as temporary,
            temporary.open("wb") as file,
        ):
            np.savez(file, **self._recorded)  # type: ignore[arg-type]

    def remove(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)

    def _read(self) -> dict[str, np.ndarray]:
        path = self.folder / _PROGRESS
        if not path.exists():
            return {}
        try:
            with np.load(path, allow_pickle=False) as archive:
                return {name: archive[name] for name in archive.files}
        except (OSError, ValueError, KeyError, zipfile.BadZipFile) as error:
            raise InputError(f"{path} is damaged, delete {self.folder}: {error}") from None

    def _check(self, identity: Mapping[str, Any]) -> None:
        path = self.folder / _IDENTITY
        if not path.exists():
            raise InputError(f"there is no interrupted rollout {self.folder} to resume")
        try:
            saved = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise InputError(f"{path} is damaged, delete {self.folder}: {error}") from None
        if isinstance(saved, dict):
            name, _, version = str(saved.get("format")).rpartition("-")
            if name == FORMAT:
                check_version(self.folder, version, FORMAT_VERSION)
        wanted = json.loads(json.dumps(identity))
        for key, value in wanted.items():
            if not isinstance(saved, dict) or saved.get(key) != value:
                raise InputError(
                    f"{self.folder} belongs to another rollout ({key} differs); give the arguments "
                    "of the interrupted one, or delete the folder to start anew"
                )
