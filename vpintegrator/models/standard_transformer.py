"""The standard transformer as an integrator: attention and feed-forward layers, no structure."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Self

import torch
from torch import nn

from vpintegrator.errors import InputError
from vpintegrator.models.arguments import StackArguments, argument
from vpintegrator.models.base import Integrator
from vpintegrator.nn.attention import (
    AdditiveAttention,
    GeneralMultiHeadAttention,
    MultiHeadAttention,
    MultiplicativeAttention,
)
from vpintegrator.nn.composition import Composition
from vpintegrator.nn.encoder import NORMS, EncoderBlock, Norm
from vpintegrator.nn.feed_forward import ResidualLayer

_LEAST_WIDTH = 8


class Positions(nn.Module):
    """X -> X + P with a learned vector per time step."""

    def __init__(self, window: int, dim: int) -> None:
        super().__init__()
        self.vectors = nn.Parameter(1e-2 * torch.randn(window, dim, dtype=torch.float64))

    def forward(self, X: torch.Tensor) -> torch.Tensor:
        return X + self.vectors


class StandardTransformer(Integrator):
    """``depth`` units of attention and feed-forward layers: no structure is preserved.

    The baseline that volume-preserving transformers are measured against. Each unit is attention,
    ``blocks`` residual layers with the activation and a linear one; or the encoder block of the
    literature, attention and a pointwise feed-forward network with a norm after each, which is
    block = "encoder", attention = "general", activation = "relu". If ``width`` differs from dim,
    linear layers lead there and back. ``published`` makes the baseline of arXiv 2312.11166.

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

    @dataclass(frozen=True, kw_only=True)
    class Arguments(StackArguments):
        """See the class; ``norm`` becomes the one that "auto" stands for."""

        window: int = argument(3, "Time steps read.", least=1)
        prediction_window: int | None = argument(
            1, "Time steps predicted, None for all of them.", least=1
        )
        width: int | None = argument(
            None,
            "Components inside; by default dim, but at least 8. Divisible by ``heads``.",
            least=1,
        )
        heads: int | None = argument(None, "By default one for each component inside.", least=1)
        blocks: int = argument(1, "Nonlinear residual layers in a unit.", least=0)
        residual: bool = argument(True, "Add the input of each attention to its output.")
        positions: bool = argument(
            True,
            "Add a learned vector per time step; without, attention cannot tell the time steps "
            "apart.",
        )
        norm: str = argument(
            "auto",
            'Normalise after attention and after the feed-forward layers of each unit; "auto" is '
            '"layer" for encoder blocks, else "none".',
            choices=["auto", *NORMS],
        )
        stiefel: bool = argument(
            False, "Keep the projections of the heads on the Stiefel manifold."
        )
        attention_scale: float | None = argument(
            None, "Factor of the scores; by default 1/sqrt(width/heads)."
        )
        activation: str = argument("tanh", "Of the feed-forward layers.")
        block: str = argument(
            "residual",
            "What follows attention: residual layers, or the pointwise feed-forward network of an "
            "encoder block.",
            choices=["residual", "encoder"],
            omitted=True,
        )
        attention: str = argument(
            "multihead",
            "Multihead attention by projections; the general one, with biases and a projection of "
            "its output; or attention of one head with multiplicative or additive scores.",
            choices=["multihead", "general", "multiplicative", "additive"],
            omitted=True,
        )
        inner: int | None = argument(
            None,
            "Hidden units of the pointwise networks of encoder blocks; by default 4 width.",
            least=1,
            omitted=True,
        )

        def __post_init__(self) -> None:
            super().__post_init__()
            if self.width is None:
                self._set("width", max(self.dim, _LEAST_WIDTH))
            encoder = self.block == "encoder"
            if self.norm == "auto":
                self._set("norm", "layer" if encoder else "none")
            if self.attention != "multihead" and (self.stiefel or self.attention_scale is not None):
                raise InputError("stiefel and attention_scale are for attention = multihead")
            if encoder and not self.residual:
                raise InputError("residual = false is for block = residual")

    @classmethod
    def published(cls, dim: int, **arguments: Any) -> Self:
        """Make the standard transformer of arXiv 2312.11166: 189 parameters in three dimensions.

        It reads and predicts windows of three states by three units of attention of one head and
        two nonlinear residual layers and a linear one, with tanh, in single precision. No learned
        vector tells the time steps apart, and attention does not add its input.

        Parameters
        ----------
        dim
            Components of a state, inside too.
        **arguments
            Arguments of the class that replace these.

        Examples
        --------
        >>> model = vp.models.StandardTransformer.published(3)
        >>> sum(weight.numel() for weight in model.parameters())
        189
        """
        sizes = {"window": 3, "prediction_window": 3, "depth": 3, "blocks": 2, "heads": 1}
        layers = {"width": dim, "positions": False, "residual": False, "dtype": "float32"}
        return cls(**{"dim": dim, **sizes, **layers, **arguments})

    def network(self, a: Arguments) -> nn.Module:
        """Return units of attention and feed-forward layers, between linear layers if need be."""
        inside = a.width or a.dim
        if a.block == "encoder":
            self.description = f"standard transformer: {a.attention} attention in encoder blocks"
        elif a.attention != "multihead":
            self.description = f"standard transformer: {a.attention} attention and residual layers"
        layers: list[nn.Module] = []
        if inside != a.dim:
            layers.append(nn.Linear(a.dim, inside, dtype=torch.float64))
        if a.positions:
            layers.append(Positions(a.window, inside))
        for _ in range(a.depth):
            layers += _encoder(a, inside) if a.block == "encoder" else _residual(a, inside)
        if inside != a.dim:
            layers.append(nn.Linear(inside, a.dim, dtype=torch.float64))
        return Composition(*layers)


def _attention(a: Any, inside: int, residual: bool) -> nn.Module:
    heads = inside if a.heads is None else a.heads
    kinds: dict[str, Callable[[], nn.Module]] = {
        "multihead": lambda: MultiHeadAttention(
            inside, heads, residual=residual, stiefel=a.stiefel, scale=a.attention_scale
        ),
        "general": lambda: GeneralMultiHeadAttention(inside, heads, residual=residual),
        "multiplicative": lambda: MultiplicativeAttention(inside, residual=residual),
        "additive": lambda: AdditiveAttention(inside, residual=residual),
    }
    return kinds[a.attention]()


def _encoder(a: Any, inside: int) -> list[nn.Module]:
    attention = _attention(a, inside, residual=False)  # the block adds the input itself
    sizes = {"inner": a.inner, "norm": a.norm, "activation": a.activation}
    return [EncoderBlock(inside, attention=attention, **sizes)]


def _residual(a: Any, inside: int) -> list[nn.Module]:
    layers = [_attention(a, inside, a.residual), Norm(inside, a.norm)]
    layers += [ResidualLayer(inside, activation=a.activation) for _ in range(a.blocks)]
    layers += [ResidualLayer(inside, activation="identity"), Norm(inside, a.norm)]
    return layers if a.norm != "none" else [each for each in layers if not isinstance(each, Norm)]
