"""Datasets as HDF5 files that xarray, netCDF tools and h5py open as they are.

Groups ``train``, ``validation`` and ``test`` each hold ``state (trajectory, time, component)`` in
float64, chunked and checksummed, with ``time`` and ``component`` as dimension scales; the root's
attributes say what was computed, and how, and how well.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property
from importlib.metadata import version
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from vpintegrator.data.recipe import GROUPS, Recipe
from vpintegrator.dynamics import System
from vpintegrator.errors import InputError
from vpintegrator.files import replacing

FORMAT = "vpintegrator-dataset"
FORMAT_VERSION = 1
_CHUNK_BYTES = 1 << 20


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


def write_header(
    file: h5py.File, format_name: str, format_version: int, system: System, step: float
) -> None:
    """Root attributes that every file of this package carries."""
    file.attrs["Conventions"] = "CF-1.10"
    file.attrs["format"] = format_name
    file.attrs["format_version"] = format_version
    file.attrs["system_name"] = system.name
    file.attrs["system"] = system.text
    file.attrs["parameters"] = json.dumps(system.parameters)
    file.attrs["step"] = step
    packages = {name: version(name) for name in ("vpintegrator", "numpy", "scipy", "h5py", "sympy")}
    file.attrs["versions"] = json.dumps({"python": platform.python_version(), **packages})


def write_states(
    group: h5py.Group, state: np.ndarray, times: np.ndarray, system: System
) -> h5py.Dataset:
    """``state (trajectory, time, component)`` with its dimension scales."""
    time = group.create_dataset("time", data=np.asarray(times, dtype=np.float64))
    time.attrs["long_name"] = "time"
    time.attrs["units"] = "1"
    component = group.create_dataset(
        "component", data=np.array(system.components, dtype=object), dtype=h5py.string_dtype()
    )
    component.attrs["long_name"] = "component of the state"
    trajectory = group.create_dataset("trajectory", data=np.arange(len(state), dtype=np.int64))
    trajectory.attrs["long_name"] = "number of the trajectory"
    for scale, name in ((trajectory, "trajectory"), (time, "time"), (component, "component")):
        scale.make_scale(name)
    row_bytes = max(8 * int(np.prod(state.shape[1:])), 1)
    rows = int(np.clip(_CHUNK_BYTES // row_bytes, 1, max(len(state), 1)))
    columns = int(np.clip(_CHUNK_BYTES // (8 * state.shape[2]), 1, state.shape[1]))
    dataset = group.create_dataset(
        "state",
        data=state,
        dtype=np.float64,
        chunks=(rows, columns, state.shape[2]) if state.size else None,
        fletcher32=bool(state.size),
    )
    dataset.attrs["long_name"] = f"state of the system: {system.title}"
    dataset.attrs["units"] = "1"
    for axis, scale in enumerate((trajectory, time, component)):
        dataset.dims[axis].attach_scale(scale)
    return dataset


@contextmanager
def open_hdf5(path: str | os.PathLike[str], format_name: str, newest: int) -> Iterator[h5py.File]:
    """Open one of this package's HDF5 files for reading.

    Raises
    ------
    InputError
        If there is no such file, it is no HDF5 file, damaged, or holds something else.
    """
    path = Path(path)
    kind = format_name.removeprefix("vpintegrator-")
    if not path.exists():
        raise InputError(f"there is no file {path}")
    if path.is_dir():
        raise InputError(f"{path} is a folder, not a {kind} file")
    if not h5py.is_hdf5(path):
        raise InputError(f"{path} is not an HDF5 file; expected a {kind} file")
    try:
        file = h5py.File(path, "r")
    except OSError as error:
        raise InputError(f"{path} cannot be opened as HDF5, it may be damaged: {error}") from None
    with file:
        found = file.attrs.get("format")
        if found != format_name:
            what = f"a {found} file" if isinstance(found, str) else "an HDF5 file of another kind"
            raise InputError(f"{path} is {what}, not a {format_name} file")
        if not 1 <= int(file.attrs.get("format_version", 0)) <= newest:
            raise InputError(
                f"{path} has format version {file.attrs.get('format_version')}, but this version "
                f"of vpintegrator reads up to {newest}; install a newer one"
            )
        try:
            yield file
        except (KeyError, OSError) as error:
            raise InputError(f"{path} is damaged or incomplete: {error}") from None


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
