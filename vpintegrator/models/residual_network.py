"""The residual network: the plain baseline."""

from __future__ import annotations

from dataclasses import dataclass

from torch import nn

from vpintegrator.models.arguments import ConservedArguments, StackArguments
from vpintegrator.models.base import Integrator
from vpintegrator.models.declaration import argument
from vpintegrator.models.registry import BUILT_IN
from vpintegrator.nn.composition import Composition
from vpintegrator.nn.feed_forward import ResidualLayer
from vpintegrator.nn.folding import KeepsLast


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
    description = BUILT_IN[name].description

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
        """Residual layers between a window and a vector."""
        size = a.dim * a.window
        layers = [ResidualLayer(size, a.width, activation=a.activation) for _ in range(a.depth)]
        if a.width is None:
            layers.append(ResidualLayer(size, activation="identity"))
        whole = Composition(nn.Flatten(-2), *layers, nn.Unflatten(-1, (a.window, a.dim)))
        return KeepsLast(whole, a.constants) if a.constants else whole
