"""Maps with a parameter that nobody wrote down, and that a window of states tells."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import nn

from vpintegrator.arguments import whole
from vpintegrator.nn.feed_forward import WindowPolynomials
from vpintegrator.nn.layer import Device, Dtype, Layer, on_cpu

_STARTS = 0.0, -0.7, 0.7  # of the iterations, the best of which counts
_ITERATIONS = 7  # of Gauss and Newton: from the nearest start to rounding
_FARTHEST = 1.25  # from the middle, where training values reach one


class HiddenParameterLayer(Layer):
    r"""Polynomial map of windows with a parameter that is constant along each orbit.

    .. math:: z_{T+1} = z_T + g(z_T, \theta), \qquad
        g(z, \theta) = \sum_{k=0}^{K} \theta^k \sum_e c_{k,e} \varphi_e(z), \qquad
        \theta = \arg\min_\theta \sum_{t=1}^{T-1} |z_{t+1} - z_t - g(z_t, \theta)|^2

    The parameter :math:`\theta` is found by iterations of Gauss and Newton from three starts. On
    orbits of the map all terms of the sum vanish: so a rollout keeps the parameter of its first
    window, to rounding.
    The functions :math:`\varphi_e` are those of :class:`WindowPolynomials` for single states.

    Parameters
    ----------
    dim : int
        Components of a state.
    degree : int
        Largest total degree in the components of a state.
    order : int
        K, the largest power of the parameter.
    window : int
        States that are read, at least two.
    periodic, margin, device, dtype
        As in :class:`PolynomialLayer`.

    Attributes
    ----------
    coefficients : Parameter, (K + 1, term, dim)
        c; all parameters of training are in [-1, 1].

    Raises
    ------
    InputError
        If the window is too short, or there are more than 2,000 terms.

    Examples
    --------
    >>> layer = vp.nn.HiddenParameterLayer(dim=2, degree=2, order=1)
    >>> layer.coefficients.shape
    torch.Size([2, 6, 2])
    """

    shown = ("dim", "degree", "order", "window")

    @on_cpu
    def __init__(
        self,
        dim: int,
        degree: int = 4,
        order: int = 3,
        *,
        window: int = 2,
        periodic: Sequence[int] = (),
        margin: float = 1.05,
        device: Device = None,
        dtype: Dtype = None,
    ) -> None:
        super().__init__(device=device, dtype=dtype)
        self.dim = whole("dim", dim)
        self.degree = degree
        self.order = whole("order", order)
        self.window = whole("window", window, 2)
        self.terms = WindowPolynomials(
            dim, degree, periodic=periodic, margin=margin, **self.factory_kwargs
        )
        size = len(self.terms.chosen)
        self.coefficients = nn.Parameter(torch.zeros(order + 1, size, dim, **self.factory_kwargs))

    def forward(self, z: torch.Tensor) -> torch.Tensor:
        parts = self.parts(z)  # (..., window, power, dim)
        theta = self._told(parts[..., :-1, :, :], self.changes(z))  # (...)
        powers = self._powers(theta)  # (..., power)
        change = (powers.unsqueeze(-1) * parts[..., -1, :, :]).sum(-2)  # (..., dim)
        new = z[..., -1, :] + change
        return torch.cat([z[..., 1:, :], new.unsqueeze(-2)], -2)  # (..., window, dim)

    def parameter(self, z: torch.Tensor) -> torch.Tensor:
        """Return the parameters (...) that windows (..., window, dim) tell."""
        parts = self.parts(z[..., :-1, :])  # (..., window - 1, power, dim)
        return self._told(parts, self.changes(z))

    def parts(self, z: torch.Tensor) -> torch.Tensor:
        """Return the factors (..., power, dim) of the powers of the parameter in g, at z."""
        size = len(self.coefficients) * self.dim
        flat = self.coefficients.movedim(0, 1).reshape(-1, size)  # (term, power * dim)
        return (self.terms.values(z) @ flat).unflatten(-1, (-1, self.dim))

    def changes(self, z: torch.Tensor) -> torch.Tensor:
        """Return the changes (..., window - 1, dim) in windows; those of angles are the shorter."""
        change = z[..., 1:, :] - z[..., :-1, :]
        if not self.terms.angles:
            return change
        each = list(change.unbind(-1))
        for k in self.terms.angles:
            each[k] = torch.atan2(torch.sin(each[k]), torch.cos(each[k]))
        return torch.stack(each, -1)

    def adapt(self, z: torch.Tensor) -> None:
        """Take the box of states z (state, dim)."""
        self.terms.adapt(z)

    def _powers(self, theta: torch.Tensor) -> torch.Tensor:
        """Return 1, theta, theta^2, ... (..., power) of parameters (...)."""
        powers = [torch.ones_like(theta)]
        for _ in range(self.order):
            powers.append(powers[-1] * theta)
        return torch.stack(powers, -1)

    def _told(self, parts: torch.Tensor, changes: torch.Tensor) -> torch.Tensor:
        """Return parameters (...) of parts (..., pair, power, dim) and changes of pairs."""
        starts = torch.tensor(_STARTS, dtype=changes.dtype, device=changes.device)
        theta = torch.zeros_like(changes[..., 0, :1]) + starts  # (..., start)
        orders = torch.arange(1.0, self.order + 1, dtype=theta.dtype, device=theta.device)
        flat = parts.movedim(-2, -1).flatten(-3, -2).unsqueeze(-3)  # (..., 1, pair * dim, power)
        wanted = changes.flatten(-2).unsqueeze(-2)  # (..., 1, pair * dim)
        least_size = torch.finfo(theta.dtype).eps ** 2  # of a slope: derivatives stay finite
        for _ in range(_ITERATIONS):
            powers = self._powers(theta)  # (..., start, power)
            slopes = powers[..., :-1] * orders
            residual = wanted - (powers.unsqueeze(-2) * flat).sum(-1)  # (..., start, pair * dim)
            derivative = (slopes.unsqueeze(-2) * flat[..., 1:]).sum(-1)
            step = (residual * derivative).sum(-1) / (derivative.square().sum(-1) + least_size)
            theta = (theta + step).clamp(-_FARTHEST, _FARTHEST)
        residual = wanted - (self._powers(theta).unsqueeze(-2) * flat).sum(-1)
        misses = residual.square().sum(-1)  # (..., start)
        best = theta[..., 0]
        least = misses[..., 0]
        for k in range(1, len(_STARTS)):
            best = torch.where(misses[..., k] < least, theta[..., k], best)
            least = torch.minimum(misses[..., k], least)
        return best
