"""Operations of PyTorch on arrays of node numbers.

Reshaping, indexing and transposing such arrays costs nothing when the model runs, and a product of
matrices is what it is for numbers.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from vpintegrator.compiled.activations import Activations
from vpintegrator.compiled.functions import FUNCTIONS
from vpintegrator.compiled.library import NotCompilable
from vpintegrator.compiled.reductions import Reductions
from vpintegrator.compiled.reshaping import RESHAPING

_PRODUCTS = {"mm", "bmm", "mv", "dot", "addmm", "baddbmm"}
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


class Operations(Activations, Reductions):
    """Implementation of PyTorch's operators on arrays (int64) of node numbers."""

    def find(self, name: str) -> Callable[..., Any] | None:
        """Return the implementation of an operator such as ``index_select``, or None."""
        if name in FUNCTIONS:
            return functools.partial(self.apply, name)
        if name in _ELEMENTWISE:
            operation = getattr(self, _ELEMENTWISE[name])
            return lambda *arguments: operation(*map(self.lift, arguments))
        return getattr(self, f"_op_{name}", None) or RESHAPING.get(name)

    @staticmethod
    def work(name: str, arguments: Sequence[tuple[int, ...]], results: Sequence[int]) -> int:
        """About how many operations on numbers an operator makes.

        Parameters
        ----------
        name
            Name of the operator.
        arguments, results
            Shapes of the tensors it takes, and sizes of those it gives.
        """
        if name in RESHAPING:
            return 0
        if name in _PRODUCTS:  # the last two are multiplied
            columns = arguments[-1][-1] if len(arguments[-1]) > 1 else 1
            return 2 * math.prod(arguments[-2]) * columns
        if name == "linalg_inv_ex":
            return 2 * math.prod(arguments[0]) * arguments[0][-1]
        return max([*map(math.prod, arguments), *results])

    def _op__to_copy(self, a: np.ndarray, dtype: Any = None, **_: Any) -> np.ndarray:
        # true and false are 1 and 0, and nothing else is taken for either
        return self._op_ne(a, 0) if str(dtype) == "torch.bool" else a

    def _op_add(self, a: Any, b: Any, alpha: float = 1) -> np.ndarray:
        return self.plus(self.lift(a), self.scaled(b, alpha))

    def _op_sub(self, a: Any, b: Any, alpha: float = 1) -> np.ndarray:
        return self.minus(self.lift(a), self.scaled(b, alpha))

    def _op_rsub(self, a: Any, b: Any, alpha: float = 1) -> np.ndarray:
        return self.minus(self.lift(b), self.scaled(a, alpha))

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

    def _op_logical_and(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        return self.times(self._op_ne(a, 0), self._op_ne(b, 0))

    def _op_logical_or(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        return self.opposite(self.times(self._op_logical_not(a), self._op_logical_not(b)))

    # of true and false, since other results are refused, the same
    _op_bitwise_not, _op_bitwise_and, _op_bitwise_or = (
        _op_logical_not,
        _op_logical_and,
        _op_logical_or,
    )

    def _op_mm(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        # exact zeros drop out one by one, so a triangular matrix costs half
        products = self.times(a[..., :, None, :], np.swapaxes(b, -1, -2)[..., None, :, :])
        return self.fold(self.graph.add, products)

    _op_bmm = _op_mm

    def _op_mv(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        return self._op_mm(a, b[:, None])[:, 0]

    def _op_zeros_like(self, a: np.ndarray, **_: Any) -> np.ndarray:
        return self.constants(np.zeros(a.shape))

    # whatever is in an empty one before it is filled
    _op_empty_like = _op_zero = _op_zeros_like

    def _op_full_like(self, a: np.ndarray, value: Any, **_: Any) -> np.ndarray:
        return np.broadcast_to(self.lift(value), a.shape)

    def _op_new_zeros(self, a: np.ndarray, size: list[int], **_: Any) -> np.ndarray:
        return self.constants(np.zeros(size))

    _op_new_empty = _op_new_zeros

    def _op_constant_pad_nd(self, a: np.ndarray, pad: list[int], value: Any = 0) -> np.ndarray:
        if min(pad, default=0) < 0:
            raise NotCompilable("padding by less than nothing is not compiled")
        width = [(0, 0)] * (a.ndim - len(pad) // 2)
        width += list(zip(pad[-2::-2], pad[-1::-2], strict=True))
        return np.pad(a, width, constant_values=int(self.lift(value)))

    def _op_tril(self, a: np.ndarray, diagonal: int = 0) -> np.ndarray:
        return np.where(np.tril(np.ones(a.shape), diagonal) > 0, a, self.number(0.0))

    def _op_triu(self, a: np.ndarray, diagonal: int = 0) -> np.ndarray:
        return np.where(np.triu(np.ones(a.shape), diagonal) > 0, a, self.number(0.0))

    def _op_linalg_inv_ex(self, a: np.ndarray, **_: Any) -> list[np.ndarray | None]:
        """Gauss-Jordan elimination without pivoting.

        The package inverts identity plus or minus a skew-symmetric matrix, whose leading minors
        are all 1 or more, and nothing else.
        """
        g, size = self.graph, a.shape[-1]
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
