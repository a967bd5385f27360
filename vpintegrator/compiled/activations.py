"""Activations of PyTorch on arrays of node numbers, their derivatives as PyTorch has them."""

from __future__ import annotations

from typing import Any

import numpy as np

from vpintegrator.compiled.node_arrays import NodeArrays


class Activations(NodeArrays):
    """Operations of one tensor, element by element."""

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

    def _op__prelu_kernel(self, a: np.ndarray, slope: np.ndarray) -> np.ndarray:
        return self.where(self.greater(a, self.number(0.0)), a, self.times(slope, a))

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

    _op_sgn = _op_sign

    def _op_rsqrt(self, a: np.ndarray) -> np.ndarray:
        return self.power(a, self.number(-0.5))

    def _op_reciprocal(self, a: np.ndarray) -> np.ndarray:
        return self.over(self.number(1.0), a)
