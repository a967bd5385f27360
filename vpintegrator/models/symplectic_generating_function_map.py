"""The symplectic map of a generating function: trained by one linear solve."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import torch

from vpintegrator.arguments import whole
from vpintegrator.errors import InputError
from vpintegrator.models.arguments import Matrices, Periods
from vpintegrator.models.components import Components
from vpintegrator.models.generating_symmetries import generating_refusal, signs_of_symplectic
from vpintegrator.models.model import Model
from vpintegrator.nn.elementary_hamiltonians import ORDERS, ElementaryHamiltonians
from vpintegrator.nn.generating_function import GeneratingFunction
from vpintegrator.nn.generating_maps import SymplecticGeneratingFunction
from vpintegrator.nn.layer import default_dtype
from vpintegrator.nn.symmetry import check_even


class SymplecticGeneratingFunctionMap(Model):
    r"""A one-step map of states (q, p) given by Poincare's generating function.

    .. math:: z' = z + J\, \nabla S\!\left(\frac{z + z'}{2}\right)

    Symplectic for every S, and reversible by the choice of its terms. S is a polynomial whose
    coefficients follow from pairs of states by linear least squares: ``optimizer = "linear"``.

    Parameters
    ----------
    dim
        Components of a state: positions, then momenta, then those that are read alone.
    functions
        Functions of the states: polynomials, with harmonics of angles.
    degree
        Degree of the polynomials, in all components together.
    repeats
        Equal maps in a row, each of an equal part of the step; for autonomous systems.
    hamiltonian
        Formula ``z[1]**2/2 - cos(z[0])`` of a known Hamiltonian, whose elementary Hamiltonians are
        added to S.
    order
        Order of these elementary Hamiltonians: 2, 4 or 6.
    reversing_symmetries
        Matrices rho with f(rho z) = -rho f(z). The map is made reversible for each of them; layers
        are averaged over the group of their products, or commute with it.
    periodic
        Components that are angles, by number, with their periods. Polynomials have their sines and
        cosines in place of powers, the order of the harmonic counting as the degree.
    cyclic
        Components, by number, that polynomials do not depend on.
    conserved
        Last components, by number, that stay as they are, bit by bit, and that the others depend
        on.
    explicit_time
        Whether the last component is the time: every call moves it on by the same, and all else as
        one in which it stays what it is in the middle of the step.
    parameters
        Number of parameters of a family that all functions read, see ``Model``.
    vanishing
        Those of these parameters, from 0 on, at zero of which nothing moves, as at step zero.
    dtype
        Type of the weights; they are drawn in float64.

    Raises
    ------
    InputError
        For an odd number of moving components, or symmetries that do not keep the symplectic form
        but for its sign.

    References
    ----------
    Hairer, Lubich, Wanner, Geometric Numerical Integration, section VI.5.

    Examples
    --------
    >>> model = vp.models.SymplecticGeneratingFunctionMap(dim=4, degree=4)
    >>> model.structure.is_symplectic, model.linear_in_parameters
    (True, True)
    """

    name = "sgf"
    linear_in_parameters = True

    @classmethod
    def _refusal(cls, components: Components, arguments: Mapping[str, Any]) -> str | None:
        return generating_refusal(components)

    @default_dtype(torch.float64)
    def __init__(
        self,
        dim: int,
        *,
        functions: Literal["polynomial"] = "polynomial",
        degree: int = 6,
        repeats: int = 1,
        hamiltonian: str = "",
        order: int = 6,
        reversing_symmetries: Matrices = (),
        periodic: Periods = (),
        cyclic: Sequence[int] = (),
        conserved: Sequence[int] = (),
        explicit_time: bool = False,
        parameters: int = 0,
        vanishing: Sequence[int] = (),
        dtype: str | torch.dtype = "float64",
    ) -> None:
        components = Components(
            dim,
            reversing_symmetries,
            periodic,
            cyclic,
            conserved,
            explicit_time,
            parameters,
            vanishing,
        )
        check_repeats(repeats, explicit_time)
        if order not in ORDERS:
            raise InputError(f"order must be one of 2, 4 and 6, not {order!r}")
        check_even(components.moving, "; take vpgf, which preserves volume")
        description = f"symplectic map of a generating function of degree {degree}"
        S = GeneratingFunction(
            components.moving,
            degree,
            group=signs_of_symplectic(components),
            periodic=[*components.periods],
            cyclic=components.cyclic,
            parameters=components.read,
            vanishing=components.vanishing,
        )
        exact = None
        if hamiltonian:
            exact = ElementaryHamiltonians(
                hamiltonian, components.moving, order, components.read, explicit_time
            )
            description += f" and of elementary Hamiltonians up to order {order}"
        core = SymplecticGeneratingFunction(S, exact, repeats)
        super().__init__(core, components, dtype=dtype, description=description)


def check_repeats(repeats: int, explicit_time: bool) -> None:
    """Raise InputError unless so many equal maps in a row are a map of the step."""
    whole("repeats", repeats)
    if repeats > 1 and explicit_time:
        raise InputError("maps in a row know no explicit time: repeats must be 1")
