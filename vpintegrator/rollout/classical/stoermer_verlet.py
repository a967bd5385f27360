"""The Stoermer-Verlet method for separable Hamiltonian systems."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np

from vpintegrator.dynamics import System
from vpintegrator.errors import InputError
from vpintegrator.rollout.classical.base import OneStepMethod


@final
@dataclass(frozen=True, kw_only=True)
class StoermerVerlet(OneStepMethod):
    """Half a kick, a drift, half a kick, for H(q, p) = T(p) + V(q).

    p_{1/2} = p - h/2 V'(q),  q_1 = q + h T'(p_{1/2}),  p_1 = p_{1/2} - h/2 V'(q_1).
    Explicit, symplectic, symmetric: a composition of shears, so its determinant is 1.
    """

    def check(self, system: System) -> None:
        if not system.is_hamiltonian:
            raise InputError(
                f"{self.name} needs a Hamiltonian H(q, p) = T(p) + V(q), but {system.name} is "
                "given by a vector field; take another method, such as implicit-midpoint"
            )
        half = system.dim // 2
        mixed = any((i < half) == (j < half) for i, j in system.equations.jacobian)
        if mixed:
            raise InputError(
                f"{self.name} needs a separable Hamiltonian H(q, p) = T(p) + V(q), but that of "
                f"{system.name} mixes positions and momenta; take another method, such as "
                "implicit-midpoint"
            )

    def increment(self, system: System, state: np.ndarray, step: float) -> np.ndarray:
        half = system.dim // 2
        kick = (step / 2) * system.vector_field(state)[:, half:]
        moved = state.copy()
        moved[:, half:] += kick
        drift = step * system.vector_field(moved)[:, :half]
        moved[:, :half] += drift
        kick += (step / 2) * system.vector_field(moved)[:, half:]
        return np.concatenate([drift, kick], axis=1)

    def derivative(self, system: System, state: np.ndarray, step: float) -> np.ndarray:
        half = system.dim // 2
        moved = state.copy()
        result = np.broadcast_to(np.eye(system.dim), (*state.shape, system.dim)).copy()
        for rows, size in (
            (slice(half, None), step / 2),
            (slice(None, half), step),
            (slice(half, None), step / 2),
        ):
            result[:, rows] += size * (system.jacobian(moved)[:, rows] @ result)
            moved[:, rows] += size * system.vector_field(moved)[:, rows]
        return result


STOERMER_VERLET = StoermerVerlet(
    name="stoermer-verlet",
    title="Störmer–Verlet",
    order=2,
    symplectic=True,
    volume_preserving=True,
    symmetric=True,
    source="Hairer, Lubich, Wanner, Acta Numerica 12 (2003) 399-450, eq. (1.5)",
)
