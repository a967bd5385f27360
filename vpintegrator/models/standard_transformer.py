"""The standard transformer as an integrator: attention and feed-forward layers, no structure."""

from __future__ import annotations

from typing import Literal, Self

import torch
from torch import nn

from vpintegrator.arguments import whole
from vpintegrator.errors import InputError
from vpintegrator.models.model import Model
from vpintegrator.nn.attention import (
    AdditiveAttention,
    GeneralMultiHeadAttention,
    MultiHeadAttention,
    MultiplicativeAttention,
)
from vpintegrator.nn.composition import Composition
from vpintegrator.nn.feed_forward import EncoderBlock, Norm, ResidualLayer
from vpintegrator.nn.layer import default_dtype

_LEAST_WIDTH = 8


class Positions(nn.Module):
    """X -> X + P with a learned vector per time step."""

    def __init__(self, window: int, dim: int) -> None:
        super().__init__()
        self.vectors = nn.Parameter(1e-2 * torch.randn(window, dim, dtype=torch.float64))

    def forward(self, X: torch.Tensor) -> torch.Tensor:
        return X + self.vectors


class StandardTransformer(Model):
    """``depth`` units of attention and feed-forward layers: no structure is preserved.

    The baseline that volume-preserving transformers are measured against. Each unit is attention,
    ``blocks`` residual layers with the activation and a linear one; or the encoder block of the
    literature, attention and a pointwise feed-forward network with a norm after each, which is
    block = "encoder", attention = "general", activation = "relu". If ``width`` differs from dim,
    linear layers lead there and back. ``published`` makes the baseline of arXiv 2312.11166.

    Parameters
    ----------
    dim
        Components of a state.
    window
        Time steps read.
    prediction_window
        Time steps predicted, None for all of them.
    depth
        Number of units.
    width
        Components inside; by default dim, but at least 8. Divisible by ``heads``.
    heads
        Attention heads; by default one for each component inside.
    blocks
        Nonlinear residual layers in a unit.
    residual
        Whether each attention adds its input to its output.
    positions
        Whether a learned vector is added per time step; without, attention cannot tell the time
        steps apart.
    norm
        Normalisation after attention and after the feed-forward layers of each unit; "auto" is
        "layer" for encoder blocks, else "none".
    stiefel
        Whether the projections of the heads stay on the Stiefel manifold.
    attention_scale
        Factor of the scores; by default 1/sqrt(width/heads).
    activation
        Activation of the feed-forward layers.
    block
        Layers after attention: residual layers, or the pointwise feed-forward network of an encoder
        block.
    attention
        Multihead attention by projections; the general one, with biases and a projection of its
        output; or attention of one head with multiplicative or additive scores.
    inner
        Hidden units of the pointwise networks of encoder blocks; by default 4 width.
    dtype
        Type of the weights; they are drawn in float64.

    Raises
    ------
    InputError
        If width is not divisible by heads, or other sizes do not fit.

    References
    ----------
    Vaswani et al., arXiv 1706.03762; as an integrator: GeometricMachineLearning.jl,
    ``StandardTransformerIntegrator``.

    Examples
    --------
    >>> model = vp.models.StandardTransformer(dim=3, window=4, depth=1)
    >>> model(torch.zeros(5, 4, 3, dtype=torch.float64)).shape
    torch.Size([5, 4, 3])
    """

    name = "transformer"

    @default_dtype(torch.float64)
    def __init__(
        self,
        dim: int,
        *,
        window: int = 3,
        prediction_window: int | None = 1,
        depth: int = 2,
        width: int | None = None,
        heads: int | None = None,
        blocks: int = 1,
        residual: bool = True,
        positions: bool = True,
        norm: Literal["auto", "layer", "batch", "none"] = "auto",
        stiefel: bool = False,
        attention_scale: float | None = None,
        activation: str = "tanh",
        block: Literal["residual", "encoder"] = "residual",
        attention: Literal["multihead", "general", "multiplicative", "additive"] = "multihead",
        inner: int | None = None,
        dtype: str | torch.dtype = "float64",
    ) -> None:
        if attention != "multihead" and (stiefel or attention_scale is not None):
            raise InputError("stiefel and attention_scale are for attention = multihead")
        encoder = block == "encoder"
        if encoder and not residual:
            raise InputError("residual = false is for block = residual")
        whole("blocks", blocks, 0)
        inside = max(dim, _LEAST_WIDTH) if width is None else whole("width", width)
        heads = inside if heads is None else whole("heads", heads)
        if norm == "auto":
            norm = "layer" if encoder else "none"

        def mixing(residual: bool) -> nn.Module:
            """Return a layer of attention."""
            if attention == "general":
                return GeneralMultiHeadAttention(inside, heads, residual=residual)
            if attention == "multiplicative":
                return MultiplicativeAttention(inside, residual=residual)
            if attention == "additive":
                return AdditiveAttention(inside, residual=residual)
            return MultiHeadAttention(
                inside, heads, residual=residual, stiefel=stiefel, scale=attention_scale
            )

        layers: list[nn.Module] = []
        if inside != dim:
            layers.append(nn.Linear(dim, inside, dtype=torch.float64))
        if positions:
            layers.append(Positions(window, inside))
        for _ in range(whole("depth", depth)):
            if encoder:  # the block adds the input itself
                own = mixing(residual=False)
                layers.append(
                    EncoderBlock(
                        inside, attention=own, inner=inner, norm=norm, activation=activation
                    )
                )
                continue
            layers += [mixing(residual), Norm(inside, norm)]
            layers += [ResidualLayer(inside, activation=activation) for _ in range(blocks)]
            layers += [ResidualLayer(inside, activation="identity"), Norm(inside, norm)]
        if norm == "none":
            layers = [layer for layer in layers if not isinstance(layer, Norm)]
        if inside != dim:
            layers.append(nn.Linear(inside, dim, dtype=torch.float64))
        super().__init__(
            Composition(*layers),
            dim,
            window=window,
            prediction_window=prediction_window,
            dtype=dtype,
        )

    @classmethod
    def published(cls, dim: int, *, dtype: str | torch.dtype = "float32") -> Self:
        """Make the standard transformer of arXiv 2312.11166: 189 parameters in three dimensions.

        It reads and predicts windows of three states by three units of attention of one head and
        two nonlinear residual layers and a linear one, with tanh, in single precision. No learned
        vector tells the time steps apart, and attention does not add its input.

        Parameters
        ----------
        dim
            Components of a state, inside too.
        dtype
            Type of the weights.

        Examples
        --------
        >>> model = vp.models.StandardTransformer.published(3)
        >>> sum(weight.numel() for weight in model.parameters())
        189
        """
        return cls(
            dim,
            window=3,
            prediction_window=3,
            depth=3,
            blocks=2,
            heads=1,
            width=dim,
            positions=False,
            residual=False,
            dtype=dtype,
        )
