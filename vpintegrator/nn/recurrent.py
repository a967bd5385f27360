"""Recurrent layers, written out: compiled and differentiated in every mode like other layers."""

from __future__ import annotations

import torch
from torch import nn

from vpintegrator.arguments import whole
from vpintegrator.nn.layer import Device, Dtype, Layer


class _Recurrent(Layer):
    """Base of recurrent layers: weights as in torch.nn, hidden states from zero on.

    Parameters
    ----------
    dim : int
        Components of the states of a window.
    width : int
        Hidden units.
    device, dtype
        As in layers of torch.nn.
    """

    gates: int

    def __init__(
        self, dim: int, width: int = 16, *, device: Device = None, dtype: Dtype = None
    ) -> None:
        super().__init__(device=device, dtype=dtype)
        self.dim = whole("dim", dim)
        self.width = whole("width", width)
        self.input = nn.Linear(dim, self.gates * width, **self.factory_kwargs)
        self.hidden = nn.Linear(width, self.gates * width, **self.factory_kwargs)
        with torch.no_grad():  # as torch.nn draws them
            for weight in self.parameters():
                weight.uniform_(-(width**-0.5), width**-0.5)


class LongShortTermMemory(_Recurrent):
    r"""Long short-term memory: hidden states (..., window, width) of windows.

    .. math::

        (i, f, g, o) &= W z_t + b + U h_{t-1} + c, \\
        c_t &= \sigma(f)\, c_{t-1} + \sigma(i) \tanh(g), \qquad h_t = \sigma(o) \tanh(c_t)

    Parameters
    ----------
    dim : int
        Components of the states of a window.
    width : int
        Hidden units.
    device, dtype
        As in layers of torch.nn.

    References
    ----------
    Hochreiter, Schmidhuber, Neural Computation 9 (1997) 1735-1780; ``torch.nn.LSTM``.

    Examples
    --------
    >>> vp.nn.LongShortTermMemory(dim=2, width=8)(torch.zeros(5, 3, 2)).shape
    torch.Size([5, 3, 8])
    """

    gates = 4

    def forward(self, X: torch.Tensor) -> torch.Tensor:
        h = c = X.new_zeros(*X.shape[:-2], self.width)  # (..., width)
        hidden = []
        for part in self.input(X).unbind(-2):  # (..., 4 width) each
            i, f, g, o = (part + self.hidden(h)).chunk(4, -1)  # (..., width) each
            c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
            h = torch.sigmoid(o) * torch.tanh(c)
            hidden.append(h)
        return torch.stack(hidden, -2)  # (..., window, width)


class GatedRecurrentUnit(_Recurrent):
    r"""Gated recurrent unit: hidden states (..., window, width) of windows.

    .. math::

        r &= \sigma(W_r z_t + b_r + U_r h_{t-1} + c_r), \qquad
        u = \sigma(W_u z_t + b_u + U_u h_{t-1} + c_u), \\
        n &= \tanh(W_n z_t + b_n + r\, (U_n h_{t-1} + c_n)), \qquad
        h_t = (1 - u)\, n + u\, h_{t-1}

    Parameters
    ----------
    dim : int
        Components of the states of a window.
    width : int
        Hidden units.
    device, dtype
        As in layers of torch.nn.

    References
    ----------
    Cho et al., arXiv 1406.1078; ``torch.nn.GRU``.

    Examples
    --------
    >>> vp.nn.GatedRecurrentUnit(dim=2, width=8)(torch.zeros(5, 3, 2)).shape
    torch.Size([5, 3, 8])
    """

    gates = 3

    def forward(self, X: torch.Tensor) -> torch.Tensor:
        h = X.new_zeros(*X.shape[:-2], self.width)  # (..., width)
        hidden = []
        for part in self.input(X).unbind(-2):  # (..., 3 width) each
            reset, update, new = part.chunk(3, -1)  # (..., width) each
            gates = self.hidden(h).chunk(3, -1)
            r = torch.sigmoid(reset + gates[0])
            u = torch.sigmoid(update + gates[1])
            n = torch.tanh(new + r * gates[2])
            h = (1 - u) * n + u * h
            hidden.append(h)
        return torch.stack(hidden, -2)  # (..., window, width)
