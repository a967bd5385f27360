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
from vpintegrator.storage.hdf5 import fill, write_attributes, write_words
from vpintegrator.storage.reading import StoredGroup


def write_header(
    file: h5py.File, format_name: str, format_version: int, system: System, step: float
) -> None:
    """Root attributes that every file of this package carries."""
    values = {
        "Conventions": "CF-1.10",
        "format": format_name,
        "format_version": format_version,
        "step": step,
        "versions": versions(),
    }
    write_attributes(file, values)
    write_system(file, system)


def write_system(group: h5py.Group, system: System) -> None:
    """Write the text of a system, its name and values of parameters as attributes of a group."""
    values = {
        "system_name": printable(system.name),  # HDF5 takes no zero character
        "system": system.text,
        "parameters": json.dumps(system.definitions),
    }
    write_attributes(group, values)


def read_system(root: StoredGroup, path: Path) -> System:
    """Return the system of a group, which :func:`write_system` wrote."""
    text = root.text("system")
    name = root.text("system_name")
    parameters = root.json("parameters")
    return System.of_text(text, name, parameters, f"system in {path}")


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
    write_attributes(time, {"long_name": "time", "units": "1"})
    component = write_words(group, "component", system.components, "component of the state")
    if isinstance(trajectories, int):
        trajectories = trajectories + np.arange(state.shape[0])
    trajectory = group.create_dataset("trajectory", data=np.asarray(trajectories, dtype=np.int64))
    write_attributes(trajectory, {"long_name": "number of the trajectory"})
    for scale, name in ((trajectory, "trajectory"), (time, "time")):
        scale.make_scale(name)
    dataset = fill(group, "state", state)
    title = f"state of the system: {printable(system.title)}"
    write_attributes(dataset, {"long_name": title, "units": "1"})
    for axis, scale in enumerate((trajectory, time, component)):
        dataset.dims[axis].attach_scale(scale)
    return dataset
