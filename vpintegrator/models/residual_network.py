"""The residual network: the plain baseline."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import nn

from vpintegrator.arguments import whole
from vpintegrator.models.components import Components
from vpintegrator.models.model import Model
from vpintegrator.nn import Composition, ResidualLayer
from vpintegrator.nn.layer import default_dtype


class ResidualNetwork(Model):
    """``depth`` residual layers on a window taken as one vector; no structure is preserved.

    Parameters
    ----------
    dim
        Components of a state.
    window
        Time steps read.
    prediction_window
        Time steps predicted; by default all of the window.
    depth
        Number of nonlinear layers.
    width
        Hidden units of z -> z + V activation(W z + b). None takes the published stack:
        z -> z + activation(W z + b), and a last layer without activation.
    activation
        Activation of the nonlinear layers.
    conserved
        Last components, by number, that stay as they are and that the others depend on.
    dtype
        Type of the weights; they are drawn in float64.

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

    @default_dtype(torch.float64)
    def __init__(
        self,
        dim: int,
        *,
        window: int = 1,
        prediction_window: int | None = None,
        depth: int = 4,
        width: int | None = 32,
        activation: str = "tanh",
        conserved: Sequence[int] = (),
        dtype: str | torch.dtype = "float64",
    ) -> None:
        components = Components(dim, conserved=conserved)
        constants, moving = components.constants, components.moving
        size = moving * whole("window", window) + constants
        layers = [
            ResidualLayer(size, width, activation=activation, conserved=constants)
            for _ in range(whole("depth", depth))
        ]
        if width is None:
            layers.append(ResidualLayer(size, activation="identity", conserved=constants))
        core: nn.Module = OfWholeWindow(layers, (window, moving))
        if not constants:
            core = Composition(nn.Flatten(-2), *layers, nn.Unflatten(-1, (window, dim)))
        super().__init__(
            core, components, window=window, prediction_window=prediction_window, dtype=dtype
        )


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
    >>> network = OfWholeWindow([vp.nn.ResidualLayer(7, conserved=1).double()], (3, 2))
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
