"""Affine maps."""

from __future__ import annotations

import torch
from torch import nn

from vpintegrator.arguments import whole
from vpintegrator.nn.layer import Device, Dtype, Layer


class AffineMap(Layer):
    r"""Affine map of states, the identity at first.

    .. math:: z \mapsto A z + b

    Parameters
    ----------
    dim : int
        Components of a state.
    device, dtype
        As in layers of torch.nn.

    Attributes
    ----------
    matrix : Parameter, (dim, dim)
        A.
    offset : Parameter, (dim,)
        b.

    Examples
    --------
    >>> layer = vp.nn.AffineMap(2)
    >>> layer(torch.ones(1, 2)).tolist()
    [[1.0, 1.0]]
    """

    def __init__(self, dim: int, *, device: Device = None, dtype: Dtype = None) -> None:
        super().__init__(device=device, dtype=dtype)
        self.dim = whole("dim", dim)
        self.matrix = nn.Parameter(torch.eye(dim, **self.factory_kwargs))
        self.offset = nn.Parameter(torch.zeros(dim, **self.factory_kwargs))

    def forward(self, z: torch.Tensor) -> torch.Tensor:
        return z @ self.matrix.mT + self.offset  # (..., dim)

    def inverse(self, z: torch.Tensor) -> torch.Tensor:
        """Return the states that ``forward`` maps to z."""
        return torch.linalg.solve(self.matrix, (z - self.offset).unsqueeze(-1)).squeeze(-1)
