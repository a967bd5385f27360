"""Operations of PyTorch that move elements without computing anything, on arrays of any kind."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

# operations whose tensors of integers are indices; elsewhere these are numbers
INDEXED = {"gather", "index", "index_add", "index_copy", "index_put", "index_select"}


def _expand(a: np.ndarray, size: list[int], **_: Any) -> np.ndarray:
    added = len(size) - a.ndim
    shape = [a.shape[i - added] if n == -1 else n for i, n in enumerate(size)]
    return np.broadcast_to(a, shape)


def _index_copy(a: np.ndarray, dim: int, index: np.ndarray, source: np.ndarray) -> np.ndarray:
    result, places = a.copy(), [slice(None)] * a.ndim
    places[dim] = index  # type: ignore[call-overload]
    result[tuple(places)] = source
    return result


def _slice(a: np.ndarray, dim: int = 0, start: Any = None, end: Any = None, step: int = 1) -> Any:
    places = [slice(None)] * a.ndim
    places[dim] = slice(start, end, step)
    return a[tuple(places)]


def _scatter(a: np.ndarray, source: np.ndarray, *part: Any, of: Callable[..., Any]) -> np.ndarray:
    """Return a copy of ``a`` with a part of it, as ``of`` gives it, replaced."""
    result = a.copy()
    of(result, *part)[...] = source
    return result


def _select(a: np.ndarray, dim: int, index: int) -> np.ndarray:
    # the dots make one element an array still, which can be written to
    return np.moveaxis(a, dim, 0)[index, ...]


def _split(a: np.ndarray, size: int | list[int], dim: int = 0) -> list[np.ndarray]:
    if isinstance(size, int):
        return np.split(a, range(size, a.shape[dim], size), axis=dim)
    return np.split(a, np.cumsum(size)[:-1], axis=dim)


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
    "_unsafe_view": np.reshape,
    "alias": _same,
    "cat": lambda parts, dim=0: np.concatenate(parts, axis=dim),
    "clone": _same,
    "contiguous": _same,
    "copy": lambda a, source, *_: np.broadcast_to(source, a.shape),
    "diagonal": lambda a, offset=0, dim1=0, dim2=1: np.diagonal(a, offset, dim1, dim2),
    "expand": _expand,
    "flip": lambda a, dims: np.flip(a, tuple(dims)),
    "gather": lambda a, dim, index, **_: np.take_along_axis(a, index, dim),
    "index": lambda a, index: a[_places(index)],
    "index_copy": _index_copy,
    "index_put": _index_put,
    "index_select": lambda a, dim, index: np.take(a, index, axis=dim),
    "permute": lambda a, dims: np.transpose(a, dims),
    "repeat": lambda a, times: np.tile(a, times),
    "reshape": np.reshape,
    "roll": lambda a, shifts, dims=(): np.roll(a, tuple(shifts), tuple(dims) or None),
    "select": _select,
    "select_scatter": functools.partial(_scatter, of=_select),
    "slice": _slice,
    "slice_scatter": functools.partial(_scatter, of=_slice),
    "split": _split,
    "split_with_sizes": _split,
    "squeeze": _squeeze,
    "stack": lambda parts, dim=0: np.stack(parts, axis=dim),
    "t": np.transpose,
    "transpose": lambda a, first, second: np.swapaxes(a, first, second),
    "unbind": lambda a, dim=0: list(np.moveaxis(a, dim, 0)),
    "unsqueeze": lambda a, dim: np.expand_dims(a, dim),
    "view": np.reshape,
}
