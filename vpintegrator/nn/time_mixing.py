"""A constant rotation of the time steps of a window."""

from __future__ import annotations

import torch
from torch import nn

from vpintegrator.arguments import whole
from vpintegrator.nn.cayley import cayley_increment, lower_places, skew_matrix
from vpintegrator.nn.layer import InvertibleLayer
from vpintegrator.nn.tensor_arguments import last_size


class TimeMixing(InvertibleLayer):
    r"""The time steps of a window mixed by a constant rotation.

    .. math:: X \mapsto \Lambda(B)^T X, \qquad \Lambda(B) = (I - B)(I + B)^{-1}, \quad B = -B^T

    Linear with determinant 1. Two such maps, or one and ``VolumePreservingAttention``, preserve
    volume one after the other; :math:`\Lambda(C(X) + B)` in one transform does not.

    Parameters
    ----------
    window : int
        Time steps, at least 2. Acts on (..., window, any).
    initial_scale : float
        Standard deviation of the initial entries of B.

    Examples
    --------
    >>> layer = vp.nn.TimeMixing(window=3)
    >>> Z = torch.rand(5, 3, 4, dtype=torch.float64)
    >>> bool(torch.allclose(layer(Z).square().sum(), Z.square().sum()))  # it rotates
    True
    """

    identity_at_zero = True
    shown = ("window",)
    places: torch.Tensor

    def __init__(
        self,
        window: int,
        *,
        initial_scale: float = 1e-2,
    ) -> None:
        super().__init__()
        self.window = whole("window", window, 2)
        self.constant("places", lower_places(window))
        entries = torch.randn(window * (window - 1) // 2, dtype=torch.float64)
        self.entries = nn.Parameter(initial_scale * entries)

    def _checked(self, z: torch.Tensor) -> torch.Tensor:
        last_size("z", z[..., 0], {"window": self.window})
        return z

    def moved(self, z: torch.Tensor, sign: int) -> torch.Tensor:
        B = sign * skew_matrix(self.entries, self.window, self.places)
        return z + cayley_increment(B, z)
