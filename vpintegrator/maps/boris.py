"""The Boris method for charged particles in electric and magnetic fields."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, final

import numpy as np

from vpintegrator.dynamics import System
from vpintegrator.dynamics.claims import vanishes
from vpintegrator.dynamics.equations import SparseFunction, stack_rows, zeros_like
from vpintegrator.dynamics.expressions.nodes import Value
from vpintegrator.errors import InputError
from vpintegrator.maps.base import OneStepMethod, once_per_system
from vpintegrator.maps.map import Values


@final
@dataclass(frozen=True, kw_only=True)
class Boris(OneStepMethod):
    r"""Half a drift, half a kick, a rotation, half a kick, half a drift.

    For :math:`\dot x = v`, :math:`\dot v = E(x) + v \times B(x)`: positions first, then as many
    velocities, in the plane (B at right angles to it) or in space. With
    :math:`x_{1/2} = x_0 + \tfrac{h}{2} v_0`, E and B there, :math:`t = \tfrac{h}{2} B` and
    :math:`s = 2 t / (1 + t \cdot t)`:

    .. math::

        v^- &= v_0 + \tfrac{h}{2} E, & v^+ &= v^- + (v^- + v^- \times t) \times s, \\
        v_1 &= v^+ + \tfrac{h}{2} E, & x_1 &= x_{1/2} + \tfrac{h}{2} v_1.

    Each of these maps preserves volume, so the step does (Qin et al., Phys. Plasmas 20 (2013)
    084503), and their order is a palindrome. Without magnetic field it is the Verlet method. Fields
    that depend on time are those of t + h/2.
    """

    needs_formulas: ClassVar[bool] = True

    def check(self, system: System) -> None:
        if reason := _mismatch(system):
            raise InputError(
                f"{self.name} needs a particle in the plane or in space, x' = v and v' = E(x) + "
                f"v x B(x), but in {system.name} {reason}; take another method, such as "
                "implicit-midpoint"
            )

    def _is_symplectic(self, system: System) -> bool:
        return system.is_hamiltonian  # a field x' = v is Hamiltonian only without a magnetic field

    def blocks(self, system: System) -> Sequence[list[int]]:
        return system.equations.halves

    def evaluations(self, system: System) -> float:
        return 1.0

    def increment(self, system: System, state: Any, step: float, parameters: Values = ()) -> Any:
        positions, velocities = system.equations.halves
        velocity = state[velocities]
        time = slice(2 * len(positions), None)
        middle = zeros_like(state)
        middle[positions] = state[positions] + (step / 2) * velocity
        middle[time] = state[time] + step / 2
        electric, magnetic = _fields(system, [*middle, *parameters])
        result = zeros_like(state)
        change = kick(velocity, electric, magnetic, step)
        result[velocities] = change
        result[positions] = step * velocity + (step / 2) * change
        result[time] = step
        return result

    def derivative(
        self, system: System, state: np.ndarray, step: float, parameters: Values = ()
    ) -> np.ndarray:
        # the formulas of increment, differentiated; d... are (component, derivative, trajectory)
        half = system.phase_dim // 2
        count = len(state)
        positions, velocities = system.equations.halves
        state = np.array(state.T, order="C")
        identity = np.zeros((system.dim, system.dim, count))
        identity.reshape(-1, count)[:: system.dim + 1] = 1.0
        middle = np.zeros_like(state)
        d_middle = identity.copy()
        middle[positions] = state[positions] + (step / 2) * state[velocities]
        middle[2 * half :] = state[2 * half :] + step / 2
        d_middle[positions] += (step / 2) * identity[velocities]
        components = [*middle, *parameters]
        electric, magnetic = _fields(system, components)
        gradient = stack_rows(_particle(system)[1](components), middle[0])
        gradient = gradient.reshape(-1, system.dim, count)
        d_fields = np.einsum("ijn,jkn->ikn", gradient, d_middle)
        kick = step * electric
        turn = (step / 2) * magnetic
        d_kick = step * d_fields[:half]
        d_turn = (step / 2) * d_fields[half:]
        before = state[velocities] + kick / 2
        d_before = identity[velocities] + d_kick / 2
        scale = 2 / (1 + _square(turn))
        d_scale = -(scale**2) * np.add.reduce(turn[:, None] * d_turn, axis=0)
        double = scale * turn
        d_double = scale * d_turn + d_scale * turn[:, None]
        inner = before + _cross(before, turn)
        d_inner = d_before + _cross(d_before, turn[:, None]) + _cross(before[:, None], d_turn)
        d_velocity = d_kick + _cross(d_inner, double[:, None]) + _cross(inner[:, None], d_double)
        result = identity.copy()
        result[velocities] += d_velocity
        result[positions] += step * identity[velocities] + (step / 2) * d_velocity
        return np.ascontiguousarray(result.transpose(2, 0, 1))


def _mismatch(system: System) -> str:
    """Return what makes a system no particle in electric and magnetic fields, or nothing."""
    e = system.equations
    dim = system.phase_dim
    if dim not in (4, 6):
        return f"there are {dim} components"
    names = system.components
    symbols = e.symbols
    algebra = e.algebra
    positions, velocities = e.halves
    for i, k in zip(positions, velocities, strict=True):
        if not vanishes(algebra.subtract(e.vector_field[i], symbols[k]), symbols):
            return f"the rate of {names[i]} is not {names[k]}"
    names = tuple(names[k] for k in velocities)
    matrix = _velocity_matrix(system)
    for i, j in matrix:
        slopes = algebra.gradient(matrix[i, j])
        if not all(vanishes(slopes.get(symbols[k], 0), symbols) for k in velocities):
            return f"the rate of {names[i]} is not linear in {names[j]}"
        if j <= i and not vanishes(algebra.add(matrix[i, j], matrix[j, i]), symbols):
            if i == j:
                return f"the rate of {names[i]} depends on {names[i]} itself"
            return f"{names[i]} and {names[j]} act on each other with factors not opposite"
    return ""


def kick(velocity: Any, electric: Any, magnetic: Any, step: Any) -> Any:
    """Return the change of a velocity (component, ...) in fields E and B, numbers or formulas."""
    turn = (step / 2) * magnetic
    change = step * electric
    before = velocity + change / 2
    double = (2 / (1 + _square(turn))) * turn
    return change + _cross(before + _cross(before, turn), double)


def _fields(system: System, components: list[Any]) -> tuple[Any, Any]:
    """Return E and B at components (trajectory,) of states and open parameters."""
    result = stack_rows(_particle(system)[0](components), components[0])
    half = system.phase_dim // 2
    return result[:half], result[half:]


def _cross(velocity: Any, field: Any) -> Any:
    """Return v x B with the components first; in the plane B has one normal component."""
    if len(field) == 1:
        rows = [velocity[1] * field[0], -(velocity[0] * field[0])]
    else:
        rows = [
            velocity[1] * field[2] - velocity[2] * field[1],
            velocity[2] * field[0] - velocity[0] * field[2],
            velocity[0] * field[1] - velocity[1] * field[0],
        ]
    return stack_rows(rows, rows[0])


def _square(field: Any) -> Any:
    """Return B.B, summed in a fixed order."""
    total = field[0] * field[0]
    for component in field[1:]:
        total = total + component * component
    return total


def _velocity_matrix(system: System) -> dict[tuple[int, int], Value]:
    """Return the derivatives of the accelerations by the velocities."""
    (_, velocities) = system.equations.halves
    jacobian = system.equations.jacobian
    return {
        (i, j): jacobian.get((v, w), 0)
        for i, v in enumerate(velocities)
        for j, w in enumerate(velocities)
    }


def field_formulas(system: System) -> list[Value]:
    """Return the formulas of the components of E, and then of B.

    B has one component in the plane, at right angles to it, and three in space.
    """
    e = system.equations
    matrix = _velocity_matrix(system)
    velocities = e.halves[1]
    magnetic = [(0, 1)] if len(velocities) == 2 else [(1, 2), (2, 0), (0, 1)]
    # linear in the velocity, so each may be taken at rest
    return e.algebra.substitute(
        [*(e.vector_field[i] for i in velocities), *(matrix[entry] for entry in magnetic)],
        dict.fromkeys((e.symbols[i] for i in velocities), 0),
    )


@once_per_system
def _particle(system: System) -> tuple[SparseFunction, SparseFunction]:
    """Return the function of E and B, and that of their derivatives by the state, row by row."""
    e = system.equations
    fields = field_formulas(system)
    slopes = [e.algebra.gradient(f) for f in fields]
    derivatives = [slope.get(x, 0) for slope in slopes for x in e.symbols]
    return SparseFunction(e, fields), SparseFunction(e, derivatives)


BORIS = Boris(
    name="boris",
    title="Boris",
    order=2,
    form="volume",
    symmetric=True,
    source="Boris, Proc. 4th Conf. Numerical Simulation of Plasmas (1970) 3-67; Qin et al., Phys. "
    "Plasmas 20 (2013) 084503",
)
