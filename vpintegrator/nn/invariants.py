"""Functions that stay as they are along orbits, and the projection that keeps them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from vpintegrator.arguments import whole
from vpintegrator.nn.feed_forward import WindowPolynomials
from vpintegrator.nn.layer import Device, Dtype, on_cpu

STEPS = 4  # of Newton's method: errors of 0.1 fall to rounding
_DAMPING = 1e3  # in units of rounding, relative to the gradients, which may vanish


class PolynomialInvariants(WindowPolynomials):
    r"""Polynomials of states or windows that do not change along orbits, such as energies.

    .. math:: I_j(z_1, \dots, z_T) = \sum_e c_{ej} \prod_i T_{e_i}(u_i)

    with the terms of :class:`PolynomialLayer`. A map that changes them a little keeps them after a
    projection of its newest state along their gradients,

    .. math:: z \mapsto z + G^T \lambda, \qquad I(z + G^T \lambda) = I(\text{window before}),

    by Newton's method (Hairer, Lubich, Wanner, Geometric Numerical Integration, section IV.4). The
    iterated map then keeps them up to rounding.

    Parameters
    ----------
    dim : int
        Components of a state.
    count : int
        Number of invariants, fewer than ``dim``.
    degree : int
        Largest total degree of a term.
    window : int
        States that are read.
    periodic : sequence of int
        Components that are angles, in radians.
    device, dtype
        As in layers of torch.nn.

    Attributes
    ----------
    coefficients : buffer, (term, count)
        c, zero at first.

    Examples
    --------
    >>> energy = vp.nn.PolynomialInvariants(dim=2, degree=2)
    >>> energy.adapt(torch.tensor([[-1.0, -1.0], [1.0, 1.0]]))
    >>> squares = torch.tensor([list(e) in ([2, 0], [0, 2]) for e in energy.orders.tolist()])
    >>> energy.coefficients[squares] = 1.0
    >>> start = torch.tensor([[[0.6, 0.0]]])
    >>> moved = energy.kept(start, torch.tensor([[[0.5, 0.4]]]))
    >>> bool(torch.allclose(moved.norm(), start.norm()))
    True
    """

    shown = ("dim", "degree", "window")
    coefficients: torch.Tensor

    @on_cpu
    def __init__(
        self,
        dim: int,
        count: int = 1,
        degree: int = 2,
        *,
        window: int = 1,
        periodic: Sequence[int] = (),
        device: Device = None,
        dtype: Dtype = None,
    ) -> None:
        super().__init__(dim, degree, window=window, periodic=periodic, device=device, dtype=dtype)
        self.count = whole("count", count, 1, max(dim - 1, 1))
        zeros = torch.zeros(len(self.chosen), self.count, **self.factory_kwargs)
        self.register_buffer("coefficients", zeros)

    @property
    def sizes(self) -> dict[str, Any]:
        """The arguments beside ``dim`` that make an equal layer."""
        return {
            "count": self.count,
            "degree": self.degree,
            "window": self.window,
            "periodic": self.angles,
        }

    @property
    def words(self) -> str:
        """Number of invariants, in words."""
        return f"{self.count} invariant{'s' * (self.count > 1)}"

    def forward(self, window: torch.Tensor) -> torch.Tensor:
        """Return the invariants (..., count) of windows (..., window, dim)."""
        return self.values(self._read(window)) @ self.coefficients

    def kept(self, before: torch.Tensor, window: torch.Tensor) -> torch.Tensor:
        """Return windows (..., window, dim) whose newest states have the invariants of others.

        Parameters
        ----------
        before
            Windows (..., window, dim) whose invariants are kept.
        window
            Windows that are near those with these invariants.
        """
        rounding = torch.finfo(before.dtype)
        goal = self(before)  # (..., count)
        old = window[..., :-1, :]
        new = window[..., -1, :]  # (..., dim)
        for _ in range(STEPS):
            whole_window = torch.cat([old, new.unsqueeze(-2)], -2)
            values, slopes = self.jet(self._read(whole_window))
            gradients = (slopes @ self.coefficients).mT  # (..., count, dim)
            rest = goal - values @ self.coefficients  # (..., count)
            products = gradients @ gradients.mT  # (..., count, count)
            size = products.diagonal(dim1=-2, dim2=-1).sum(-1)[..., None, None]
            damping = _DAMPING * rounding.eps * size + rounding.tiny
            matrix = products + damping * torch.eye(self.count).to(products)
            inverse = torch.linalg.inv_ex(matrix).inverse  # (..., count, count)
            multipliers = inverse @ rest.unsqueeze(-1)  # (..., count, 1)
            new = new + (gradients.mT @ multipliers).squeeze(-1)
        return torch.cat([old, new.unsqueeze(-2)], -2)

    def _read(self, window: torch.Tensor) -> torch.Tensor:
        return window[..., -1, :] if self.window == 1 else window[..., -self.window :, :]
