"""Files of a large dataset: shards in a folder, and a file that is a view of them.

The view is a virtual dataset of HDF5. HDF5 gives NaN if a shard is missing, and follows any file
names, so the shards are looked at first: only those in the folder beside the file are read.
"""

from __future__ import annotations

import re
from pathlib import Path

import h5py

from vpintegrator.errors import InputError
from vpintegrator.storage.reading import StoredGroup, check_shape, reading


def folder_of(path: Path) -> Path:
    """Return the folder of shards that belongs to a file."""
    return path.with_name(f"{path.name}.shards")


def shard_name(number: int) -> str:
    """Return the name of a file in the folder of shards."""
    return f"{number:06d}.h5"


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
    sizes = root.array("shard_size", (None,), "i")
    for number, size in enumerate(sizes):
        shard = path.parent / name / shard_name(number)
        if not shard.is_file() or shard.stat().st_size != size:
            raise InputError(
                f"{path} is only a view of the {len(sizes)} files in {shard.parent}, but "
                f"{shard.name} is missing or damaged there: keep the folder beside the file under "
                f"its own name, or make what is missing again: vp-gen ... -o {path} --resume"
            )
    return path.parent / name


def state_of(root: StoredGroup, group: str, folder: Path | None) -> h5py.Dataset:
    """Return the states (trajectory, time, dim) of a group, in the file or in a folder of shards.

    Raises
    ------
    InputError
        If they lie elsewhere.
    """
    if folder is None:
        return root.group(group).dataset("state", (None, None, None))
    where = f"{root}, {group}/state"
    with reading(where):
        state = root.group(group).raw["state"]
        check_shape(state, (None, None, None), where)
        pattern = re.compile(re.escape(f"{folder.name}/") + r"\d{6,}\.h5")
        sources = state.virtual_sources() if state.is_virtual else []
        own = all(
            pattern.fullmatch(s.file_name) and s.dset_name == f"{group}/state" for s in sources
        )
        if not own or (state.shape[0] and not sources):
            raise InputError(f"{where} is not a view of the shards in {folder.name}")
        return state
