"""Operations of PyTorch that move elements without computing anything, on arrays of any kind.

PyTorch takes others apart into these.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

# operations whose tensors of integers are indices; elsewhere these are numbers
INDEXED = {"gather", "index", "index_add", "index_put"}


def _expand(a: np.ndarray, size: list[int], **_: Any) -> np.ndarray:
    added = len(size) - a.ndim
    shape = [a.shape[i - added] if n == -1 else n for i, n in enumerate(size)]
    return np.broadcast_to(a, shape)


def _slice(a: np.ndarray, dim: int = 0, start: Any = None, end: Any = None, step: int = 1) -> Any:
    places = [slice(None)] * a.ndim
    places[dim] = slice(start, end, step)
    return a[tuple(places)]


def _select(a: np.ndarray, dim: int, index: int) -> np.ndarray:
    # the dots make one element an array still, which can be written to
    return np.moveaxis(a, dim, 0)[index, ...]


def _places(index: list[Any]) -> tuple[Any, ...]:
    return tuple(slice(None) if part is None else part for part in index)


def _index_put(a: np.ndarray, index: list[Any], values: np.ndarray) -> np.ndarray:
    result = a.copy()
    result[_places(index)] = values
    return result


def _squeeze(a: np.ndarray, dim: Any = None) -> np.ndarray:
    axes = range(a.ndim) if dim is None else [dim] if isinstance(dim, int) else dim
    return np.squeeze(a, tuple(axis for axis in axes if a.shape[axis] == 1))


def _same(a: np.ndarray, *_: Any, **__: Any) -> np.ndarray:
    return a


RESHAPING: dict[str, Callable[..., Any]] = {
    "alias": _same,
    "cat": lambda parts, dim=0: np.concatenate(parts, axis=dim),
    "clone": _same,
    "copy": lambda a, source, *_: np.broadcast_to(source, a.shape),
    "diagonal": lambda a, offset=0, dim1=0, dim2=1: np.diagonal(a, offset, dim1, dim2),
    "expand": _expand,
    "flip": lambda a, dims: np.flip(a, tuple(dims)),
    "gather": lambda a, dim, index, **_: np.take_along_axis(a, index, dim),
    "index": lambda a, index: a[_places(index)],
    "index_put": _index_put,
    "permute": lambda a, dims: np.transpose(a, dims),
    "reshape": np.reshape,
    "select": _select,
    "slice": _slice,
    "split_with_sizes": lambda a, sizes, dim=0: np.split(a, np.cumsum(sizes)[:-1], axis=dim),
    "squeeze": _squeeze,
    "transpose": lambda a, first, second: np.swapaxes(a, first, second),
    "unsqueeze": lambda a, dim: np.expand_dims(a, dim),
    "view": np.reshape,
}
