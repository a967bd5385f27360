"""The volume-preserving map of a chain of generating functions: trained by one linear solve."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import torch

from vpintegrator.errors import InputError
from vpintegrator.models.arguments import Matrices, Periods
from vpintegrator.models.components import Components
from vpintegrator.models.generating_symmetries import sign_refusal, signs_of_pair
from vpintegrator.models.model import Model
from vpintegrator.models.symplectic_generating_function_map import check_repeats
from vpintegrator.nn import GeneratingFunction, VolumePreservingGeneratingFunction
from vpintegrator.nn.basis_layers import NoTermsError
from vpintegrator.nn.layer import default_dtype


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
    repeats
        Equal maps in a row, each of an equal part of the step; for autonomous systems.
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
    linear_in_parameters = True

    @classmethod
    def _refusal(cls, components: Components, arguments: Mapping[str, Any]) -> str | None:
        return sign_refusal(components.group)

    @default_dtype(torch.float64)
    def __init__(
        self,
        dim: int,
        *,
        functions: Literal["polynomial"] = "polynomial",
        degree: int = 6,
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
        size = components.moving
        if size < 2:
            raise InputError(f"at least two components must move, not {size}")
        chain = {}
        pairs = sorted(
            itertools.combinations(range(size), 2), key=lambda pair: pair[1] - pair[0] > 1
        )
        for i, k in pairs:
            between = [*range(i + 1, k)]  # G_ab of components with angles between them
            if not {*between}.issubset({*components.periods, *components.cyclic}):
                continue
            own: dict[str, Any] = {"differentiated": (i, k)}
            if between:
                own = {"involved": [[i], [k]]}
            # functions of neighbours are required
            with contextlib.suppress(*[NoTermsError] if between else []):
                chain[i, k] = GeneratingFunction(
                    size,
                    degree,
                    group=signs_of_pair(components.group, i, k),
                    periodic=[*components.periods],
                    cyclic=[*components.cyclic, *between],
                    parameters=components.read,
                    vanishing=components.vanishing,
                    **own,
                )
        super().__init__(
            VolumePreservingGeneratingFunction([*chain.values()], repeats, pairs=[*chain]),
            components,
            dtype=dtype,
            description=(
                f"volume-preserving map of {len(chain)} generating functions of degree {degree}"
            ),
        )
