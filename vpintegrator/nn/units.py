"""Units of states: layers, and variables of layers, whose formulas are about physical states."""

from __future__ import annotations

import torch

from vpintegrator.nn.formulas import Formulas, with_values
from vpintegrator.nn.layer import Device, Dtype, Layer

Derivatives = dict[int, torch.Tensor]


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
        return x * self.state_scale + self.state_shift  # (..., component)


class FormulaVariables(InUnits):
    """Formulas of states as variables of a layer, each in a unit of its own.

    Parameters
    ----------
    formulas : Formulas
        At least one.
    device, dtype
        As in layers of torch.nn.

    Attributes
    ----------
    shift, scale : Tensor, (formula,)
        Units; by ``set_units`` median and spread at random states, as symmetric as the formulas.
    """

    shift: torch.Tensor
    scale: torch.Tensor

    def __init__(self, formulas: Formulas, *, device: Device = None, dtype: Dtype = None) -> None:
        super().__init__(device=device, dtype=dtype)
        self.formulas = formulas
        self.add_units(len(formulas.components))
        self.register_buffer("shift", torch.zeros(len(formulas), **self.factory_kwargs))
        self.register_buffer("scale", torch.ones(len(formulas), **self.factory_kwargs))
        self.set_units(torch.zeros(formulas.dim), torch.ones(formulas.dim))

    def set_units(self, shift: torch.Tensor, scale: torch.Tensor) -> None:
        """Set the units of states (dim,), and those of the formulas."""
        own = self.formulas.components
        super().set_units(shift[own], scale[own])
        self.scale_to(*self.formulas.units(shift[own], scale[own]))

    @torch.no_grad()
    def scale_to(self, shift: torch.Tensor, scale: torch.Tensor) -> None:
        """Set the units of the formulas."""
        self.shift.copy_(shift)
        self.scale.copy_(scale)

    def forward(self, x: torch.Tensor) -> list[torch.Tensor]:
        """Return the variables (...) at normalised components (..., component)."""
        return self._scaled(self.formulas(self.physical(x)))

    def _scaled(self, values: list[torch.Tensor]) -> list[torch.Tensor]:
        units = zip(values, self.shift.unbind(), self.scale.unbind(), strict=True)
        return [(value - shift) / scale for value, shift, scale in units]

    def with_slopes(self, x: torch.Tensor) -> tuple[list[torch.Tensor], list[Derivatives]]:
        """Return the variables, and the derivatives of each by the components."""
        values, slopes = self.formulas.with_slopes(self.physical(x))
        units = self.state_scale.unbind()
        result = [
            {j: slope * (units[j] / scale) for j, slope in own.items()}
            for own, scale in zip(slopes, self.scale.unbind(), strict=True)
        ]
        return self._scaled(values), result

    @torch.no_grad()
    def at(
        self, parameters: torch.Tensor
    ) -> tuple[FormulaVariables | None, dict[int, torch.Tensor]]:
        """Return the variables at parameters (m,), the last components; and those known then.

        The latter are normalised values by the numbers of the formulas.
        """
        n = len(self.formulas.components) - len(parameters)
        z = torch.cat([torch.zeros(n), parameters.cpu()]).to(self.state_scale)
        known = self.formulas.components[n:]
        values = dict(zip(known, self.physical(z)[n:].tolist(), strict=True))
        alone = [i for i, of in enumerate(self.formulas.depends) if of.issubset(known)]
        left = [i for i in range(len(self.formulas)) if i not in alone]
        own = self(z) if alone else []
        result = None
        if left:
            texts = [with_values(self.formulas.texts[i], values) for i in left]
            components = self.formulas.components[:n]
            formulas = Formulas(texts, max(components) + 1, components, self.formulas.name)
            result = FormulaVariables(formulas, **self.factory_kwargs)
            InUnits.set_units(result, self.state_shift[:n], self.state_scale[:n])
            result.scale_to(self.shift[left], self.scale[left])
        return result, {i: own[i] for i in alone}
