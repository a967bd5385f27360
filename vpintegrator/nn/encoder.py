"""The encoder block of the transformer."""

from __future__ import annotations

import torch
from torch import nn

from vpintegrator.arguments import one_of
from vpintegrator.nn.activations import Activation
from vpintegrator.nn.attention import GeneralMultiHeadAttention, MultiHeadAttention
from vpintegrator.nn.feed_forward import PointwiseFeedForward
from vpintegrator.nn.layer import Device, Dtype, Layer, factory

NORMS = ["layer", "batch", "none"]


class Norm(nn.Module):
    """torch's layer norm, batch norm over all positions, or none, for sequences (..., dim).

    Parameters
    ----------
    dim : int
    kind : {"layer", "batch", "none"}
        Batch norm keeps running means, so in training mode it cannot be used under vmap. In
        evaluation mode it takes these, so that a vector's image does not depend on the others.
    device, dtype
        As in layers of torch.nn.
    """

    def __init__(self, dim: int, kind: str, *, device: Device = None, dtype: Dtype = None) -> None:
        super().__init__()
        one_of("norm", kind, NORMS)
        options = factory(device, dtype)
        self.norm: nn.Module = {
            "layer": lambda: nn.LayerNorm(dim, **options),
            "batch": lambda: nn.BatchNorm1d(dim, **options),
            "none": nn.Identity,
        }[kind]()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if isinstance(self.norm, nn.BatchNorm1d):
            rows = x.reshape(-1, x.shape[-1])  # (vector, dim)
            norm = self.norm
            if len(rows) > 1:
                return norm(rows).view(x.shape)
            # a batch of one has no variance: the running statistics stand for it
            return nn.functional.batch_norm(
                rows, norm.running_mean, norm.running_var, norm.weight, norm.bias, eps=norm.eps
            ).view(x.shape)
        return self.norm(x)


def uses_batch_statistics(module: nn.Module) -> bool:
    """Whether a module computes, in training mode, with the statistics of the batch it is given."""
    return any(isinstance(part, nn.modules.batchnorm._BatchNorm) for part in module.modules())


class EncoderBlock(Layer):
    r"""An encoder block of the standard transformer, with the norm last.

    With attention A and a pointwise feed-forward network F:

    .. math:: u = \operatorname{Norm}(z + A(z)), \qquad y = \operatorname{Norm}(u + F(u))

    Parameters
    ----------
    dim : int
        Components of the vectors of a sequence (..., length, dim), divisible by ``heads``.
    heads : int
        Heads of the attention A, if no attention is given; by default one.
    attention : Module, optional
        A, without a residual connection; by default general multihead attention.
    inner : int, optional
        Hidden units of the pointwise network; by default 4 dim.
    norm : {"layer", "batch", "none"}
    stiefel : bool
        Multihead attention by projections with orthonormal rows (without biases and output
        projection) instead of the general one.
    activation : str or callable
    device, dtype
        As in layers of torch.nn.

    Notes
    -----
    With the layer norm and stiefel=False it is ``torch.nn.TransformerEncoderLayer`` without
    dropout.

    References
    ----------
    Vaswani et al., arXiv 1706.03762, section 3.1.

    Examples
    --------
    >>> block = vp.nn.EncoderBlock(dim=4, heads=2)
    >>> block(torch.zeros(5, 3, 4)).shape
    torch.Size([5, 3, 4])
    """

    def __init__(
        self,
        dim: int,
        heads: int = 1,
        *,
        attention: nn.Module | None = None,
        inner: int | None = None,
        norm: str = "layer",
        stiefel: bool = False,
        activation: str | Activation = "relu",
        device: Device = None,
        dtype: Dtype = None,
    ) -> None:
        super().__init__(device=device, dtype=dtype)
        options = self.factory_kwargs
        if attention is None and stiefel:
            attention = MultiHeadAttention(dim, heads, stiefel=True, **options)
        elif attention is None:
            attention = GeneralMultiHeadAttention(dim, heads, **options)
        self.attention = attention
        self.feed_forward = PointwiseFeedForward(dim, inner, activation=activation, **options)
        self.attention_norm = Norm(dim, norm, **options)
        self.feed_forward_norm = Norm(dim, norm, **options)

    def forward(self, z: torch.Tensor) -> torch.Tensor:
        z = self.attention_norm(z + self.attention(z))  # (..., length, dim)
        return self.feed_forward_norm(z + self.feed_forward(z))  # (..., length, dim)
