"""The residual network: the plain baseline."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from vpintegrator.models.arguments import checked_arguments
from vpintegrator.models.base import Integrator
from vpintegrator.nn.checks import positive
from vpintegrator.nn.composition import Composition
from vpintegrator.nn.feed_forward import ResidualLayer


class ResidualNetwork(Integrator):
    """``depth`` residual layers on a window taken as one vector; no structure is preserved.

    Parameters
    ----------
    dim : int
        Components of a state.
    window, prediction_window : int
        Time steps read and predicted; by default 1, a one-step map.
    depth : int
        Number of nonlinear layers.
    width : int or None
        Hidden units of z -> z + V activation(W z + b). None takes the published stack:
        z -> z + activation(W z + b), and a last layer without activation.
    activation : str
    shift, scale : (dim,), optional
        Normalisation, see ``Integrator``.

    Raises
    ------
    InputError
        If sizes do not fit.

    References
    ----------
    He, Zhang, Ren, Sun, arXiv 1512.03385; GeometricMachineLearning.jl, ``ResNet``.
    """

    name = "resnet"
    description = "residual network: the plain baseline, no structure"

    @checked_arguments
    def __init__(
        self,
        *,
        dim: int,
        window: int = 1,
        prediction_window: int | None = None,
        depth: int = 4,
        width: int | None = 32,
        activation: str = "tanh",
        shift: Any = None,
        scale: Any = None,
        dtype: torch.dtype | str = torch.float64,
    ) -> None:
        size = positive("dim", dim) * positive("window", window)
        layers = [
            ResidualLayer(size, width, activation=activation, dtype=dtype)
            for _ in range(positive("depth", depth))
        ]
        if width is None:
            layers.append(ResidualLayer(size, activation="identity", dtype=dtype))
        super().__init__(
            Composition(nn.Flatten(-2), *layers, nn.Unflatten(-1, (window, dim))),
            dim=dim,
            window=window,
            prediction_window=prediction_window,
            arguments={"depth": depth, "width": width, "activation": activation},
            shift=shift,
            scale=scale,
            dtype=dtype,
        )
