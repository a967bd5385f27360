"""Shards of a large dataset: files of consecutive trajectories, each computed independently.

rigid-body.h5                       the dataset: a view of the shards, or a copy of all of them
rigid-body.h5.shards/000000.h5 ...  the shards, each renamed to this name when it is complete

A shard has the same groups as the dataset. Its attributes hold the identity of the dataset and the
measured accuracy, so that it is not made again.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from vpintegrator.data.dataset_file import Conditions, digests, folder_of, shard_name, write_dataset
from vpintegrator.data.generation.accuracy import Accuracy, combine, measure_accuracy
from vpintegrator.data.generation.plan import ShardPlan, integrate
from vpintegrator.data.recipe import Recipe
from vpintegrator.dynamics.state_file import versions, write_states
from vpintegrator.errors import InputError, printable
from vpintegrator.storage.files import disk_errors, locked
from vpintegrator.storage.hdf5 import create_hdf5

FORMAT = "vpintegrator-shard-1"


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
    plan
        ShardPlan of the trajectories of this shard alone.
    reuse
        Whether to keep a complete shard that already exists.
    """

    recipe: Recipe
    path: Path
    identity: str
    number: int
    first: int
    plan: ShardPlan
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
        Accuracy of the states.
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
        If the file cannot be written.
    """
    if task.reuse and (found := find_shard(task)):
        return found
    recipe, plan = task.recipe, task.plan
    states = integrate(recipe, plan.initial, plan.conditions, plan.sizes, progress)
    accuracy = measure_accuracy(recipe, states, plan.conditions)
    known = {}
    with create_hdf5(task.path, overwrite=True) as f:
        for name, (rows, part, _) in group_parts(recipe, task.first, len(states)).items():
            group = f.create_group(name, track_order=True)
            first = task.first + rows.start
            write_states(group, states[rows, part], recipe.times[part], recipe.system, first)
            known[name] = digests(states[rows, part])
        f.attrs["accuracy"] = json.dumps(dataclasses.asdict(accuracy))
        f.attrs["format"], f.attrs["identity"] = FORMAT, task.identity
        f.attrs["number"] = task.number
    return Shard(task.number, len(states), known, accuracy, reused=False)


def find_shard(task: Task) -> Shard | None:
    """The shard that is there, if it is the right one; its checksums tell whether it is whole."""
    count = len(task.plan.initial)
    damage = OSError, KeyError, ValueError, TypeError, RuntimeError
    with suppress(*damage), h5py.File(task.path) as f:
        if (f.attrs["identity"], int(f.attrs["number"])) == (task.identity, task.number):
            names = group_parts(task.recipe, task.first, count)
            known = {name: digests(f[name]["state"][...]) for name in names}
            accuracy = Accuracy(**json.loads(f.attrs["accuracy"]))
            return Shard(task.number, count, known, accuracy, reused=True)
    return None


def save(
    path: Path,
    recipe: Recipe,
    states: Mapping[str, np.ndarray | h5py.Dataset | h5py.VirtualLayout],
    accuracy: Mapping[str, Any],
    conditions: np.ndarray,
    *,
    overwrite: bool,
    known: Mapping[str, bytes] | None = None,
    shards: tuple[str, Sequence[int]] | None = None,
) -> None:
    """Write the states (trajectory, time, dim) of each group, see :func:`write_dataset`.

    ``conditions`` are those of all trajectories, (trajectory, name).
    """
    times, parts = recipe.times, recipe.parts()
    solver = {{"method": "solver"}.get(name, name): entry for name, entry in recipe.solver.items()}
    ranges = {} if recipe.vary is None else recipe.vary.bounds
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
        },
        {name: (states[name], times[part], which.start) for name, (which, part) in parts.items()},
        Conditions(ranges, {name: conditions[which] for name, (which, _) in parts.items()}),
        known=known,
        shards=shards,
    )


class Shards:
    """The folder of the shards of one dataset.

    Parameters
    ----------
    path
        The dataset's file.
    recipe, plan
        Recipe and plan of the dataset.
    """

    def __init__(self, path: Path, recipe: Recipe, plan: ShardPlan) -> None:
        self.path, self.folder = path, folder_of(path)
        self.recipe, self.plan = recipe, plan
        identity = hashlib.sha256(plan.initial.tobytes() + plan.conditions.tobytes())
        parts = (recipe.text, recipe.system.text, str(plan.rows), versions())
        identity.update(json.dumps(parts).encode())
        self._identity = identity.hexdigest()

    @contextmanager
    def open(self, resume: bool, overwrite: bool) -> Iterator[None]:
        """Make the folder or take over what is in it, and keep others from writing to it.

        Afterwards it is gone if it holds no shard.

        Raises
        ------
        InputError
            If it holds shards and ``resume`` is false, or those of something else, or somebody
            else writes to it.
        """
        with locked(self.path):
            resumed = self._prepare(resume, overwrite)
            try:
                yield
            except InputError:
                if not resumed:
                    remove_shards(self.path)  # nothing can come of them
                raise
            finally:
                if not any(self.folder.glob("*.h5")):
                    remove_shards(self.path)

    def tasks(self, reuse: bool) -> Iterator[Task]:
        """Yield the task of each shard."""
        folder = self.folder.resolve()
        for number, rows in self.plan:
            path, part = folder / shard_name(number), self.plan.part(rows)
            yield Task(self.recipe, path, self._identity, number, rows.start, part, reuse)

    def bind(
        self, shards: Sequence[Shard], asked: dict[str, int], *, single: bool, overwrite: bool
    ) -> None:
        """Make the dataset of all shards: a view of them, or a copy that stands by itself.

        ``asked`` joins the accuracy of the dataset.

        Raises
        ------
        InputError
            If ``overwrite`` is false and somebody else made a file of its name meanwhile; it then
            stands beside it, under the name that the message gives.
        """
        shards = sorted(shards, key=lambda shard: shard.number)
        accuracy = combine([shard.accuracy for shard in shards]).summary() | asked
        names = self.recipe.parts()
        known = {name: b"".join(shard.digests.get(name, b"") for shard in shards) for name in names}
        place, folder = None, str(self.folder.absolute())
        if not single:
            sizes = [(self.folder / shard_name(s.number)).stat().st_size for s in shards]
            place, folder = (self.folder.name, sizes), self.folder.name
        states: dict[str, Any] = self._view(folder)
        with h5py.File("view", "w", driver="core", backing_store=False) as file:
            if single:  # to copy them
                states = {n: file.create_virtual_dataset(n, view) for n, view in states.items()}
            save(
                self.path,
                self.recipe,
                states,
                accuracy,
                self.plan.conditions,
                overwrite=overwrite,
                known=known,
                shards=place,
            )
        if single:
            remove_shards(self.path)

    def _prepare(self, resume: bool, overwrite: bool) -> bool:
        """Make the folder, or keep what is in it; return whether it has shards to go on with."""
        identities = set()
        for shard in self.folder.glob("*.h5"):
            identities.add(self._identity)  # of one that is damaged, and made again
            with suppress(OSError, KeyError), h5py.File(shard) as file:
                identities.add(file.attrs["identity"])
        if resume and identities == {self._identity}:
            for left in self.folder.glob(".*.part"):  # of a process that was killed
                left.unlink(missing_ok=True)
            return True
        if identities and not overwrite:
            raise InputError(
                f"{self.folder} is what an interrupted generation left, or a part of a dataset: go "
                "on by the same command with --resume (resume=True in Python), or start anew with "
                "--overwrite"
            )
        remove_shards(self.path)
        with suppress(OSError), h5py.File(self.path) as file:
            if "shards" in file.attrs:  # a view of the shards is nothing without them
                self.path.unlink()
        with disk_errors(self.folder):
            self.folder.mkdir()
        return False

    def _view(self, folder: str) -> dict[str, h5py.VirtualLayout]:
        """Return the states of the groups as virtual datasets of HDF5, of shards in a folder."""
        virtual = {}
        for name, (which, times) in self.recipe.parts().items():
            shape = (which.stop - which.start, times.stop - times.start, self.recipe.system.dim)
            virtual[name] = h5py.VirtualLayout(shape, np.float64)
            for number, rows in self.plan:
                parts = group_parts(self.recipe, rows.start, rows.stop - rows.start)
                if name in parts:
                    place = parts[name][2]
                    virtual[name][place] = h5py.VirtualSource(
                        f"{folder}/{shard_name(number)}",
                        f"{name}/state",
                        (place.stop - place.start, *shape[1:]),
                        np.float64,
                    )
        return virtual


def remove_shards(path: Path) -> None:
    """Delete the folder of a file's shards, if there is one."""
    shutil.rmtree(folder_of(path), ignore_errors=True)
