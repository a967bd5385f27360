"""Datasets as HDF5 files that xarray, netCDF tools and h5py open as they are.

Groups ``train``, ``validation`` and ``test`` each hold ``state (trajectory, time, component)`` in
float64, chunked and checksummed, with ``time`` and ``component`` as dimension scales; the root's
attributes say what was computed, and how, and how well.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from vpintegrator.data.recipe import GROUPS, Recipe
from vpintegrator.dynamics import System
from vpintegrator.errors import InputError
from vpintegrator.files import replacing
from vpintegrator.hdf5 import open_hdf5, write_header, write_states

FORMAT = "vpintegrator-dataset"
FORMAT_VERSION = 1


def save_dataset(
    path: str | os.PathLike[str],
    recipe: Recipe,
    states: Mapping[str, np.ndarray],
    accuracy: Mapping[str, Any],
    overwrite: bool = False,
) -> None:
    """Write trajectories, (trajectory, time, dim) for each group, with all that made them.

    Raises
    ------
    InputError
        If the file exists and ``overwrite`` is false, or cannot be written.
    """
    with replacing(path, overwrite) as temporary, h5py.File(temporary, "w", track_order=True) as f:
        write_header(f, FORMAT, FORMAT_VERSION, recipe.system, recipe.step)
        f.attrs["title"] = recipe.title or recipe.system.title
        f.attrs["recipe"] = recipe.text
        f.attrs["seed"] = recipe.seed
        f.attrs["solver"] = recipe.method
        f.attrs["rtol"] = recipe.rtol
        f.attrs["atol"] = recipe.atol
        f.attrs["accuracy"] = json.dumps(accuracy)
        f.attrs["fingerprint"] = fingerprint(states, recipe.step)
        times = recipe.step * np.arange(recipe.steps + 1)
        for name, state in states.items():
            write_states(f.create_group(name, track_order=True), state, times, recipe.system)


class Dataset:
    """A dataset on disk; states are read when asked for. Made by :func:`open_dataset`.

    Attributes
    ----------
    path
        The file.
    system
        The system whose trajectories it holds.
    step
        Time between states.
    recipe
        Text of the recipe that made it.
    accuracy
        What is known of the states' errors, see :func:`vpintegrator.generate`.
    fingerprint
        Hash of all states.
    shapes
        (trajectory, time, dim) of each group.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        with open_hdf5(path, FORMAT, FORMAT_VERSION) as f:
            self.step = float(f.attrs["step"])
            self.title = str(f.attrs["title"])
            self.recipe = str(f.attrs["recipe"])
            self.accuracy: dict[str, Any] = json.loads(f.attrs["accuracy"])
            self.fingerprint = str(f.attrs["fingerprint"])
            self._system_text = str(f.attrs["system"])
            self._system_name = str(f.attrs["system_name"])
            self.parameters: dict[str, Any] = json.loads(f.attrs["parameters"])
            self.shapes: dict[str, tuple[int, ...]] = {
                name: f[name]["state"].shape for name in GROUPS if name in f
            }

    @cached_property
    def system(self) -> System:
        """The system whose trajectories these are."""
        return System(
            self._system_text, self._system_name, self.parameters, source=f"system in {self.path}"
        )

    @property
    def dim(self) -> int:
        """Number of components of a state."""
        return self.shapes["train"][2]

    def states(self, group: str) -> np.ndarray:
        """Trajectories of a group, shape (trajectory, time, dim), float64.

        Raises
        ------
        InputError
            If there is no such group.
        """
        if group not in self.shapes:
            raise InputError(f"{self.path} has no group '{group}'; it has {', '.join(self.shapes)}")
        with open_hdf5(self.path, FORMAT, FORMAT_VERSION) as f:
            return np.asarray(f[group]["state"][...])

    def __repr__(self) -> str:
        groups = ", ".join(f"{name} {shape}" for name, shape in self.shapes.items())
        return f"<Dataset {self.path}: {self._system_name}, step {self.step:g}, {groups}>"


def open_dataset(path: str | os.PathLike[str]) -> Dataset:
    """Open a dataset file.

    Raises
    ------
    InputError
        If there is no such file, or it is not a dataset.
    """
    return Dataset(path)


def fingerprint(states: Mapping[str, np.ndarray], step: float) -> str:
    """Hash of the step and all states, the same on every machine for the same numbers."""
    digest = hashlib.sha256(np.float64(step).astype("<f8").tobytes())
    for name in sorted(states):
        digest.update(name.encode())
        digest.update(np.ascontiguousarray(states[name], dtype="<f8").tobytes())
    return digest.hexdigest()
