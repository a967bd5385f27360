"""Explicit Runge-Kutta methods, each given by its tableau."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np

from vpintegrator.dynamics import System
from vpintegrator.rollout.classical.base import OneStepMethod


@final
@dataclass(frozen=True, kw_only=True)
class ExplicitRungeKutta(OneStepMethod):
    """k_i = f(z + h sum_{j<i} a_ij k_j), Phi_h(z) = z + h sum_i b_i k_i.

    Attributes
    ----------
    stages
        Rows a_i1, ..., a_i,i-1 of the tableau for the stages after the first.
    weights
        b_1, ..., b_s.
    """

    stages: tuple[tuple[float, ...], ...] = ()
    weights: tuple[float, ...]

    def increment(self, system: System, state: np.ndarray, step: float) -> np.ndarray:
        slopes = [system.vector_field(state)]
        for row in self.stages:
            slopes.append(system.vector_field(state + _combine(row, slopes, step)))
        return _combine(self.weights, slopes, step)

    def derivative(self, system: System, state: np.ndarray, step: float) -> np.ndarray:
        identity = np.eye(system.dim)
        slopes = [system.vector_field(state)]
        derivatives = [system.jacobian(state)]
        for row in self.stages:
            stage = state + _combine(row, slopes, step)
            slopes.append(system.vector_field(stage))
            inner = identity + _combine(row, derivatives, step)
            derivatives.append(system.jacobian(stage) @ inner)
        return identity + _combine(self.weights, derivatives, step)


def _combine(row: tuple[float, ...], terms: list[np.ndarray], step: float) -> np.ndarray:
    """h times the weighted sum of the terms."""
    total: np.ndarray | None = None
    for weight, term in zip(row, terms, strict=True):
        if weight:
            part = (step * weight) * term
            total = part if total is None else np.add(total, part, out=total)
    return np.zeros_like(terms[0]) if total is None else total


EXPLICIT_EULER = ExplicitRungeKutta(
    name="explicit-euler",
    title="Explicit Euler",
    order=1,
    source="Euler, Institutiones calculi integralis I (1768)",
    weights=(1.0,),
)
EXPLICIT_MIDPOINT = ExplicitRungeKutta(
    name="explicit-midpoint",
    title="Explicit midpoint",
    order=2,
    source="Runge, Math. Ann. 46 (1895) 167-178",
    stages=((1 / 2,),),
    weights=(0.0, 1.0),
)
HEUN = ExplicitRungeKutta(
    name="heun",
    title="Heun",
    order=2,
    source="Heun, Z. Math. Phys. 45 (1900) 23-38; the explicit trapezoidal rule",
    stages=((1.0,),),
    weights=(1 / 2, 1 / 2),
)
RK4 = ExplicitRungeKutta(
    name="rk4",
    title="RK4",
    order=4,
    source="Kutta, Z. Math. Phys. 46 (1901) 435-453",
    stages=((1 / 2,), (0.0, 1 / 2), (0.0, 0.0, 1.0)),
    weights=(1 / 6, 1 / 3, 1 / 3, 1 / 6),
)
