"""Arithmetic on arrays of node numbers of a graph."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from vpintegrator.compiled.scalar_graph import ScalarGraph


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
        self.plus, self.minus = _elementwise(g.add), _elementwise(g.sub)
        self.times, self.over = _elementwise(g.mul), _elementwise(g.div)
        self.negative, self.absolute = _elementwise(g.negative), _elementwise(g.absolute)
        self.maximum, self.larger = _elementwise(g.maximum), _elementwise(g.larger)
        self.greater, self.equal = _elementwise(g.greater), _elementwise(g.equal)
        self.where, self.fixed = _elementwise(g.where), _elementwise(g.fixed)
        self.power, self.arc_tangent = _elementwise(g.power), _elementwise(g.arc_tangent)

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
        chosen = tuple(axis % a.ndim for axis in axes)
        kept = [axis for axis in range(a.ndim) if axis not in chosen]
        moved = a.transpose(*kept, *chosen).reshape([a.shape[axis] for axis in kept] + [-1])
        result = self.fold(operation, moved)
        return np.expand_dims(result, chosen) if keep else result


def _elementwise(operation: Callable[..., int]) -> Callable[..., np.ndarray]:
    def apply(*arguments: Any) -> np.ndarray:
        arrays = np.broadcast_arrays(*arguments)
        nodes = list(map(operation, *(array.ravel().tolist() for array in arrays)))
        return np.array(nodes, dtype=np.int64).reshape(arrays[0].shape)

    return apply
