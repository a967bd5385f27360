"""Scalar functions of a block of components, with their gradients written out.

A gradient coupling moves one half of a state by the gradient of such a function of the other half.
Written out, and not left to automatic differentiation, a gradient is as cheap as any other function
and is compiled and differentiated like one.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence

import torch
from torch import nn

from vpintegrator.arguments import whole
from vpintegrator.nn.activations import Activation
from vpintegrator.nn.activations import activation as activation_of
from vpintegrator.nn.canonical import SignedGroup
from vpintegrator.nn.layer import Device, Dtype, Layer, on_cpu
from vpintegrator.nn.parameters import factors_at_zero, neurons_at


class NeuronPotential(Layer):
    r"""A sum of neurons: the gradient module of SympNets.

    .. math:: V(x) = \sum_i a_i\, \Sigma(w_i \cdot x + b_i), \qquad
        \nabla V(x) = K^T \operatorname{diag}(a)\, \sigma(K x + b),

    with the rows :math:`w_i` of K and an antiderivative :math:`\Sigma` of the activation
    :math:`\sigma`. Averaged over a group, :math:`V(S x) = V(x)` for all its elements S.

    Parameters
    ----------
    size : int
        Components of x and of the gradient.
    width : int
        Hidden units.
    group : Tensor, (element, size + m, size + m), optional
        Invariance group of V, matrices for (x, k) as ``generated_group`` returns them. Or a pair of
        these and a sign for each, with :math:`V(S (x, k)) = \pm V(x, k)`.
    parameters : int
        Number m of parameters k, :math:`V = V(x, k)`.
    vanishing : sequence of int
        Parameters at zero of which V is constant: the value of V there is subtracted.
    activation : str or callable
    initial_scale : float
        Size of the initial a.
    device, dtype
        As in layers of torch.nn.

    References
    ----------
    Jin, Zhang, Zhu, Tang, Karniadakis, SympNets, arXiv 2001.03750, equation (7).

    Examples
    --------
    >>> V = vp.nn.NeuronPotential(2, width=8)
    >>> V.gradient(torch.zeros(5, 2)).shape
    torch.Size([5, 2])
    """

    shown = ("size", "width")
    group: torch.Tensor | None
    signs: torch.Tensor | None
    base: torch.Tensor | None

    @on_cpu
    def __init__(
        self,
        size: int,
        width: int = 16,
        *,
        group: torch.Tensor | SignedGroup | None = None,
        parameters: int = 0,
        vanishing: Sequence[int] = (),
        activation: str | Activation = "tanh",
        initial_scale: float = 1e-2,
        device: Device = None,
        dtype: Dtype = None,
    ) -> None:
        super().__init__(device=device, dtype=dtype)
        self.size, self.width = whole("size", size), whole("width", width)
        self.parameter_count = whole("parameters", parameters, 0)
        self.activation = activation_of(activation)
        read = size + parameters
        self.inner_weight = nn.Parameter(
            torch.randn(read, width, **self.factory_kwargs) / read**0.5
        )
        self.inner_bias = nn.Parameter(2 * torch.rand(width, **self.factory_kwargs) - 1)
        self.outer_weight = nn.Parameter(initial_scale * torch.randn(width, **self.factory_kwargs))
        matrices, signs = group if isinstance(group, tuple) else (group, None)
        if matrices is not None and len(matrices) == 1:
            matrices = signs = None
        if signs is not None and bool((signs == 1).all()):
            signs = None
        base = factors_at_zero(vanishing, size, parameters)
        for name, value in (("group", matrices), ("signs", signs), ("base", base)):
            self.constant(name, value)

    def _weights(self) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Return inner weights (size + m, hidden), biases and outer weights (hidden,)."""
        W: torch.Tensor = self.inner_weight
        b: torch.Tensor = self.inner_bias
        a: torch.Tensor = self.outer_weight
        if self.group is not None:  # a hidden layer that is wider by the elements
            count = len(self.group)
            W = (self.group.mT @ W).transpose(0, 1).flatten(1)  # (size + m, element * width)
            b, a = b.repeat(count), a.repeat(count) / count
            if self.signs is not None:
                a = a * self.signs.repeat_interleave(self.width)
        return W, b, a

    def gradient(self, x: torch.Tensor) -> torch.Tensor:
        r"""Return :math:`\nabla V` (..., size) by x at variables (..., size + m)."""
        W, b, a = self._weights()
        outer = W[: self.size] if self.parameter_count else W
        hidden = self.activation(x @ W + b)  # (..., hidden)
        if self.base is not None:
            hidden = hidden - self.activation((x * self.base) @ W + b)  # (..., hidden)
        return (hidden * a) @ outer.mT  # (..., size)

    @torch.no_grad()
    def at(self, parameters: torch.Tensor) -> NeuronPotential:
        """Return the potential at parameters (m,), which join the biases.

        The group, and what is subtracted, make the hidden layer wider.
        """
        result = copy.deepcopy(self)
        weights = neurons_at(parameters, *self._weights(), self.base)
        result.inner_weight, result.inner_bias, result.outer_weight = map(nn.Parameter, weights)
        result.parameter_count, result.width = 0, len(weights[1])
        result.group = result.signs = result.base = None
        return result


