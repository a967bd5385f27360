"""Datasets as HDF5 files that xarray, netCDF tools and h5py open as they are.

Groups ``train``, ``validation`` and ``test`` each hold ``state (trajectory, time, component)`` in
float64, chunked and checksummed, with ``time`` and ``component`` as dimension scales; the root's
attributes say what was computed, and how, and how well. What varies from trajectory to trajectory
stands beside the states, as ``step (trajectory)`` and ``parameter_NAME (trajectory)``.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import h5py
import numpy as np

from vpintegrator.data.recipe import Recipe
from vpintegrator.data.variation import STEP
from vpintegrator.dynamics import System
from vpintegrator.dynamics.state_file import write_header, write_overview, write_states
from vpintegrator.errors import printable
from vpintegrator.storage.hdf5 import create_hdf5

FORMAT = "vpintegrator-dataset"
FORMAT_VERSION = 2
_PLAIN = 1  # version of files in which nothing varies


@dataclass(frozen=True)
class Conditions:
    """Step and parameters that vary from trajectory to trajectory.

    Attributes
    ----------
    varied
        Range of each quantity by name; ``step`` comes first if it varies.
    values
        Values (trajectory, name) for each group.
    """

    varied: Mapping[str, tuple[float, float]]
    values: Mapping[str, np.ndarray]

    def digest(self, group: str) -> bytes:
        """Return SHA-256 of the values of a group."""
        rows = np.ascontiguousarray(self.values[group], dtype="<f8")
        return hashlib.sha256(rows.data).digest()


def save_dataset(
    path: str | os.PathLike[str],
    recipe: Recipe,
    states: Mapping[str, np.ndarray | h5py.Dataset | h5py.VirtualLayout],
    accuracy: Mapping[str, Any],
    overwrite: bool = False,
    *,
    conditions: np.ndarray | None = None,
    known_digests: Mapping[str, bytes] | None = None,
    shards: tuple[str, Sequence[int]] | None = None,
) -> None:
    """Write trajectories, (trajectory, time, dim) for each group, with all that made them.

    Parameters
    ----------
    path
        The file.
    recipe
        Recipe of the states.
    states
        States of each group: an array, an object on disk to copy, or a layout of other files.
    accuracy
        Measured accuracy, see :func:`vpintegrator.generate`.
    overwrite
        Whether a file of that name may be replaced.
    conditions
        Step and parameters that vary, for all trajectories, (trajectory, name).
    known_digests
        Digests of the trajectories of each group, see :func:`digests`, if known.
    shards
        Name of the folder beside the file that holds the states, and the size of each file in it.

    Raises
    ------
    InputError
        If the file exists and ``overwrite`` is false, or cannot be written.
    """
    times, varying = recipe.times, None
    solver = {{"method": "solver"}.get(name, name): entry for name, entry in recipe.solver.items()}
    if recipe.vary is not None and conditions is not None:
        values = {name: conditions[which] for name, (which, _) in recipe.parts().items()}
        varying = Conditions(recipe.vary.bounds, values)
    if known_digests is None:
        known_digests = {name: digests(states[name]) for name in states}
    write_dataset(
        path,
        overwrite,
        recipe.system,
        recipe.step,
        {
            "title": printable(recipe.title or recipe.system.title),
            "recipe": recipe.text,
            "seed": recipe.seed,
            **solver,
            "accuracy": json.dumps(accuracy),
            "fingerprint": combined_fingerprint(known_digests, recipe.step, varying),
        },
        {
            name: (states[name], times[part], which.start)
            for name, (which, part) in recipe.parts().items()
        },
        conditions=varying,
        shards=shards,
    )


def write_dataset(
    path: str | os.PathLike[str],
    overwrite: bool,
    system: System,
    step: float,
    attributes: Mapping[str, Any],
    groups: Mapping[str, tuple[Any, np.ndarray, int | np.ndarray]],
    *,
    conditions: Conditions | None = None,
    shards: tuple[str, Sequence[int]] | None = None,
) -> None:
    """Write a dataset: attributes of its own, and states, times and trajectories of each group."""
    with create_hdf5(path, overwrite) as f:
        version = FORMAT_VERSION if conditions is not None else _PLAIN
        write_header(f, FORMAT, version, system, step)
        f.attrs.update(attributes)
        if conditions is not None:
            f.attrs["varied"] = json.dumps(conditions.varied)
        for name, (states, times, numbers) in groups.items():
            group = f.create_group(name, track_order=True)
            write_states(group, states, times, system, numbers)
            if conditions is not None:
                _write_conditions(group, conditions.varied, conditions.values[name])
        write_overview(f, system)
        if shards is not None:
            _write_shards(f, *shards)


def fingerprint(
    states: Mapping[str, np.ndarray], step: float, conditions: Conditions | None = None
) -> str:
    """Return hash of the step and all states, the same on every machine for the same numbers."""
    return combined_fingerprint({name: digests(states[name]) for name in states}, step, conditions)


def combined_fingerprint(
    known: Mapping[str, bytes], step: float, conditions: Conditions | None = None
) -> str:
    """Return the fingerprint from the digests of the trajectories of each group."""
    whole = hashlib.sha256(np.float64(step).astype("<f8").tobytes())
    for name in sorted(known):
        whole.update(name.encode())
        whole.update(known[name])
        if conditions is not None:
            whole.update(conditions.digest(name))
    return whole.hexdigest()


def digests(states: np.ndarray) -> bytes:
    """SHA-256 of each trajectory, 32 bytes each, so that those of parts can be put together."""
    rows = np.ascontiguousarray(states, dtype="<f8")
    return b"".join(hashlib.sha256(row.data).digest() for row in rows)


def condition_variable(name: str) -> str:
    """Return the variable name of the step or of a parameter: ``step``, ``parameter_I1``."""
    return name if name == STEP else f"parameter_{name}"


def _write_conditions(group: h5py.Group, names: Iterable[str], values: np.ndarray) -> None:
    """A variable of the trajectories for each thing that varies, named as coordinates of states."""
    variables = []
    for name, column in zip(names, values.T, strict=True):
        variables.append(condition_variable(name))
        dataset = group.create_dataset(variables[-1], data=np.asarray(column, dtype=np.float64))
        dataset.attrs["units"] = "1"
        dataset.attrs["long_name"] = (
            "time between two states of the trajectory"
            if name == STEP
            else f"parameter {printable(name)} of the trajectory"
        )
        dataset.dims[0].attach_scale(group["trajectory"])
    if variables:
        group["state"].attrs["coordinates"] = " ".join(variables)
    if STEP in names:
        group["time"].attrs["long_name"] = "number of steps: the time is so many times the step"
        group["time"].attrs["units"] = "1"


def _write_shards(file: h5py.File, folder: str, sizes: Sequence[int]) -> None:
    """Write the name of the folder that holds the states to the root."""
    file.attrs["shards"] = folder
    scale = file.create_dataset("shard", data=np.arange(len(sizes), dtype=np.int64))
    scale.attrs["long_name"] = "number of the file in the folder of shards"
    scale.make_scale("shard")
    dataset = file.create_dataset("shard_size", data=np.asarray(sizes, dtype=np.int64))
    dataset.attrs["long_name"] = "its size in bytes"
    dataset.dims[0].attach_scale(scale)
