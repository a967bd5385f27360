"""Maps of generating functions: symplectic or volume-preserving, trained by one linear solve."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Sequence
from typing import Any, Literal

import torch

from vpintegrator.arguments import whole
from vpintegrator.errors import InputError
from vpintegrator.models.components import Components
from vpintegrator.models.model import Model
from vpintegrator.models.stored import Matrices, Periods
from vpintegrator.nn.basis_layers import NoTermsError
from vpintegrator.nn.elementary_hamiltonians import ORDERS, ElementaryHamiltonians
from vpintegrator.nn.generating_function import GeneratingFunction
from vpintegrator.nn.generating_maps import (
    SymplecticGeneratingFunction,
    VolumePreservingGeneratingFunction,
)
from vpintegrator.nn.invariant_polynomial import InvariantPolynomial
from vpintegrator.nn.layer import default_dtype
from vpintegrator.nn.rotations import Rotations
from vpintegrator.nn.symmetry import (
    TOLERANCE,
    SignedGroup,
    as_matrices,
    check_even,
    form_signs,
    generated_group,
    is_diagonal,
    symmetry_group,
)


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
    weights
        Weight of each component in the degree, by default one: functions of a component of weight
        0.5 have twice the degree.
    combinations
        Rows of a matrix M: polynomials are functions of the combinations M z of the normalised
        components, each in the place of a component; ``weights`` and ``cyclic`` are theirs.
        Combinations of angles are integer, such as q[1] - q[0] in the place of q[1].
    quadratic_invariants
        Symmetric matrices F of functions :math:`(1, z)^T F (1, z)` of the normalised components
        that the map keeps, such as an angular momentum. Their flows must rotate planes. S has only
        such terms then; there are no weights, combinations, angles and symmetries beside them.
    repeats
        Equal maps in a row, each of an equal part of the step; for autonomous systems.
    hamiltonian
        Formula ``z[1]**2/2 - cos(z[0])`` of a known Hamiltonian, whose elementary Hamiltonians are
        added to S.
    order
        Order of these elementary Hamiltonians: 2, 4 or 6.
    reversing_symmetries, periodic, cyclic, conserved, explicit_time, parameters, vanishing, dtype
        As in ``VolumePreservingFeedForward``.

    Raises
    ------
    InputError
        For an odd number of moving components, symmetries that do not keep the symplectic form
        but for its sign, or combinations that have no inverse or break the period of an angle; for
        quadratic invariants whose flows do not commute, or do more than rotate planes.

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
    reads_equations = True
    canonical = True
    linear_in_parameters = True

    @default_dtype(torch.float64)
    def __init__(
        self,
        dim: int,
        *,
        functions: Literal["polynomial"] = "polynomial",
        degree: int = 6,
        weights: Sequence[float] = (),
        combinations: Sequence[Any] = (),
        quadratic_invariants: Matrices = (),
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
        read = conserved, explicit_time, parameters, vanishing
        components = Components(dim, reversing_symmetries, periodic, cyclic, *read)
        _check_repeats(repeats, explicit_time)
        if order not in ORDERS:
            raise InputError(f"order must be one of 2, 4 and 6, not {order!r}")
        check_even(components.moving, "; take vpgf, which preserves volume")
        if len(quadratic_invariants):
            others = (weights, combinations, hamiltonian, reversing_symmetries, periodic, cyclic)
            if any(map(len, others)) or components.read:
                raise InputError(
                    "quadratic_invariants stand alone: leave out weights, combinations, "
                    "hamiltonian, reversing_symmetries, periodic, cyclic and parameters"
                )
            rotations = Rotations.of(quadratic_invariants, components.moving)
            centre = rotations.planes @ rotations.centre
            invariant = InvariantPolynomial(rotations.frequencies, degree, centre=centre)
            core = SymplecticGeneratingFunction(invariant, None, repeats, rotations.planes)
            super().__init__(core, components, dtype=dtype)
            return
        M = _combinations(combinations, components)
        group, signs = _signs_of_symplectic(components)
        if M is not None:
            both = torch.eye(group.shape[-1], dtype=torch.float64)
            both[: components.moving, : components.moving] = M
            group = both @ group @ torch.linalg.inv(both)  # of the combinations
            group = torch.where(group.abs() < TOLERANCE, torch.zeros_like(group), group)
        S = GeneratingFunction(
            components.moving,
            degree,
            group=(group, signs),
            periodic=[*components.periods],
            cyclic=components.cyclic,
            weights=weights,
            **components.of_parameters,
        )
        exact = None
        if hamiltonian:
            exact = ElementaryHamiltonians(
                hamiltonian, components.moving, order, components.read, explicit_time
            )
        core = SymplecticGeneratingFunction(S, exact, repeats, M)
        super().__init__(core, components, dtype=dtype)


class VolumePreservingGeneratingFunctionMap(Model):
    r"""A one-step map of n components given by n - 1 generating functions.

    .. math:: x_j + \frac{\partial G_j}{\partial X_{j+1}} =
        X_j + \frac{\partial G_{j-1}}{\partial x_{j-1}}, \qquad j = 1, \dots, n

    Volume-preserving for all G. With reversing symmetries the map is
    :math:`\psi R \psi^{-1} R`, where :math:`\psi` is such a map, of half a step. The coefficients
    follow from pairs of states by linear least squares: ``optimizer = "linear"``. Angles and cyclic
    components add terms that are linear in them, and functions :math:`G_{ab}` of components that
    are not neighbours, see :class:`vpintegrator.nn.VolumePreservingGeneratingFunction`.

    Parameters
    ----------
    dim
        Components of a state.
    functions
        Functions of the states: polynomials, with harmonics of angles.
    degree
        Degree of the polynomials, in all components together.
    weights
        Weight of each component in the degree, by default one: functions of a component of weight
        0.5 have twice the degree.
    repeats
        Equal maps in a row, each of an equal part of the step; for autonomous systems.
    reversing_symmetries, periodic, cyclic, conserved, explicit_time, parameters, vanishing, dtype
        As in ``VolumePreservingFeedForward``.

    Raises
    ------
    InputError
        For fewer than two moving components, or symmetries that are more than changes of sign.

    References
    ----------
    Feng, Shang, Numer. Math. 71 (1995) 451-463; Quispel, Phys. Lett. A 206 (1995) 26-30.

    Examples
    --------
    >>> model = vp.models.VolumePreservingGeneratingFunctionMap(dim=3, degree=4)
    >>> model.structure.keeps_volume, model.linear_in_parameters
    (True, True)
    """

    name = "vpgf"
    reads_equations = True
    linear_in_parameters = True

    @default_dtype(torch.float64)
    def __init__(
        self,
        dim: int,
        *,
        functions: Literal["polynomial"] = "polynomial",
        degree: int = 6,
        weights: Sequence[float] = (),
        repeats: int = 1,
        reversing_symmetries: Matrices = (),
        periodic: Periods = (),
        cyclic: Sequence[int] = (),
        conserved: Sequence[int] = (),
        explicit_time: bool = False,
        parameters: int = 0,
        vanishing: Sequence[int] = (),
        dtype: str | torch.dtype = "float64",
    ) -> None:
        read = conserved, explicit_time, parameters, vanishing
        components = Components(dim, reversing_symmetries, periodic, cyclic, *read)
        _check_repeats(repeats, explicit_time)
        size = components.moving
        if size < 2:
            raise InputError(f"at least two components must move, not {size}")
        if not is_diagonal(components.group):
            raise InputError(
                "the chain of generating functions respects changes of sign alone; give fewer "
                "reversing_symmetries"
            )
        signs = components.group.diagonal(dim1=1, dim2=2)  # (element, dim)
        chain = {}
        pairs = itertools.combinations(range(size), 2)
        for i, k in sorted(pairs, key=lambda pair: pair[1] - pair[0] > 1):
            between = [*range(i + 1, k)]  # G_ab of components with angles between them
            if not {*between}.issubset({*components.periods, *components.cyclic}):
                continue
            reads: dict[str, Any] = {"differentiated": (i, k)}
            if between:
                reads = {"involved": [[i], [k]]}
            # functions of neighbours are required
            with contextlib.suppress(*[NoTermsError] if between else []):
                chain[i, k] = GeneratingFunction(
                    size,
                    degree,
                    group=(components.group, signs[:, i] * signs[:, k]),
                    periodic=[*components.periods],
                    cyclic=[*components.cyclic, *between],
                    weights=weights,
                    **components.of_parameters,
                    **reads,
                )
        core = VolumePreservingGeneratingFunction([*chain.values()], repeats, pairs=[*chain])
        super().__init__(core, components, dtype=dtype)


def _combinations(rows: Any, components: Components) -> torch.Tensor | None:
    """Return the matrix of combinations of the moving components; None for the components."""
    if not len(rows):
        return None
    n = components.moving
    M = as_matrices([rows], n, "combinations")[0]  # (size, size)
    if bool(torch.linalg.matrix_rank(M) < n):
        raise InputError("combinations must be rows of a matrix that has an inverse")
    angles = [k for k in components.periods if k < n]
    others = [k for k in range(n) if k not in angles]
    own = M[angles][:, angles]
    whole = [own, torch.linalg.inv(own)] if len(angles) and bool(own.det() != 0) else [own]
    is_integer = all(bool(((A - A.round()).abs() < TOLERANCE).all()) for A in whole)
    is_mixed = bool(M[angles][:, others].any()) or bool(M[others][:, angles].any())
    if is_mixed or not is_integer:
        raise InputError(
            "combinations of angles must be integer, as those of their inverse, and without other "
            "components"
        )
    return M


def _check_repeats(repeats: int, explicit_time: bool) -> None:
    """Raise InputError unless so many equal maps in a row are a map of the step."""
    whole("repeats", repeats)
    if repeats > 1 and explicit_time:
        raise InputError("maps in a row know no explicit time: repeats must be 1")


def _signs_of_symplectic(components: Components) -> SignedGroup:
    r"""Return the group that reversing symmetries generate, and signs :math:`S(g m) = \pm S(m)`.

    Poincare's generating function changes its sign with the direction of time and with the sign of
    the form: a reversing symmetry that turns the form leaves S as it is.

    Raises
    ------
    InputError
        If an element does not keep the form but for its sign, or acts on time both ways.
    """
    n = components.moving
    rhos = components.reversing_symmetries
    group = components.group
    if not len(rhos):
        return group, torch.ones(len(group), dtype=torch.float64)
    both, time = signs_of_time(rhos, group.shape[-1])
    if len(both) != 2 * len(group):
        raise InputError("the reversing symmetries ask that the map is its own inverse")
    form = form_signs(both[:, :n, :n])
    if bool((both[:, :n, n:].abs() > TOLERANCE).any() or (form == 0).any()):
        raise InputError(
            "the symmetries do not keep the symplectic form; give fewer reversing_symmetries"
        )
    return both, time * form


def signs_of_time(reversing_symmetries: Any, dim: int) -> SignedGroup:
    """Return the group of the reversing symmetries, with sign -1 for time reversal."""
    both = generated_group(reversing_symmetries, dim)
    even = symmetry_group(reversing_symmetries, dim)
    time = [1.0 if bool((even - g).abs().amax((1, 2)).min() < TOLERANCE) else -1.0 for g in both]
    return both, torch.tensor(time, dtype=torch.float64)
