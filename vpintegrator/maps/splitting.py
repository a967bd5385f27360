"""Splitting methods, which move the state part by part: coordinate splitting, Stoermer-Verlet.

Coordinate splitting z_i <- z_i + h f_i(z), in turn, is explicit. Where f_i does not depend on z_i,
each move is a shear of determinant 1, so the step preserves volume exactly (McLachlan and Quispel,
Acta Numerica 11 (2002) 341-434).

A composition has the same order for coordinate splitting, of any number of parts, as it has for a
splitting of the vector field in two (McLachlan, SIAM J. Sci. Comput. 16 (1995) 151-168; Hairer,
Lubich, Wanner, Geometric Numerical Integration, section III.3). Compositions of order 2
and more are palindromes, so they are symmetric.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Literal, final

import numpy as np

from vpintegrator.dynamics import System
from vpintegrator.dynamics.claims import vanishes
from vpintegrator.dynamics.compositions import FACTORS, moves_of
from vpintegrator.dynamics.equations import Equations, SparseFunction, stack_rows, zeros_like
from vpintegrator.errors import InputError
from vpintegrator.maps.base import OneStepMethod, once_per_system
from vpintegrator.maps.map import Values


class Part:
    """Components that do not depend on one another, moved at once.

    Attributes
    ----------
    rows
        Numbers of the components.
    place
        The same as an index of states: a slice where they are consecutive.
    """

    def __init__(self, equations: Equations, rows: Sequence[int]) -> None:
        self.rows = list(rows)
        first = self.rows[0]
        last = self.rows[-1]
        consecutive = self.rows == list(range(first, last + 1))
        self.place: slice | list[int] = slice(first, last + 1) if consecutive else self.rows
        self.field = SparseFunction(equations, [equations.vector_field[i] for i in self.rows])
        self._equations = equations

    @cached_property
    def jacobian(self) -> tuple[list[tuple[int, int]], SparseFunction]:
        """Places of the derivatives that are not zero, and the function that gives them."""
        entries = {
            place: entry
            for place, entry in self._equations.jacobian.items()
            if place[0] in self.rows
        }
        return list(entries), SparseFunction(self._equations, list(entries.values()))


@dataclass(frozen=True, kw_only=True)
class Splitting(OneStepMethod):
    """Composition of chi, which moves the parts in turn, and its adjoint, the reverse order.

    Attributes
    ----------
    factors
        alpha_1, alpha_2, ..., applied in this order: chi with the step alpha_1 h, its adjoint with
        alpha_2 h, chi with alpha_3 h, and so on; their sum is 1. A part that would be moved twice
        in a row is moved once.
    """

    needs_formulas: ClassVar[bool] = True

    factors: tuple[float, ...]

    def __post_init__(self) -> None:
        if not math.isclose(total := math.fsum(self.factors), 1, abs_tol=1e-14):
            raise InputError(f"{self.name}: its factors sum to {total:.15g}, not 1")

    @abstractmethod
    def parts(self, system: System) -> tuple[Part, ...]:
        """Return the parts in the order in which chi moves them."""

    def blocks(self, system: System) -> Sequence[list[int]]:
        return [part.rows for part in self.parts(system)]

    def evaluations(self, system: System) -> float:
        parts = [part.rows for part in self.parts(system)]
        sizes = [0 if rows == [system.explicit_time] else len(rows) for rows in parts]
        return sum(sizes[i] for i, _ in moves_of(self.factors, len(parts))) / system.phase_dim

    def increment(self, system: System, state: Any, step: float, parameters: Values = ()) -> Any:
        parts = self.parts(system)
        total = zeros_like(state)
        components = [*state, *parameters]
        for index, factor in moves_of(self.factors, len(parts)):
            part = parts[index]
            rates = part.field(components)
            if len(rates) == 1:
                total[part.place] += (factor * step) * rates[0]
            else:
                total[part.place] += (factor * step) * stack_rows(rates, state[0])
            moved = state[part.place] + total[part.place]
            for i, row in zip(part.rows, moved, strict=True):
                components[i] = row
        return total

    def derivative(
        self, system: System, state: np.ndarray, step: float, parameters: Values = ()
    ) -> np.ndarray:
        parts = self.parts(system)
        moved = np.array(state.T, order="C")
        dim, count = moved.shape
        result = np.zeros((dim, dim, count))
        result.reshape(dim * dim, count)[:: dim + 1] = 1.0
        components = [*moved, *parameters]  # views, so they move with it
        for index, factor in moves_of(self.factors, len(parts)):
            part = parts[index]
            places, jacobian = part.jacobian
            for (i, j), value in zip(places, jacobian(components), strict=True):
                result[i] += (factor * step * value) * result[j]
            moved[part.place] += (factor * step) * stack_rows(part.field(components), moved[0])
        return np.ascontiguousarray(result.transpose(2, 0, 1))


@final
@dataclass(frozen=True, kw_only=True)
class CoordinateSplitting(Splitting):
    r"""Compositions of coordinate splitting and its adjoint.

    Coordinate splitting :math:`\chi_h` moves one component after another,

    .. math:: z_i \mapsto z_i + h f_i(z), \qquad i = 1, \dots, n,

    each with those before it already moved; its adjoint :math:`\chi^*_h` goes from the last to the
    first. A composition is
    :math:`\cdots \circ \chi_{\alpha_3 h} \circ \chi^*_{\alpha_2 h} \circ \chi_{\alpha_1 h}`.

    Components of a Hamiltonian system move positions first, whatever the order of its state.

    Applies where no :math:`f_i` depends on :math:`z_i`: then each part is a shear. On a separable
    Hamiltonian system, the positions first, it is symplectic Euler, and its symmetric composition
    the Stoermer-Verlet method. Time is a part of its own, before all others, so that both sweeps of
    a symmetric composition see the same.
    """

    form: Literal["symplectic", "volume", "none"] = "volume"

    def check(self, system: System) -> None:
        for i, name in enumerate(system.components):
            if (i, i) in dependence(system):
                raise InputError(
                    f"{self.name} needs components whose rates do not depend on themselves, but in "
                    f"{system.name} the rate of {name} depends on {name}; take another method, "
                    "such as implicit-midpoint"
                )

    def _is_symplectic(self, system: System) -> bool:
        return is_separable(system)

    def parts(self, system: System) -> tuple[Part, ...]:
        return _coordinate_parts(system)


@once_per_system
def _coordinate_parts(system: System) -> tuple[Part, ...]:
    edges = dependence(system)
    order = list(system.canonical_order or range(system.dim))[: system.phase_dim]
    parts = time_part(system)
    rows = order[:1]
    for i in order[1:]:
        if any((i, j) in edges or (j, i) in edges for j in rows):
            parts.append(Part(system.equations, rows))
            rows = []
        rows.append(i)
    return (*parts, Part(system.equations, rows))


def time_part(system: System) -> list[Part]:
    """Return the part of the time component, if there is one."""
    explicit_time = system.explicit_time
    return [] if explicit_time is None else [Part(system.equations, [explicit_time])]


@once_per_system
def dependence(system: System) -> frozenset[tuple[int, int]]:
    """Return the pairs i, j where the rate of component i depends on component j."""
    e = system.equations
    return frozenset(
        place
        for place, entry in e.jacobian.items()
        # a rate that depends on itself rules out a method: it is worth a closer look
        if place[0] != place[1] or not vanishes(entry, e.arguments)
    )


def is_separable(system: System) -> bool:
    """Whether the system is Hamiltonian with H(q, p) = T(p) + V(q), or T(p, t) + V(q, t)."""
    edges = ((i, j) for i, j in dependence(system) if j != system.explicit_time)
    positions = {*system.equations.halves[0]}
    return system.is_hamiltonian and all((i in positions) != (j in positions) for i, j in edges)


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

    form: Literal["symplectic", "volume", "none"] = "symplectic"
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
    e = system.equations
    positions, momenta = (Part(e, half) for half in e.halves)
    return momenta, *time_part(system), positions


STOERMER_VERLET = StoermerVerlet(
    name="stoermer-verlet",
    title="Störmer–Verlet",
    order=2,
    source="Hairer, Lubich, Wanner, Acta Numerica 12 (2003) 399-450, eq. (1.5)",
)

# title, order and source of each; Yoshida's own solutions of his equations of order 8 have error
# constants larger by far than the one here
_COMPOSITIONS = {
    "coordinate-splitting": (
        "Coordinate splitting",
        1,
        "McLachlan and Quispel, Acta Numerica 11 (2002) 341-434, on splitting methods",
    ),
    "strang-splitting": (
        "Strang splitting",
        2,
        "Strang, SIAM J. Numer. Anal. 5 (1968) 506-517; of coordinate splitting and its adjoint",
    ),
    "yoshida-4": (
        "Yoshida 4",
        4,
        "Yoshida, Phys. Lett. A 150 (1990) 262-268, the triple jump: 3 Strang splittings; also "
        "Suzuki, Phys. Lett. A 146 (1990) 319-323",
    ),
    "yoshida-6": (
        "Yoshida 6",
        6,
        "Yoshida, Phys. Lett. A 150 (1990) 262-268, table 1, solution A: 7 Strang splittings",
    ),
    "yoshida-8": (
        "Yoshida 8",
        8,
        "15 Strang splittings; Yoshida's equations, Phys. Lett. A 150 (1990) 262-268, in the "
        "solution of Suzuki and Umeno (1993) and McLachlan (1995): Hairer, Lubich, Wanner, "
        "Geometric Numerical Integration, section V.3.2",
    ),
    "blanes-moan-4": (
        "Blanes–Moan 4",
        4,
        "Blanes and Moan, J. Comput. Appl. Math. 142 (2002) 313-330, S_6 of order 4",
    ),
    "blanes-moan-6": (
        "Blanes–Moan 6",
        6,
        "Blanes and Moan, J. Comput. Appl. Math. 142 (2002) 313-330, S_10 of order 6",
    ),
}

COMPOSITIONS = [
    CoordinateSplitting(
        name=name,
        title=title,
        order=order,
        symmetric=order > 1,
        source=source,
        factors=FACTORS[name],
    )
    for name, (title, order, source) in _COMPOSITIONS.items()
]
