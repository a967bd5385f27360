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

from vpintegrator.data.dataset_file import digests, folder_of, shard_name, write_dataset
from vpintegrator.data.generation.plan import Accuracy, ShardPlan, combine, measure_accuracy
from vpintegrator.dynamics.state_file import versions, write_states
from vpintegrator.errors import InputError, printable
from vpintegrator.storage.files import disk_errors, locked
from vpintegrator.storage.hdf5 import create_hdf5, write_attributes
from vpintegrator.storage.reading import StoredGroup

FORMAT = "vpintegrator-shard-1"


@dataclass(frozen=True)
class Task:
    """Data from which a worker computes one shard.

    Attributes
    ----------
    plan
        Plan of the trajectories of this shard alone.
    path
        The file to write.
    number
        Number of the shard.
    identity
        Hash of everything that determines the states; a shard of another identity is not used.
    reuse
        Whether to keep a complete shard that already exists.
    """

    plan: ShardPlan
    path: Path
    number: int
    identity: str
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


def make_shard(task: Task, progress: Callable[[int], None] | None = None) -> Shard:
    """Integrate, measure and write the trajectories of one shard, if it is not there already.

    Raises
    ------
    InputError
        If a solution does not reach the last time.
    OSError
        If the file cannot be written.
    """
    plan = task.plan
    recipe = task.plan.recipe
    count = len(task.plan.initial)
    # a file that is there may be damaged: its checksums tell
    damage = OSError, KeyError, ValueError, TypeError, RuntimeError
    with suppress(*damage), h5py.File(task.path) as f:
        root = StoredGroup(f, task.path)
        same = (root.text("identity"), root.whole("number")) == (task.identity, task.number)
        if same and task.reuse:
            known = {name: digests(f[name]["state"][...]) for name in plan.groups()}
            accuracy = Accuracy(**root.json("accuracy"))
            return Shard(task.number, count, known, accuracy, reused=True)
    states = plan.integrate(progress)
    known = {}
    accuracy = measure_accuracy(plan, states)
    with create_hdf5(task.path, overwrite=True) as f:
        for name, (rows, part, _) in plan.groups().items():
            group = f.create_group(name, track_order=True)
            first = plan.first + rows.start
            write_states(group, states[rows, part], recipe.times[part], recipe.system, first)
            known[name] = digests(states[rows, part])
        texts = {"format": FORMAT, "identity": task.identity}
        texts["accuracy"] = json.dumps(dataclasses.asdict(accuracy))
        write_attributes(f, {**texts, "number": task.number})
    return Shard(task.number, count, known, accuracy, reused=False)


def save(
    path: Path,
    plan: ShardPlan,
    states: Mapping[str, np.ndarray | h5py.Dataset | h5py.VirtualLayout],
    accuracy: Mapping[str, Any],
    *,
    overwrite: bool,
    known: Mapping[str, bytes] | None = None,
    shards: tuple[str, Sequence[int]] | None = None,
) -> None:
    """Write the states (trajectory, time, dim) of each group, see :func:`write_dataset`."""
    recipe = plan.recipe
    attributes = {
        "title": printable(recipe.title or recipe.system.title),
        "recipe": recipe.text,
        "seed": recipe.seed,
        **{{"method": "solver"}.get(key, key): entry for key, entry in recipe.solver.items()},
        "accuracy": json.dumps(accuracy),
    }
    groups = {
        name: (states[name], recipe.times[part], which.start, plan.conditions[which])
        for name, (which, part) in recipe.parts().items()
    }
    write_dataset(
        path,
        overwrite,
        recipe.system,
        recipe.step,
        attributes,
        groups,
        recipe.vary.bounds,
        known=known,
        shards=shards,
    )


class Shards:
    """The folder of the shards of one dataset.

    Parameters
    ----------
    path
        The dataset's file.
    plan
        Plan of the dataset.
    """

    def __init__(self, path: Path, plan: ShardPlan) -> None:
        self.path = path
        self.folder = folder_of(path)
        self.plan = plan
        identity = hashlib.sha256(plan.initial.tobytes() + plan.conditions.tobytes())
        parts = (plan.recipe.text, plan.recipe.system.text, str(plan.rows), versions())
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
        for number, part in enumerate(self.plan):
            yield Task(part, folder / shard_name(number), number, self._identity, reuse)

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
        names = self.plan.recipe.parts()
        known = {name: b"".join(shard.digests.get(name, b"") for shard in shards) for name in names}
        options: dict[str, Any] = {"overwrite": overwrite, "known": known}
        if not single:
            sizes = [(self.folder / shard_name(s.number)).stat().st_size for s in shards]
            view = self._view(self.folder.name)
            name = self.folder.name
            save(self.path, self.plan, view, accuracy, shards=(name, sizes), **options)
            return
        with h5py.File("view", "w", driver="core", backing_store=False) as file:  # to copy them
            view = self._view(str(self.folder.absolute()))
            states = {name: file.create_virtual_dataset(name, of) for name, of in view.items()}
            save(self.path, self.plan, states, accuracy, **options)
        remove_shards(self.path)

    def _prepare(self, resume: bool, overwrite: bool) -> bool:
        """Make the folder, or keep what is in it; return whether it has shards to go on with."""
        identities = set()
        for shard in self.folder.glob("*.h5"):
            identities.add(self._identity)  # of one that is damaged, and made again
            with suppress(OSError, InputError), h5py.File(shard) as file:
                identities.add(StoredGroup(file, shard).text("identity"))
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
        for name, (which, times) in self.plan.recipe.parts().items():
            shape = which.stop - which.start, times.stop - times.start, self.plan.initial.shape[1]
            virtual[name] = h5py.VirtualLayout(shape, np.float64)
        for number, part in enumerate(self.plan):
            for name, (_, _, place) in part.groups().items():
                shape = (place.stop - place.start, *virtual[name].shape[1:])
                source = f"{folder}/{shard_name(number)}"
                virtual[name][place] = h5py.VirtualSource(source, f"{name}/state", shape, "f8")
        return virtual


def remove_shards(path: Path) -> None:
    """Delete the folder of a file's shards, if there is one."""
    shutil.rmtree(folder_of(path), ignore_errors=True)
