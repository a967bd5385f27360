"""Layers one after the other, with the inverse and the law that follow from theirs."""

from __future__ import annotations

import torch
from torch import nn

from vpintegrator.errors import InputError


class Composition(nn.Sequential):
    """Layers applied in order; invertible and volume-preserving when all of them are.

    Examples
    --------
    >>> sweep = vp.nn.AdditiveCoupling(dim=3)
    >>> map = vp.nn.Composition(sweep, vp.nn.VolumePreservingAttention(dim=3))
    >>> map.volume_preserving
    True
    """

    @property
    def volume_preserving(self) -> bool:
        """Whether every layer preserves volume exactly."""
        return all(getattr(layer, "volume_preserving", False) for layer in self)

    @property
    def symplectic(self) -> bool:
        """Whether every layer keeps the symplectic form of states (q, p) exactly."""
        return all(getattr(layer, "symplectic", False) for layer in self)

    def inverse(self, y: torch.Tensor) -> torch.Tensor:
        """The inverses of the layers in reverse order.

        Raises
        ------
        InputError
            If a layer has no explicit inverse.
        """
        for layer in reversed(self):
            if not hasattr(layer, "inverse"):
                raise InputError(f"{type(layer).__name__} has no explicit inverse")
            y = layer.inverse(y)  # type: ignore[operator]
        return y


def is_invertible(layer: nn.Module) -> bool:
    """Whether a layer has an explicit inverse, here: the maps that are exactly volume-preserving.

    Every layer of this package that preserves volume exactly is explicitly invertible.
    """
    return hasattr(layer, "inverse") and bool(getattr(layer, "volume_preserving", False))
