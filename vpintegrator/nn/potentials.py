"""Scalar functions of a block of components, with their gradients written out.

A gradient coupling moves one half of a state by the gradient of such a function of the other half.
Written out, and not left to automatic differentiation, a gradient is as cheap as any other function
and is compiled and differentiated like one.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import nn

from vpintegrator.argument_values import whole
from vpintegrator.errors import InputError
from vpintegrator.nn.activations import activation as activation_of
from vpintegrator.nn.basis import (
    chebyshev,
    chebyshev_derivatives,
    checked_degree,
    equivariant_coefficients,
    harmonic_derivatives,
    harmonics,
    moves_of_terms,
    orders,
    terms,
)
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


class BasisPotential(nn.Module):
    """V(x) = sum_e c_e phi_e(x) over products of Chebyshev polynomials, and harmonics of angles.

    Parameters
    ----------
    size : int
        Components of x.
    degree : int
        Largest total degree of a term; of an angle the order of the harmonic counts.
    periodic : sequence of int
        Components that are angles, in radians.
    group : Tensor, (element, size, size), optional
        What V is invariant under, signed permutations: only the terms that it allows have
        parameters.
    involved : sequence of sequences of int
        A term has a function of at least one component of each; by default any term will do.
    initial_scale : float
        Size of the initial coefficients of degree 1; those of degree n are n^2 times smaller.

    Raises
    ------
    InputError
        If the group holds other matrices than signed permutations, or leaves no term.

    Examples
    --------
    >>> V = vp.nn.BasisPotential(2, degree=4, periodic=[0])
    >>> D = torch.func.jacrev(V.gradient)(torch.rand(2, dtype=torch.float64))
    >>> bool(torch.allclose(D, D.mT))  # that of a gradient is symmetric
    True
    """

    polynomial = True  # can take the terms of a smaller one
    chosen: torch.Tensor
    sources: torch.Tensor
    factors: torch.Tensor

    def __init__(
        self,
        size: int,
        degree: int = 6,
        *,
        periodic: Sequence[int] = (),
        group: torch.Tensor | None = None,
        involved: Sequence[Sequence[int]] = (),
        initial_scale: float = 1e-3,
        dtype: torch.dtype | str = torch.float64,
    ) -> None:
        super().__init__()
        self.size, self.degree = whole("size", size), checked_degree(degree)
        self.periodic = [index in periodic for index in range(size)]
        group = torch.eye(size, dtype=torch.float64).unsqueeze(0) if group is None else group
        moves = moves_of_terms(group)
        indices = [  # a constant has no gradient
            e
            for e in terms(degree, self.periodic)[1:]
            if all(any(e[j] for j in block) for block in involved)
        ]
        value = torch.zeros(len(group), 1, dtype=torch.long), torch.ones(len(group), 1)
        sources, factors, count = equivariant_coefficients(indices, self.periodic, moves, value)
        used = (factors != 0).any(1)
        if not count:
            raise InputError(
                f"no potential of degree {degree} is allowed by the symmetries; take a higher one"
            )
        chosen = torch.tensor(indices)[used]
        self.register_buffer("chosen", chosen, persistent=False)
        self.register_buffer("sources", sources[used, 0], persistent=False)
        self.register_buffer("factors", factors[used, 0].to(as_dtype(dtype)), persistent=False)
        each = [orders(degree, angle) for angle in self.periodic]
        sizes = torch.ones(count)
        for e, source in zip(chosen.tolist(), self.sources.tolist(), strict=True):
            sizes[source] = max(1, sum(each[j][i] for j, i in enumerate(e)))
        start = initial_scale / sizes**2 * torch.randn(count)
        self.coefficients = nn.Parameter(start.to(as_dtype(dtype)))

    def gradient(self, x: torch.Tensor) -> torch.Tensor:
        """grad V at x (..., size)."""
        values, slopes = [], []
        for j, angle in enumerate(self.periodic):
            functions = (harmonics if angle else chebyshev)(x[..., j], self.degree)
            own = (harmonic_derivatives if angle else chebyshev_derivatives)(x[..., j], functions)
            picked = self.chosen[:, j]
            values.append(torch.stack(functions, -1).index_select(-1, picked))
            slopes.append(torch.stack(own, -1).index_select(-1, picked))
        coefficients = self.coefficients.index_select(0, self.sources) * self.factors
        # products of all the others, from those before and those after
        before = [coefficients.expand(values[0].shape)]
        for u in values[:-1]:
            before.append(before[-1] * u)
        after: torch.Tensor | None = None
        parts = []
        for j in reversed(range(self.size)):
            part = before[j] * slopes[j]
            parts.append((part if after is None else part * after).sum(-1))
            after = values[j] if after is None else after * values[j]
        return torch.stack(parts[::-1], -1)

    def take(self, smaller: BasisPotential) -> None:
        """Become the potential of the same components and symmetries, of no higher degree."""
        values = smaller.coefficients.index_select(0, smaller.sources) * smaller.factors
        known = {tuple(e): v for e, v in zip(smaller.chosen.tolist(), values, strict=True)}
        with torch.no_grad():
            self.coefficients.zero_()
            for n, e in enumerate(self.chosen.tolist()):
                if tuple(e) in known:
                    self.coefficients[self.sources[n]] = known[tuple(e)] / self.factors[n]

    def extra_repr(self) -> str:
        return f"size={self.size}, degree={self.degree}, parameters={self.coefficients.numel()}"
