"""The folder of shards beside a dataset: what is there already, and how it becomes one dataset.

rigid-body.h5                   the dataset: a view of the shards, or a copy of all of them
rigid-body.h5.shards/
    dataset.json                what the numbers depend on: recipe, system, plan, versions
    000000.h5 ...               the shards, each renamed to this name when it is complete
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import shutil
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from vpintegrator.claim import claim_folder
from vpintegrator.data.dataset_file import save_dataset
from vpintegrator.data.generation.accuracy import combine
from vpintegrator.data.generation.plan import Plan
from vpintegrator.data.generation.shard import Shard, disk_full, group_parts, versions
from vpintegrator.data.recipe import Recipe
from vpintegrator.data.view import SHARD_FORMAT, ShardLayout, View, shard_name
from vpintegrator.errors import InputError
from vpintegrator.files import check_space, disk_errors, publish, replacing

_IDENTITY = "dataset.json"


class Shards:
    """The folder of one dataset.

    Parameters
    ----------
    path
        The dataset's file.
    recipe, plan
        What it will hold.

    Attributes
    ----------
    folder
        ``path`` with ``.shards`` at its end.
    identity
        Hash of all that the numbers depend on.
    """

    def __init__(self, path: Path, recipe: Recipe, plan: Plan) -> None:
        self.path, self.recipe, self.plan = path, recipe, plan
        self.folder = folder_of(path)
        self._bound = False
        self._identity: dict[str, Any] = {
            "format": SHARD_FORMAT,
            "recipe": recipe.text,
            "system": recipe.system.text,
            "initial": hashlib.sha256(plan.initial.tobytes()).hexdigest(),
            "rows": plan.rows,
            **versions(),
        }
        if recipe.vary is not None:
            conditions = hashlib.sha256(plan.conditions.tobytes()).hexdigest()
            self._identity["conditions"] = conditions
        self.identity = hashlib.sha256(json.dumps(self._identity).encode()).hexdigest()

    @contextmanager
    def open(self, resume: bool, overwrite: bool) -> Iterator[None]:
        """Make the folder or take over what is in it, and keep others from writing to it.

        Afterwards it is gone if it holds nothing of use.

        Raises
        ------
        InputError
            If it holds shards and ``resume`` is false, or those of another dataset, or somebody
            else writes to it.
        """
        with disk_errors(self.folder):
            self.folder.mkdir(exist_ok=True)
        with claim_folder(self.folder, "another process is generating into"):
            found = self._prepare(resume, overwrite)
            try:
                yield
            except InputError:
                if not found and not self._bound:
                    remove_shards(self.path)  # no dataset can come of them
                raise
            finally:
                if not self._finished():
                    remove_shards(self.path)

    def _prepare(self, resume: bool, overwrite: bool) -> bool:
        """Whether there are shards to go on with."""
        found = self._finished()
        difference = self._difference() if found else None
        if found and overwrite and (difference or not resume):
            if _is_view(self.path):
                self.path.unlink()  # it is nothing without them
        elif found and not resume:
            raise InputError(
                f"{self.folder} is what an interrupted generation left, or a part of a dataset: go "
                "on with it by --resume (resume=True in Python), or start anew with --overwrite"
            )
        elif found and difference:
            raise InputError(
                f"{self.folder} belongs to another dataset ({difference}): repeat the command that "
                "was interrupted, or start anew with --overwrite"
            )
        elif found:
            for left in self.folder.glob(".*.part"):
                left.unlink(missing_ok=True)
            return True
        for left in self.folder.iterdir():
            left.unlink(missing_ok=True)
        with replacing(self.folder / _IDENTITY) as temporary:
            temporary.write_text(json.dumps(self._identity, indent=1), encoding="utf-8")
        return False

    def _finished(self) -> bool:
        return any(self.folder.glob("*.h5"))

    def check_space(self, copies: int) -> None:
        """Say before the work that it will not fit on the disk, and that ``copies`` are made.

        Raises
        ------
        InputError
            If it will not.
        """
        there = sum(file.stat().st_size for file in self.folder.glob("*.h5"))
        check_space(self.path, copies * self._bytes - there)

    def bind(
        self, shards: Sequence[Shard], noise: np.ndarray, *, single: bool, overwrite: bool
    ) -> None:
        """Make the dataset of all shards: a view of them, or a copy that stands by itself.

        Raises
        ------
        InputError
            If ``overwrite`` is false and somebody else made a file of its name meanwhile; it then
            stands beside it, under the name that the message gives.
        """
        shards = sorted(shards, key=lambda shard: shard.number)
        accuracy = combine([shard.accuracy for shard in shards]).summary()
        names = self.recipe.parts()
        known = {name: b"".join(shard.digests.get(name, b"") for shard in shards) for name in names}
        needed = self._bytes if single else 16 * len(self.plan.initial)  # besides what is small
        if shutil.disk_usage(self.folder).free < needed + 2**20:
            raise disk_full(self.folder)
        # made in the folder, where what a kill leaves is found and deleted
        new = self.folder / ".dataset.part"
        save = partial(
            save_dataset,
            new,
            self.recipe,
            accuracy=accuracy,
            noise=noise,
            overwrite=True,
            conditions=self.plan.conditions,
            known_digests=known,
        )
        if single:
            with ExitStack() as stack:
                views = {name: View(layout) for name, layout in self._layouts().items()}
                for view in views.values():
                    stack.enter_context(closing(view))
                save(views)
        else:
            sizes = [(self.folder / shard_name(s.number)).stat().st_size for s in shards]
            save(self._virtual_layouts(), shards=(self.folder.name, sizes))
        self._bound = True
        try:
            publish(new, self.path, overwrite)
        finally:
            if single and not new.exists():
                remove_shards(self.path)

    @property
    def _bytes(self) -> int:
        return 8 * self.recipe.system.dim * (self.recipe.steps + 1) * len(self.plan.initial)

    def _layouts(self) -> dict[str, ShardLayout]:
        """Where each group's states lie."""
        layouts = {}
        for name, (which, times) in self.recipe.parts().items():
            numbers, ends = [], []
            for number, rows in self.plan:
                parts = group_parts(self.recipe, rows.start, rows.stop - rows.start)
                if name in parts:
                    numbers.append(number)
                    ends.append(parts[name][2].stop)
            shape = (which.stop - which.start, times.stop - times.start, self.recipe.system.dim)
            layouts[name] = ShardLayout(
                self.path, self.folder, name, shape, np.array(numbers, int), np.array(ends, int)
            )
        return layouts

    def _virtual_layouts(self) -> dict[str, h5py.VirtualLayout]:
        """The same for HDF5."""
        virtual = {}
        for name, layout in self._layouts().items():
            virtual[name] = h5py.VirtualLayout(layout.shape, np.float64)
            start = 0
            for number, end in zip(layout.numbers.tolist(), layout.ends.tolist(), strict=True):
                virtual[name][start:end] = h5py.VirtualSource(
                    f"{self.folder.name}/{shard_name(number)}",
                    f"{name}/state",
                    (end - start, *layout.shape[1:]),
                    np.float64,
                )
                start = end
        return virtual

    def _difference(self) -> str | None:
        """What tells the folder's dataset from this one; None where nothing does."""
        try:
            saved = json.loads((self.folder / _IDENTITY).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return f"{_IDENTITY} is missing or damaged"
        if not isinstance(saved, dict):
            return f"{_IDENTITY} is damaged"
        for key, value in self._identity.items():
            if saved.get(key) != value:
                if key in versions():
                    return f"it was begun with {key} {saved.get(key)}, and this is {value}"
                return f"{key} differs"
        return None


def folder_of(path: Path) -> Path:
    """The folder of shards that belongs to a dataset's file."""
    return path.with_name(f"{path.name}.shards")


def remove_shards(path: Path) -> None:
    """Delete the folder of shards, if there is one."""
    shutil.rmtree(folder_of(path), ignore_errors=True)


def _is_view(path: Path) -> bool:
    """Whether a file's states lie in shards."""
    with contextlib.suppress(OSError, RuntimeError), h5py.File(path) as f:
        return "shards" in f.attrs
    return False
