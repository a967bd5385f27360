"""Base classes of layers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

import torch
from torch import nn

from vpintegrator.nn.tensor_arguments import last_size


class Layer(nn.Module):
    """A layer with weights in float64, as they are drawn; ``layer.float()`` casts them.

    Attributes
    ----------
    volume_preserving, symplectic : bool
        Whether the layer preserves volume, or the form dq dp of states (q, p), exactly.
    shown : tuple of str
        Names of the attributes that ``print`` shows.
    """

    volume_preserving: Any = False
    symplectic: Any = False
    shown: ClassVar[tuple[str, ...]] = ()

    def constant(self, name: str, value: torch.Tensor | None) -> None:
        """Register a tensor that follows from the arguments, so that files need not hold it."""
        self.register_buffer(name, value, persistent=False)

    @torch.no_grad()
    def prolong(self, smaller: Any) -> None:
        """Take the coefficients of a layer of the same kind and no higher degree."""
        own = {name: value for name, value in smaller.state_dict().items() if "." not in name}
        self.load_state_dict(own, strict=False)
        for part, other in zip(parts(self), parts(smaller), strict=False):
            if isinstance(part, Layer):
                part.prolong(other)
            else:
                part.load_state_dict(other.state_dict())

    def adapt_like(self, other: nn.Module) -> None:
        """Take the stored units of variables, such as boxes, of a layer of such states."""
        own = dict(self.named_buffers())
        units = {name: value for name, value in other.state_dict().items() if name in own}
        self.load_state_dict(units, strict=False)

    def extra_repr(self) -> str:
        return ", ".join(f"{name}={getattr(self, name)!r}" for name in self.shown)


class InvertibleLayer(Layer):
    """A volume-preserving layer whose inverse is the same computation with another sign.

    Attributes
    ----------
    axes : tuple of str
        Names of the sizes of the last axes of what the layer maps.
    """

    volume_preserving: Any = True
    axes: ClassVar[tuple[str, ...]] = ("dim",)

    def moved(self, z: torch.Tensor, sign: int) -> torch.Tensor:
        """Return the image of z for sign 1, and the state whose image is z for sign -1."""
        raise NotImplementedError

    def _checked(self, z: torch.Tensor) -> torch.Tensor:
        last_size("z", z, {name: getattr(self, name) for name in self.axes})
        return z

    def forward(self, z: torch.Tensor) -> torch.Tensor:
        return self.moved(self._checked(z), 1)

    def inverse(self, z: torch.Tensor) -> torch.Tensor:
        """Return the states, or windows, that ``forward`` maps to z."""
        return self.moved(self._checked(z), -1)


class Attention(nn.Module):
    """Base of layers that mix the time steps of a window by weights."""

    @property
    def acts(self) -> bool:
        """Whether the layer is anything but the identity, by its weights."""
        return any(bool(parameter.any()) for parameter in self.parameters())


def parts(layer: nn.Module) -> Iterator[nn.Module]:
    """Yield the layers that a layer is made of, also those in lists."""
    for part in layer.children():
        if isinstance(part, nn.ModuleList):
            yield from part
        else:
            yield part


def preserves(law: str, *layers: nn.Module) -> bool:
    """Whether all layers have a law, such as ``volume_preserving``."""
    return all(bool(getattr(layer, law, False)) for layer in layers)
