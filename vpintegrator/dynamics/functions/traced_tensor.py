"""PyTorch's functions and methods of symbolic arguments, by those of NumPy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from vpintegrator.dynamics.functions.tracing import (
    ALIASES,
    ELEMENTWISE,
    NotTraceable,
    TracedArray,
    as_traced_array,
    bounded,
    elementwise,
    filled,
    norm,
    record_tensors,
    wrapped,
)

_REVERSED = {"radd": "add", "rsub": "subtract", "rmul": "multiply", "rdiv": "divide"}
_REVERSED |= {"rtruediv": "divide", "rpow": "power"}


def apply_torch(function: Any, args: Any, options: dict[str, Any]) -> Any:
    """Return the result of a PyTorch function whose arguments include traced ones."""
    name = getattr(function, "__name__", str(function)).strip("_").removeprefix("special_")
    if name in _REVERSED and len(args) == 2:
        args = args if function.__name__ == "rsub" and options else args[::-1]
        name = _REVERSED[name]
    if name in _ARRAYS:
        return _ARRAYS[name](*args, **options)
    if name in _METHODS:
        return _METHODS[name](as_traced_array(args[0]), *args[1:], **options)
    name = ALIASES.get(name, name)
    if name not in ELEMENTWISE or options:
        raise NotTraceable(f"the function torch.{name}")
    return elementwise(name, *args)


def tensor_method(array: TracedArray, name: str) -> Callable[..., Any]:
    """Return a method of tensors that NumPy's arrays do not have."""
    if name in _METHODS:
        method = _METHODS[name]
        return lambda *args, **options: method(array, *args, **options)
    numpy_name = ALIASES.get(name, name)
    if numpy_name in ELEMENTWISE:
        return lambda *args: elementwise(numpy_name, array, *args)
    raise AttributeError(name)


def _stack(tensors: Any, dim: int = 0) -> Any:
    return wrapped(np.stack([np.asarray(as_traced_array(t)) for t in tensors], axis=dim))


def _concatenate(tensors: Any, dim: int = 0) -> Any:
    return wrapped(np.concatenate([np.asarray(as_traced_array(t)) for t in tensors], axis=dim))


def _sum(array: Any, dim: Any = None, keepdim: bool = False, axis: Any = None) -> Any:
    return as_traced_array(array).sum(axis=axis if dim is None else dim, keepdims=keepdim)


def _unbind(array: TracedArray, dim: int = 0) -> tuple[Any, ...]:
    return tuple(np.moveaxis(array, dim, 0))


def _parts(array: TracedArray, count: int, dim: int = 0) -> tuple[Any, ...]:
    size = -(-array.shape[dim] // count)
    return _split(array, size, dim)


def _split(array: TracedArray, sizes: int | list[int], dim: int = 0) -> tuple[Any, ...]:
    length = array.shape[dim]
    ends = range(sizes, length, sizes) if isinstance(sizes, int) else np.cumsum(sizes)[:-1]
    return tuple(p.view(TracedArray) for p in np.split(np.asarray(array), list(ends), axis=dim))


def _einsum(text: str, *tensors: Any) -> Any:
    return wrapped(np.einsum(text, *[np.asarray(as_traced_array(t)) for t in tensors]))


def _product(a: Any, b: Any) -> Any:
    return wrapped(np.matmul(np.asarray(as_traced_array(a)), np.asarray(as_traced_array(b))))


def _scaled(name: str) -> Callable[..., Any]:
    def joined(a: Any, b: Any, *, alpha: float = 1) -> Any:
        return elementwise(name, a, b if alpha == 1 else elementwise("multiply", b, alpha))

    return joined


def _clone(array: TracedArray, *_: Any, **__: Any) -> Any:
    return array.copy()


_ARRAYS: dict[str, Callable[..., Any]] = {
    "stack": _stack,
    "cat": _concatenate,
    "concat": _concatenate,
    "concatenate": _concatenate,
    "hstack": lambda tensors: _concatenate(tensors, -1),
    "sum": _sum,
    "dot": _product,
    "mv": _product,
    "mm": _product,
    "matmul": _product,
    "rmatmul": lambda a, b: _product(b, a),
    "einsum": _einsum,
    "add": _scaled("add"),
    "subtract": _scaled("subtract"),
    "sub": _scaled("subtract"),
    "norm": lambda x, ord=None, dim=None, keepdim=False, **_: norm(x, ord, dim, keepdim),
    "vector_norm": lambda x, ord=2, dim=None, keepdim=False: norm(x, ord, dim, keepdim),
    "roll": lambda x, shifts, dims=None: wrapped(
        np.roll(np.asarray(as_traced_array(x)), shifts, axis=dims)
    ),
    "where": lambda condition, first, other: elementwise("where", condition, first, other),
    "zeros_like": lambda x, **_: filled(np.shape(x), 0.0),
    "empty_like": lambda x, **_: filled(np.shape(x), 0.0),
    "ones_like": lambda x, **_: filled(np.shape(x), 1.0),
}
_METHODS: dict[str, Callable[..., Any]] = {
    "unbind": _unbind,
    "chunk": _parts,
    "split": _split,
    "clone": _clone,
    "contiguous": _clone,
    "to": _clone,
    "double": _clone,
    "unsqueeze": lambda x, dim: wrapped(np.expand_dims(np.asarray(x), dim)),
    "new_zeros": lambda x, *shape, **_: filled(_shape(shape), 0.0),
    "new_empty": lambda x, *shape, **_: filled(_shape(shape), 0.0),
    "new_ones": lambda x, *shape, **_: filled(_shape(shape), 1.0),
    "clamp": lambda x, min=None, max=None: bounded(x, min, max),
    "clip": lambda x, min=None, max=None: bounded(x, min, max),
    "where": lambda x, condition, other: elementwise("where", condition, x, other),
    "pow": lambda x, exponent: elementwise("power", x, exponent),
    "norm": lambda x, p=None, dim=None, keepdim=False: norm(x, p, dim, keepdim),
    "dim": lambda x: x.ndim,
    "numel": lambda x: x.size,
}


def _shape(shape: Any) -> Any:
    return shape[0] if len(shape) == 1 and not isinstance(shape[0], int) else shape


record_tensors(apply_torch, tensor_method)
