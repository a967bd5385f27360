"""The Stoermer-Verlet method for separable Hamiltonian systems."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

from vpintegrator.dynamics import System
from vpintegrator.errors import InputError
from vpintegrator.rollout.classical.per_system import once_per_system
from vpintegrator.rollout.classical.splitting import Part, Splitting, is_separable, time_part


@final
@dataclass(frozen=True, kw_only=True)
class StoermerVerlet(Splitting):
    r"""Half a kick, a drift, half a kick, for :math:`H(q, p) = T(p) + V(q)`.

    .. math::

        p_{1/2} &= p_0 - \tfrac{h}{2} \nabla V(q_0), \\
        q_1 &= q_0 + h \nabla T(p_{1/2}), \\
        p_1 &= p_{1/2} - \tfrac{h}{2} \nabla V(q_1).

    Explicit, symplectic, symmetric: a composition of shears, so its determinant is 1. For
    :math:`T(p, t) + V(q, t)` the kicks are those of t and t + h, and the drift that of t + h/2.
    """

    symplectic: bool = True
    volume_preserving: bool = True
    symmetric: bool = True
    factors: tuple[float, ...] = (1 / 2, 1 / 2)

    def check(self, system: System) -> None:
        if not system.is_hamiltonian:
            raise InputError(
                f"{self.name} needs a Hamiltonian H(q, p) = T(p) + V(q), but {system.name} is "
                "given by a vector field; take another method, such as implicit-midpoint"
            )
        if not is_separable(system):
            raise InputError(
                f"{self.name} needs a separable Hamiltonian H(q, p) = T(p) + V(q), but that of "
                f"{system.name} mixes positions and momenta; take another method, such as "
                "implicit-midpoint"
            )

    def parts(self, system: System) -> tuple[Part, ...]:
        return _momenta_and_positions(system)


@once_per_system
def _momenta_and_positions(system: System) -> tuple[Part, ...]:
    e, half = system.equations, system.phase_dim // 2
    return Part(e, half, 2 * half), *time_part(system), Part(e, 0, half)


STOERMER_VERLET = StoermerVerlet(
    name="stoermer-verlet",
    title="Störmer–Verlet",
    order=2,
    source="Hairer, Lubich, Wanner, Acta Numerica 12 (2003) 399-450, eq. (1.5)",
)
