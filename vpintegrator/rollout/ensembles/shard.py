"""Shard of an ensemble: statistics of consecutive trajectories, computed in any process."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from vpintegrator.rollout.ensembles.mover import IN_A_CACHE, Move, Mover
from vpintegrator.rollout.ensembles.plan import EnsemblePlan
from vpintegrator.rollout.ensembles.statistics import Counts, Statistics
from vpintegrator.runtime.workers import require_versions
from vpintegrator.storage.shard_folder import read_shard, write_shard

FORMAT = "vpintegrator-ensemble-shard-2"
_STATES = 2**24  # states in a shard, about a second or a few of a fast map
_LEAST, _MOST = 256, 65_536  # trajectories of one
_PART = 32  # steps at a time
_ARRAYS = ("density", "left", "left_domain", "rotation", "change")


@dataclass(frozen=True)
class EnsembleTask:
    """Input for the computation of one shard.

    Attributes
    ----------
    mover, plan
        Mover of the states, and settings of the statistics.
    initial
        Initial states, (trajectory, dim).
    path
        The file to write.
    identity
        Hash of all values that the numbers depend on.
    number
        Number of the shard.
    versions
        Versions of the packages that compute.
    reuse
        Whether to keep a complete shard that exists already.
    """

    mover: Mover
    plan: EnsemblePlan
    initial: np.ndarray
    path: Path
    identity: str
    number: int
    versions: dict[str, str]
    reuse: bool


@dataclass(frozen=True)
class EnsembleShard:
    """Record of a finished shard: number, trajectories, and whether the shard existed before."""

    number: int
    trajectories: int
    reused: bool


def rows_of(steps: int) -> int:
    """Return the number of trajectories in a shard, by the number of steps alone."""
    return int(np.clip(_STATES // (steps + 1), _LEAST, _MOST))


def make_shard(task: EnsembleTask, progress: Callable[[int], None] | None = None) -> EnsembleShard:
    """Move the states of one shard and write their statistics, if they are not there already.

    Raises
    ------
    OSError
        If the file cannot be written, or this machine has other versions.
    """
    require_versions(task.versions)
    if task.reuse and read_counts(task.path, task.identity, task.number) is not None:
        return EnsembleShard(task.number, len(task.initial), reused=True)
    move, block = task.mover.move(), task.mover.block
    counts = follow(task.plan, move, task.initial, progress, block)
    with write_shard(task.path, FORMAT, task.identity, task.number) as f:
        f.attrs["off"] = counts.off
        f.create_dataset("density", data=counts.density, compression="gzip", compression_opts=1)
        for name in _ARRAYS[1:]:
            if (values := getattr(counts, name)) is not None:
                f.create_dataset(name, data=values)
        f.attrs["digest"] = _digest(counts)
    return EnsembleShard(task.number, len(task.initial), reused=False)


def read_counts(path: Path, identity: str, number: int) -> Counts | None:
    """Return a stored shard; None if it is missing, damaged or of another task."""

    def read(file: h5py.File) -> Counts | None:
        values: dict[str, Any] = {n: file[n][...] if n in file else None for n in _ARRAYS}
        counts = Counts(off=int(file.attrs["off"]), **values)
        return counts if file.attrs["digest"] == _digest(counts) else None

    return read_shard(path, FORMAT, identity, number, read)


def follow(
    plan: EnsemblePlan,
    move: Move,
    initial: np.ndarray,
    progress: Callable[[int], None] | None = None,
    block: int = IN_A_CACHE,
) -> Counts:
    """Return statistics of trajectories from initial states (trajectory, dim).

    Trajectories that leave are followed to the end of the current part only. A block of
    trajectories is moved at a time.
    """
    statistics = Statistics(plan, len(initial))
    states = initial.copy()
    for which in _blocks(np.arange(len(states))):
        statistics.add(which, states[which, None], 0)
    for done in range(1, plan.steps + 1, _PART):
        count = min(_PART, plan.steps + 1 - done)
        staying = np.flatnonzero(statistics.left < 0)
        for moved in _blocks(staying, block):
            made = move(states[moved], count)
            states[moved] = made[:, -1]
            for first in range(0, len(moved), IN_A_CACHE):
                part = slice(first, first + IN_A_CACHE)
                statistics.add(moved[part], made[part], done)
            if progress:
                progress(len(moved) * count)
        if progress and len(staying) < len(states):
            progress((len(states) - len(staying)) * count)
    return statistics.counts


def _blocks(which: np.ndarray, size: int = IN_A_CACHE) -> Iterator[np.ndarray]:
    for first in range(0, len(which), size):
        yield which[first : first + size]


def _digest(counts: Counts) -> str:
    found = hashlib.sha256(str(counts.off).encode())
    for name in _ARRAYS:
        if (values := getattr(counts, name)) is not None:
            found.update(name.encode())
            found.update(np.ascontiguousarray(values).tobytes())
    return found.hexdigest()
