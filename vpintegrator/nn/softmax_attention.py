"""Single-head attention: multiplicative and additive scores, stochastic or orthogonal weights."""

from __future__ import annotations

import torch
from torch import nn

from vpintegrator.arguments import one_of, whole
from vpintegrator.nn.cayley import cayley, cayley_increment
from vpintegrator.nn.layer import Attention, Layer
from vpintegrator.nn.tensor_arguments import last_size


class _SelfAttention(Layer, Attention):
    """Self-attention with weights from scores S (..., window, window).

    Keys are rows, queries are columns. Weights are the softmax down each column, or the Cayley
    transform of the skew correlations.
    """

    shown = ("dim", "weights", "residual")

    def __init__(self, dim: int, weights: str, residual: bool) -> None:
        super().__init__()
        self.dim = whole("dim", dim)
        self.weights = one_of("weights", weights, ["softmax", "cayley"])
        self.residual = residual

    @property
    def acts(self) -> bool:
        return self.weights == "softmax" or self.residual or super().acts

    def scores(self, X: torch.Tensor) -> torch.Tensor:
        raise NotImplementedError

    def _correlations(self, X: torch.Tensor) -> torch.Tensor:
        lower = torch.tril(self.scores(X), -1)
        return lower - lower.mT

    def attention_weights(self, X: torch.Tensor) -> torch.Tensor:
        """Return the weights (..., window, window) of windows X: queries by rows, keys by columns.

        Step t of the output is the sum over s of weight (t, s) times step s of the window, and the
        window itself with ``residual``.
        """
        if self.weights == "softmax":
            return torch.softmax(self.scores(X), -2).mT
        return cayley(self._correlations(X)).mT

    def forward(self, X: torch.Tensor) -> torch.Tensor:
        last_size("X", X, {"dim": self.dim})
        if self.weights == "softmax":
            output = self.attention_weights(X) @ X
        else:
            output = X + cayley_increment(self._correlations(X), X)
        return X + output if self.residual else output


class MultiplicativeAttention(_SelfAttention):
    r"""Attention with bilinear scores, without structure.

    For a window X (..., window, dim), with :math:`Z = X^T` and softmax over each column:

    .. math:: Z \mapsto Z \operatorname{softmax}(Z^T W Z)

    The weights are a stochastic matrix, which may be near singular; the layer has no inverse and
    does not preserve volume. With ``weights="cayley"`` they are orthogonal: the Cayley transform of
    the skew correlations, which is ``VolumePreservingAttention`` with the arbitrary weighting
    and is not volume-preserving either.

    Parameters
    ----------
    dim : int
    weights : {"softmax", "cayley"}
    residual : bool
        Add the input to the output.
    initial_scale : float, optional
        Standard deviation of the initial W; by default 1/dim.

    References
    ----------
    Luong, Pham, Manning, arXiv 1508.04025 ("general" score); Brantner, arXiv 2305.16901.

    Examples
    --------
    >>> attention = vp.nn.MultiplicativeAttention(dim=4, residual=True)
    >>> attention(torch.zeros(5, 3, 4, dtype=torch.float64)).shape
    torch.Size([5, 3, 4])
    """

    def __init__(
        self,
        dim: int,
        *,
        weights: str = "softmax",
        residual: bool = False,
        initial_scale: float | None = None,
    ) -> None:
        super().__init__(dim, weights, residual)
        size = 1 / dim if initial_scale is None else initial_scale
        self.weight = nn.Parameter(size * torch.randn(dim, dim, dtype=torch.float64))

    def scores(self, X: torch.Tensor) -> torch.Tensor:
        """Return the scores :math:`z_k^T W z_q` (..., window, window), keys by rows."""
        return X @ self.weight @ X.mT


class AdditiveAttention(_SelfAttention):
    r"""Attention whose scores are those of a hidden layer, without structure.

    .. math:: z_q \mapsto \sum_k \operatorname{softmax}_k(s_{kq})\, z_k, \qquad
        s_{kq} = v^T \tanh(W z_q + U z_k)

    for queries q and keys k; or the window is rotated by the Cayley transform of the scores, see
    ``MultiplicativeAttention``. It has no inverse and does not preserve volume.

    Parameters
    ----------
    dim : int
    width : int, optional
        Rows of W and U; by default dim.
    weights : {"softmax", "cayley"}
    residual : bool
        Add the input to the output.

    References
    ----------
    Bahdanau, Cho, Bengio, arXiv 1409.0473, appendix A.1.2.

    Examples
    --------
    >>> layer = vp.nn.AdditiveAttention(dim=3)
    >>> layer(torch.zeros(5, 4, 3, dtype=torch.float64)).shape  # (..., window, dim)
    torch.Size([5, 4, 3])
    """

    def __init__(
        self,
        dim: int,
        width: int | None = None,
        *,
        weights: str = "softmax",
        residual: bool = False,
    ) -> None:
        super().__init__(dim, weights, residual)
        width = whole("width", dim if width is None else width)
        self.query = nn.Parameter(torch.randn(width, dim, dtype=torch.float64) / dim**0.5)
        self.key = nn.Parameter(torch.randn(width, dim, dtype=torch.float64) / dim**0.5)
        self.vector = nn.Parameter(torch.randn(width, dtype=torch.float64) / width**0.5)

    def scores(self, X: torch.Tensor) -> torch.Tensor:
        """Return the scores (..., window, window), keys k by rows, queries q by columns."""
        queries, keys = X @ self.query.mT, X @ self.key.mT
        return torch.tanh(keys.unsqueeze(-2) + queries.unsqueeze(-3)) @ self.vector
