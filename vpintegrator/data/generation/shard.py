"""One shard: consecutive trajectories of a dataset, made anywhere, in a file of their own.

A shard is an HDF5 file with the same groups as the dataset. Its attributes hold what it belongs to,
a SHA-256 of the states of each group and the measured accuracy, so that whoever finds it can tell
whether it is whole and need not compute it again. It is made in memory and written at once: HDF5
takes a full disk badly.
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
from vpintegrator.data.generation.stacks import integrate
from vpintegrator.data.recipe import Recipe
from vpintegrator.data.view import SHARD_FORMAT
from vpintegrator.dynamics.state_file import write_states
from vpintegrator.shard_folder import write_shard
from vpintegrator.workers import require_versions


@dataclass(frozen=True)
class Task:
    """What it takes to make one shard, on any machine that sees the folder.

    Attributes
    ----------
    recipe
        The recipe of the dataset.
    path
        The file to write.
    identity
        Hash of all that the numbers depend on; a shard of another identity is not used.
    number, first
        Of the shard, and of its first trajectory.
    initial
        Initial states, (trajectory, dim).
    conditions
        What varies of each trajectory.
    uneven
        Whether to sort them by difficulty.
    noise
        Standard deviation of the observation's noise, (dim,).
    versions
        Of the packages that compute.
    reuse
        Whether to keep a whole shard that is there already.
    """

    recipe: Recipe
    path: Path
    identity: str
    number: int
    first: int
    initial: np.ndarray
    conditions: np.ndarray
    uneven: bool
    noise: np.ndarray
    versions: dict[str, str]
    reuse: bool


@dataclass(frozen=True)
class Shard:
    """What is known of a finished shard.

    Attributes
    ----------
    number, trajectories
        Of the shard, and how many it holds.
    digests
        SHA-256 of each trajectory, for each group that it has a part of.
    accuracy
        Of its exact states.
    reused
        Whether it was there already.
    """

    number: int
    trajectories: int
    digests: dict[str, bytes]
    accuracy: Accuracy
    reused: bool


def group_parts(recipe: Recipe, first: int, count: int) -> dict[str, tuple[slice, slice, slice]]:
    """Where trajectories ``first``, ... go: rows of the shard, its times, and rows of the group."""
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
    states = integrate(recipe, task.initial, task.conditions, task.uneven, progress)
    accuracy = measure_accuracy(recipe, states, task.conditions)
    seen = recipe.observe(states, task.first, task.noise)
    times = recipe.times
    known = {}
    with h5py.File("shard", "w", driver="core", backing_store=False) as f:
        for name, (rows, part, _) in group_parts(recipe, task.first, count).items():
            group = f.create_group(name, track_order=True)
            first = task.first + rows.start
            write_states(group, seen[rows, part], times[part], recipe.system, first)
            known[name] = digests(seen[rows, part])
            group.attrs["digest"] = hashlib.sha256(known[name]).hexdigest()
        f.attrs["format"] = SHARD_FORMAT
        f.attrs["identity"] = task.identity
        f.attrs["number"] = task.number
        f.attrs["accuracy"] = json.dumps(dataclasses.asdict(accuracy))
        f.flush()
        image = f.id.get_file_image()
    write_shard(task.path, image)
    return Shard(task.number, count, known, accuracy, reused=False)


def find_shard(task: Task) -> Shard | None:
    """The shard that is there, if it is the right one and every bit of it is as it was written."""
    try:
        with h5py.File(task.path) as f:
            if (f.attrs["format"], f.attrs["identity"]) != (SHARD_FORMAT, task.identity):
                return None
            parts = group_parts(task.recipe, task.first, len(task.initial))
            if int(f.attrs["number"]) != task.number:
                return None
            known = {name: digests(f[name]["state"][...]) for name in parts}
            for name in parts:
                if f[name].attrs["digest"] != hashlib.sha256(known[name]).hexdigest():
                    return None
            accuracy = Accuracy(**json.loads(f.attrs["accuracy"]))
    except (OSError, KeyError, ValueError, TypeError, RuntimeError):
        return None  # missing or damaged
    return Shard(task.number, len(task.initial), known, accuracy, reused=True)
