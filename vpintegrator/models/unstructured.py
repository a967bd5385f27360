"""Maps without structure: linear, polynomial, and the residual network."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import nn

from vpintegrator.arguments import whole
from vpintegrator.models.components import Components
from vpintegrator.models.model import Model
from vpintegrator.models.stored import Periods
from vpintegrator.nn import AffineMap, Composition, PolynomialLayer, ResidualLayer
from vpintegrator.nn.layer import default_dtype


class LinearMap(Model):
    r"""A one-step affine map :math:`z \mapsto A z + b`.

    A and b follow from pairs of states by least squares: ``optimizer = "linear"``. The map has the
    structure that the pairs give it: exact states of a linear symplectic map give a symplectic A to
    rounding. A quadratic generating function (``sgf`` of degree 2) is symplectic for any pairs.

    Parameters
    ----------
    dim
        Components of a state.
    dtype
        Type of the weights.

    Examples
    --------
    >>> model = vp.models.LinearMap(dim=2)
    >>> model(torch.ones(1, 1, 2, dtype=torch.float64)).tolist()  # the identity at first
    [[[1.0, 1.0]]]
    """

    name = "linear"

    @default_dtype(torch.float64)
    def __init__(self, dim: int, *, dtype: str | torch.dtype = "float64") -> None:
        super().__init__(AffineMap(dim), dim, dtype=dtype)


class PolynomialMap(Model):
    r"""A map :math:`z \mapsto z + g(z)` by a polynomial g; no structure is preserved.

    The coefficients follow from pairs of states by ridge regression: ``optimizer = "linear"``.
    States away from the training states leave fast: polynomials grow there. With a window g reads
    several states, and the new state is the newest one and g: for observations, one of which does
    not determine the next.

    Parameters
    ----------
    dim
        Components of a state.
    window
        Time steps read; one step is predicted.
    degree
        Degree of the polynomials, in all components of all states together.
    periodic
        Components that are angles, by number, with their periods.
    dtype
        Type of the weights.

    Raises
    ------
    InputError
        If there are more than 2,000 coefficients for each component.

    Examples
    --------
    >>> model = vp.models.PolynomialMap(dim=4, degree=3)
    >>> sum(p.numel() for p in model.parameters())  # 35 for each component
    140
    >>> windows = vp.models.PolynomialMap(dim=2, degree=3, window=2)
    >>> windows.window, windows.prediction_window, sum(p.numel() for p in windows.parameters())
    (2, 1, 70)
    """

    name = "polynomial"
    linear_in_parameters = True

    @default_dtype(torch.float64)
    def __init__(
        self,
        dim: int,
        *,
        window: int = 1,
        degree: int = 3,
        periodic: Periods = (),
        dtype: str | torch.dtype = "float64",
    ) -> None:
        components = Components(dim, periodic=periodic)
        core = PolynomialLayer(dim, degree, window=window, periodic=[*components.periods])
        super().__init__(core, components, window, 1, dtype=dtype)


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
        Last components, by number, that stay as they are, bit by bit, and that the others depend
        on.
    parameters
        Number of parameters of a family that all layers read, see ``Model``.
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
        parameters: int = 0,
        dtype: str | torch.dtype = "float64",
    ) -> None:
        components = Components(dim, conserved=conserved, parameters=parameters)
        moving = components.moving
        read = components.read
        size = moving * whole("window", window)
        layers = [
            ResidualLayer(size, width, activation=activation, parameters=read)
            for _ in range(whole("depth", depth))
        ]
        if width is None:
            layers.append(ResidualLayer(size, activation="identity", parameters=read))
        core = Composition(_reshaped(1, size), *layers, _reshaped(window, moving))
        super().__init__(core, components, window, prediction_window, dtype=dtype)


def _reshaped(*shape: int) -> nn.Module:
    """Return a layer that gives the numbers of windows (..., a, b) another shape (..., c, d)."""
    return nn.Sequential(nn.Flatten(-2), nn.Unflatten(-1, shape))
