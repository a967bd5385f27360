"""Shards: files of consecutive trajectories of a dataset, each computed independently.

A shard is an HDF5 file with the same groups as the dataset. Its attributes hold the identity of the
dataset, a SHA-256 of the states of each group and the measured accuracy. A reader can thus check
that the shard is complete and need not compute it again. A shard is made in memory and written at
once, because HDF5 does not recover from a full disk.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import h5py
import numpy as np

from vpintegrator.data.dataset_file import digests
from vpintegrator.data.generation.accuracy import Accuracy, measure_accuracy
from vpintegrator.data.generation.plan import integrate
from vpintegrator.data.recipe import Recipe
from vpintegrator.data.view import SHARD_FORMAT
from vpintegrator.dynamics.state_file import write_states
from vpintegrator.runtime.workers import require_versions
from vpintegrator.storage.shard_folder import read_shard, write_shard


@dataclass(frozen=True)
class Task:
    """Data from which a worker computes one shard.

    Attributes
    ----------
    recipe
        The recipe of the dataset.
    path
        The file to write.
    identity
        Hash of everything that determines the states; a shard of another identity is not used.
    number, first
        Number of the shard, and of its first trajectory.
    initial
        Initial states, (trajectory, dim).
    conditions
        Step and parameters that vary, (trajectory, name).
    sizes
        Sizes of the components in all trajectories, (dim,).
    versions
        Versions of the packages that compute.
    reuse
        Whether to keep a complete shard that already exists.
    """

    recipe: Recipe
    path: Path
    identity: str
    number: int
    first: int
    initial: np.ndarray
    conditions: np.ndarray
    sizes: np.ndarray | None
    versions: dict[str, str]
    reuse: bool


@dataclass(frozen=True)
class Shard:
    """Summary of a finished shard.

    Attributes
    ----------
    number, trajectories
        Number of the shard, and of its trajectories.
    digests
        SHA-256 of the trajectories of each group that has a part in the shard.
    accuracy
        Accuracy of the exact states.
    reused
        Whether the shard already existed.
    """

    number: int
    trajectories: int
    digests: dict[str, bytes]
    accuracy: Accuracy
    reused: bool


def group_parts(recipe: Recipe, first: int, count: int) -> dict[str, tuple[slice, slice, slice]]:
    """Return, for each group, the slices of a shard's rows, of its times and of the group's rows.

    The shard holds trajectories ``first``, ..., ``first + count - 1``.
    """
    parts = {}
    for name, (which, times) in recipe.parts().items():
        start, stop = max(which.start, first), min(which.stop, first + count)
        if start < stop:
            rows = slice(start - first, stop - first)
            parts[name] = (rows, times, slice(start - which.start, stop - which.start))
    return parts


def make_shard(task: Task, progress: Callable[[int], None] | None = None) -> Shard:
    """Integrate, measure and write the trajectories of one shard, if it is not there already.

    Raises
    ------
    InputError
        If a solution does not reach the last time.
    OSError
        If the file cannot be written, or this machine has other versions.
    """
    require_versions(task.versions)
    if task.reuse and (found := find_shard(task)):
        return found
    recipe, count = task.recipe, len(task.initial)
    states = integrate(recipe, task.initial, task.conditions, task.sizes, progress)
    accuracy = measure_accuracy(recipe, states, task.conditions)
    times = recipe.times
    known = {}
    with write_shard(task.path, SHARD_FORMAT, task.identity, task.number) as f:
        for name, (rows, part, _) in group_parts(recipe, task.first, count).items():
            group = f.create_group(name, track_order=True)
            first = task.first + rows.start
            write_states(group, states[rows, part], times[part], recipe.system, first)
            known[name] = digests(states[rows, part])
            group.attrs["digest"] = hashlib.sha256(known[name]).hexdigest()
        f.attrs["accuracy"] = json.dumps(dataclasses.asdict(accuracy))
    return Shard(task.number, count, known, accuracy, reused=False)


def find_shard(task: Task) -> Shard | None:
    """The shard that is there, if it is the right one and every bit of it is as it was written."""

    def read(file: h5py.File) -> Shard | None:
        parts = group_parts(task.recipe, task.first, len(task.initial))
        known = {name: digests(file[name]["state"][...]) for name in parts}
        for name in parts:
            if file[name].attrs["digest"] != hashlib.sha256(known[name]).hexdigest():
                return None
        accuracy = Accuracy(**json.loads(file.attrs["accuracy"]))
        return Shard(task.number, len(task.initial), known, accuracy, reused=True)

    return read_shard(task.path, SHARD_FORMAT, task.identity, task.number, read)
