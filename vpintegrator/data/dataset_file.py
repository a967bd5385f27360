"""Datasets as HDF5 files that xarray, netCDF tools and h5py open as they are.

Groups ``train``, ``validation`` and ``test`` each hold ``state (trajectory, time, component)`` in
float64, chunked and checksummed, with ``time`` and ``component`` as dimension scales; the root's
attributes say what was computed, and how, and how well. What varies from trajectory to trajectory
stands beside the states, as ``step (trajectory)`` and ``parameter_NAME (trajectory)``.

The states of a large dataset lie in shards, in a folder beside the file, and the file is a view of
them: a virtual dataset of HDF5. HDF5 gives NaN if a shard is missing, and follows any file names,
so the shards are looked at first: only those in the folder are read.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from vpintegrator.data.variation import STEP
from vpintegrator.dynamics import System
from vpintegrator.dynamics.state_file import write_header, write_states, write_system
from vpintegrator.errors import InputError, printable
from vpintegrator.storage.hdf5 import create_hdf5, write_attributes
from vpintegrator.storage.reading import StoredGroup, check_shape, reading

FORMAT = "vpintegrator-dataset"
COMPLETE = "complete"  # group of the states behind observed ones
FORMAT_VERSION = 2
_PLAIN = 1  # version of files in which nothing varies
# of each group: states, times, numbers of trajectories, and what varies
Groups = Mapping[str, tuple[Any, np.ndarray, int | np.ndarray, np.ndarray]]


def write_dataset(
    path: str | os.PathLike[str],
    overwrite: bool,
    system: System,
    step: float,
    attributes: Mapping[str, Any],
    groups: Groups,
    varied: Mapping[str, tuple[float, float]],
    *,
    known: Mapping[str, bytes] | None = None,
    shards: tuple[str, Sequence[int]] | None = None,
    complete: tuple[System, Groups, Mapping[str, tuple[float, float]]] | None = None,
) -> None:
    """Write trajectories with all that made them.

    Parameters
    ----------
    path, overwrite
        The file, and whether one of that name may be replaced.
    system, step, attributes
        System, step, and further attributes of the root.
    groups
        Of each group: states (trajectory, time, dim), an array, an object on disk to copy, or a
        layout of other files; their times; numbers of the trajectories, or the first; and step and
        parameters that vary, (trajectory, name).
    varied
        Range of each quantity that varies by name; ``step`` comes first if it does.
    known
        Digests of the trajectories of each group, see :func:`digests`, if known.
    shards
        Name of the folder beside the file that holds the states, and the size of each file in it.
    complete
        Of observed states: the system behind them, its states as ``groups``, and what varies. They
        stand in a group of their own.

    Raises
    ------
    InputError
        If the file exists and ``overwrite`` is false, or cannot be written.
    """
    if known is None:
        known = {name: digests(states) for name, (states, *_) in groups.items()}
    with create_hdf5(path, overwrite) as f:
        version = FORMAT_VERSION if varied else _PLAIN
        write_header(f, FORMAT, version, system, step)
        write_attributes(f, attributes)
        values = {name: conditions for name, (*_, conditions) in groups.items() if varied}
        write_attributes(f, {"fingerprint": fingerprint(known, step, values)})
        if varied:
            write_attributes(f, {"varied": json.dumps(varied)})
        _write_groups(f, groups, system, list(varied))
        if complete is not None:
            system, groups, varied = complete
            root = f.create_group(COMPLETE, track_order=True)
            write_system(root, system)
            write_attributes(root, {"varied": json.dumps(varied)})
            _write_groups(root, groups, system, list(varied))
        if shards is not None:
            folder, sizes = shards
            write_attributes(f, {"shards": folder})
            numbers = np.arange(len(sizes), dtype=np.int64)
            scale = _write_column(f, "shard", numbers, "number of the file in the folder of shards")
            scale.make_scale("shard")
            lengths = np.array(sizes, np.int64)
            column = _write_column(f, "shard_size", lengths, "its size in bytes")
            column.dims[0].attach_scale(scale)


def _write_groups(
    parent: h5py.Group, groups: Groups, system: System, varied: Sequence[str]
) -> None:
    for name, (states, times, numbers, conditions) in groups.items():
        group = parent.create_group(name, track_order=True)
        write_states(group, states, times, system, numbers)
        if varied:
            _write_conditions(group, varied, conditions)


def fingerprint(known: Mapping[str, bytes], step: float, values: Mapping[str, np.ndarray]) -> str:
    """Return the hash of the step and of all states, from the digests of their trajectories.

    It is the same on every machine for the same numbers. Of a family it includes the ``values`` of
    step and parameters of each group, (trajectory, name).
    """
    whole = hashlib.sha256(np.float64(step).astype("<f8").tobytes())
    for name in sorted(known):
        whole.update(name.encode() + known[name])
        if values:
            whole.update(hashlib.sha256(_bytes(values[name])).digest())
    return whole.hexdigest()


def digests(states: np.ndarray) -> bytes:
    """SHA-256 of each trajectory, 32 bytes each, so that those of parts can be put together."""
    return b"".join(hashlib.sha256(_bytes(row)).digest() for row in states)


def _bytes(values: np.ndarray) -> memoryview:
    return np.ascontiguousarray(values, dtype="<f8").data


def condition_variable(name: str) -> str:
    """Return the variable name of the step or of a parameter: ``step``, ``parameter_I1``."""
    return name if name == STEP else f"parameter_{name}"


def _write_conditions(group: h5py.Group, names: Sequence[str], values: np.ndarray) -> None:
    """A variable of the trajectories for each thing that varies, named as coordinates of states."""
    variables = [condition_variable(name) for name in names]
    for name, variable, column in zip(names, variables, values.T, strict=True):
        words = f"parameter {printable(name)} of the trajectory"
        title = "time between two states of the trajectory" if name == STEP else words
        dataset = _write_column(group, variable, np.asarray(column, dtype=np.float64), title)
        write_attributes(dataset, {"units": "1"})
        dataset.dims[0].attach_scale(group["trajectory"])
    write_attributes(group["state"], {"coordinates": " ".join(variables)})
    if STEP in names:
        title = "number of steps: the time is so many times the step"
        write_attributes(group["time"], {"long_name": title, "units": "1"})


def _write_column(group: h5py.Group, name: str, values: np.ndarray, title: str) -> h5py.Dataset:
    dataset = group.create_dataset(name, data=values)
    write_attributes(dataset, {"long_name": title})
    return dataset


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
        is_view = all(
            pattern.fullmatch(s.file_name) and s.dset_name == f"{group}/state" for s in sources
        )
        if not is_view or (state.shape[0] and not sources):
            raise InputError(f"{where} is not a view of the shards in {folder.name}")
        return state
