"""Operations of PyTorch on arrays of node numbers.

Reshaping, indexing and transposing such arrays costs nothing when the model runs, and a product of
matrices is what it is for numbers.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from vpintegrator.compiled.compiler import NotCompilable
from vpintegrator.compiled.scalar_graph import FUNCTIONS, ScalarGraph

# operations whose tensors of integers are indices; elsewhere these are numbers
INDEXED = {"index", "index_copy", "index_put", "index_select"}


class Operations:
    """What PyTorch's operators do, on arrays (int64) of the numbers of a graph's nodes."""

    def __init__(self, graph: ScalarGraph) -> None:
        self._graph = g = graph
        self._constant = _elementwise(g.constant)
        self._add, self._sub = _elementwise(g.add), _elementwise(g.sub)
        self._mul, self._div = _elementwise(g.mul), _elementwise(g.div)
        self._max, self._neg = _elementwise(g.maximum), _elementwise(g.negative)

    def find(self, name: str) -> Callable[..., Any] | None:
        """What stands for an operator such as ``index_select``, if there is anything."""
        if name in FUNCTIONS:
            return functools.partial(self._apply, name)
        return getattr(self, f"_op_{name}", None) or _SHAPES.get(name)

    def _apply(self, function: str, a: np.ndarray) -> np.ndarray:
        """One of ``FUNCTIONS``."""
        return _elementwise(functools.partial(self._graph.apply, function))(a)

    def constants(self, values: np.ndarray) -> np.ndarray:
        """Nodes for numbers that are known now."""
        return self._constant(values.astype(np.float64))

    def _lift(self, value: Any) -> np.ndarray:
        """Numbers as constants; nodes stay."""
        return value if isinstance(value, np.ndarray) else self.constants(np.asarray(value))

    def _fold(self, operation: Callable[[int, int], int], terms: np.ndarray) -> np.ndarray:
        """Combine nodes along the last axis."""
        rows = terms.reshape(-1, terms.shape[-1]).tolist()
        folded = [functools.reduce(operation, row) for row in rows]
        return np.array(folded, dtype=np.int64).reshape(terms.shape[:-1])

    def _reduce(
        self, operation: Callable[[int, int], int], a: np.ndarray, axes: Any, keep: bool
    ) -> np.ndarray:
        """Combine nodes along axes."""
        chosen = tuple(axis % a.ndim for axis in (axes or range(a.ndim)))
        kept = [axis for axis in range(a.ndim) if axis not in chosen]
        moved = a.transpose(*kept, *chosen).reshape([a.shape[axis] for axis in kept] + [-1])
        result = self._fold(operation, moved)
        return np.expand_dims(result, chosen) if keep else result

    def _op_add(self, a: Any, b: Any, alpha: float = 1) -> np.ndarray:
        return self._add(self._lift(a), self._scaled(b, alpha))

    def _op_sub(self, a: Any, b: Any, alpha: float = 1) -> np.ndarray:
        return self._sub(self._lift(a), self._scaled(b, alpha))

    def _op_rsub(self, a: Any, b: Any, alpha: float = 1) -> np.ndarray:
        return self._sub(self._lift(b), self._scaled(a, alpha))

    def _scaled(self, a: Any, factor: float) -> np.ndarray:
        return self._mul(self._lift(a), self._graph.constant(factor))

    def _op_mul(self, a: Any, b: Any) -> np.ndarray:
        return self._mul(self._lift(a), self._lift(b))

    def _op_div(self, a: Any, b: Any) -> np.ndarray:
        return self._div(self._lift(a), self._lift(b))

    def _op_neg(self, a: np.ndarray) -> np.ndarray:
        return self._neg(a)

    def _op_reciprocal(self, a: np.ndarray) -> np.ndarray:
        return self._div(self._graph.constant(1.0), a)

    def _op_relu(self, a: np.ndarray) -> np.ndarray:
        return self._max(a, self._graph.constant(0.0))

    def _op_sigmoid(self, a: np.ndarray) -> np.ndarray:
        # with tanh there is nothing to overflow
        half = self._graph.constant(0.5)
        return self._add(half, self._mul(half, self._apply("tanh", self._mul(half, a))))

    def _op_softplus(self, a: np.ndarray, beta: float = 1, threshold: float = 20) -> np.ndarray:
        # max(x, 0) + log(1 + exp(-|x|)), equal to rounding also where torch takes x alone
        g = self._graph
        x = self._scaled(a, beta)
        positive = self._max(x, g.constant(0.0))
        size = self._sub(self._mul(g.constant(2.0), positive), x)
        tail = self._apply("log1p", self._apply("exp", self._neg(size)))
        return self._scaled(self._add(positive, tail), 1 / beta)

    def _op_gelu(self, a: np.ndarray, approximate: str = "none") -> np.ndarray:
        if approximate != "none":
            raise NotCompilable("gelu is compiled in its exact form only")
        error = self._apply("erf", self._scaled(a, 0.5**0.5))
        return self._mul(self._scaled(a, 0.5), self._add(error, self._graph.constant(1.0)))

    def _op_mm(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        # exact zeros drop out one by one, so a triangular matrix costs half
        products = self._mul(a[..., :, None, :], np.swapaxes(b, -1, -2)[..., None, :, :])
        return self._fold(self._graph.add, products)

    def _op_bmm(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        return self._op_mm(a, b)

    def _op_mv(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        return self._op_mm(a, b[:, None])[:, 0]

    def _op_dot(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        return self._op_mm(a[None], b[:, None])[0, 0]

    def _op_addmm(
        self, c: np.ndarray, a: np.ndarray, b: np.ndarray, beta: float = 1, alpha: float = 1
    ) -> np.ndarray:
        return self._add(self._scaled(c, beta), self._scaled(self._op_mm(a, b), alpha))

    def _op_sum(self, a: np.ndarray, dim: Any = None, keepdim: bool = False) -> np.ndarray:
        return self._reduce(self._graph.add, a, dim, keepdim)

    def _op_mean(self, a: np.ndarray, dim: Any = None, keepdim: bool = False) -> np.ndarray:
        total = self._op_sum(a, dim, keepdim)
        return self._div(total, self._graph.constant(a.size / total.size))

    def _op__softmax(self, a: np.ndarray, dim: int, half_to_float: bool = False) -> np.ndarray:
        size = self._reduce(self._graph.maximum, a, [dim], True)
        weights = self._apply("exp", self._sub(a, size))
        return self._div(weights, self._op_sum(weights, [dim], True))

    def _op_new_zeros(self, a: np.ndarray, size: list[int], **_: Any) -> np.ndarray:
        return self.constants(np.zeros(size))

    def _op_tril(self, a: np.ndarray, diagonal: int = 0) -> np.ndarray:
        return np.where(np.tril(np.ones(a.shape), diagonal) > 0, a, self._graph.constant(0.0))

    def _op_triu(self, a: np.ndarray, diagonal: int = 0) -> np.ndarray:
        return np.where(np.triu(np.ones(a.shape), diagonal) > 0, a, self._graph.constant(0.0))

    def _op_linalg_inv_ex(self, a: np.ndarray, **_: Any) -> list[np.ndarray | None]:
        """Gauss-Jordan elimination without pivoting.

        The package inverts identity plus or minus a skew-symmetric matrix, whose leading minors
        are all 1 or more, and nothing else.
        """
        g, size = self._graph, a.shape[-1]
        result = np.empty_like(a)
        for index in np.ndindex(*a.shape[:-2]):
            rows = np.concatenate([a[index], self.constants(np.eye(size))], axis=1)
            for k in range(size):
                pivot = g.div(g.constant(1.0), int(rows[k, k]))
                rows[k] = self._mul(pivot, rows[k])
                for i in range(size):
                    if i != k:
                        rows[i] = self._sub(rows[i], self._mul(rows[i, k], rows[k]))
            result[index] = rows[:, size:]
        return [result, None]


def _elementwise(operation: Callable[..., int]) -> Callable[..., np.ndarray]:
    def apply(*arguments: Any) -> np.ndarray:
        arrays = np.broadcast_arrays(*arguments)
        nodes = list(map(operation, *(array.ravel().tolist() for array in arrays)))
        return np.array(nodes, dtype=np.int64).reshape(arrays[0].shape)

    return apply


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
    """A copy of ``a`` with a part of it, as ``of`` gives it, replaced."""
    result = a.copy()
    of(result, *part)[...] = source
    return result


def _select(a: np.ndarray, dim: int, index: int) -> np.ndarray:
    return np.moveaxis(a, dim, 0)[index]


def _split(a: np.ndarray, size: int | list[int], dim: int = 0) -> list[np.ndarray]:
    if isinstance(size, int):
        return np.split(a, range(size, a.shape[dim], size), axis=dim)
    return np.split(a, np.cumsum(size)[:-1], axis=dim)


def _index(a: np.ndarray, index: list[Any]) -> np.ndarray:
    return a[tuple(slice(None) if part is None else part for part in index)]


def _index_put(a: np.ndarray, index: list[Any], values: np.ndarray) -> np.ndarray:
    result = a.copy()
    result[tuple(slice(None) if part is None else part for part in index)] = values
    return result


def _unsqueeze(a: np.ndarray, dim: int) -> np.ndarray:
    return np.expand_dims(a, dim)


def _squeeze(a: np.ndarray, dim: Any = None) -> np.ndarray:
    axes = range(a.ndim) if dim is None else [dim] if isinstance(dim, int) else dim
    return np.squeeze(a, tuple(axis for axis in axes if a.shape[axis] == 1))


def _same(a: np.ndarray, *_: Any, **__: Any) -> np.ndarray:
    return a


# what moves elements without computing anything
_SHAPES: dict[str, Callable[..., Any]] = {
    "_to_copy": _same,
    "_unsafe_view": np.reshape,
    "alias": _same,
    "cat": lambda parts, dim=0: np.concatenate(parts, axis=dim),
    "clone": _same,
    "detach": _same,
    "copy": lambda a, source, *_: np.broadcast_to(source, a.shape),
    "diagonal": lambda a, offset=0, dim1=0, dim2=1: np.diagonal(a, offset, dim1, dim2),
    "expand": _expand,
    "flip": lambda a, dims: np.flip(a, tuple(dims)),
    "index": _index,
    "index_copy": _index_copy,
    "index_put": _index_put,
    "index_select": lambda a, dim, index: np.take(a, index, axis=dim),
    "permute": lambda a, dims: np.transpose(a, dims),
    "repeat": lambda a, times: np.tile(a, times),
    "reshape": np.reshape,
    "select": _select,
    "select_scatter": functools.partial(_scatter, of=_select),
    "slice": _slice,
    "slice_scatter": functools.partial(_scatter, of=_slice),
    "split": _split,
    "split_with_sizes": _split,
    "squeeze": _squeeze,
    "squeeze_": _squeeze,
    "stack": lambda parts, dim=0: np.stack(parts, axis=dim),
    "t": np.transpose,
    "transpose": lambda a, first, second: np.swapaxes(a, first, second),
    "unbind": lambda a, dim=0: list(np.moveaxis(a, dim, 0)),
    "unsqueeze": _unsqueeze,
    "view": np.reshape,
}
