"""Polynomial maps without structure."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import nn

from vpintegrator.arguments import whole
from vpintegrator.nn.basis import checked_degree, terms
from vpintegrator.nn.layer import Device, Dtype, Layer, on_cpu
from vpintegrator.nn.univariate import RADIUS, families


class PolynomialLayer(Layer):
    r"""Polynomial map of states, the identity at first.

    .. math:: z \mapsto z + \sum_e c_e\, \prod_i T_{e_i}\!\left(\frac{z_i - b_i}{w_i}\right),
        \qquad |e| \le \text{degree}

    products of Chebyshev polynomials up to a total degree on the box :math:`b_i \pm w_i` of states,
    or of sines and cosines of components that are angles. No structure is kept.

    Parameters
    ----------
    dim : int
        Components of a state.
    degree : int
        Largest total degree of a term; of an angle the order of the harmonic counts.
    periodic : sequence of int
        Components that are angles, in radians.
    margin : float
        Size of the box relative to the range of the states.
    device, dtype
        As in layers of torch.nn.

    Attributes
    ----------
    coefficients : Parameter, (term, dim)
        c.
    decays : tuple of float
        Decay of the coefficients with the degree in each component, as ridge regression chose it.

    Raises
    ------
    InputError
        If there are more than 2,000 terms.

    Examples
    --------
    >>> layer = vp.nn.PolynomialLayer(dim=2, degree=3)
    >>> layer.coefficients.shape
    torch.Size([10, 2])
    """

    shown = ("dim", "degree")
    chosen: torch.Tensor
    box_shift: torch.Tensor
    box_scale: torch.Tensor

    @on_cpu
    def __init__(
        self,
        dim: int,
        degree: int = 3,
        *,
        periodic: Sequence[int] = (),
        margin: float = 1.05,
        device: Device = None,
        dtype: Dtype = None,
    ) -> None:
        super().__init__(device=device, dtype=dtype)
        self.dim, self.degree, self.margin = whole("dim", dim), checked_degree(degree), margin
        self.kinds = families(dim, periodic)
        self.constant("chosen", torch.tensor(terms(degree, self.kinds)))  # (term, dim)
        self.register_buffer("box_shift", torch.zeros(dim, **self.factory_kwargs))
        self.register_buffer("box_scale", torch.ones(dim, **self.factory_kwargs))
        self.decays: tuple[float, ...] = ()
        self.coefficients = nn.Parameter(torch.zeros(len(self.chosen), dim, **self.factory_kwargs))

    @property
    def orders(self) -> torch.Tensor:
        """Degree of each term in each component, (term, dim)."""
        columns = [torch.tensor(kind.orders(self.degree)) for kind in self.kinds]
        chosen = self.chosen.cpu()
        return torch.stack([own[chosen[:, k]] for k, own in enumerate(columns)], 1)

    @torch.no_grad()
    def adapt(self, z: torch.Tensor) -> None:
        """Take the box of states z (state, dim)."""
        low, high = z.double().amin(0), z.double().amax(0)  # (dim,) each
        fixed = (high == low) | torch.tensor([kind.is_angle for kind in self.kinds])
        self.box_shift.copy_(torch.where(fixed, 0.0, (low + high) / 2))
        self.box_scale.copy_(torch.where(fixed, 1.0, self.margin * (high - low) / 2 / RADIUS))

    def values(self, z: torch.Tensor) -> torch.Tensor:
        """Return the values of the terms (..., term) at states z (..., dim)."""
        u = (z - self.box_shift) / self.box_scale  # (..., dim)
        products = torch.ones_like(u[..., :1])
        for k, kind in enumerate(self.kinds):
            functions = torch.stack(kind.values(u[..., k], self.degree), -1)  # (..., function)
            products = products * functions.index_select(-1, self.chosen[:, k])  # (..., term)
        return products

    def forward(self, z: torch.Tensor) -> torch.Tensor:
        return z + self.values(z) @ self.coefficients  # (..., dim)
