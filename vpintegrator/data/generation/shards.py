"""Folder of shards beside a dataset: reuse of complete shards, and assembly of the dataset.

rigid-body.h5                   the dataset: a view of the shards, or a copy of all of them
rigid-body.h5.shards/
    dataset.json                what the numbers depend on: recipe, system, plan, versions
    000000.h5 ...               the shards, each renamed to this name when it is complete
"""

from __future__ import annotations

import contextlib
import hashlib
import shutil
from collections.abc import Sequence
from contextlib import ExitStack, closing
from functools import partial
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from vpintegrator.data.dataset_file import save_dataset
from vpintegrator.data.generation.accuracy import combine
from vpintegrator.data.generation.plan import Plan
from vpintegrator.data.generation.shard import Shard, group_parts
from vpintegrator.data.recipe import Recipe
from vpintegrator.data.view import SHARD_FORMAT, ShardLayout, View, shard_name
from vpintegrator.runtime.workers import versions
from vpintegrator.storage.files import check_space, publish
from vpintegrator.storage.shard_folder import ShardFolder, disk_full, remove_shards


class Shards(ShardFolder):
    """The folder of one dataset.

    Parameters
    ----------
    path
        The dataset's file.
    recipe, plan
        Recipe and plan of the dataset.
    """

    def __init__(self, path: Path, recipe: Recipe, plan: Plan) -> None:
        self.recipe, self.plan = recipe, plan
        depends: dict[str, Any] = {
            "format": SHARD_FORMAT,
            "recipe": recipe.text,
            "system": recipe.system.text,
            "initial": hashlib.sha256(plan.initial.tobytes()).hexdigest(),
            "rows": plan.rows,
            **versions(),
        }
        if recipe.vary is not None:
            conditions = hashlib.sha256(plan.conditions.tobytes()).hexdigest()
            depends["conditions"] = conditions
        super().__init__(path, "dataset", "generation", depends)

    def replace(self) -> None:
        """A view of the shards is nothing without them."""
        if _is_view(self.path):
            self.path.unlink()

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
        self.complete = True
        try:
            publish(new, self.path, overwrite)
        finally:
            if single and not new.exists():
                remove_shards(self.path)

    @property
    def _bytes(self) -> int:
        return 8 * self.recipe.system.dim * (self.recipe.steps + 1) * len(self.plan.initial)

    def _layouts(self) -> dict[str, ShardLayout]:
        """Return the layout of each group's states."""
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
        """Return the layouts of the groups as virtual datasets of HDF5."""
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


def _is_view(path: Path) -> bool:
    """Whether a file's states lie in shards."""
    with contextlib.suppress(OSError, RuntimeError), h5py.File(path) as f:
        return "shards" in f.attrs
    return False
