"""Potentials of a whole window: the couplings made of them mix time steps, and are symplectic."""

from __future__ import annotations

import torch
from torch import nn

from vpintegrator.arguments import whole
from vpintegrator.nn.tensor_arguments import as_dtype, last_size


class AttentionPotential(nn.Module):
    r"""A function of a window whose gradient is softmax attention.

    .. math:: V(Q) = \sum_h a_h \sum_t \log \sum_s \exp(q_t^T B_h q_s)

    Its gradient is multihead attention that looks both ways: with the weights
    :math:`W_h = \operatorname{softmax}(Q B_h Q^T)` by rows,

    .. math:: \nabla V(Q) = \sum_h a_h \left( W_h Q B_h^T + W_h^T Q B_h \right).

    In a ``GradientCoupling`` that is softmax attention which is exactly symplectic on the space of
    windows.

    Parameters
    ----------
    size : int
        Components of each row of Q.
    heads : int
    group : Tensor, (element, size, size), optional
        Invariance group of V, applied to every row.
    width : int, optional
        Rank of each :math:`B_h = K^T L` with K, L (width, size); by default size / heads,
        rounded up.
    initial_scale : float
        Standard deviation of the :math:`a_h`.

    Examples
    --------
    >>> V = vp.nn.AttentionPotential(2, heads=2)
    >>> V.gradient(torch.zeros(5, 3, 2, dtype=torch.float64)).shape  # (..., window, size)
    torch.Size([5, 3, 2])
    """

    constant_at_zero = True
    group: torch.Tensor | None

    def __init__(
        self,
        size: int,
        heads: int = 2,
        width: int | None = None,
        *,
        group: torch.Tensor | None = None,
        initial_scale: float = 1e-2,
        dtype: torch.dtype | str = torch.float64,
    ) -> None:
        super().__init__()
        dtype = as_dtype(dtype)
        self.size, self.heads = whole("size", size), whole("heads", heads)
        width = -(-size // heads) if width is None else whole("width", width)
        scale = (size * width**0.5) ** -0.5
        self.query = nn.Parameter(scale * torch.randn(heads, width, size, dtype=dtype))
        self.key = nn.Parameter(scale * torch.randn(heads, width, size, dtype=dtype))
        self.outer_weight = nn.Parameter(initial_scale * torch.randn(heads, dtype=dtype))
        if group is not None:
            group = group.to(dtype) if len(group) > 1 else None
        self.register_buffer("group", group, persistent=False)

    def attention_weights(self, Q: torch.Tensor) -> torch.Tensor:
        """Return the weights (..., head, window, window), queries by rows and keys by columns."""
        return self._attention(Q)[2]

    def _attention(self, Q: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Return queries and keys (..., head, window, width), and their weights."""
        queries, keys = (Q.unsqueeze(-3) @ weight.mT for weight in (self.query, self.key))
        return queries, keys, torch.softmax(queries @ keys.mT, -1)

    def gradient(self, Q: torch.Tensor) -> torch.Tensor:
        r"""Return :math:`\nabla V` at Q (..., window, size)."""
        last_size("Q", Q, {"size": self.size})
        if self.group is None:
            return self._gradient(Q)
        images = self.group.unflatten(0, (-1,) + (1,) * (Q.ndim - 2))  # against (..., window, size)
        return (self._gradient(Q @ images.mT) @ images).mean(0)

    def _gradient(self, Q: torch.Tensor) -> torch.Tensor:
        queries, keys, weights = self._attention(Q)
        W = weights * self.outer_weight[:, None, None]
        return (W @ keys @ self.query + W.mT @ queries @ self.key).sum(-3)

    def extra_repr(self) -> str:
        return f"size={self.size}, heads={self.heads}"


class TimePotential(nn.Module):
    r"""A quadratic function of a window: linear symplectic attention.

    .. math:: V(Q) = \tfrac{1}{2} \sum_{t,s} A_{ts}\, q_t \cdot q_s, \qquad A = A^T,
        \qquad \nabla V(Q) = A Q

    Parameters
    ----------
    size, window : int
        Components of each row of Q, and rows.
    initial_scale : float
        Standard deviation of the entries of A.

    References
    ----------
    The ``LinearSymplecticAttention`` of GeometricMachineLearning.jl.

    Examples
    --------
    >>> layer = vp.nn.GradientCoupling(*(vp.nn.TimePotential(2, window=3) for _ in range(2)))
    >>> z = torch.rand(5, 3, 4, dtype=torch.float64)
    >>> bool(torch.allclose(layer.inverse(layer(z)), z))
    True
    """

    constant_at_zero = True

    def __init__(
        self,
        size: int,
        window: int,
        *,
        initial_scale: float = 1e-2,
        dtype: torch.dtype | str = torch.float64,
    ) -> None:
        super().__init__()
        self.size, self.window = whole("size", size), whole("window", window)
        start = initial_scale * torch.randn(window, window, dtype=as_dtype(dtype))
        self.weight = nn.Parameter(start)

    def gradient(self, Q: torch.Tensor) -> torch.Tensor:
        r"""Return :math:`\nabla V` at Q (..., window, size)."""
        last_size("Q", Q, {"window": self.window, "size": self.size})
        return 0.5 * ((self.weight + self.weight.mT) @ Q)

    def extra_repr(self) -> str:
        return f"size={self.size}, window={self.window}"
