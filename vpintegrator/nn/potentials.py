"""Scalar functions of a block of components, with their gradients written out.

A gradient coupling moves one half of a state by the gradient of such a function of the other half.
Written out, and not left to automatic differentiation, a gradient is as cheap as any other function
and is compiled and differentiated like one.
"""

from __future__ import annotations

import torch
from torch import nn

from vpintegrator.argument_values import whole
from vpintegrator.nn.activations import activation as activation_of
from vpintegrator.nn.tensor_arguments import as_dtype


class NeuronPotential(nn.Module):
    """V(x) = sum_i a_i S(w_i . x + b_i), S an antiderivative of the activation.

    Its gradient sum_i a_i activation(w_i . x + b_i) w_i is the gradient module of SympNets
    (K^T diag(a) sigma(K x + b)). Averaged over a group, V(S x) = V(x) for all its elements.

    Parameters
    ----------
    size : int
        Components of x.
    width : int
        Hidden units.
    group : Tensor, (element, size, size), optional
        What V is invariant under; a group, as ``generated_group`` gives it.
    activation : str
    initial_scale : float
        Size of the initial a.

    References
    ----------
    Jin, Zhang, Zhu, Tang, Karniadakis, SympNets, arXiv 2001.03750, equation (7).

    Examples
    --------
    >>> V = vp.nn.NeuronPotential(2, width=8)
    >>> V.gradient(torch.zeros(5, 2, dtype=torch.float64)).shape
    torch.Size([5, 2])
    """

    group: torch.Tensor | None

    def __init__(
        self,
        size: int,
        width: int = 16,
        *,
        group: torch.Tensor | None = None,
        activation: str = "tanh",
        initial_scale: float = 1e-2,
        dtype: torch.dtype | str = torch.float64,
    ) -> None:
        super().__init__()
        dtype = as_dtype(dtype)
        self.size, self.width = whole("size", size), whole("width", width)
        self._activation = activation_of(activation)
        self.inner_weight = nn.Parameter(torch.randn(size, width, dtype=dtype) / size**0.5)
        self.inner_bias = nn.Parameter(2 * torch.rand(width, dtype=dtype) - 1)
        self.outer_weight = nn.Parameter(initial_scale * torch.randn(width, dtype=dtype))
        if group is not None:
            group = group.to(dtype) if len(group) > 1 else None
        self.register_buffer("group", group, persistent=False)

    def gradient(self, x: torch.Tensor) -> torch.Tensor:
        """grad V at x (..., size)."""
        W: torch.Tensor = self.inner_weight
        b: torch.Tensor = self.inner_bias
        a: torch.Tensor = self.outer_weight
        if self.group is not None:  # a hidden layer that is wider by the elements
            count = len(self.group)
            W = (self.group.mT @ W).transpose(0, 1).flatten(1)
            b, a = b.repeat(count), a.repeat(count) / count
        return (self._activation(x @ W + b) * a) @ W.mT

    def extra_repr(self) -> str:
        return f"size={self.size}, width={self.width}"


class QuadraticPotential(nn.Module):
    """V(x) = x^T S x / 2 + b . x with a symmetric S: the linear module of SympNets.

    Parameters
    ----------
    size : int
    initial_scale : float
        Standard deviation of the entries of S.

    References
    ----------
    Jin, Zhang, Zhu, Tang, Karniadakis, SympNets, arXiv 2001.03750, equation (5).

    Examples
    --------
    >>> layer = vp.nn.GradientCoupling(vp.nn.QuadraticPotential(2), vp.nn.QuadraticPotential(2))
    >>> z = torch.rand(5, 4, dtype=torch.float64)
    >>> bool(torch.allclose(layer.inverse(layer(z)), z))
    True
    """

    def __init__(
        self, size: int, *, initial_scale: float = 1e-2, dtype: torch.dtype | str = torch.float64
    ) -> None:
        super().__init__()
        self.size, dtype = whole("size", size), as_dtype(dtype)
        self.weight = nn.Parameter(initial_scale * torch.randn(size, size, dtype=dtype))
        self.bias = nn.Parameter(torch.zeros(size, dtype=dtype))

    def gradient(self, x: torch.Tensor) -> torch.Tensor:
        """grad V at x (..., size)."""
        return 0.5 * (x @ (self.weight + self.weight.mT)) + self.bias


class ComponentPotential(nn.Module):
    """V(x) = sum_i a_i S(x_i), S' the activation: the activation module of SympNets.

    Parameters
    ----------
    size : int
    activation : str
    initial_scale : float
        Standard deviation of the a_i.

    References
    ----------
    Jin, Zhang, Zhu, Tang, Karniadakis, SympNets, arXiv 2001.03750, equation (6).

    Examples
    --------
    >>> layer = vp.nn.GradientCoupling(vp.nn.ComponentPotential(2), vp.nn.ComponentPotential(2))
    >>> z = torch.rand(5, 4, dtype=torch.float64)
    >>> bool(torch.allclose(layer.inverse(layer(z)), z))
    True
    """

    def __init__(
        self,
        size: int,
        *,
        activation: str = "tanh",
        initial_scale: float = 1e-2,
        dtype: torch.dtype | str = torch.float64,
    ) -> None:
        super().__init__()
        self.size = whole("size", size)
        self._activation = activation_of(activation)
        self.weight = nn.Parameter(initial_scale * torch.randn(size, dtype=as_dtype(dtype)))

    def gradient(self, x: torch.Tensor) -> torch.Tensor:
        """grad V at x (..., size)."""
        return self.weight * self._activation(x)