class QuadraticPotential(Layer):
    r"""A quadratic function: the linear module of SympNets.

    .. math:: V(x) = \tfrac{1}{2} x^T S x + b \cdot x, \qquad S = S^T

    Parameters
    ----------
    size : int
    initial_scale : float
        Standard deviation of the entries of S.
    device, dtype
        As in layers of torch.nn.

    References
    ----------
    Jin, Zhang, Zhu, Tang, Karniadakis, SympNets, arXiv 2001.03750, equation (5).

    Examples
    --------
    >>> layer = vp.nn.GradientCoupling(vp.nn.QuadraticPotential(2), vp.nn.QuadraticPotential(2))
    >>> z = torch.rand(5, 4)
    >>> bool(torch.allclose(layer.inverse(layer(z)), z))
    True
    """

    def __init__(
        self, size: int, *, initial_scale: float = 1e-2, device: Device = None, dtype: Dtype = None
    ) -> None:
        super().__init__(device=device, dtype=dtype)
        self.size = whole("size", size)
        self.weight = nn.Parameter(initial_scale * torch.randn(size, size, **self.factory_kwargs))
        self.bias = nn.Parameter(torch.zeros(size, **self.factory_kwargs))

    def gradient(self, x: torch.Tensor) -> torch.Tensor:
        r"""Return :math:`\nabla V` at x (..., size)."""
        return 0.5 * (x @ (self.weight + self.weight.mT)) + self.bias  # (..., size)


class ComponentPotential(Layer):
    r"""A function of each component: the activation module of SympNets.

    .. math:: V(x) = \sum_i a_i\, \Sigma(x_i), \qquad \Sigma' = \sigma,

    with the activation :math:`\sigma`.

    Parameters
    ----------
    size : int
    activation : str or callable
    initial_scale : float
        Standard deviation of the :math:`a_i`.
    device, dtype
        As in layers of torch.nn.

    References
    ----------
    Jin, Zhang, Zhu, Tang, Karniadakis, SympNets, arXiv 2001.03750, equation (6).

    Examples
    --------
    >>> layer = vp.nn.GradientCoupling(vp.nn.ComponentPotential(2), vp.nn.ComponentPotential(2))
    >>> z = torch.rand(5, 4)
    >>> bool(torch.allclose(layer.inverse(layer(z)), z))
    True
    """

    def __init__(
        self,
        size: int,
        *,
        activation: str | Activation = "tanh",
        initial_scale: float = 1e-2,
        device: Device = None,
        dtype: Dtype = None,
    ) -> None:
        super().__init__(device=device, dtype=dtype)
        self.size = whole("size", size)
        self.activation = activation_of(activation)
        self.weight = nn.Parameter(initial_scale * torch.randn(size, **self.factory_kwargs))

    def gradient(self, x: torch.Tensor) -> torch.Tensor:
        r"""Return :math:`\nabla V` at x (..., size)."""
        return self.weight * self.activation(x)  # (..., size)
