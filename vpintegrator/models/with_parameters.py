"""A family as a map of states with parameters beside them, for machine code."""

from __future__ import annotations

import torch

from vpintegrator.models.model import Model
from vpintegrator.nn.layer import beside


class WithParameters(Model):
    """A family as a map of windows (..., window, dim + p): states, and the parameters of each.

    Machine code reads one array. Parameters stay as they are.

    Parameters
    ----------
    family
        A trained family, with ``ranges``.
    """

    def __init__(self, family: Model) -> None:
        low, high = torch.tensor([*family.ranges.values()], dtype=torch.float64).unbind(1)  # (p,)
        super().__init__(
            family,
            family.dim + len(low),
            window=family.window,
            prediction_window=family.prediction_window,
            dtype=family.scale.dtype,
        )
        self.__dict__["name"] = family.name
        self.state_dim = family.dim
        width = torch.where(high > low, (high - low) / 4, 1e-3 * low.abs() + 1e-6)
        shift = torch.cat([family.shift.cpu(), (low + high) / 2])
        self.set_normalisation(shift, torch.cat([family.scale.cpu(), width]))
        self.to(family.scale)

    def forward(self, window: torch.Tensor, parameters: torch.Tensor | None = None) -> torch.Tensor:
        """Map windows (..., window, dim + p) to the windows ``prediction_window`` steps later."""
        states, k = window[..., : self.state_dim], window[..., self.state_dim :]
        return beside([self.core(states, k[..., -1, :]), k])  # (..., window, dim + p)
