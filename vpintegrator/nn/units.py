"""Units of states: layers whose formulas are about states before normalisation."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from vpintegrator.nn.layer import Layer


class InUnits(Layer):
    """A layer of normalised states (z - shift) / scale whose formulas are about z."""

    state_shift: torch.Tensor
    state_scale: torch.Tensor

    def add_units(self, size: int) -> None:
        """Register shift and scale of so many components, 0 and 1 at first."""
        self.register_buffer("state_shift", torch.zeros(size, **self.factory_kwargs))
        self.register_buffer("state_scale", torch.ones(size, **self.factory_kwargs))

    @torch.no_grad()
    def set_units(self, shift: torch.Tensor, scale: torch.Tensor) -> None:
        """Say that states are (z - shift) / scale, z being the variables of the formulas."""
        self.state_shift.copy_(shift)
        self.state_scale.copy_(scale)

    def physical(self, x: torch.Tensor) -> torch.Tensor:
        """Return the z of normalised states x."""
        return x * self.state_scale + self.state_shift


def scaled(
    values: Sequence[torch.Tensor], shift: torch.Tensor, scale: torch.Tensor
) -> list[torch.Tensor]:
    """Return values of formulas, each in its own unit."""
    units = zip(values, shift.unbind(), scale.unbind(), strict=True)
    return [(value - own) / unit for value, own, unit in units]
