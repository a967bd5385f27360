"""Storage of a system and its states in HDF5, shared by datasets and rollouts.

``state (trajectory, time, component)`` in float64, chunked and checksummed, with dimension scales,
and attributes that say what it is.
"""

from __future__ import annotations

import functools
import json
import platform
from importlib.metadata import version
from pathlib import Path

import h5py
import numpy as np

from vpintegrator.dynamics.system import System
from vpintegrator.errors import printable
from vpintegrator.storage.hdf5 import fill, write_words
from vpintegrator.storage.reading import StoredGroup


def write_header(
    file: h5py.File, format_name: str, format_version: int, system: System, step: float
) -> None:
    """Root attributes that every file of this package carries."""
    file.attrs["Conventions"] = "CF-1.10"
    file.attrs["format"] = format_name
    file.attrs["format_version"] = format_version
    file.attrs["system_name"] = printable(system.name)  # HDF5 takes no zero character
    file.attrs["system"] = system.text
    file.attrs["parameters"] = json.dumps(system.definitions)
    file.attrs["step"] = step
    file.attrs["versions"] = versions()


def read_system(root: StoredGroup, path: Path) -> System:
    """Return the system of a file, which :func:`write_header` wrote."""
    text, name, parameters = root.text("system"), root.text("system_name"), root.json("parameters")
    return System(text, name, parameters, source=f"system in {path}")


@functools.cache
def versions() -> str:
    """Return the versions of Python and of the packages that compute states, as JSON."""
    packages = {name: version(name) for name in ("vpintegrator", "numpy", "scipy", "h5py", "sympy")}
    return json.dumps({"python": platform.python_version(), **packages})


def write_states(
    group: h5py.Group,
    state: np.ndarray | h5py.Dataset | h5py.VirtualLayout,
    times: np.ndarray,
    system: System,
    trajectories: int | np.ndarray = 0,
) -> h5py.Dataset:
    """Return ``state (trajectory, time, component)`` with its dimension scales.

    ``trajectories`` are their numbers, or the first of consecutive ones.
    """
    time = group.create_dataset("time", data=np.asarray(times, dtype=np.float64))
    time.attrs["long_name"] = "time"
    time.attrs["units"] = "1"
    component = write_words(group, "component", system.components, "component of the state")
    numbers = (
        trajectories + np.arange(state.shape[0]) if isinstance(trajectories, int) else trajectories
    )
    trajectory = group.create_dataset("trajectory", data=np.asarray(numbers, dtype=np.int64))
    trajectory.attrs["long_name"] = "number of the trajectory"
    for scale, name in ((trajectory, "trajectory"), (time, "time")):
        scale.make_scale(name)
    dataset = fill(group, "state", state)
    dataset.attrs["long_name"] = f"state of the system: {printable(system.title)}"
    dataset.attrs["units"] = "1"
    for axis, scale in enumerate((trajectory, time, component)):
        dataset.dims[axis].attach_scale(scale)
    return dataset


def write_overview(file: h5py.File, system: System) -> None:
    """Write an overview to the root: components, groups and their contents."""
    groups = [name for name in file if isinstance(file[name], h5py.Group)]
    write_words(file, "component", system.components, "component of the state")
    scale = write_words(file, "group", groups, "group of trajectories, and of the file")
    states = [file[name]["state"] for name in groups]
    times = [file[name]["time"][...] for name in groups]
    ends = [(t[0], t[-1]) if len(t) else (np.nan, np.nan) for t in times]
    for name, values, title in (
        ("trajectories", np.array([s.shape[0] for s in states]), "number of trajectories"),
        ("times", np.array([s.shape[1] for s in states]), "number of times of each"),
        ("first_time", np.array([e[0] for e in ends]), "first of these times"),
        ("last_time", np.array([e[1] for e in ends]), "last of these times"),
    ):
        dataset = file.create_dataset(name, data=values)
        dataset.attrs["long_name"] = title
        dataset.dims[0].attach_scale(scale)
