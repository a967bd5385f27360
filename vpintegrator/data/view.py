"""States of a large dataset, stored in shards beside the file.

HDF5 could read the states through the file, a virtual dataset. But HDF5 gives NaN if a shard is
missing, and follows any file names in the dataset. States are therefore read from the shards
directly: only from the folder beside the file, and only from files that are shards.
"""

from __future__ import annotations

import math
import re
from collections import OrderedDict
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from vpintegrator.errors import InputError
from vpintegrator.storage.reading import Guarded, StoredGroup, check_shape, open_any, reading

SHARD_FORMAT = "vpintegrator-shard-1"
_OPEN = 32  # shards kept open at a time


def shard_name(number: int) -> str:
    """Return the name of a file in the folder of shards."""
    return f"{number:06d}.h5"


@dataclass(frozen=True)
class ShardLayout:
    """Distribution of the trajectories of a group over shards.

    Attributes
    ----------
    path
        Path of the dataset.
    folder
        Folder of the shards.
    group
        Name of the group.
    shape
        Shape (trajectory, time, dim) of the group.
    numbers
        Numbers of the shards with trajectories of the group, in order.
    ends
        Cumulative number of trajectories after each of these shards.
    """

    path: Path
    folder: Path
    group: str
    shape: tuple[int, ...]
    numbers: np.ndarray
    ends: np.ndarray


def find_shards(path: Path, root: StoredGroup) -> Path | None:
    """Return the folder of a dataset's shards, or None if the file holds its states itself.

    Raises
    ------
    InputError
        If the folder's name is not a plain one, or a shard is missing or of another size.
    """
    if not root.has("shards"):
        return None
    name = root.text("shards")
    if not name or name != Path(name).name or name in (".", "..") or "\\" in name:
        raise InputError(
            f"{path}: the folder of its shards, {name!r}, is not a plain name; shards are read "
            "only from beside the file"
        )
    folder = path.parent / name
    sizes = root.array("shard_size", (None,), "i")
    for number, size in enumerate(sizes):
        shard = folder / shard_name(number)
        try:
            whole = shard.stat().st_size == size
        except (OSError, ValueError):
            whole = False
        if not whole:
            raise _lost(path, folder, shard_name(number), len(sizes))
    return folder


def read_layout(path: Path, root: StoredGroup, group: str, folder: Path) -> ShardLayout:
    """Read the layout of a group's states from the virtual dataset of the file.

    Raises
    ------
    InputError
        If the virtual dataset does not consist of whole shards of the folder in order.
    """
    where = f"{path}, {group}/state"
    with reading(where):
        state = root.group(group).raw["state"]
        if not isinstance(state, h5py.Dataset):
            raise InputError(f"{where} is not a dataset")
        check_shape(state, (None, None, None), where)
        if state.shape[0] and not state.is_virtual:
            raise InputError(f"{where} is not a view of the shards in {folder.name}")
        pattern = re.compile(re.escape(f"{folder.name}/") + r"(\d{6,})\.h5")
        numbers: list[int] = []
        ends: list[int] = []
        shape = state.shape
        for source in state.virtual_sources() if state.is_virtual else ():
            low, high = source.vspace.get_select_bounds()
            whole = (*low[1:], *high[1:]) == (0, 0, shape[1] - 1, shape[2] - 1)
            size = (high[0] - low[0] + 1) * shape[1] * shape[2]
            name = pattern.fullmatch(source.file_name)
            if (
                name is None
                or source.dset_name != f"{group}/state"
                or not whole
                or source.vspace.get_select_npoints() != size
                or low[0] != (ends[-1] if ends else 0)
            ):
                raise InputError(f"{where} is not a view of the shards in {folder.name}")
            numbers.append(int(name[1]))
            ends.append(int(high[0]) + 1)
        if (ends[-1] if ends else 0) != shape[0]:
            raise InputError(f"{where}: some trajectories are in none of the shards")
    return ShardLayout(path, folder, group, shape, np.array(numbers, int), np.array(ends, int))


class View:
    """States (trajectory, time, dim) in shards, indexed like ``h5py.Dataset`` by [rows, times].

    Raises
    ------
    InputError
        When reading, if a shard is no longer there or is damaged.
    """

    chunks = None

    def __init__(self, layout: ShardLayout) -> None:
        self._layout, self.shape = layout, layout.shape
        self.size = math.prod(layout.shape)
        self._open: OrderedDict[int, tuple[ExitStack, Guarded]] = OrderedDict()

    def __getitem__(self, key: Any) -> np.ndarray:
        rows, times = key if isinstance(key, tuple) else (key, slice(None))
        chosen = np.arange(self.shape[0])[rows]
        span = np.arange(self.shape[1])[times]
        index = np.atleast_1d(chosen)
        which = np.searchsorted(self._layout.ends, index, side="right")
        result = np.empty((len(index), *span.shape, self.shape[2]))
        for shard in np.unique(which):
            mine = np.flatnonzero(which == shard)
            state, start = self._shard(int(shard))
            local = index[mine] - start
            first = int(local.min())
            with reading(
                f"{self._layout.folder / self._name(int(shard))}", (OSError, RuntimeError)
            ):
                values = state[first : int(local.max()) + 1, times]
            result[mine] = values[local - first]
        return result if np.ndim(chosen) else result[0]

    def __len__(self) -> int:
        return self.shape[0]

    def close(self) -> None:
        """Close all shards."""
        while self._open:
            self._open.popitem()[1][0].close()

    def _name(self, shard: int) -> str:
        return shard_name(int(self._layout.numbers[shard]))

    def _shard(self, shard: int) -> tuple[Guarded, int]:
        """Return ``state`` of a shard, and the first of its trajectories in the group."""
        layout = self._layout
        start = int(layout.ends[shard - 1]) if shard else 0
        if shard in self._open:
            self._open.move_to_end(shard)
            return self._open[shard][1], start
        path = layout.folder / self._name(shard)
        if not path.is_file():
            raise _lost(layout.path, layout.folder, path.name, len(layout.ends))
        with ExitStack() as stack:
            root = StoredGroup(stack.enter_context(open_any(path, "a shard")), path)
            if root.text("format", None) != SHARD_FORMAT:
                raise InputError(f"{path} is not a shard of a dataset")
            shape = (int(layout.ends[shard]) - start, *layout.shape[1:])
            state = Guarded(root.group(layout.group).dataset("state", shape), str(path))
            self._open[shard] = stack.pop_all(), state
        while len(self._open) > _OPEN:
            self._open.popitem(last=False)[1][0].close()
        return state, start


def _lost(path: Path, folder: Path, name: str, count: int) -> InputError:
    return InputError(
        f"{path} is only a view of the {count} files in {folder}, but {name} is missing or damaged "
        "there: keep the folder beside the file under its own name, or make what is missing again: "
        f"vp-gen ... -o {path} --resume"
    )
