"""The residual network: the plain baseline."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from vpintegrator.models.arguments import ConservedArguments, StackArguments, argument
from vpintegrator.models.base import Integrator
from vpintegrator.nn import Composition, ResidualLayer


class ResidualNetwork(Integrator):
    """``depth`` residual layers on a window taken as one vector; no structure is preserved.

    Raises
    ------
    InputError
        If sizes do not fit.

    References
    ----------
    He, Zhang, Ren, Sun, arXiv 1512.03385; GeometricMachineLearning.jl, ``ResNet``.

    Examples
    --------
    >>> model = vp.models.ResidualNetwork(dim=3, depth=2)
    >>> model(torch.zeros(5, 1, 3, dtype=torch.float64)).shape  # the next states
    torch.Size([5, 1, 3])
    """

    name = "resnet"

    @dataclass(frozen=True, kw_only=True)
    class Arguments(StackArguments, ConservedArguments):
        """See the class."""

        depth: int = argument(4, "Number of nonlinear layers.", least=1)
        width: int | None = argument(
            32,
            "Hidden units of z -> z + V activation(W z + b). None takes the published stack: "
            "z -> z + activation(W z + b), and a last layer without activation.",
        )
        activation: str = argument("tanh", "Of the nonlinear layers.")

    def network(self, a: Arguments) -> nn.Module:
        """Return the residual layers between a window and a vector."""
        moving = a.dim - a.constants
        own: dict[str, Any] = {"conserved": a.constants}
        size = moving * a.window + a.constants
        layers = [
            ResidualLayer(size, a.width, activation=a.activation, **own) for _ in range(a.depth)
        ]
        if a.width is None:
            layers.append(ResidualLayer(size, activation="identity", **own))
        if a.constants:
            return OfWholeWindow(layers, (a.window, moving))
        return Composition(nn.Flatten(-2), *layers, nn.Unflatten(-1, (a.window, a.dim)))


class OfWholeWindow(nn.Module):
    """Layers of a window of states (z, k) taken as one vector, the z of all time steps and one k.

    Parameters
    ----------
    layers : sequence of Module
        Layers of vectors (..., window n + m).
    shape : (int, int)
        Time steps, and n.

    Examples
    --------
    >>> from vpintegrator.models.residual_network import OfWholeWindow
    >>> network = OfWholeWindow([vp.nn.ResidualLayer(7, conserved=1)], (3, 2))
    >>> network(torch.zeros(5, 3, 3, dtype=torch.float64)).shape
    torch.Size([5, 3, 3])
    """

    volume_preserving = False

    def __init__(self, layers: Sequence[nn.Module], shape: tuple[int, int]) -> None:
        super().__init__()
        self.layers, self.shape = Composition(*layers), shape

    def at(self, values: torch.Tensor) -> Composition:
        """Return the network of z where k has these values."""
        return Composition(nn.Flatten(-2), *self.layers.at(values), nn.Unflatten(-1, self.shape))

    def forward(self, X: torch.Tensor) -> torch.Tensor:
        window, n = self.shape
        k = X[..., n:].mean(-2)  # constant in a window
        vector = self.layers(torch.cat([X[..., :n].flatten(-2), k], -1))
        Z = vector[..., : window * n].unflatten(-1, self.shape)
        return torch.cat([Z, X[..., n:]], -1)
