"""Layers of successive states as one state of more components."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from vpintegrator.arguments import divisible, whole
from vpintegrator.nn.layer import Layer, factory_like, parameters_for, preserves


class Lifted(Layer):
    r"""A layer of windows in which several successive states are one state of more components.

    A window (z_1, ..., z_T) is read as T / m rows of m dim components,

    .. math:: \begin{pmatrix} z_1 & \dots & z_m \\ z_{m+1} & \dots & z_{2m} \\ & \vdots &
        \end{pmatrix} \mapsto \ell \begin{pmatrix} z_1 & \dots & z_m \\ & \vdots & \end{pmatrix},

    with m the ``lift``. So a skew weighting of few components, or of one, has more entries, and
    couplings of a component read the same component at other times.

    The numbers of a window are permuted and nothing is appended. So the volume that is kept is that
    of the space of windows of states itself, wherever the layer :math:`\ell` keeps volume.
    Components of constants or zeros that are appended, and dropped after the layer, do not keep it:
    the layer moves them, and the map of the states alone then has a determinant other than 1.

    Parameters
    ----------
    layer : Module
        :math:`\ell`, of windows (..., T / m, m dim).
    lift : int
        Successive states in a row, m; it must divide the time steps of windows.

    Examples
    --------
    A volume-preserving rotation of a single component:

    >>> layer = vp.nn.Lifted(vp.nn.VolumePreservingAttention(2, dtype=torch.float64), lift=2)
    >>> Z = torch.rand(6, 1, dtype=torch.float64)
    >>> round(torch.func.jacrev(layer)(Z).reshape(6, 6).det().abs().item(), 12)
    1.0
    >>> bool(torch.allclose(layer.inverse(layer(Z)), Z))
    True
    """

    shown = ("lift",)

    def __init__(self, layer: nn.Module, lift: int) -> None:
        super().__init__(**factory_like(layer))
        self.layer: Any = layer
        self.lift = whole("lift", lift)
        self.parameter_count = int(getattr(layer, "parameter_count", 0))
        self.volume_preserving = preserves("volume_preserving", layer)
        if dim := getattr(layer, "dim", None):
            self.dim = divisible("components of the layer", dim, "lift", lift)

    @property
    def identity_at_zero(self) -> bool:
        """Whether the layer mixes time steps, and is the identity where its weights are zero."""
        return bool(getattr(self.layer, "identity_at_zero", False))

    def _moved(self, map: Any, z: torch.Tensor, parameters: torch.Tensor | None) -> torch.Tensor:
        window, dim = z.shape[-2:]
        rows = divisible("window", window, "lift", self.lift)
        stacked = z.reshape(*z.shape[:-2], rows, self.lift * dim)  # (..., window / m, m dim)
        moved = map(stacked, *parameters_for(self.layer, parameters))
        return moved.reshape(z.shape)  # (..., window, dim)

    def forward(self, z: torch.Tensor, parameters: torch.Tensor | None = None) -> torch.Tensor:
        return self._moved(self.layer, z, parameters)

    def inverse(self, z: torch.Tensor, parameters: torch.Tensor | None = None) -> torch.Tensor:
        """Return the windows that ``forward`` maps to z."""
        return self._moved(self.layer.inverse, z, parameters)
