"""Triangular layers and the feed-forward network that is published as volume-preserving."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from vpintegrator.arguments import one_of, whole
from vpintegrator.errors import InputError
from vpintegrator.nn.cayley import lower_matrix, lower_places
from vpintegrator.nn.composition import Composition
from vpintegrator.nn.layer import (
    Activation,
    Device,
    Dtype,
    InvertibleLayer,
    as_activation,
    factory,
    on_cpu,
)
from vpintegrator.nn.symmetry import TOLERANCE, generated_group, is_diagonal


class TriangularLayer(InvertibleLayer):
    r"""A residual layer with a strictly lower or strictly upper triangular matrix L.

    .. math:: z \mapsto z + \sigma(L z + b)

    The Jacobian is triangular with ones on the diagonal, so the volume is kept exactly. The inverse
    is found component by component, each from those before it.

    Parameters
    ----------
    dim : int
        Components of a state. The layer acts on the last axis of (..., dim).
    shape : {"lower", "upper"}
        The upper matrix is the transpose of the lower one with the same ``entries``.
    activation : str or callable
        "identity" makes the layer linear.
    bias : bool
    symmetries : sequence of diagonal (dim, dim), optional
        The layer commutes with the group they generate: it adds the mean over S of
        :math:`S^{-1} \sigma(L S z + b)`, which is still triangular for diagonal S.
    initial_scale : float
        Standard deviation of the initial entries and biases.
    device, dtype
        As in layers of torch.nn.

    Raises
    ------
    InputError
        If a symmetry is not diagonal.

    References
    ----------
    Brantner, de Romemont, Kraus, Li, arXiv 2312.11166, section 3.2.

    Examples
    --------
    >>> layer = vp.nn.TriangularLayer(dim=3, shape="upper", dtype=torch.float64)
    >>> z = torch.rand(3, dtype=torch.float64)
    >>> round(torch.func.jacrev(layer)(z).det().item(), 12)
    1.0
    """

    shown = ("dim", "shape")
    signs: torch.Tensor | None
    places: torch.Tensor

    @on_cpu
    def __init__(
        self,
        dim: int,
        shape: str = "lower",
        *,
        activation: str | Activation = "tanh",
        bias: bool = True,
        symmetries: Any = (),
        initial_scale: float = 0.1,
        device: Device = None,
        dtype: Dtype = None,
    ) -> None:
        super().__init__(device=device, dtype=dtype)
        self.dim = whole("dim", dim)
        self.shape = one_of("shape", shape, ["lower", "upper"])
        self.activation = as_activation(activation)
        group = generated_group(symmetries, dim)
        if not is_diagonal(group):
            raise InputError(
                "triangular layers respect only symmetries that are diagonal matrices; use "
                "couplings with a split whose blocks the symmetries map to themselves"
            )
        self.constant("signs", group.diagonal(dim1=-2, dim2=-1) if len(group) > 1 else None)
        self.constant("places", lower_places(dim))
        self.entries = nn.Parameter(
            initial_scale * torch.randn(dim * (dim - 1) // 2, **self.factory_kwargs)
        )
        self.bias = (
            nn.Parameter(initial_scale * torch.randn(dim, **self.factory_kwargs)) if bias else None
        )

    def matrix(self) -> torch.Tensor:
        """Return the strictly triangular matrix L (dim, dim)."""
        lower = lower_matrix(self.entries, self.dim, self.places)  # (dim, dim)
        return lower if self.shape == "lower" else lower.mT

    def _shift(self, z: torch.Tensor, L: torch.Tensor) -> torch.Tensor:
        if self.signs is None:
            return self.activation(nn.functional.linear(z, L, self.bias))  # (..., dim)
        images = z.unsqueeze(-2) * self.signs  # (..., element, dim)
        # (..., dim)
        return (self.activation(nn.functional.linear(images, L, self.bias)) / self.signs).mean(-2)

    def transform(self, z: torch.Tensor, sign: int) -> torch.Tensor:
        L = self.matrix()
        if sign > 0:
            return z + self._shift(z, L)  # (..., dim)
        result = z
        # the iteration z <- y - shift(z) gets one more component right each time: forward
        # substitution on the whole batch, exact after dim rounds
        for _ in range(self.dim):
            result = z - self._shift(result, L)
        return result


class IdleComponents(UserWarning):
    """A map never moves some of the components, whatever its weights."""


def idle_components(symmetries: Any, dim: int) -> list[int]:
    """Return components that triangular layers never move where they respect diagonal symmetries.

    The shift of component i is a function of those before it (lower layers) or after it (upper
    ones), averaged with the sign that each S gives to i. It is zero if some S leaves all that it is
    a function of in place and turns the sign of i: under the sign flips of the rigid body, that is
    so for the second of its three components.
    """
    signs = generated_group(symmetries, dim).diagonal(dim1=-2, dim2=-1)  # (element, dim)
    fixed = (signs - 1).abs() < TOLERANCE

    def idle(i: int, read: slice) -> bool:
        return bool((fixed[:, read].all(-1) & ~fixed[:, i]).any())

    return [i for i in range(dim) if idle(i, slice(i)) and idle(i, slice(i + 1, None))]


class TriangularFeedForward(Composition):
    """Triangular layers in the published order: a volume-preserving feed-forward network.

    Each of ``blocks`` blocks holds ``linear`` pairs of linear lower and upper layers, the last of
    them with a bias, and one pair with the activation; a linear pair with a bias ends the network.

    Parameters
    ----------
    dim : int
    blocks, linear : int
        Numbers of blocks, and of linear pairs in each.
    upper_first : bool
        Begin every pair with the upper layer.
    activation, symmetries, initial_scale
        Arguments of ``TriangularLayer``.
    device, dtype
        As in layers of torch.nn.

    References
    ----------
    Brantner, de Romemont, Kraus, Li, arXiv 2312.11166, section 3.2;
    GeometricMachineLearning.jl, ``VolumePreservingFeedForward``.

    Examples
    --------
    >>> layer = vp.nn.TriangularFeedForward(dim=3, blocks=2, linear=1)
    >>> z = torch.rand(5, 3)
    >>> bool(torch.allclose(layer.inverse(layer(z)), z))
    True
    """

    def __init__(
        self,
        dim: int,
        *,
        blocks: int = 2,
        linear: int = 1,
        activation: str | Activation = "tanh",
        upper_first: bool = False,
        symmetries: Any = (),
        initial_scale: float = 0.1,
        device: Device = None,
        dtype: Dtype = None,
    ) -> None:
        whole("blocks", blocks)
        whole("linear", linear)
        options: Any = {"symmetries": symmetries, "initial_scale": initial_scale}
        options |= factory(device, dtype)
        shapes = ("upper", "lower") if upper_first else ("lower", "upper")
        # activation and biases of each pair of layers
        pairs: list[Any] = [("identity", False, n == linear - 1) for n in range(linear)]
        pairs = [*pairs, (activation, True, True)] * blocks + [("identity", False, True)]
        layers = [
            TriangularLayer(dim, shape, activation=function, bias=bias, **options)
            for function, *biases in pairs
            for shape, bias in zip(shapes, biases, strict=True)
        ]
        super().__init__(*layers)
