"""Gauss-Legendre collocation, the implicit midpoint rule among it, solved to rounding."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import final

import numpy as np

from vpintegrator.dynamics import System
from vpintegrator.rollout.classical.base import OneStepMethod

_MAXIMUM_ITERATIONS = 60
_SLOW = 1e-2  # an update shrinking by less asks for a new Jacobian
_ROUNDING = 1e-9  # updates this small (relative) that shrink no more are rounding errors
_NOTHING = 2.0**-57  # smaller updates (relative) change no digit of the vector field's argument


@final
@dataclass(frozen=True, kw_only=True)
class GaussLegendre(OneStepMethod):
    """Collocation at the Gauss points: y_i = h sum_j a_ij f(z + y_j), z + h sum_i b_i f(z + y_i).

    Newton's method on the stages y, with the system's exact Jacobian at all stages, is iterated
    until the updates stop shrinking, that is to rounding and not to a chosen tolerance; the matrix
    is renewed until the updates shrink a hundredfold. A trajectory on which it does not converge
    gets NaN. Each trajectory has its own matrix and its own end, so it does not depend on the rest.

    Attributes
    ----------
    matrix, weights
        a_ij and b_i.
    """

    matrix: tuple[tuple[float, ...], ...]
    weights: tuple[float, ...]

    def increment(self, system: System, state: np.ndarray, step: float) -> np.ndarray:
        return np.matmul(step * self._weights, self._slopes(system, state, step))

    def derivative(self, system: System, state: np.ndarray, step: float) -> np.ndarray:
        # differentiating the stage equations: (I - h A (x) J) dZ = (I, ..., I)^T
        count, stages, dim = len(state), len(self.weights), system.dim
        slopes = self._slopes(system, state, step)
        points = state[:, None, :] + np.matmul(step * self._matrix, slopes)
        jacobian = system.jacobian(points)
        right = np.tile(np.eye(dim), (stages, 1))
        inner = np.matmul(_inverse(self._newton_matrix(jacobian, step)), right)
        slopes_derivative = jacobian @ inner.reshape(count, stages, dim, dim)
        return np.eye(dim) + np.einsum("s,nsij->nij", step * self._weights, slopes_derivative)

    def _slopes(self, system: System, state: np.ndarray, step: float) -> np.ndarray:
        """f at the stages, shape (trajectory, stage, dim)."""
        matrix = step * self._matrix
        shape = (len(state), len(matrix), system.dim)
        base = state[:, None, :]
        # from y = 0 the first update is a linearly implicit step: exact for linear systems, and for
        # stiff ones on the branch of solutions that an explicit step may overshoot
        stage = np.zeros(shape)
        inverse = self._inverse_newton_matrix(system, base + stage, step)
        scale = np.abs(state).max(axis=1)
        running = np.ones(len(state), dtype=bool)
        previous = np.full(len(state), np.inf)
        for _ in range(_MAXIMUM_ITERATIONS):
            slopes = system.vector_field(base + stage)
            residual = (np.matmul(matrix, slopes) - stage).reshape(*inverse.shape[:-1], 1)
            update = np.matmul(inverse, residual).reshape(shape)
            size = np.abs(update).max(axis=(1, 2))
            scale = np.maximum(scale, size)
            if not np.isfinite(size.sum()):
                failed = ~np.isfinite(size)
                stage[failed] = slopes[failed] = np.nan
                running &= ~failed
            small = size <= _ROUNDING * scale
            running &= ~(small & (size >= previous)) & (size > _NOTHING * scale)
            if not running.any():
                return slopes
            stage += update if running.all() else np.where(running[:, None, None], update, 0.0)
            # the first update has nothing to be compared with: previous is infinite then
            slow = running & ~small & (size > _SLOW * previous)
            if slow.any():
                points = base[slow] + stage[slow]
                inverse[slow] = self._inverse_newton_matrix(system, points, step)
            previous = size
        slopes[running] = np.nan
        return slopes

    def _inverse_newton_matrix(self, system: System, points: np.ndarray, step: float) -> np.ndarray:
        return _inverse(self._newton_matrix(system.jacobian(points), step))

    def _newton_matrix(self, jacobian: np.ndarray, step: float) -> np.ndarray:
        """I - h A (x) J, shape (trajectory, stage * dim, stage * dim)."""
        count, stages, dim, _ = jacobian.shape
        if stages == 1:
            return np.eye(dim) - (step * self._matrix[0, 0]) * jacobian[:, 0]
        blocks = (-step * self._matrix)[:, None, :, None] * jacobian.transpose(0, 2, 1, 3)[:, None]
        return np.eye(stages * dim) + blocks.reshape(count, stages * dim, stages * dim)

    @cached_property
    def _matrix(self) -> np.ndarray:
        return np.array(self.matrix)

    @cached_property
    def _weights(self) -> np.ndarray:
        return np.array(self.weights)


def _inverse(matrices: np.ndarray) -> np.ndarray:
    """Inverses of a batch; NaN for those that have none."""
    try:
        return np.linalg.inv(matrices)
    except np.linalg.LinAlgError:
        result = np.full_like(matrices, np.nan)
        for i, matrix in enumerate(matrices):
            try:
                result[i] = np.linalg.inv(matrix)
            except np.linalg.LinAlgError:
                continue
        return result


def _two_stages() -> tuple[tuple[float, ...], ...]:
    # a_21 and then a_12 = 1/2 - a_21, which is exact: b_1 a_12 + b_2 a_21 = b_1 b_2 holds to the
    # last digit, so that quadratic invariants do not drift by the rounding of the coefficients
    lower = 1 / 4 + math.sqrt(3) / 6
    return ((1 / 4, 1 / 2 - lower), (lower, 1 / 4))


_SOURCE = "Butcher, Math. Comp. 18 (1964) 50-64; Hairer, Lubich, Wanner, GNI, section II.1.3"
_ROOT = math.sqrt(15)

IMPLICIT_MIDPOINT = GaussLegendre(
    name="implicit-midpoint",
    title="Implicit midpoint",
    order=2,
    symplectic=True,
    symmetric=True,
    source="Hairer, Lubich, Wanner, Geometric Numerical Integration, eq. (I.1.7)",
    matrix=((1 / 2,),),
    weights=(1.0,),
)
GAUSS_LEGENDRE_2 = GaussLegendre(
    name="gauss-legendre-2",
    title="Gauss–Legendre 2",
    order=2,
    symplectic=True,
    symmetric=True,
    source=f"{_SOURCE}; one stage, the implicit midpoint rule",
    matrix=((1 / 2,),),
    weights=(1.0,),
)
GAUSS_LEGENDRE_4 = GaussLegendre(
    name="gauss-legendre-4",
    title="Gauss–Legendre 4",
    order=4,
    symplectic=True,
    symmetric=True,
    source=f"{_SOURCE}; two stages (Hammer and Hollingsworth)",
    matrix=_two_stages(),
    weights=(1 / 2, 1 / 2),
)
GAUSS_LEGENDRE_6 = GaussLegendre(
    name="gauss-legendre-6",
    title="Gauss–Legendre 6",
    order=6,
    symplectic=True,
    symmetric=True,
    source=f"{_SOURCE}; three stages (Kuntzmann and Butcher)",
    matrix=(
        (5 / 36, 2 / 9 - _ROOT / 15, 5 / 36 - _ROOT / 30),
        (5 / 36 + _ROOT / 24, 2 / 9, 5 / 36 - _ROOT / 24),
        (5 / 36 + _ROOT / 30, 2 / 9 + _ROOT / 15, 5 / 36),
    ),
    weights=(5 / 18, 4 / 9, 5 / 18),
)
