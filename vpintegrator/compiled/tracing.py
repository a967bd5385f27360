"""From a PyTorch model to a graph of scalar operations.

``make_fx`` runs the model on one window and writes down the operations on tensors that it meets.
Here they are run again on arrays of node numbers: reshaping, indexing and transposing arrays then
costs nothing when the model runs, and a product of matrices is what it is for numbers.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch.fx import GraphModule, Node
from torch.fx.experimental.proxy_tensor import make_fx

from vpintegrator.compiled.compiler import NotCompilable
from vpintegrator.compiled.scalar_graph import FUNCTIONS, ScalarGraph

if TYPE_CHECKING:
    from vpintegrator.models import Integrator

LARGEST = 100_000  # operations; beyond, tensors are not small and PyTorch is as fast
_DTYPES = (torch.float64, torch.float32)


@dataclass(frozen=True)
class Trace:
    """A model's map of one window.

    Attributes
    ----------
    graph
        The operations.
    outputs
        Numbers of the nodes of the new window, (window * dim,).
    weights
        Names of the model's tensors that the parameters of the graph stand for, each flattened.
    """

    graph: ScalarGraph
    outputs: list[int]
    weights: list[str]

    def values(self, model: Integrator) -> np.ndarray:
        """The parameters of the graph that a model has now."""
        tensors = {**dict(model.named_parameters()), **dict(model.named_buffers())}
        flat = [tensors[name].detach().reshape(-1).numpy() for name in self.weights]
        return np.concatenate([np.empty(0, model.scale.numpy().dtype), *flat])


def trace(model: Integrator) -> Trace:
    """Follow a model through one window.

    Raises
    ------
    NotCompilable
        If it uses an operation that is not known here, or is too large.
    """
    weights = {name: p.detach() for name, p in model.named_parameters()}
    # the normalisation differs from dataset to dataset: unless it is trivial it is not baked in
    weights |= {"shift": model.shift} if model.shift.any() else {}
    weights |= {"scale": model.scale} if (model.scale != 1).any() else {}
    tensors = [*weights.values(), *model.buffers()]
    dtype = next((t.dtype for t in tensors if t.is_floating_point()), torch.float64)
    if dtype not in _DTYPES or any(t.device.type != "cpu" for t in tensors):
        raise NotCompilable("only models in float32 or float64 on the CPU are compiled")

    def call(window: torch.Tensor, *values: torch.Tensor) -> torch.Tensor:
        named = dict(zip(weights, values, strict=True))
        return torch.func.functional_call(model, named, (window,))

    # any window will do: the operations do not depend on the values
    window = torch.linspace(0.1, 0.9, model.window * model.dim, dtype=dtype)
    try:
        with torch.no_grad():
            shaped = window.reshape(model.window, model.dim)
            followed = make_fx(torch.func.functionalize(call))(shaped, *weights.values())
    except Exception as error:  # whatever a model of the user's own does
        raise NotCompilable(f"the model cannot be followed: {error}") from error
    followed.graph.eliminate_dead_code()
    interpreter = _Interpreter()
    leaves = [interpreter.inputs(model.window * model.dim).reshape(model.window, model.dim)]
    leaves += [interpreter.weights(w.numel()).reshape(w.shape) for w in weights.values()]
    outputs = interpreter.run(followed, leaves)
    return Trace(interpreter.graph, [int(n) for n in outputs.ravel()], list(weights))


class _Interpreter:
    """Runs operations on tensors on arrays of node numbers."""

    def __init__(self) -> None:
        self.graph = ScalarGraph()
        self.count = 0
        g = self.graph
        self._constant = _elementwise(g.constant)
        self._add, self._sub = _elementwise(g.add), _elementwise(g.sub)
        self._mul, self._div = _elementwise(g.mul), _elementwise(g.div)
        self._max, self._neg = _elementwise(g.maximum), _elementwise(g.negative)

    def inputs(self, count: int) -> np.ndarray:
        return np.array([self.graph.input(i) for i in range(count)], dtype=np.int64)

    def weights(self, count: int) -> np.ndarray:
        first, self.count = self.count, self.count + count
        numbers = [self.graph.parameter(i) for i in range(first, self.count)]
        return np.array(numbers, dtype=np.int64)

    def run(self, followed: GraphModule, leaves: list[np.ndarray]) -> np.ndarray:
        known: dict[Node, Any] = {}
        remaining = iter(leaves)

        def value(argument: Any) -> Any:
            if isinstance(argument, Node):
                return known[argument]
            if isinstance(argument, list | tuple):
                return [value(part) for part in argument]
            return argument

        for node in followed.graph.nodes:
            if node.op == "placeholder":
                known[node] = next(remaining)
            elif node.op == "get_attr":
                tensor = attrgetter(node.target)(followed).detach()
                known[node] = self._lift(tensor) if tensor.is_floating_point() else tensor.numpy()
            elif node.op == "output":
                result = value(node.args[0])
                return result[0] if isinstance(result, list) else result
            else:
                arguments = [value(argument) for argument in node.args]
                options = {key: value(v) for key, v in node.kwargs.items()}
                known[node] = self._operation(node)(*arguments, **options)
            if len(self.graph.nodes) > LARGEST:
                raise NotCompilable(f"the model needs more than {LARGEST:,} operations")
        raise NotCompilable("the model returns nothing")

    def _operation(self, node: Node) -> Callable[..., Any]:
        """The method for an operation such as ``aten.index_select.default``."""
        name = str(node.target).removeprefix("aten.").split(".")[0]
        name = {"<built-in function getitem>": "getitem"}.get(name, name)
        found = getattr(self, f"_op_{name}", None)
        if found is not None:
            return found
        if name in _SHAPES:
            return _SHAPES[name]
        if name in FUNCTIONS:
            return _elementwise(lambda a: self.graph.apply(name, a))
        raise NotCompilable(f"the operation {node.target} is not known to the compiler")

    def _lift(self, value: Any) -> np.ndarray:
        """Numbers as constants; what are nodes already stays."""
        if isinstance(value, np.ndarray) and value.dtype == np.int64:
            return value
        array = value.numpy() if isinstance(value, torch.Tensor) else np.asarray(value)
        return self._constant(array.astype(np.float64)) if array.size else array.astype(np.int64)

    def _fold(self, operation: Callable[[int, int], int], terms: np.ndarray) -> np.ndarray:
        """Combine nodes along the last axis."""
        result = np.empty(terms.shape[:-1], dtype=np.int64)
        for index in np.ndindex(*result.shape):
            total, *others = (int(term) for term in terms[index])
            for other in others:
                total = operation(total, other)
            result[index] = total
        return result

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
        return self._mul(self._lift(a), self.graph.constant(factor))

    def _op_mul(self, a: Any, b: Any) -> np.ndarray:
        return self._mul(self._lift(a), self._lift(b))

    def _op_div(self, a: Any, b: Any) -> np.ndarray:
        return self._div(self._lift(a), self._lift(b))

    def _op_neg(self, a: np.ndarray) -> np.ndarray:
        return self._neg(a)

    def _op_reciprocal(self, a: np.ndarray) -> np.ndarray:
        return self._div(self.graph.constant(1.0), a)

    def _op_relu(self, a: np.ndarray) -> np.ndarray:
        return self._max(a, self.graph.constant(0.0))

    def _op_sigmoid(self, a: np.ndarray) -> np.ndarray:
        # with tanh there is nothing to overflow
        half = self.graph.constant(0.5)
        t = self._mul(half, _elementwise(lambda x: self.graph.apply("tanh", x))(self._mul(half, a)))
        return self._add(half, t)

    def _op_softplus(self, a: np.ndarray, beta: float = 1, threshold: float = 20) -> np.ndarray:
        # max(x, 0) + log(1 + exp(-|x|)), equal to rounding also where torch takes x alone
        g = self.graph
        x = self._scaled(a, beta)
        positive = self._max(x, g.constant(0.0))
        size = self._sub(self._mul(g.constant(2.0), positive), x)
        tail = _elementwise(lambda y: g.apply("log1p", g.apply("exp", g.negative(y))))(size)
        return self._scaled(self._add(positive, tail), 1 / beta)

    def _op_gelu(self, a: np.ndarray, approximate: str = "none") -> np.ndarray:
        if approximate != "none":
            raise NotCompilable("gelu is compiled in its exact form only")
        error = _elementwise(lambda x: self.graph.apply("erf", x))(self._scaled(a, 0.5**0.5))
        return self._mul(self._scaled(a, 0.5), self._add(error, self.graph.constant(1.0)))

    def _op_mm(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        # exact zeros drop out one by one, so a triangular matrix costs half
        products = self._mul(a[..., :, None, :], np.swapaxes(b, -1, -2)[..., None, :, :])
        return self._fold(self.graph.add, products)

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
        return self._reduce(self.graph.add, a, dim, keepdim)

    def _op_mean(self, a: np.ndarray, dim: Any = None, keepdim: bool = False) -> np.ndarray:
        total = self._op_sum(a, dim, keepdim)
        return self._div(total, self.graph.constant(a.size / total.size))

    def _op__softmax(self, a: np.ndarray, dim: int, half_to_float: bool = False) -> np.ndarray:
        size = self._reduce(self.graph.maximum, a, [dim], True)
        weights = _elementwise(lambda x: self.graph.apply("exp", x))(self._sub(a, size))
        return self._div(weights, self._op_sum(weights, [dim], True))

    def _op_new_zeros(self, a: np.ndarray, size: list[int], **_: Any) -> np.ndarray:
        return self._lift(np.zeros(size))

    def _op_zeros(self, size: list[int], **_: Any) -> np.ndarray:
        return self._lift(np.zeros(size))

    def _op_full(self, size: list[int], value: float, **_: Any) -> np.ndarray:
        return self._lift(np.full(size, float(value)))

    def _op_eye(self, size: int, **_: Any) -> np.ndarray:
        return self._lift(np.eye(size))

    def _op_tril(self, a: np.ndarray, diagonal: int = 0) -> np.ndarray:
        return np.where(np.tril(np.ones(a.shape), diagonal) > 0, a, self.graph.constant(0.0))

    def _op_triu(self, a: np.ndarray, diagonal: int = 0) -> np.ndarray:
        return np.where(np.triu(np.ones(a.shape), diagonal) > 0, a, self.graph.constant(0.0))

    def _op_linalg_inv_ex(self, a: np.ndarray, **_: Any) -> list[np.ndarray]:
        """Gauss-Jordan elimination without pivoting.

        The package inverts identity plus or minus a skew-symmetric matrix, whose leading minors
        are all 1 or more, and nothing else.
        """
        g, size = self.graph, a.shape[-1]
        result = np.empty_like(a)
        for index in np.ndindex(*a.shape[:-2]):
            rows = np.concatenate([a[index], self._op_eye(size)], axis=1)
            for k in range(size):
                pivot = g.div(g.constant(1.0), int(rows[k, k]))
                rows[k] = self._mul(pivot, rows[k])
                for i in range(size):
                    if i != k:
                        rows[i] = self._sub(rows[i], self._mul(rows[i, k], rows[k]))
            result[index] = rows[:, size:]
        return [result, np.zeros(a.shape[:-2])]


def _elementwise(operation: Callable[..., int]) -> Callable[..., np.ndarray]:
    vectorised = np.vectorize(operation, otypes=[np.int64])

    def apply(*arrays: Any) -> np.ndarray:
        if 0 in np.broadcast_shapes(*(np.shape(a) for a in arrays)):
            return np.empty(np.broadcast_shapes(*(np.shape(a) for a in arrays)), dtype=np.int64)
        return np.asarray(vectorised(*arrays))

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
    "diagonal": lambda a, offset=0, dim1=0, dim2=1: np.diagonal(a, offset, dim1, dim2),
    "expand": _expand,
    "flip": lambda a, dims: np.flip(a, tuple(dims)),
    "getitem": lambda parts, index: parts[index],
    "index": _index,
    "index_copy": _index_copy,
    "index_put": _index_put,
    "index_select": lambda a, dim, index: np.take(a, index, axis=dim),
    "lift_fresh_copy": _same,
    "permute": lambda a, dims: np.transpose(a, dims),
    "repeat": lambda a, times: np.tile(a, times),
    "reshape": np.reshape,
    "select": lambda a, dim, index: np.take(a, index, axis=dim),
    "slice": _slice,
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
