"""Layers one after the other, with the inverse and the law that follow from theirs."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import nn

from vpintegrator.errors import InputError
from vpintegrator.nn.layer import Layer, preserves
from vpintegrator.nn.parameters import parameters_for


class Composition(Layer, nn.Sequential):
    r"""Layers applied in order; invertible and volume-preserving when all of them are.

    .. math:: z \mapsto (\ell_n \circ \cdots \circ \ell_1)(z)

    Examples
    --------
    >>> sweep = vp.nn.AdditiveCoupling(dim=3)
    >>> map = vp.nn.Composition(sweep, vp.nn.VolumePreservingAttention(dim=3))
    >>> map.volume_preserving
    True
    """

    def __init__(self, *layers: nn.Module) -> None:
        nn.Sequential.__init__(self, *layers)

    @property
    def volume_preserving(self) -> bool:
        """Whether every layer preserves volume exactly."""
        return preserves("volume_preserving", *self)

    @property
    def symplectic(self) -> bool:
        """Whether every layer keeps the symplectic form of states (q, p) exactly."""
        return preserves("symplectic", *self)

    @property
    def parameter_count(self) -> int:
        """Number of parameters that the layers read."""
        return max([0, *[getattr(layer, "parameter_count", 0) for layer in self]])

    def at(self, parameters: torch.Tensor) -> Composition:
        """Return the composition at parameters (m,), which are multiplied out."""
        return Composition(
            *(layer.at(parameters) if parameters_for(layer, None) else layer for layer in self)  # type: ignore[operator]
        )

    def forward(self, z: torch.Tensor, parameters: torch.Tensor | None = None) -> torch.Tensor:
        for layer in self:
            z = layer(z, *parameters_for(layer, parameters))
        return z

    def inverse(self, y: torch.Tensor, parameters: torch.Tensor | None = None) -> torch.Tensor:
        """Return the inverses of the layers in reverse order.

        Raises
        ------
        InputError
            If a layer has no explicit inverse.
        """
        for layer in reversed(self):
            if not hasattr(layer, "inverse"):
                raise InputError(f"{type(layer).__name__} has no explicit inverse")
            y = layer.inverse(y, *parameters_for(layer, parameters))  # type: ignore[operator]
        return y


def is_invertible(layer: nn.Module) -> bool:
    """Whether a layer has an inverse, here: maps that preserve volume exactly, or shrink it.

    Every layer of this package that preserves volume exactly is invertible.
    """
    keeps = preserves("volume_preserving", layer)
    return hasattr(layer, "inverse") and keeps


def having(layer: nn.Module, method: str) -> Iterator[nn.Module]:
    """Yield the outermost layers of a map that have a method: it reaches the layers within them."""
    if hasattr(layer, method):
        yield layer
        return
    for part in layer.children():
        yield from having(part, method)
