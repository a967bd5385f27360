"""Datasets as HDF5 files that xarray, netCDF tools and h5py open as they are.

Groups ``train``, ``validation`` and ``test`` each hold ``state (trajectory, time, component)`` in
float64, chunked and checksummed, with ``time`` and ``component`` as dimension scales; the root's
attributes say what was computed, and how, and how well.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from typing import Any

import h5py
import numpy as np

from vpintegrator.data.recipe import Recipe
from vpintegrator.dynamics import System
from vpintegrator.dynamics.state_file import write_header, write_overview, write_states
from vpintegrator.errors import printable
from vpintegrator.hdf5 import create_hdf5

FORMAT = "vpintegrator-dataset"
FORMAT_VERSION = 1


def save_dataset(
    path: str | os.PathLike[str],
    recipe: Recipe,
    states: Mapping[str, np.ndarray | h5py.Dataset | h5py.VirtualLayout],
    accuracy: Mapping[str, Any],
    noise: np.ndarray,
    overwrite: bool = False,
    *,
    known_digests: Mapping[str, bytes] | None = None,
    shards: tuple[str, Sequence[int]] | None = None,
) -> None:
    """Write trajectories, (trajectory, time, dim) for each group, with all that made them.

    Parameters
    ----------
    path
        The file.
    recipe
        What they are.
    states
        For each group an array, something on disk that is copied, or a layout of other files.
    accuracy
        What was measured, see :func:`vpintegrator.generate`.
    noise
        Standard deviation of that of the observation, (dim,).
    overwrite
        Whether a file of that name may be replaced.
    known_digests
        Of the trajectories of each group, see :func:`digests`, if they are known.
    shards
        Name of the folder beside the file that holds the states, and the size of each file in it.

    Raises
    ------
    InputError
        If the file exists and ``overwrite`` is false, or cannot be written.
    """
    times = recipe.step * np.arange(recipe.steps + 1)
    write_dataset(
        path,
        overwrite,
        recipe.system,
        recipe.step,
        {
            "title": printable(recipe.title or recipe.system.title),
            "recipe": recipe.text,
            "seed": recipe.seed,
            "solver": recipe.method,
            "rtol": recipe.rtol,
            "atol": recipe.atol,
            "accuracy": json.dumps(accuracy),
            "fingerprint": fingerprint(states, recipe.step)
            if known_digests is None
            else combined_fingerprint(known_digests, recipe.step),
            "noise": noise,
            "complete": int(recipe.observation.complete),
        },
        {
            name: (states[name], times[part], which.start)
            for name, (which, part) in recipe.parts().items()
        },
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
    units: Sequence[str] | None = None,
    time_unit: str = "1",
    shards: tuple[str, Sequence[int]] | None = None,
) -> None:
    """Write a dataset: attributes of its own, and states, times and trajectories of each group."""
    with create_hdf5(path, overwrite) as f:
        write_header(f, FORMAT, FORMAT_VERSION, system, step)
        f.attrs.update(attributes)
        for name, (states, times, numbers) in groups.items():
            group = f.create_group(name, track_order=True)
            write_states(group, states, times, system, numbers, units, time_unit)
        write_overview(f, system)
        if shards is not None:
            _write_shards(f, *shards)


def fingerprint(states: Mapping[str, np.ndarray], step: float) -> str:
    """Hash of the step and all states, the same on every machine for the same numbers."""
    return combined_fingerprint({name: digests(states[name]) for name in states}, step)


def combined_fingerprint(known: Mapping[str, bytes], step: float) -> str:
    """The same from the digests of the trajectories of each group."""
    whole = hashlib.sha256(np.float64(step).astype("<f8").tobytes())
    for name in sorted(known):
        whole.update(name.encode())
        whole.update(known[name])
    return whole.hexdigest()


def digests(states: np.ndarray) -> bytes:
    """SHA-256 of each trajectory, 32 bytes each, so that those of parts can be put together."""
    rows = np.ascontiguousarray(states, dtype="<f8")
    return b"".join(hashlib.sha256(row.data).digest() for row in rows)


def _write_shards(file: h5py.File, folder: str, sizes: Sequence[int]) -> None:
    """In the root, where the states are when other files hold them: a folder beside this one."""
    file.attrs["shards"] = folder
    scale = file.create_dataset("shard", data=np.arange(len(sizes), dtype=np.int64))
    scale.attrs["long_name"] = "number of the file in the folder of shards"
    scale.make_scale("shard")
    dataset = file.create_dataset("shard_size", data=np.asarray(sizes, dtype=np.int64))
    dataset.attrs["long_name"] = "its size in bytes"
    dataset.dims[0].attach_scale(scale)
