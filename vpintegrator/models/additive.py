"""Maps of additive Hamiltonians, whose parts are found in data."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import Any, Literal

import torch

from vpintegrator.errors import InputError
from vpintegrator.models.components import Components
from vpintegrator.models.model import Model
from vpintegrator.nn.additive_flows import AdditiveFlows
from vpintegrator.nn.additive_hamiltonian import AdditiveHamiltonian, MagneticMotion, PartSum
from vpintegrator.nn.layer import default_dtype
from vpintegrator.nn.symmetry import check_even

Parts = list[list[list[list[float]]]]  # part, form, pair (component, factor)


def components_alone(size: int) -> Parts:
    """Return the parts of single components."""
    return [[[[i, 1.0]]] for i in range(size)]


def combinations_of_two(size: int, sign: float = -1.0) -> Parts:
    """Return the parts of differences, or for sign 1 of sums, of two components."""
    return [[[[i, sign], [j, 1.0]]] for i, j in combinations(range(size), 2)]


def oscillators(size: int) -> Parts:
    """Return the parts of actions q_i^2 + p_i^2, and of distances of two (q, p), of size freedoms.

    Their components are positions and then momenta.
    """
    alone = [[[[i, 1.0]], [[size + i, 1.0]]] for i in range(size)]
    return alone + [
        [[[i, -1.0], [j, 1.0]], [[size + i, -1.0], [size + j, 1.0]]]
        for i, j in combinations(range(size), 2)
    ]


def spread_directions(size: int, count: int) -> Parts:
    """Return parts of components along directions that spread over the sphere.

    Polynomials of degree d in all components are sums of powers along as many directions as there
    are monomials of that degree, in general position.
    """
    generator = torch.Generator().manual_seed(0)
    points = torch.randn(count, size, generator=generator, dtype=torch.float64)
    unit = points / points.norm(dim=1, keepdim=True)  # (direction, component)
    return [[[[i, factor] for i, factor in enumerate(row)]] for row in unit.tolist()]


class AdditiveHamiltonianMap(Model):
    r"""A one-step map of states (q, p) of a Hamiltonian that is a sum over parts.

    .. math:: H(q, p) = \sum_e f_e(s_e(q)) + \sum_e k_e(s_e(p))

    Functions of single components, of differences of two, or of distances of bodies: chains,
    lattices, trees and clouds of particles. With ``joint`` the parts are of positions and momenta
    together, :math:`H = \sum_e f_e(s_e(q, p))`: vortices, oscillators with amplitudes as variables.
    One step is a splitting method of order six, symplectic for all coefficients. ``vp.fit`` finds
    the parts in data.

    Parameters
    ----------
    dim
        Components of a state: positions, then momenta.
    parts
        Parts of the potential. A part is a list of linear forms, a form is a list of pairs
        (component, factor). A part of one form is a function of its value; a part of several is
        one of the root of the sum of their squares, such as a distance. By default all positions
        and their differences.
    kinetic
        Parts of the kinetic energy, of one form each, with momenta counted from 0. By default all
        momenta.
    joint
        Whether parts are of positions and momenta, momenta counted after the positions. Then there
        is no kinetic energy beside them, and a part has at most two forms that do not commute.
    turning
        Parts of a magnetic field across the plane of two positions, which turns the velocities: the
        last components are these, and the map keeps the volume.
    degree, kinetic_degree
        Functions of each slope, polynomials of one degree less. The field has as many as the
        potential.
    variable
        Variable of the slopes of distances: r squared, r, log r or 1 / r.
    equal, equal_kinetic
        Numbers of the functions of the parts, from 0 on. Parts of the same number have one
        function. First those of parts of one form count, then those of distances from 0 again.
    substeps
        Steps of the splitting method within the step.
    dtype
        Type of the weights; they are drawn in float64.

    Raises
    ------
    InputError
        For an odd number of components, parts of other components, or kinetic beside joint parts.

    References
    ----------
    Blanes, Moan, J. Comput. Appl. Math. 142 (2002) 313-330, for the splitting method.

    Examples
    --------
    >>> model = vp.models.AdditiveHamiltonianMap(dim=4, parts=[[[[0, -1], [1, 1]]]], degree=6)
    >>> model.structure.is_symplectic, sum(p.numel() for p in model.parameters())
    (True, 10)
    """

    name = "additive"
    canonical = True

    @default_dtype(torch.float64)
    def __init__(
        self,
        dim: int,
        *,
        parts: Sequence[Any] = (),
        kinetic: Sequence[Any] = (),
        joint: bool = False,
        turning: Sequence[Any] = (),
        degree: int = 4,
        kinetic_degree: int = 2,
        variable: Literal["square", "distance", "logarithm", "reciprocal"] = "logarithm",
        equal: Sequence[int] = (),
        equal_kinetic: Sequence[int] = (),
        substeps: int = 1,
        dtype: str | torch.dtype = "float64",
    ) -> None:
        components = Components(dim)
        check_even(dim, "; take vpff, which preserves volume")
        half = dim // 2
        size = dim if joint else half
        terms = [*parts] or [*components_alone(size), *combinations_of_two(size)]
        sums = _sums(size, terms, degree, variable, [*equal])
        if joint:
            if kinetic or turning or len(equal_kinetic):
                raise InputError("parts of joint components have no kinetic energy beside them")
            super().__init__(AdditiveFlows(sums, substeps=substeps), components, dtype=dtype)
            return
        momentum_parts = [*kinetic] or components_alone(half)
        momenta = PartSum(half, momentum_parts, kinetic_degree, "value", equal_kinetic)
        core = AdditiveHamiltonian(sums, [momenta], substeps=substeps)
        if turning:
            field = _sums(half, [*turning], degree, variable)
            core = MagneticMotion(sums, [momenta], field, substeps=substeps)
        super().__init__(core, components, dtype=dtype)


def _sums(
    size: int, parts: list[Any], degree: int, variable: str, equal: Sequence[int] = ()
) -> list[PartSum]:
    """Return the sum of parts of one form each, and that of the others."""
    sums = []
    for variable_of_sum in ("value", variable):
        is_single = variable_of_sum == "value"
        places = [n for n, part in enumerate(parts) if (len(part) == 1) == is_single]
        if places:
            forms = [parts[n] for n in places]
            functions = [equal[n] for n in places] if equal else []
            sums.append(PartSum(size, forms, degree, variable_of_sum, functions))
    return sums
