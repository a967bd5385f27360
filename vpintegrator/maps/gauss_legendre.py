"""Gauss-Legendre collocation, including the implicit midpoint rule, solved to rounding."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from typing import Any, Literal, final

import numpy as np

from vpintegrator.dynamics import System
from vpintegrator.dynamics.equations import is_tensor
from vpintegrator.maps.base import OneStepMethod
from vpintegrator.maps.map import Values
from vpintegrator.maps.newton import inverse_matrices, solve_stages, step_scales

_ROUNDING = 1e-9  # relative updates of stages that may be nothing but rounding errors


@final
@dataclass(frozen=True, kw_only=True)
class GaussLegendre(OneStepMethod):
    r"""Collocation at the Gauss points.

    .. math:: y_i = h \sum_j a_{ij} f(z + y_j), \qquad \Phi_h(z) = z + h \sum_i b_i f(z + y_i)

    The stages y are solved by Newton's method with the system's exact Jacobian, to rounding. A
    trajectory on which it does not converge gets NaN.

    Attributes
    ----------
    matrix, weights
        :math:`a_{ij}` and :math:`b_i`.
    """

    form: Literal["symplectic", "volume", "none"] = "symplectic"
    symmetric: bool = True
    matrix: tuple[tuple[float, ...], ...]
    weights: tuple[float, ...]

    def increment(self, system: System, state: Any, step: float, parameters: Values = ()) -> Any:
        matrix, weights = scaled_tableau(self.matrix, self.weights, step)
        slopes: Any
        if is_tensor(state):
            from vpintegrator.maps.implicit_stages import differentiable_slopes

            solve = partial(self._slopes, system, step=step)
            slopes = differentiable_slopes(solve, system, matrix, state, parameters)
        else:
            slopes = self._slopes(system, state, step, parameters)
        total = float(weights[0]) * slopes[:, 0]
        for i in range(1, len(weights)):
            total += float(weights[i]) * slopes[:, i]
        return total

    def derivative(
        self, system: System, state: np.ndarray, step: float, parameters: Values = ()
    ) -> np.ndarray:
        # differentiating the stage equations: (I - h A (x) J) dZ = (I, ..., I)^T
        count = len(state)
        stages = len(self.weights)
        dim = system.dim
        rows = np.ascontiguousarray(state.T)
        slopes = self._slopes(system, rows, step, parameters).transpose(2, 1, 0)
        matrix, weights = scaled_tableau(self.matrix, self.weights, step)
        points = state[:, None, :] + np.matmul(matrix, slopes)
        jacobian = system.jacobian_by_component(points.transpose(2, 1, 0), parameters)
        jacobian = jacobian.transpose(3, 2, 0, 1)  # (trajectory, stage, dim, dim)
        scales = step_scales(
            state.T, slopes[:, 0].T, jacobian[:, 0].transpose(1, 2, 0), float(np.abs(matrix).max())
        ).T
        ratios = scales[:, None, :] / scales[:, :, None]  # so that rounding depends on no units
        jacobian = jacobian * ratios[:, None]
        blocks = -matrix[:, None, :, None] * jacobian.transpose(0, 2, 1, 3)[:, None]
        newton = np.eye(stages * dim) + blocks.reshape(count, stages * dim, stages * dim)
        inner = np.matmul(inverse_matrices(newton), np.tile(np.eye(dim), (stages, 1)))
        slopes_derivative = jacobian @ inner.reshape(count, stages, dim, dim)
        return np.eye(dim) + np.einsum("s,nsij->nij", weights, slopes_derivative) / ratios

    def _slopes(
        self, system: System, state: np.ndarray, step: float, parameters: Values
    ) -> np.ndarray:
        """Return f at the stages, (dim, stage, trajectory)."""
        field = partial(system.vector_field_by_component, parameters=parameters)
        jacobian = partial(system.jacobian_by_component, parameters=parameters)
        matrix, _ = scaled_tableau(self.matrix, self.weights, step)
        rounding = max(_ROUNDING, system.smallest_tolerance)
        if (time_index := system.explicit_time) is None:
            return solve_stages(field, jacobian, state, matrix, rounding)
        times = state[time_index]
        state = state.copy()
        state[time_index] = 0.0  # stages are found to rounding of the state, whatever the time is

        def at(points: np.ndarray) -> np.ndarray:
            points = points.copy()
            points[time_index] += times
            return points

        return solve_stages(
            lambda z: field(at(z)), lambda z: jacobian(at(z)), state, matrix, rounding
        )


@lru_cache(maxsize=256)
def scaled_tableau(
    matrix: tuple[tuple[float, ...], ...], weights: tuple[float, ...], step: float
) -> tuple[np.ndarray, np.ndarray]:
    """Return h a_ij and h b_i, rounded together.

    Quadratic invariants are kept by b_i a_ij + b_j a_ji = b_i b_j. Numbers that are rounded one by
    one violate this by an error that is the same in every step: then invariants drift by 1e-13 in
    10^5 steps. So the entries above the diagonal, the small ones, are computed from those below;
    with two stages that is exact.
    """
    a = step * np.array(matrix)
    b = step * np.array(weights)
    np.fill_diagonal(a, b / 2)
    for i, j in zip(*np.triu_indices(len(b), 1), strict=True):
        a[i, j] = b[j] - a[j, i] * (b[j] / b[i])
    a.flags.writeable = b.flags.writeable = False
    return a, b


_SOURCE = "Butcher, Math. Comp. 18 (1964) 50-64; Hairer, Lubich, Wanner, GNI, section II.1.3"
_ROOT = math.sqrt(15)

IMPLICIT_MIDPOINT = GaussLegendre(
    name="implicit-midpoint",
    title="Implicit midpoint",
    order=2,
    source="Hairer, Lubich, Wanner, Geometric Numerical Integration, eq. (I.1.7)",
    matrix=((1 / 2,),),
    weights=(1.0,),
)
GAUSS_LEGENDRE_2 = replace(
    IMPLICIT_MIDPOINT,
    name="gauss-legendre-2",
    title="Gauss–Legendre 2",
    source=f"{_SOURCE}; one stage, the implicit midpoint rule",
)
GAUSS_LEGENDRE_4 = GaussLegendre(
    name="gauss-legendre-4",
    title="Gauss–Legendre 4",
    order=4,
    source=f"{_SOURCE}; two stages (Hammer and Hollingsworth)",
    matrix=((1 / 4, 1 / 4 - math.sqrt(3) / 6), (1 / 4 + math.sqrt(3) / 6, 1 / 4)),
    weights=(1 / 2, 1 / 2),
)
GAUSS_LEGENDRE_6 = GaussLegendre(
    name="gauss-legendre-6",
    title="Gauss–Legendre 6",
    order=6,
    source=f"{_SOURCE}; three stages (Kuntzmann and Butcher)",
    matrix=(
        (5 / 36, 2 / 9 - _ROOT / 15, 5 / 36 - _ROOT / 30),
        (5 / 36 + _ROOT / 24, 2 / 9, 5 / 36 - _ROOT / 24),
        (5 / 36 + _ROOT / 30, 2 / 9 + _ROOT / 15, 5 / 36),
    ),
    weights=(5 / 18, 4 / 9, 5 / 18),
)
