"""Sums, norms and the like of PyTorch on arrays of node numbers."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from vpintegrator.compiled.node_arrays import NodeArrays


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
        found = np.moveaxis(a.copy(), dim, 0)
        for place, part in zip(index, np.moveaxis(self.scaled(source, alpha), dim, 0), strict=True):
            found[place] = self.plus(found[place], part)
        return np.moveaxis(found, 0, dim)

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
