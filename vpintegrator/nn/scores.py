"""Scores of attention: how much each time step of a window takes of each other one.

A module of scores takes queries (..., query, dim) and keys (..., key, dim) to a matrix
(..., key, query). Its attribute ``invariant`` says whether the matrix of a window is skew-symmetric
and that of the window rotated by its Cayley transform is the same; ``rank`` is a bound on its rank.
Projections may be on the Stiefel manifold: matrices with orthonormal rows.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import nn
from torch.nn.utils.parametrizations import orthogonal

from vpintegrator.arguments import one_of, whole
from vpintegrator.errors import InputError
from vpintegrator.nn.cayley import lower_places, skew_matrix
from vpintegrator.nn.layer import (
    Activation,
    Device,
    Dtype,
    Layer,
    as_activation,
    last_size,
    on_cpu,
)
from vpintegrator.nn.symmetry import generated_group, invariant_entries


def stiefel(module: nn.Module, name: str) -> nn.Module:
    r"""Keep the weight ``name`` (..., n, m), n <= m, of a module on the Stiefel manifold.

    .. math:: \mathrm{St}(n, m) = \{ W \in \mathbb{R}^{n \times m} : W W^T = I \}

    The rows of the weight (of each one, with leading axes) are orthonormal from now on, to
    rounding, whatever optimizer trains it: the optimizer sees an unconstrained tensor, and the
    weight is computed from it by torch's orthogonal parametrization (Householder reflections, or
    the matrix exponential for n = m). Assigning an orthonormal matrix to the attribute sets it.

    Parameters
    ----------
    module : Module
    name : str
        Name of one of its parameters.

    Returns
    -------
    Module
        Module itself.

    Raises
    ------
    InputError
        If the weight has more rows than columns.

    References
    ----------
    Lezcano-Casado, Trivializations for gradient-based optimization on manifolds, arXiv 1909.09501;
    Stiefel weights in transformers: Brantner, arXiv 2305.16901.

    Examples
    --------
    >>> layer = vp.nn.stiefel(torch.nn.Linear(4, 2).double(), "weight")
    >>> vp.nn.orthonormality_error(layer.weight) < 1e-14
    True
    """
    weight = getattr(module, name)
    rows, columns = weight.shape[-2:]
    if rows > columns:
        raise InputError(
            f"{name} has {rows} rows of {columns} entries: more rows than entries cannot be "
            "orthonormal"
        )
    return orthogonal(module, name)


def orthonormality_error(weight: torch.Tensor) -> float:
    r"""Return the deviation of rows of weights from orthonormality: 0 on the Stiefel manifold.

    The largest entry of :math:`|W W^T - I|` for weights W (..., n, m).

    Parameters
    ----------
    weight : Tensor, (..., n, m)

    Examples
    --------
    >>> vp.nn.orthonormality_error(torch.eye(3)[:2])
    0.0
    """
    identity = torch.eye(weight.shape[-2], dtype=weight.dtype, device=weight.device)
    return float((weight @ weight.mT - identity).detach().abs().max())


class BilinearScores(Layer):
    r"""Bilinear scores :math:`S_{kq} = s\, z_k^T A z_q`, with a skew, a symmetric A, or any.

    Parameters
    ----------
    dim : int
        Components of a state, at least 2 (skew).
    kind : {"skew", "symmetric", "arbitrary"}
    scale : float
        Factor s.
    symmetries : sequence of (dim, dim), optional
        Signed permutations S; :math:`A = S^T A S` for the group that they generate. Entries of A
        are then equal but for signs, or zero, and each parameter stands for those that are equal.
    initial_scale : float
        Standard deviation of the initial parameters.
    device, dtype
        As in layers of torch.nn.

    Raises
    ------
    InputError
        If the group holds other matrices than signed permutations, or zero is the only matrix of
        this kind that is invariant.

    Examples
    --------
    >>> scores = vp.nn.BilinearScores(3, "skew", dtype=torch.float64)
    >>> S = scores(torch.rand(5, 3, dtype=torch.float64))
    >>> bool(torch.allclose(S, -S.mT))
    True
    """

    shown = ("dim", "kind", "scale")
    places: torch.Tensor
    sources: torch.Tensor | None
    factors: torch.Tensor

    @on_cpu
    def __init__(
        self,
        dim: int,
        kind: str = "arbitrary",
        *,
        scale: float = 1.0,
        symmetries: Any = (),
        initial_scale: float = 1e-2,
        device: Device = None,
        dtype: Dtype = None,
    ) -> None:
        super().__init__(device=device, dtype=dtype)
        self.kind = one_of("weighting", kind, ["skew", "symmetric", "arbitrary"])
        self.scale = float(scale)
        self.invariant = kind == "skew"
        self.dim = whole("dim", dim, 2 if self.invariant else 1)
        self.rank = dim if self.invariant else None
        group = generated_group(symmetries, dim)
        sources = factors = None
        count = dim * (dim - 1) // 2 if self.invariant else dim * dim
        if len(group) > 1 or kind == "symmetric":
            sources, factors, count = invariant_entries(kind, group)
        if len(group) > 1 and count == 0:
            raise InputError(
                f"no {kind} weighting of dim = {dim} other than zero is invariant under the "
                f"{len(group)} symmetries; use CoupledAttention, whose weighting survives them"
            )
        # without symmetries placing entries is cheaper
        self.constant("sources", sources)
        self.constant("factors", factors)
        self.constant("places", lower_places(dim) if self.invariant and sources is None else None)
        self.entries = nn.Parameter(initial_scale * torch.randn(count, **self.factory_kwargs))

    def matrix(self) -> torch.Tensor:
        """Return s A (dim, dim)."""
        if self.sources is not None:
            A = (self.entries.index_select(0, self.sources) * self.factors).view(self.dim, self.dim)
        elif self.invariant:
            A = skew_matrix(self.entries, self.dim, self.places)  # (dim, dim)
        else:
            A = self.entries.view(self.dim, self.dim)
        return A if self.scale == 1 else self.scale * A  # (dim, dim)

    def forward(self, query: torch.Tensor, key: torch.Tensor | None = None) -> torch.Tensor:
        """Return the scores (..., key, query); keys are the queries where none are given."""
        last_size("query", query, {"dim": self.dim})
        key = query if key is None else key
        return key @ self.matrix() @ query.mT  # (..., key, query)


class AdditiveScores(Layer):
    r"""Scores of a hidden layer, :math:`S_{kq} = v^T \sigma(W z_q + U z_k)`.

    Parameters
    ----------
    dim, width : int
        Components of a state, rows of W and U.
    activation : str or callable
        Function :math:`\sigma`.
    device, dtype
        As in layers of torch.nn.

    Examples
    --------
    >>> scores = vp.nn.AdditiveScores(3, 5, activation="sin")
    >>> scores(torch.zeros(4, 3), torch.zeros(6, 3)).shape  # (..., key, query)
    torch.Size([6, 4])
    """

    shown = ("dim",)

    def __init__(
        self,
        dim: int,
        width: int,
        *,
        activation: str | Activation = "tanh",
        device: Device = None,
        dtype: Dtype = None,
    ) -> None:
        super().__init__(device=device, dtype=dtype)
        self.activation = as_activation(activation)
        self.dim = whole("dim", dim)
        shape = (whole("width", width), dim)
        self.query = nn.Parameter(torch.randn(shape, **self.factory_kwargs) / dim**0.5)
        self.key = nn.Parameter(torch.randn(shape, **self.factory_kwargs) / dim**0.5)
        self.vector = nn.Parameter(torch.randn(width, **self.factory_kwargs) / width**0.5)

    def forward(self, query: torch.Tensor, key: torch.Tensor | None = None) -> torch.Tensor:
        """Return the scores (..., key, query); keys are the queries where none are given."""
        last_size("query", query, {"dim": self.dim})
        key = query if key is None else key
        queries = (query @ self.query.mT).unsqueeze(-3)  # (..., 1, query, width)
        keys = (key @ self.key.mT).unsqueeze(-2)  # (..., key, 1, width)
        return self.activation(keys + queries) @ self.vector  # (..., key, query)


class ProductScores(Layer):
    r"""Scaled products of projections, :math:`S_{kq} = s\, (U z_k) \cdot (W z_q)`.

    Parameters
    ----------
    query, key : Module
        Projections W and U, to (..., query, width) and (..., key, width); or ``Heads``, for scores
        (..., head, key, query).
    scale : float
        Factor s.

    Examples
    --------
    >>> query, key = vp.nn.Heads(4, heads=2, width=3), vp.nn.Heads(6, heads=2, width=3)
    >>> scores = vp.nn.ProductScores(query, key, scale=3**-0.5)
    >>> scores(torch.zeros(7, 4), torch.zeros(5, 6)).shape  # (..., head, key, query)
    torch.Size([2, 5, 7])
    """

    def __init__(self, query: nn.Module, key: nn.Module, scale: float = 1.0) -> None:
        super().__init__()
        self.query = query
        self.key = key
        self.scale = scale

    def forward(self, query: torch.Tensor, key: torch.Tensor | None = None) -> torch.Tensor:
        """Return scores (..., [head,] key, query); keys are the queries where none are given."""
        key = query if key is None else key
        # written out because windows are short and all derivatives of it are plain ones
        return (self.scale * self.query(query) @ self.key(key).mT).mT  # (..., head, key, query)


class Heads(Layer):
    """Projection of the vectors of a sequence onto the subspace of each head.

    Parameters
    ----------
    dim, heads, width : int
        Components of a vector, number of heads, components in each of them.
    bias : bool
    orthonormal : bool
        Whether the rows of each head are orthonormal at first; otherwise weights begin as those of
        ``torch.nn.Linear``.
    stiefel : bool
        Whether they remain orthonormal, see ``vpintegrator.nn.stiefel``.
    device, dtype
        As in layers of torch.nn.

    Attributes
    ----------
    weight : Parameter, (head, width, dim)
    bias : Parameter, (head * width,), or None
    orthonormal : bool
        Whether the rows of each head are orthonormal at first.

    Examples
    --------
    >>> heads = vp.nn.Heads(6, heads=2, width=4, orthonormal=True)
    >>> heads(torch.zeros(5, 6)).shape  # (..., head, sequence, width)
    torch.Size([2, 5, 4])
    """

    shown = ("dim", "heads", "width")

    def __init__(
        self,
        dim: int,
        heads: int,
        width: int,
        *,
        bias: bool = False,
        orthonormal: bool = False,
        stiefel: bool = False,
        device: Device = None,
        dtype: Dtype = None,
    ) -> None:
        super().__init__(device=device, dtype=dtype)
        self.dim = dim
        self.heads = heads
        self.width = whole("width", width)
        self.orthonormal = orthonormal
        weight = torch.empty(heads, width, dim, **self.factory_kwargs)
        if orthonormal:
            for projection in weight:
                nn.init.orthogonal_(projection)
        else:
            nn.init.kaiming_uniform_(weight.flatten(0, 1), math.sqrt(5))
        self.weight = nn.Parameter(weight)
        self.bias = None
        if bias:
            zeros = torch.zeros(heads * width, **self.factory_kwargs)
            bound = 1 / math.sqrt(dim)
            self.bias = nn.Parameter(nn.init.uniform_(zeros, -bound, bound))
        if stiefel:
            orthogonal(self, "weight")

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        last_size("sequence", x, {"dim": self.dim})
        # (..., sequence, head * width)
        stacked = nn.functional.linear(x, self.weight.flatten(0, 1), self.bias)
        # (..., sequence, head * width) to (..., head, sequence, width)
        return stacked.unflatten(-1, (self.heads, -1)).transpose(-2, -3)
