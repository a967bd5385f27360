"""The polynomial map of one step, without structure."""

from __future__ import annotations

import torch

from vpintegrator.models.arguments import Periods
from vpintegrator.models.components import Components
from vpintegrator.models.model import Model
from vpintegrator.nn.feed_forward import PolynomialLayer
from vpintegrator.nn.layer import default_dtype


class PolynomialMap(Model):
    r"""A one-step map :math:`z \mapsto z + g(z)` by a polynomial g; no structure is preserved.

    The coefficients follow from pairs of states by ridge regression: ``optimizer = "linear"``.
    States away from the training states leave fast: polynomials grow there.

    Parameters
    ----------
    dim
        Components of a state.
    degree
        Degree of the polynomials, in all components together.
    periodic
        Components that are angles, by number, with their periods.
    dtype
        Type of the weights.

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

    @default_dtype(torch.float64)
    def __init__(
        self,
        dim: int,
        *,
        degree: int = 3,
        periodic: Periods = (),
        dtype: str | torch.dtype = "float64",
    ) -> None:
        components = Components(dim, periodic=periodic)
        super().__init__(
            PolynomialLayer(dim, degree, periodic=[*components.periods]),
            components,
            dtype=dtype,
            description=f"polynomial map of degree {degree}, no structure",
        )
