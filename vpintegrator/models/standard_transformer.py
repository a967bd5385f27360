"""The standard transformer as an integrator: multihead attention and residual layers."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from vpintegrator.models.arguments import checked_arguments
from vpintegrator.models.base import Integrator
from vpintegrator.nn.checks import as_dtype, positive
from vpintegrator.nn.composition import Composition
from vpintegrator.nn.encoder import Norm
from vpintegrator.nn.feed_forward import ResidualLayer
from vpintegrator.nn.multihead import MultiHeadAttention


class Positions(nn.Module):
    """X -> X + P with a learned vector per time step."""

    def __init__(self, window: int, dim: int, dtype: torch.dtype | str = torch.float64) -> None:
        super().__init__()
        self.vectors = nn.Parameter(1e-2 * torch.randn(window, dim, dtype=as_dtype(dtype)))

    def forward(self, X: torch.Tensor) -> torch.Tensor:
        return X + self.vectors


class StandardTransformer(Integrator):
    """``depth`` units of multihead attention and residual layers: no structure is preserved.

    The baseline that volume-preserving transformers are measured against. Each unit is multihead
    attention, ``blocks`` residual layers with the activation and a linear one. If ``width`` differs
    from dim, linear layers lead there and back.

    Parameters
    ----------
    dim : int
        Components of a state.
    window, prediction_window : int
        Time steps read and predicted (window by default).
    depth : int
        Number of units.
    width : int, optional
        Components inside; by default dim. Divisible by ``heads``.
    heads : int, optional
        By default one for each component inside, as published.
    blocks : int
        Nonlinear residual layers in a unit.
    residual : bool
        Add the input of each attention to its output.
    positions : bool
        Add a learned vector per time step; without, attention cannot tell the time steps apart.
    norm : {"none", "layer", "batch"}
        Normalise after attention and after the residual layers of each unit.
    stiefel : bool
        Keep the projections of the heads on the Stiefel manifold.
    attention_scale : float, optional
        Factor of the scores; by default 1/sqrt(width/heads).
    activation : str
    shift, scale : (dim,), optional
        Normalisation, see ``Integrator``.

    Raises
    ------
    InputError
        If width is not divisible by heads, or other sizes do not fit.

    References
    ----------
    Vaswani et al., arXiv 1706.03762; as an integrator: GeometricMachineLearning.jl,
    ``StandardTransformerIntegrator``.
    """

    name = "transformer"
    description = "standard transformer: multihead attention and residual layers, no structure"

    @checked_arguments
    def __init__(
        self,
        *,
        dim: int,
        window: int = 3,
        prediction_window: int | None = None,
        depth: int = 2,
        width: int | None = None,
        heads: int | None = None,
        blocks: int = 1,
        residual: bool = True,
        positions: bool = False,
        norm: str = "none",
        stiefel: bool = False,
        attention_scale: float | None = None,
        activation: str = "tanh",
        shift: Any = None,
        scale: Any = None,
        dtype: torch.dtype | str = torch.float64,
    ) -> None:
        positive("dim", dim)
        positive("window", window)
        positive("blocks", blocks, 0)
        inside = dim if width is None else positive("width", width)
        heads_ = inside if heads is None else positive("heads", heads)
        layers: list[nn.Module] = []
        if inside != dim:
            layers.append(nn.Linear(dim, inside, dtype=as_dtype(dtype)))
        if positions:
            layers.append(Positions(window, inside, dtype))
        for _ in range(positive("depth", depth)):
            layers.append(
                MultiHeadAttention(
                    inside,
                    heads_,
                    residual=residual,
                    stiefel=stiefel,
                    scale=attention_scale,
                    dtype=dtype,
                )
            )
            if norm != "none":
                layers.append(Norm(inside, norm, dtype))
            layers += [
                ResidualLayer(
                    inside, activation=activation if block < blocks else "identity", dtype=dtype
                )
                for block in range(blocks + 1)
            ]
            if norm != "none":
                layers.append(Norm(inside, norm, dtype))
        if inside != dim:
            layers.append(nn.Linear(inside, dim, dtype=as_dtype(dtype)))
        super().__init__(
            Composition(*layers),
            dim=dim,
            window=window,
            prediction_window=prediction_window,
            arguments={
                "depth": depth,
                "width": width,
                "heads": heads,
                "blocks": blocks,
                "residual": residual,
                "positions": positions,
                "norm": norm,
                "stiefel": stiefel,
                "attention_scale": attention_scale,
                "activation": activation,
            },
            shift=shift,
            scale=scale,
            dtype=dtype,
        )
