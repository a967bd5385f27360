"""Recurrent networks on windows of states: no structure is preserved."""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import nn

from vpintegrator.arguments import whole
from vpintegrator.models.model import Model
from vpintegrator.nn import GatedRecurrentUnit, LongShortTermMemory
from vpintegrator.nn.layer import default_dtype


class _NextState(nn.Module):
    """The newest state of a window and a linear map of the last hidden state, (..., 1, dim)."""

    def __init__(self, layers: list[nn.Module], width: int, dim: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList(layers)
        self.outer = nn.Linear(width, dim, dtype=torch.float64)

    def forward(self, X: torch.Tensor) -> torch.Tensor:
        hidden = X
        for layer in self.layers:
            hidden = layer(hidden)  # (..., window, width)
        return X[..., -1:, :] + self.outer(hidden[..., -1:, :])  # (..., 1, dim)


class _RecurrentModel(Model):
    """Layers that read a window state by state, and predict the next one."""

    layer: ClassVar[type[nn.Module]]

    @default_dtype(torch.float64)
    def __init__(
        self,
        dim: int,
        *,
        window: int = 5,
        depth: int = 1,
        width: int = 16,
        dtype: str | torch.dtype = "float64",
    ) -> None:
        sizes = [dim] + [width] * (whole("depth", depth) - 1)
        layers: list[nn.Module] = [self.layer(size, width) for size in sizes]
        super().__init__(_NextState(layers, width, dim), dim, window, 1, dtype=dtype)


class LSTM(_RecurrentModel):
    r"""Long short-term memory on a window, which predicts the next state; no structure.

    .. math:: z_{T+1} = z_T + W h_T + b

    with the last hidden state :math:`h_T` of ``depth`` layers, whose memory begins at zero.

    Parameters
    ----------
    dim
        Components of a state.
    window
        Time steps read; one is predicted.
    depth
        Number of recurrent layers.
    width
        Hidden units of each.
    dtype
        Type of the weights; they are drawn in float64.

    References
    ----------
    Hochreiter, Schmidhuber, Long short-term memory, Neural Computation 9 (1997) 1735-1780.

    Examples
    --------
    >>> model = vp.models.LSTM(dim=3, window=5)
    >>> model.predict(torch.zeros(7, 5, 3, dtype=torch.float64)).shape
    torch.Size([7, 1, 3])
    """

    name = "lstm"
    layer = LongShortTermMemory


class GRU(_RecurrentModel):
    r"""Gated recurrent units on a window, which predict the next state; no structure.

    .. math:: z_{T+1} = z_T + W h_T + b

    with the last hidden state :math:`h_T` of ``depth`` layers, which begins at zero.

    Parameters
    ----------
    dim
        Components of a state.
    window
        Time steps read; one is predicted.
    depth
        Number of recurrent layers.
    width
        Hidden units of each.
    dtype
        Type of the weights; they are drawn in float64.

    References
    ----------
    Cho, van Merrienboer, Gulcehre, Bahdanau, Bougares, Schwenk, Bengio, arXiv 1406.1078.

    Examples
    --------
    >>> model = vp.models.GRU(dim=3, window=5)
    >>> model.predict(torch.zeros(7, 5, 3, dtype=torch.float64)).shape
    torch.Size([7, 1, 3])
    """

    name = "gru"
    layer = GatedRecurrentUnit
