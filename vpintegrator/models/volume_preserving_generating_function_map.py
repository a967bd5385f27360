"""The volume-preserving map of a chain of generating functions: trained by one linear solve."""

from __future__ import annotations

import contextlib
import itertools
from dataclasses import dataclass
from typing import Any

from torch import nn

from vpintegrator.errors import InputError
from vpintegrator.models.base import Integrator
from vpintegrator.models.generating_arguments import GeneratingArguments, signs_of_pair
from vpintegrator.nn import GeneratingFunction, VolumePreservingGeneratingFunction
from vpintegrator.nn.basis_potential import NoTermsError


class VolumePreservingGeneratingFunctionMap(Integrator):
    r"""A one-step map of n components given by n - 1 generating functions.

    .. math:: x_j + \frac{\partial G_j}{\partial X_{j+1}} =
        X_j + \frac{\partial G_{j-1}}{\partial x_{j-1}}, \qquad j = 1, \dots, n

    Volume-preserving for all G. With reversing symmetries the map is
    :math:`\psi R \psi^{-1} R`, where :math:`\psi` is such a map, of half a step. The coefficients
    follow from pairs of states by linear least squares: ``optimizer = "linear"``. Angles and cyclic
    components add terms that are linear in them, and functions :math:`G_{ab}` of components that
    are not neighbours, see :class:`vpintegrator.nn.VolumePreservingGeneratingFunction`.

    Raises
    ------
    InputError
        For fewer than two moving components, expressions, or symmetries that are more than changes
        of sign.

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

    @dataclass(frozen=True, kw_only=True)
    class Arguments(GeneratingArguments):
        """See the class."""

        def __post_init__(self) -> None:
            super().__post_init__()
            if self.size < 2:
                raise InputError(f"at least two components must move, not {self.size}")
            if self.expressions:
                raise InputError("vpgf takes no expressions; leave out --functions system")

    def network(self, a: Arguments) -> nn.Module:
        """Return the implicit map of G_1, ..., G_{n-1}, and of G_ab with angles between a and b."""
        functions = {}
        pairs = sorted(
            itertools.combinations(range(a.size), 2), key=lambda pair: pair[1] - pair[0] > 1
        )
        for i, k in pairs:
            between = [*range(i + 1, k)]
            if not {*between}.issubset({*a.periods, *a.cyclic}):
                continue
            options: dict[str, Any] = a.options | {"cyclic": [*a.cyclic, *between]}
            options |= {"involved": [[i], [k]]} if between else {"differentiated": (i, k)}
            group = signs_of_pair(a, i, k)
            # functions of neighbours are required
            with contextlib.suppress(*[NoTermsError] if between else []):
                functions[i, k] = GeneratingFunction(a.size, a.degree, group=group, **options)
        self.description = (
            f"volume-preserving map of {len(functions)} generating functions of degree {a.degree}"
        )
        return VolumePreservingGeneratingFunction(
            [*functions.values()], a.repeats, pairs=[*functions]
        )
