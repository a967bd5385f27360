"""The polynomial map of one step, without structure."""

from __future__ import annotations

from dataclasses import dataclass

from torch import nn

from vpintegrator.models.arguments import PeriodicArguments, argument
from vpintegrator.models.base import Integrator
from vpintegrator.nn.polynomial_layer import PolynomialLayer


class PolynomialMap(Integrator):
    r"""A one-step map :math:`z \mapsto z + g(z)` by a polynomial g; no structure is preserved.

    The coefficients follow from pairs of states by ridge regression: ``optimizer = "linear"``.
    States away from the training states leave fast: polynomials grow there.

    Raises
    ------
    InputError
        If there are more than 2,000 coefficients for each component.

    Examples
    --------
    >>> model = vp.models.PolynomialMap(dim=4, degree=3)
    >>> sum(p.numel() for p in model.parameters())  # 35 for each component
    140
    """

    name = "polynomial"
    linear_in_parameters = True

    @dataclass(frozen=True, kw_only=True)
    class Arguments(PeriodicArguments):
        """See the class."""

        one_step = True
        degree: int = argument(3, "Of the polynomials, in all components together.")

    def network(self, a: Arguments) -> nn.Module:
        """Return the layer, which is the identity at first."""
        self.description = f"polynomial map of degree {a.degree}, no structure"
        return PolynomialLayer(a.dim, a.degree, periodic=[*a.periods])
