"""Vector fields of hidden layers: free ones, and those of a Hamiltonian or a Lagrangian.

Gradients are written out, so that they are compiled and differentiated like any function.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import torch
from torch import nn

from vpintegrator.arguments import whole
from vpintegrator.nn.formulas import InUnits
from vpintegrator.nn.layer import (
    ACTIVATIONS,
    Activation,
    Device,
    Dtype,
    Layer,
    as_activation,
    factory_like,
)

_SLOPES: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "tanh": lambda x: 1 - torch.tanh(x).square(),
    "sigmoid": lambda x: torch.sigmoid(x) * torch.sigmoid(-x),
    "sin": torch.cos,
    "softplus": torch.sigmoid,
    "identity": torch.ones_like,
}
_CURVATURES: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "tanh": lambda x: -2 * torch.tanh(x) * (1 - torch.tanh(x).square()),
    "sigmoid": lambda x: torch.sigmoid(x) * torch.sigmoid(-x) * (1 - 2 * torch.sigmoid(x)),
    "sin": lambda x: -torch.sin(x),
    "softplus": lambda x: torch.sigmoid(x) * torch.sigmoid(-x),
    "identity": torch.zeros_like,
}


def slope_of(activation: Activation) -> Callable[[torch.Tensor], torch.Tensor]:
    """Return the derivative of an activation, by formula where one is known.

    Examples
    --------
    >>> from vpintegrator.nn.fields import slope_of
    >>> slope_of(torch.sin)(torch.zeros(2))
    tensor([1., 1.])
    """
    return _formula_of(activation, _SLOPES) or _derivative_of(activation)


def curvature_of(activation: Activation) -> Callable[[torch.Tensor], torch.Tensor]:
    """Return the second derivative of an activation, by formula where one is known."""
    return _formula_of(activation, _CURVATURES) or _derivative_of(slope_of(activation))


def _formula_of(activation: Activation, formulas: dict[str, Activation]) -> Activation | None:
    """Return the formula of an activation that has a name, or None."""
    known = (name for name, function in ACTIVATIONS.items() if function is activation)
    return formulas.get(next(known, ""))


def _derivative_of(function: Activation) -> Activation:
    return lambda x: torch.func.jvp(function, (x,), (torch.ones_like(x),))[1]


class Perceptron(Layer):
    r"""Hidden layers, one after the other, with a linear one at the end.

    .. math:: f(z) = W_{L+1}\, \sigma(W_L \cdots \sigma(W_1 z + b_1) \cdots + b_L) + b_{L+1}

    Parameters
    ----------
    dim : int
        Components of z.
    width, depth : int
        Hidden units of each of ``depth`` hidden layers.
    outputs : int, optional
        Components of f; by default dim.
    bias : bool
        Whether the last layer has a bias.
    activation : str or callable
    device, dtype
        As in layers of torch.nn.

    Examples
    --------
    >>> vp.nn.Perceptron(dim=3, width=8, depth=2)(torch.zeros(5, 3)).shape
    torch.Size([5, 3])
    """

    def __init__(
        self,
        dim: int,
        width: int = 32,
        depth: int = 2,
        outputs: int | None = None,
        *,
        bias: bool = True,
        activation: str | Activation = "tanh",
        device: Device = None,
        dtype: Dtype = None,
    ) -> None:
        super().__init__(device=device, dtype=dtype)
        self.dim = whole("dim", dim)
        sizes = [dim] + [whole("width", width)] * whole("depth", depth)
        self.layers = nn.ModuleList(
            nn.Linear(before, after, **self.factory_kwargs) for before, after in pairwise(sizes)
        )
        count = dim if outputs is None else outputs
        self.outer = nn.Linear(width, count, bias=bias, **self.factory_kwargs)
        self.activation = as_activation(activation)

    def forward(self, z: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            z = self.activation(layer(z))  # (..., width)
        return self.outer(z)  # (..., outputs)


class EnergyNetwork(Perceptron):
    r"""A scalar function of hidden layers with its gradient and its Hessian matrix.

    .. math:: H(x) = w \cdot \sigma(W_L \cdots \sigma(W_1 x + b_1) \cdots + b_L), \qquad
        \nabla H(x) = W_1^T S_1 \cdots W_L^T S_L\, w

    with the diagonal matrices :math:`S_l` of :math:`\sigma'` at layer l. The Hessian matrix is

    .. math:: \nabla^2 H(x) = \sum_l J_l^T \operatorname{diag}(\sigma''_l\, s_l) J_l, \qquad
        J_{l+1} = W_{l+1} S_l J_l, \qquad s_{l-1} = W_l^T S_l s_l, \qquad J_1 = W_1, s_L = w.

    Parameters
    ----------
    size : int
        Components of x.
    width, depth, activation, device, dtype
        As of :class:`Perceptron`.

    Examples
    --------
    >>> H = vp.nn.EnergyNetwork(2, width=8)
    >>> x = torch.rand(2)
    >>> bool(torch.allclose(H.gradient(x), torch.func.grad(H)(x)))
    True
    """

    def __init__(
        self,
        size: int,
        width: int = 32,
        depth: int = 2,
        *,
        activation: str | Activation = "tanh",
        device: Device = None,
        dtype: Dtype = None,
    ) -> None:
        super().__init__(
            size, width, depth, 1, bias=False, activation=activation, device=device, dtype=dtype
        )
        self.size = size

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return H (...) at x (..., size)."""
        return super().forward(x).squeeze(-1)

    def gradient(self, x: torch.Tensor) -> torch.Tensor:
        r"""Return :math:`\nabla H` (..., size) at x (..., size)."""
        slopes = []
        weights: list[Any] = []
        for layer in self.layers:
            before = layer(x)  # (..., width)
            weights.append(layer.weight)
            slopes.append(slope_of(self.activation)(before))
            x = self.activation(before)
        signal = self.outer.weight[0]  # (width,)
        for weight, slope in zip(reversed(weights), reversed(slopes), strict=True):
            signal = (signal * slope) @ weight  # (..., inputs of the layer)
        return signal

    def gradient_and_hessian(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Return gradient (..., size) and Hessian (..., size, size) at x (..., size)."""
        slope = slope_of(self.activation)
        curvature = curvature_of(self.activation)
        weights: list[Any] = []
        sums: list[torch.Tensor] = []  # what enters each layer's activation, (..., width)
        jacobians: list[torch.Tensor] = []  # of these by x, (..., width, size)
        for layer in self.layers:
            weights.append(layer.weight)
            J = weights[-1]
            if sums:
                J = J @ (slope(sums[-1]).unsqueeze(-1) * jacobians[-1])
            sums.append(layer(x))
            jacobians.append(J)
            x = self.activation(sums[-1])
        signal = self.outer.weight[0]  # (width,)
        hessian = torch.zeros((), dtype=x.dtype, device=x.device)
        backwards = [each[::-1] for each in (weights, sums, jacobians)]
        for W, before, J in zip(*backwards, strict=True):
            weighted = (signal * curvature(before)).unsqueeze(-1) * J  # (..., width, size)
            hessian = hessian + J.mT @ weighted
            signal = (signal * slope(before)) @ W  # (..., inputs of the layer)
        return signal, hessian


class HamiltonianField(Layer):
    r"""The vector field :math:`f(q, p) = (\partial H/\partial p,\, -\partial H/\partial q)`.

    Parameters
    ----------
    energy : EnergyNetwork
        H, a function of states (q, p) with a method ``gradient``.

    References
    ----------
    Greydanus, Dzamba, Yosinski, Hamiltonian neural networks, arXiv 1906.01563.

    Examples
    --------
    >>> f = vp.nn.HamiltonianField(vp.nn.EnergyNetwork(2))
    >>> D = torch.func.jacrev(f)(torch.rand(2))
    >>> bool(abs(D.trace()) < 1e-7)  # free of divergence
    True
    """

    def __init__(self, energy: EnergyNetwork) -> None:
        super().__init__(**factory_like(energy))
        self.energy = energy
        self.dim = energy.size

    def forward(self, z: torch.Tensor) -> torch.Tensor:
        by_positions, by_momenta = self.energy.gradient(z).chunk(2, -1)  # (..., dim / 2) each
        return torch.cat([by_momenta, -by_positions], -1)  # (..., dim)


class LagrangianField(InUnits):
    r"""The vector field of a Lagrangian L(q, v), of states of positions and velocities.

    .. math:: \dot q = v, \qquad \frac{\partial^2 L}{\partial v^2}\, \dot v =
        \frac{\partial L}{\partial q} - \frac{\partial^2 L}{\partial v\, \partial q}\, v,
        \qquad L = \tfrac12 |v|^2 + \ell(q, v)

    States are normalised, and L is a function of normalised states x. The velocities are those of
    the positions: shift and scale of both enter by ``set_units``. The square of the normalised
    velocities keeps the matrix of masses regular while the network is small.

    Parameters
    ----------
    function : EnergyNetwork
        The l, a function with a method ``gradient_and_hessian``.

    References
    ----------
    Cranmer, Greydanus, Hoyer, Battaglia, Spergel, Ho, Lagrangian neural networks,
    arXiv 2003.04630, eq. 6.

    Examples
    --------
    >>> f = vp.nn.LagrangianField(vp.nn.EnergyNetwork(2, width=8))
    >>> q, v = torch.rand(2)
    >>> bool(f(torch.stack([q, v]))[0] == v)
    True
    """

    def __init__(self, function: EnergyNetwork) -> None:
        super().__init__(**factory_like(function))
        self.function = function
        self.dim = function.size
        self.add_units(self.dim)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        n = self.dim // 2
        scale = self.state_scale
        gradient, hessian = self.function.gradient_and_hessian(x)
        moved = self.physical(x)[..., n:] / scale[:n]  # (..., n), rates of normalised positions
        mixed = (hessian[..., n:, :n] @ moved.unsqueeze(-1)).squeeze(-1)  # (..., n)
        force = gradient[..., :n] * (scale[n:] / scale[:n]) - mixed
        masses = hessian[..., n:, n:] + torch.eye(n, dtype=x.dtype, device=x.device)
        inverse = torch.linalg.inv_ex(masses).inverse  # (..., n, n)
        return torch.cat([moved, (inverse @ force.unsqueeze(-1)).squeeze(-1)], -1)

    def energy(self, x: torch.Tensor) -> torch.Tensor:
        r"""Return :math:`v \cdot \partial L/\partial v - L` (...), which orbits keep."""
        n = self.dim // 2
        v = x[..., n:]  # (..., n)
        momenta = v + self.function.gradient(x)[..., n:]
        along = self.physical(x)[..., n:] / self.state_scale[n:] * momenta
        return (along - 0.5 * v.square()).sum(-1) - self.function(x)
