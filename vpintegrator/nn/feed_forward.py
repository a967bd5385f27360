"""Pointwise, residual and affine layers, which preserve nothing."""

from __future__ import annotations

import torch
from torch import nn

from vpintegrator.arguments import whole
from vpintegrator.nn.activations import Activation
from vpintegrator.nn.activations import activation as activation_of
from vpintegrator.nn.folding import given
from vpintegrator.nn.layer import Device, Dtype, Layer


class PointwiseFeedForward(Layer):
    r"""A hidden layer with the same weights at every position of a window.

    .. math:: z \mapsto W_2\, \sigma(W_1 z + b_1) + b_2

    Parameters
    ----------
    dim : int
    inner : int, optional
        Hidden units, usually more than dim; by default 4 dim.
    activation : str or callable
    device, dtype
        As in layers of torch.nn.

    References
    ----------
    Vaswani et al., arXiv 1706.03762, section 3.3.

    Examples
    --------
    >>> layer = vp.nn.PointwiseFeedForward(dim=4, inner=16)
    >>> layer(torch.zeros(5, 3, 4)).shape
    torch.Size([5, 3, 4])
    """

    def __init__(
        self,
        dim: int,
        inner: int | None = None,
        *,
        activation: str | Activation = "relu",
        device: Device = None,
        dtype: Dtype = None,
    ) -> None:
        super().__init__(device=device, dtype=dtype)
        whole("dim", dim)
        inner = whole("inner", 4 * dim if inner is None else inner)
        self.inner = nn.Linear(dim, inner, **self.factory_kwargs)
        self.outer = nn.Linear(inner, dim, **self.factory_kwargs)
        self.activation = activation_of(activation)

    def forward(self, z: torch.Tensor) -> torch.Tensor:
        return self.outer(self.activation(self.inner(z)))  # (..., dim)


class ResidualLayer(Layer):
    r"""A layer that adds to its input.

    .. math:: z \mapsto z + \sigma(W z + b) \qquad \text{or} \qquad z \mapsto z + V \sigma(W z + b),

    the second with a width of its own.

    Parameters
    ----------
    dim : int
    width : int, optional
        Hidden units of the second form; V starts small, so that the layer starts near the identity.
    activation : str or callable
        "identity" makes the first form linear.
    bias : bool
    conserved : int
        Number of constants of motion, the last components, which are read and left unchanged.
    device, dtype
        As in layers of torch.nn.

    References
    ----------
    He, Zhang, Ren, Sun, arXiv 1512.03385; the first form as in GeometricMachineLearning.jl.

    Examples
    --------
    >>> layer = vp.nn.ResidualLayer(dim=3)
    >>> layer(torch.zeros(5, 3)).shape
    torch.Size([5, 3])
    """

    def __init__(
        self,
        dim: int,
        width: int | None = None,
        *,
        activation: str | Activation = "tanh",
        bias: bool = True,
        conserved: int = 0,
        device: Device = None,
        dtype: Dtype = None,
    ) -> None:
        super().__init__(device=device, dtype=dtype)
        self.conserved = whole("conserved", conserved, 0)
        self.moving = whole("dim", dim - conserved)
        hidden = self.moving if width is None else whole("width", width)
        self.linear = nn.Linear(dim, hidden, bias=bias, **self.factory_kwargs)
        self.outer = None
        if width is not None:
            self.outer = nn.Linear(hidden, self.moving, bias=False, **self.factory_kwargs)
            nn.init.normal_(self.outer.weight, std=1e-2)
        self.activation = activation_of(activation)

    @torch.no_grad()
    def at(self, values: torch.Tensor) -> ResidualLayer:
        """Return the layer of the other components where the conserved ones have these values."""
        values = given(values, self.conserved)
        n, width = self.moving, None if self.outer is None else len(self.linear.weight)
        with torch.random.fork_rng(devices=[]):
            result = ResidualLayer(n, width, activation=self.activation, dtype=torch.float64)
        weight = self.linear.weight.cpu().double()
        bias = weight[:, n:] @ values
        if self.linear.bias is not None:
            bias = bias + self.linear.bias.cpu().double()
        result.linear.weight.copy_(weight[:, :n])
        result.linear.bias.copy_(bias)
        if result.outer is not None and self.outer is not None:
            result.outer.weight.copy_(self.outer.weight)
        return result.to(self.linear.weight)

    def forward(self, z: torch.Tensor) -> torch.Tensor:
        shift = self.activation(self.linear(z))  # (..., hidden)
        if self.outer is not None:
            shift = self.outer(shift)  # (..., moving)
        if not self.conserved:
            return z + shift
        return torch.cat([z[..., : self.moving] + shift, z[..., self.moving :]], -1)  # (..., dim)


class AffineMap(Layer):
    r"""Affine map of states, the identity at first.

    .. math:: z \mapsto A z + b

    Parameters
    ----------
    dim : int
        Components of a state.
    device, dtype
        As in layers of torch.nn.

    Attributes
    ----------
    matrix : Parameter, (dim, dim)
        A.
    offset : Parameter, (dim,)
        b.

    Examples
    --------
    >>> layer = vp.nn.AffineMap(2)
    >>> layer(torch.ones(1, 2)).tolist()
    [[1.0, 1.0]]
    """

    def __init__(self, dim: int, *, device: Device = None, dtype: Dtype = None) -> None:
        super().__init__(device=device, dtype=dtype)
        self.dim = whole("dim", dim)
        self.matrix = nn.Parameter(torch.eye(dim, **self.factory_kwargs))
        self.offset = nn.Parameter(torch.zeros(dim, **self.factory_kwargs))

    def forward(self, z: torch.Tensor) -> torch.Tensor:
        return z @ self.matrix.mT + self.offset  # (..., dim)

    def inverse(self, z: torch.Tensor) -> torch.Tensor:
        """Return the states that ``forward`` maps to z."""
        return torch.linalg.solve(self.matrix, (z - self.offset).unsqueeze(-1)).squeeze(-1)
