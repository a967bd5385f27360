"""Layers whose functions are linear in their parameters, and their shears.

Such a layer has ``prolongable = True``. Its method ``shears()`` returns its shears in the order of
application, see :class:`LinearShear`; training initialises them as a splitting method. ``prolong``
of :class:`vpintegrator.nn.layer.Layer` makes it the map of a layer with fewer terms. A layer that
reads constants of motion has a method ``at(values)``, the layer of the other components.

Layers with variables of their own have ``set_units(shift, scale)``, called where states are
normalised, and ``adapt(states)``. Nothing else needs to know the class.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from torch import nn

Jet = Callable[[torch.Tensor], tuple[torch.Tensor, torch.Tensor]]


@dataclass(frozen=True)
class LinearShear:
    """Shear of a layer, whose increment is linear in its parameters.

    Attributes
    ----------
    block
        Number of the block of components that it moves, in its layer.
    parameters
        Its parameters.
    components
        The components that it moves, those of the layer where it is rotated.
    move
        Increment of states by the layer's coordinates, at the parameters as they are.
    share
        Indices of its own among all numbers of a parameter.
    rotation
        Rotation from states to the layer's coordinates (dim, dim), or None.
    jet
        Function of states (state, dim) that returns the derivatives of the increments of
        ``components`` by the parameters (state, component, parameter), and by the states (state,
        component, dim). None where a layer does not offer it.
    """

    block: int
    parameters: list[nn.Parameter]
    components: list[int]
    move: Callable[[torch.Tensor], torch.Tensor]
    share: slice = field(default_factory=lambda: slice(None))
    rotation: torch.Tensor | None = None
    jet: Jet | None = None

    @torch.no_grad()
    def set(self, values: torch.Tensor) -> None:
        """Give it parameters, all in one vector."""
        for parameter in self.parameters:
            own = parameter.view(-1)[self.share]
            own.copy_(values[: len(own)])
            values = values[len(own) :]

    @torch.no_grad()
    def columns(self, z: torch.Tensor) -> torch.Tensor:
        """Return the increment of states for each parameter, (state, dim, parameter)."""
        before = [parameter.clone() for parameter in self.parameters]
        turned = z if self.rotation is None else z @ self.rotation.mT  # (state, dim)
        columns = []
        for parameter in self.parameters:
            parameter.zero_()
        for parameter in self.parameters:
            flat = parameter.view(-1)
            for n in range(*self.share.indices(len(flat))):
                flat[n] = 1.0
                moved = self.move(turned.to(flat)).double()
                # (state, dim)
                columns.append(moved if self.rotation is None else moved @ self.rotation)
                flat[n] = 0.0
        for parameter, value in zip(self.parameters, before, strict=True):
            parameter.copy_(value)
        # (state, dim, parameter)
        return torch.stack(columns, -1) if columns else z.new_zeros(*z.shape, 0)


def is_prolongable(layer: nn.Module) -> bool:
    """Whether a layer is linear in its parameters and can take the terms of a smaller one."""
    return bool(getattr(layer, "prolongable", False))
