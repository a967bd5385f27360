"""The symplectic map of a generating function: trained by one linear solve."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from torch import nn

from vpintegrator.errors import InputError
from vpintegrator.models.arguments import argument
from vpintegrator.models.base import Integrator
from vpintegrator.models.generating_arguments import GeneratingArguments, signs_of_symplectic
from vpintegrator.nn.canonical import check_even
from vpintegrator.nn.elementary_hamiltonians import ORDERS, ElementaryHamiltonians
from vpintegrator.nn.generating_function import GeneratingFunction
from vpintegrator.nn.symplectic_generating import SymplecticGeneratingFunction


class SymplecticGeneratingFunctionMap(Integrator):
    r"""A one-step map of states (q, p) given by Poincare's generating function.

    .. math:: z' = z + J\, \nabla S\!\left(\frac{z + z'}{2}\right)

    Symplectic for every S, and reversible by the choice of its terms. S is a polynomial whose
    coefficients follow from pairs of states by linear least squares: ``optimizer = "linear"``.

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

    @dataclass(frozen=True, kw_only=True)
    class Arguments(GeneratingArguments):
        """See the class."""

        hamiltonian: str = argument(
            "",
            "Formula ``z[1]**2/2 - cos(z[0])`` of a known Hamiltonian, whose elementary "
            "Hamiltonians are added to S.",
        )
        order: int = argument(6, "Of these elementary Hamiltonians: 2, 4 or 6.")

        def stored(self) -> dict[str, Any]:
            """Return the arguments to store; the Hamiltonian only if there is one."""
            omitted = () if self.hamiltonian else ("hamiltonian", "order")
            return {n: v for n, v in super().stored().items() if n not in omitted}

        def __post_init__(self) -> None:
            super().__post_init__()
            if self.order not in ORDERS:
                raise InputError(f"order must be one of 2, 4 and 6, not {self.order!r}")
            if not isinstance(self.hamiltonian, str):
                raise InputError(f"hamiltonian must be a text, not {self.hamiltonian!r}")
            check_even(self.size, "; take vpgf, which preserves volume")

    def network(self, a: Arguments) -> nn.Module:
        """Return the implicit map of S."""
        self.description = f"symplectic map of a generating function of degree {a.degree}"
        symmetries = signs_of_symplectic(a)
        S = GeneratingFunction(
            a.size, a.degree, group=symmetries, expressions=a.expressions, **a.options
        )
        exact = None
        if a.hamiltonian:
            exact = ElementaryHamiltonians(
                a.hamiltonian, a.size, a.order, a.constants, a.explicit_time
            )
            self.description += f" and of elementary Hamiltonians up to order {a.order}"
        return SymplecticGeneratingFunction(S, exact, a.repeats)
