"""Operations of PyTorch on arrays of node numbers.

Reshaping, indexing and transposing such arrays costs nothing when the model runs, and a product of
matrices is what it is for numbers. PyTorch takes other operations apart into these.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from vpintegrator.compiled.library import NotCompilable
from vpintegrator.compiled.scalar_graph import FUNCTIONS, ScalarGraph

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


class NodeArrays:
    """Elementwise operations and reductions, node by node.

    Arrays of nodes have the type int64. Numbers known now are Python's: ``lift`` makes nodes of
    them. The scalars that NumPy gives when one element is taken out of an array are neither, and
    are refused, so that a node is never taken for a number.

    Parameters
    ----------
    graph
        Graph to which nodes are added.
    """

    def __init__(self, graph: ScalarGraph) -> None:
        self.graph = g = graph
        self._constant = _elementwise(g.constant)
        self.plus = _elementwise(g.add)
        self.minus = _elementwise(g.sub)
        self.times = _elementwise(g.mul)
        self.over = _elementwise(g.div)
        self.negative = _elementwise(g.negative)
        self.absolute = _elementwise(g.absolute)
        self.maximum = _elementwise(g.maximum)
        self.larger = _elementwise(g.larger)
        self.greater = _elementwise(g.greater)
        self.equal = _elementwise(g.equal)
        self.where = _elementwise(g.where)
        self.fixed = _elementwise(g.fixed)
        self.power = _elementwise(g.power)
        self.arc_tangent = _elementwise(g.arc_tangent)

    def constants(self, values: np.ndarray) -> np.ndarray:
        """Return nodes for numbers that are known now."""
        return self._constant(values.astype(np.float64))

    def number(self, value: float) -> np.ndarray:
        """Return a node for one."""
        return np.array(self.graph.constant(value), dtype=np.int64)

    def lift(self, value: Any) -> np.ndarray:
        """Return numbers as constants; nodes stay."""
        if isinstance(value, np.ndarray) and value.dtype == np.int64:
            return value
        if isinstance(value, bool | int | float):
            return self.number(float(value))
        raise TypeError(f"{type(value)} is neither nodes nor a number")

    def scaled(self, a: Any, factor: float) -> np.ndarray:
        """Return nodes or a number times a number."""
        return self.times(self.lift(a), self.number(factor))

    def apply(self, function: str, a: np.ndarray) -> np.ndarray:
        """Apply one of ``FUNCTIONS``."""
        return _elementwise(functools.partial(self.graph.apply, function))(a)

    def opposite(self, condition: np.ndarray) -> np.ndarray:
        """Return the negation of a condition."""
        return self.minus(self.number(1.0), condition)

    def not_less(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        """Return the condition a >= b, false if a or b is NaN."""
        return self.plus(self.greater(a, b), self.equal(a, b))

    def guarded(self, a: np.ndarray, function: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
        """Apply a function such as the square root, with value and derivative 0 at a = 0."""
        zero = self.equal(a, self.number(0.0))
        return self.where(zero, self.number(0.0), function(self.where(zero, self.number(1.0), a)))

    def fold(self, operation: Callable[[int, int], int], terms: np.ndarray) -> np.ndarray:
        """Combine nodes along the last axis."""
        rows = terms.reshape(-1, terms.shape[-1]).tolist()
        folded = [functools.reduce(operation, row) for row in rows]
        return np.array(folded, dtype=np.int64).reshape(terms.shape[:-1])

    def reduce(
        self, operation: Callable[[int, int], int], a: np.ndarray, axes: Any, keep: bool
    ) -> np.ndarray:
        """Combine nodes along axes: a number, several, or none for all."""
        axes = [axes] if isinstance(axes, int) else axes or range(a.ndim)
        summed = tuple(axis % a.ndim for axis in axes)
        kept = [axis for axis in range(a.ndim) if axis not in summed]
        moved = a.transpose(*kept, *summed).reshape([a.shape[axis] for axis in kept] + [-1])
        result = self.fold(operation, moved)
        return np.expand_dims(result, summed) if keep else result


def _elementwise(operation: Callable[..., int]) -> Callable[..., np.ndarray]:
    def apply(*arguments: Any) -> np.ndarray:
        arrays = np.broadcast_arrays(*arguments)
        nodes = list(map(operation, *(array.ravel().tolist() for array in arrays)))
        return np.array(nodes, dtype=np.int64).reshape(arrays[0].shape)

    return apply


class Reductions(NodeArrays):
    """Operations that combine elements along axes.

    Where they take a ``dtype``, it is that of the result, which is checked elsewhere.
    """

    def _op_sum(
        self, a: np.ndarray, dim: Any = None, keepdim: bool = False, dtype: Any = None
    ) -> np.ndarray:
        return self.reduce(self.graph.add, a, dim, keepdim)

    def _op_mean(
        self, a: np.ndarray, dim: Any = None, keepdim: bool = False, dtype: Any = None
    ) -> np.ndarray:
        total = self._op_sum(a, dim, keepdim)
        return self.over(total, self.number(a.size / total.size))

    def _op_prod(
        self, a: np.ndarray, dim: Any = None, keepdim: bool = False, dtype: Any = None
    ) -> np.ndarray:
        return self.reduce(self.graph.mul, a, dim, keepdim)

    def _op_index_add(
        self, a: np.ndarray, dim: int, index: np.ndarray, source: np.ndarray, alpha: float = 1
    ) -> np.ndarray:
        total = np.moveaxis(a.copy(), dim, 0)
        for place, part in zip(index, np.moveaxis(self.scaled(source, alpha), dim, 0), strict=True):
            total[place] = self.plus(total[place], part)
        return np.moveaxis(total, 0, dim)

    def _op_amax(self, a: np.ndarray, dim: Any = None, keepdim: bool = False) -> np.ndarray:
        return self.reduce(self.graph.larger, a, dim, keepdim)

    def _op_amin(self, a: np.ndarray, dim: Any = None, keepdim: bool = False) -> np.ndarray:
        return self.negative(self._op_amax(self.negative(a), dim, keepdim))

    def _op_var(
        self, a: np.ndarray, dim: Any = None, correction: float | None = 1, keepdim: bool = False
    ) -> np.ndarray:
        mean = self._op_mean(a, dim, True)
        difference = self.minus(a, mean)
        total = self._op_sum(self.times(difference, difference), dim, keepdim)
        count = a.size / mean.size - (1 if correction is None else correction)
        return self.over(total, self.number(max(count, 0.0)))

    def _op_std(self, a: np.ndarray, *arguments: Any, **options: Any) -> np.ndarray:
        return self._root(self._op_var(a, *arguments, **options))

    def _op_linalg_vector_norm(
        self,
        a: np.ndarray,
        ord: float = 2,
        dim: Any = None,
        keepdim: bool = False,
        dtype: Any = None,
    ) -> np.ndarray:
        if ord == 2:
            return self._root(self._op_sum(self.times(a, a), dim, keepdim))
        sizes = self.absolute(a)
        if math.isinf(ord):
            return (self._op_amax if ord > 0 else self._op_amin)(sizes, dim, keepdim)
        if ord == 1:
            return self._op_sum(sizes, dim, keepdim)
        total = self._op_sum(self.power(sizes, self.number(ord)), dim, keepdim)
        return self.guarded(total, lambda x: self.power(x, self.number(1 / ord)))

    def _root(self, a: np.ndarray) -> np.ndarray:
        return self.guarded(a, lambda x: self.apply("sqrt", x))

    def _op__softmax(self, a: np.ndarray, dim: int, half_to_float: bool = False) -> np.ndarray:
        weights = self.apply("exp", self._below_top(a, dim))
        return self.over(weights, self._op_sum(weights, dim, True))

    def _op__log_softmax(self, a: np.ndarray, dim: int, half_to_float: bool = False) -> np.ndarray:
        below = self._below_top(a, dim)
        total = self._op_sum(self.apply("exp", below), dim, True)
        return self.minus(below, self.apply("log", total))

    def _below_top(self, a: np.ndarray, dim: int) -> np.ndarray:
        """Return minus the largest, which nothing depends on but overflow."""
        return self.minus(a, self.reduce(self.graph.bound, a, dim, True))

    def _op_native_layer_norm(
        self, a: np.ndarray, shape: list[int], weight: Any, bias: Any, eps: float
    ) -> list[np.ndarray]:
        axes = list(range(a.ndim - len(shape), a.ndim))
        mean = self._op_mean(a, axes, True)
        variance = self._op_var(a, axes, 0, True)
        scale = self.power(self.plus(variance, self.number(eps)), self.number(-0.5))
        result = self.times(self.minus(a, mean), scale)
        result = result if weight is None else self.times(result, weight)
        return [result if bias is None else self.plus(result, bias), mean, scale]


_COMPARISONS = {"eq", "ne", "lt", "le", "gt", "ge"}
_LOGICAL = {f"{kind}_{name}" for kind in ("logical", "bitwise") for name in ("and", "or", "not")}
# operators that are one operation on nodes, or numbers, element by element
_ELEMENTWISE = {
    "abs": "absolute",
    "atan2": "arc_tangent",
    "detach": "fixed",
    "div": "over",
    "eq": "equal",
    "ge": "not_less",
    "gt": "greater",
    "maximum": "larger",
    "mul": "times",
    "neg": "negative",
    "pow": "power",
    "where": "where",
}
# operators with results true or false: nodes 1 or 0
BOOLEAN = {*RESHAPING, *_COMPARISONS, *_LOGICAL, "_to_copy", "mul", "where"}


class Operations(Reductions):
    """Implementation of PyTorch's operators on arrays (int64) of node numbers."""

    def find(self, name: str) -> Callable[..., Any] | None:
        """Return the implementation of an operator such as ``index_select``, or None."""
        if name in FUNCTIONS:
            return functools.partial(self.apply, name)
        if name in _ELEMENTWISE:
            operation = getattr(self, _ELEMENTWISE[name])
            return lambda *arguments: operation(*map(self.lift, arguments))
        return getattr(self, f"_op_{name}", None) or RESHAPING.get(name)

    def _op__to_copy(self, a: np.ndarray, dtype: Any = None, **_: Any) -> np.ndarray:
        # true and false are 1 and 0, and nothing else is taken for either
        return self._op_ne(a, 0) if str(dtype) == "torch.bool" else a

    def _op_add(self, a: Any, b: Any, alpha: float = 1) -> np.ndarray:
        return self.plus(self.lift(a), self.scaled(b, alpha))

    def _op_sub(self, a: Any, b: Any, alpha: float = 1) -> np.ndarray:
        return self.minus(self.lift(a), self.scaled(b, alpha))

    def _op_hypot(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        return self.apply("sqrt", self.plus(self.times(a, a), self.times(b, b)))

    def _op_minimum(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        return self.negative(self.larger(self.negative(a), self.negative(b)))

    def _op_ne(self, a: Any, b: Any) -> np.ndarray:
        return self.opposite(self.equal(self.lift(a), self.lift(b)))

    def _op_lt(self, a: Any, b: Any) -> np.ndarray:
        return self.greater(self.lift(b), self.lift(a))

    def _op_le(self, a: Any, b: Any) -> np.ndarray:
        return self.not_less(self.lift(b), self.lift(a))

    def _op_logical_not(self, a: np.ndarray) -> np.ndarray:
        return self.equal(a, self.number(0.0))

    # of true and false, since other results are refused
    _op_bitwise_not = _op_logical_not

    def _op_bitwise_and(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        return self.times(a, b)

    def _op_bitwise_or(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        return self.opposite(self.times(self.opposite(a), self.opposite(b)))

    def _op_relu(self, a: np.ndarray) -> np.ndarray:
        return self.maximum(a, self.number(0.0))

    def _op_sigmoid(self, a: np.ndarray) -> np.ndarray:
        # with tanh there is nothing to overflow
        half = self.number(0.5)
        return self.plus(half, self.times(half, self.apply("tanh", self.times(half, a))))

    def _op_softplus(self, a: np.ndarray, beta: float = 1, threshold: float = 20) -> np.ndarray:
        # max(x, 0) + log(1 + exp(-|x|)), equal to rounding also where torch takes x alone
        x = self.scaled(a, beta)
        positive = self.maximum(x, self.number(0.0))
        size = self.minus(self.times(self.number(2.0), positive), x)
        tail = self.apply("log1p", self.apply("exp", self.negative(size)))
        return self.scaled(self.plus(positive, tail), 1 / beta)

    def _op_elu(
        self, a: np.ndarray, alpha: float = 1, scale: float = 1, input_scale: float = 1
    ) -> np.ndarray:
        positive = self.greater(a, self.number(0.0))
        # the exponential must not overflow in the branch that is not taken
        below = self.where(positive, self.number(0.0), a)
        below = self.scaled(self.apply("expm1", self.scaled(below, input_scale)), alpha * scale)
        return self.where(positive, self.scaled(a, scale), below)

    def _op_hardtanh(self, a: np.ndarray, low: float = -1, high: float = 1) -> np.ndarray:
        # unlike that of clamp, its derivative is 0 at both ends
        a = self.where(self.not_less(self.number(low), a), self.number(low), a)
        return self.where(self.not_less(a, self.number(high)), self.number(high), a)

    def _op_clamp(self, a: np.ndarray, min: Any = None, max: Any = None) -> np.ndarray:
        a = a if min is None else self._op_clamp_min(a, min)
        return a if max is None else self._op_clamp_max(a, max)

    def _op_clamp_min(self, a: np.ndarray, min: Any) -> np.ndarray:
        return self.where(self.greater(self.lift(min), a), self.lift(min), a)

    def _op_clamp_max(self, a: np.ndarray, max: Any) -> np.ndarray:
        return self.where(self.greater(a, self.lift(max)), self.lift(max), a)

    def _op_sign(self, a: np.ndarray) -> np.ndarray:
        zero = self.number(0.0)
        return self.minus(self.greater(a, zero), self.greater(zero, a))

    def _op_rsqrt(self, a: np.ndarray) -> np.ndarray:
        return self.power(a, self.number(-0.5))

    def _op_reciprocal(self, a: np.ndarray) -> np.ndarray:
        return self.over(self.number(1.0), a)

    def _op_mm(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        # exact zeros drop out one by one, so a triangular matrix costs half
        products = self.times(a[..., :, None, :], np.swapaxes(b, -1, -2)[..., None, :, :])
        return self.fold(self.graph.add, products)

    _op_bmm = _op_mm

    def _op_full_like(self, a: np.ndarray, value: Any, **_: Any) -> np.ndarray:
        return np.broadcast_to(self.lift(value), a.shape)

    def _op_new_zeros(self, a: np.ndarray, size: list[int], **_: Any) -> np.ndarray:
        return self.constants(np.zeros(size))

    def _op_constant_pad_nd(self, a: np.ndarray, pad: list[int], value: Any = 0) -> np.ndarray:
        if min(pad, default=0) < 0:
            raise NotCompilable("padding by less than nothing is not compiled")
        width = [(0, 0)] * (a.ndim - len(pad) // 2)
        width += list(zip(pad[-2::-2], pad[-1::-2], strict=True))
        return np.pad(a, width, constant_values=int(self.lift(value)))

    def _op_linalg_inv_ex(self, a: np.ndarray, **_: Any) -> list[np.ndarray | None]:
        """Gauss-Jordan elimination without pivoting.

        The package inverts identity plus or minus a skew-symmetric or strictly triangular matrix,
        whose leading minors are all 1 or more, and positive definite matrices; nothing else.
        """
        g = self.graph
        size = a.shape[-1]
        result = np.empty_like(a)
        for index in np.ndindex(*a.shape[:-2]):
            rows = np.concatenate([a[index], self.constants(np.eye(size))], axis=1)
            for k in range(size):
                pivot = g.div(g.constant(1.0), int(rows[k, k]))
                rows[k] = self.times(pivot, rows[k])
                for i in range(size):
                    if i != k:
                        rows[i] = self.minus(rows[i], self.times(rows[i, k], rows[k]))
            result[index] = rows[:, size:]
        return [result, None]
