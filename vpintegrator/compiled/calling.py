"""Calls of a library from Python: NumPy arrays by address, and parts of them in parallel."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import TypeVar

import numpy as np

S = TypeVar("S")
T = TypeVar("T")

_LINE = 64  # bytes
_PARTS = 4  # for each thread, so that none waits long for one whose core is busy with else
REALS = {np.dtype(np.float64): "double", np.dtype(np.float32): "float"}


def pointer(array: np.ndarray) -> ctypes.c_void_p:
    """Return the address of an array, which must outlive the call."""
    return ctypes.c_void_p(array.ctypes.data)


def aligned(count: int, dtype: type) -> np.ndarray:
    """Return an empty array that begins where a line of the cache does."""
    size = np.dtype(dtype).itemsize
    space: np.ndarray = np.empty(count + _LINE // size, dtype)
    first = -space.ctypes.data % _LINE // size
    return space[first : first + count]


def parts_of(count: int, lanes: int, parts: int) -> list[slice]:
    """At most so many parts of some trajectories, each but the last a multiple of the lanes."""
    blocks = -(-count // lanes)
    parts = max(min(parts, blocks), 1)
    edges = [k * blocks // parts * lanes for k in range(parts)]
    return [slice(*ends) for ends in pairwise([*edges, count])]


def shared(work: Callable[[slice], None], count: int, lanes: int, threads: int) -> None:
    """Some work on all of so many trajectories, shared among threads in parts of whole lanes."""
    parts = _PARTS * threads if threads > 1 else 1
    in_threads(work, parts_of(count, lanes, parts), threads)


def in_threads(work: Callable[[S], T], parts: Iterable[S], threads: int) -> list[T]:
    """Return the results of ``work`` for each part, computed in threads."""
    if threads < 2:
        return list(map(work, parts))
    with ThreadPoolExecutor(threads) as pool:
        return list(pool.map(work, parts))
