"""Pointwise, residual and affine layers, which preserve nothing."""

from __future__ import annotations

import copy

import torch
from torch import nn

from vpintegrator.arguments import whole
from vpintegrator.nn.activations import Activation
from vpintegrator.nn.activations import activation as activation_of
from vpintegrator.nn.layer import Device, Dtype, Layer, check_parameters
from vpintegrator.nn.parameters import joined, neurons_at


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
    parameters : int
        Number m of parameters, further inputs of W.
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
        parameters: int = 0,
        device: Device = None,
        dtype: Dtype = None,
    ) -> None:
        super().__init__(device=device, dtype=dtype)
        self.parameter_count = whole("parameters", parameters, 0)
        hidden = whole("dim", dim) if width is None else whole("width", width)
        self.linear = nn.Linear(dim + parameters, hidden, bias=bias, **self.factory_kwargs)
        self.outer = None
        if width is not None:
            self.outer = nn.Linear(hidden, dim, bias=False, **self.factory_kwargs)
            nn.init.normal_(self.outer.weight, std=1e-2)
        self.activation = activation_of(activation)

    @torch.no_grad()
    def at(self, parameters: torch.Tensor) -> ResidualLayer:
        """Return the layer at parameters (m,), which join the biases."""
        result = copy.deepcopy(self)
        result.parameter_count, linear = 0, self.linear
        b = linear.weight.new_zeros(len(linear.weight)) if linear.bias is None else linear.bias
        W, b, _ = neurons_at(parameters, linear.weight.mT, b, linear.weight, None)  # type: ignore[assignment]
        result.linear = nn.utils.skip_init(nn.Linear, *W.shape, **self.factory_kwargs)
        result.linear.weight.copy_(W.mT)
        result.linear.bias.copy_(b)
        return result

    def forward(self, z: torch.Tensor, parameters: torch.Tensor | None = None) -> torch.Tensor:
        if self.parameter_count or parameters is not None:
            check_parameters(parameters, self.parameter_count)
        shift = self.activation(self.linear(joined(z, parameters)))  # (..., hidden)
        return z + (shift if self.outer is None else self.outer(shift))  # (..., dim)


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
