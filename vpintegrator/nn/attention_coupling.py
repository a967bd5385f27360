"""Multihead softmax attention inside additive couplings."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from vpintegrator.arguments import whole
from vpintegrator.nn.couplings import Coupling
from vpintegrator.nn.layer import Attention, Layer
from vpintegrator.nn.multihead import MultiHeadAttention
from vpintegrator.nn.split import Blocks, as_blocks
from vpintegrator.nn.tensor_arguments import last_size


class WindowAttention(Layer):
    r"""A function of a whole window by multihead attention: the g of a coupling.

    With a learned vector :math:`p_t` per time step, multihead attention over the window, and a
    hidden layer at every time step:

    .. math:: h_t = E z_t + p_t, \qquad u = h + \mathrm{MHA}(h), \qquad
        g_t = A \tanh(W u_t + b)

    Parameters
    ----------
    inputs, outputs : int
        Components of the vectors it reads and writes: (..., window, inputs) to
        (..., window, outputs).
    window : int
    width : int
        Components of h, divisible by ``heads``.
    heads : int
    stiefel : bool
        Keep the projections of the heads on the Stiefel manifold.
    initial_scale : float
        Size of the initial A.

    Examples
    --------
    >>> g = vp.nn.WindowAttention(2, 1, window=3, width=4, heads=2)
    >>> g(torch.zeros(5, 3, 2, dtype=torch.float64)).shape
    torch.Size([5, 3, 1])
    """

    def __init__(
        self,
        inputs: int,
        outputs: int,
        *,
        window: int,
        width: int,
        heads: int,
        stiefel: bool = False,
        initial_scale: float = 1e-2,
    ) -> None:
        super().__init__()
        self.window = whole("window", window)
        self.attention = MultiHeadAttention(width, heads, residual=True, stiefel=stiefel)
        self.embedding = nn.Parameter(torch.randn(inputs, width, dtype=torch.float64) / inputs**0.5)
        self.positions = nn.Parameter(torch.randn(window, width, dtype=torch.float64) / 2)
        self.inner_weight = nn.Parameter(
            torch.randn(width, width, dtype=torch.float64) / width**0.5
        )
        self.inner_bias = nn.Parameter(2 * torch.rand(width, dtype=torch.float64) - 1)
        outer = torch.randn(width, outputs, dtype=torch.float64)
        self.outer_weight = nn.Parameter(initial_scale * outer)

    def forward(self, X: torch.Tensor) -> torch.Tensor:
        last_size("X", X, {"window": self.window, "components": self.embedding.shape[0]})
        h = self.attention(X @ self.embedding + self.positions)
        return torch.tanh(h @ self.inner_weight + self.inner_bias) @ self.outer_weight


class AttentionCoupling(Coupling, Attention):
    r"""A sweep of couplings whose functions are multihead softmax attention over the window.

    For each block a of components in turn, with ``WindowAttention`` :math:`g_a` of the other
    components :math:`X_b`:

    .. math:: X_a \mapsto X_a + g_a(X_b)

    Softmax weights may be singular, yet every step is a shear: the volume is kept exactly, and the
    inverse takes the steps backwards.

    Parameters
    ----------
    dim, window : int
        Components of a state, time steps of a window.
    width, heads : int
        Width of the attention, divisible by its heads.
    split, symmetries
        Arguments of ``AdditiveCoupling``.
    stiefel, initial_scale
        Arguments of ``WindowAttention``.

    Raises
    ------
    InputError
        If width is not divisible by heads, or symmetries mix blocks of the split.

    References
    ----------
    Dinh, Krueger, Bengio, NICE, arXiv 1410.8516; Vaswani et al., arXiv 1706.03762.

    Examples
    --------
    >>> layer = vp.nn.AttentionCoupling(dim=4, window=3, heads=2)
    >>> Z = torch.rand(5, 3, 4, dtype=torch.float64)
    >>> bool(torch.allclose(layer.inverse(layer(Z)), Z))
    True
    """

    identity_at_zero = True

    def __init__(
        self,
        dim: int,
        window: int,
        *,
        width: int = 8,
        heads: int = 2,
        split: Blocks = "coordinates",
        symmetries: Any = (),
        stiefel: bool = False,
        initial_scale: float = 1e-2,
    ) -> None:
        functions = [
            WindowAttention(
                dim - len(block),
                len(block),
                window=window,
                width=width,
                heads=heads,
                stiefel=stiefel,
                initial_scale=initial_scale,
            )
            for block in as_blocks(split, dim)
        ]
        super().__init__(dim, functions, split=split, symmetries=symmetries)

    @property
    def acts(self) -> bool:
        functions = (part for part in self.modules() if isinstance(part, WindowAttention))
        return any(bool(function.outer_weight.any()) for function in functions)
