"""Operations of PyTorch on arrays of node numbers.

Reshaping, indexing and transposing such arrays costs nothing when the model runs, and a product of
matrices is what it is for numbers.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from vpintegrator.compiled.library import NotCompilable
from vpintegrator.compiled.reductions import Reductions
from vpintegrator.compiled.reshaping import RESHAPING
from vpintegrator.compiled.scalar_graph import FUNCTIONS

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
