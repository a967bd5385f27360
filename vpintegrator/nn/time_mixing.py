"""A constant rotation of the time steps of a window."""

from __future__ import annotations

import torch
from torch import nn

from vpintegrator.arguments import whole
from vpintegrator.nn.cayley import cayley_increment, lower_places, skew_matrix
from vpintegrator.nn.tensor_arguments import as_dtype, last_size


class TimeMixing(nn.Module):
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

    volume_preserving = True
    identity_at_zero = True
    places: torch.Tensor

    def __init__(
        self,
        window: int,
        *,
        initial_scale: float = 1e-2,
        dtype: torch.dtype | str = torch.float64,
    ) -> None:
        super().__init__()
        self.window = whole("window", window, 2)
        self.register_buffer("places", lower_places(window), persistent=False)
        count = window * (window - 1) // 2
        self.entries = nn.Parameter(initial_scale * torch.randn(count, dtype=as_dtype(dtype)))

    def _mixed(self, X: torch.Tensor, sign: int) -> torch.Tensor:
        last_size("X", X[..., 0], {"window": self.window})
        B = sign * skew_matrix(self.entries, self.window, self.places)
        return X + cayley_increment(B, X)

    def forward(self, X: torch.Tensor) -> torch.Tensor:
        return self._mixed(X, 1)

    def inverse(self, Y: torch.Tensor) -> torch.Tensor:
        """Return the windows that ``forward`` maps to Y."""
        return self._mixed(Y, -1)

    def extra_repr(self) -> str:
        return f"window={self.window}"
