"""A model's parameters as one vector, which is how second-order methods see them."""

from __future__ import annotations

import torch

from vpintegrator.models import Integrator


class ParameterVector:
    """Translates between a vector and the named parameters of a model that are trained."""

    def __init__(self, model: Integrator) -> None:
        self.model = model
        named = {name: p for name, p in model.named_parameters() if p.requires_grad}
        self.names = list(named)
        self.shapes = [p.shape for p in named.values()]
        self.sizes = [p.numel() for p in named.values()]

    def read(self) -> torch.Tensor:
        """The model's parameters now, as a new vector."""
        named = dict(self.model.named_parameters())
        return torch.cat([named[name].detach().reshape(-1) for name in self.names])

    def named(self, vector: torch.Tensor) -> dict[str, torch.Tensor]:
        """The vector's parts by name, in the parameters' shapes."""
        parts = vector.split(self.sizes)
        return {
            name: part.reshape(shape)
            for name, part, shape in zip(self.names, parts, self.shapes, strict=True)
        }

    @torch.no_grad()
    def write(self, vector: torch.Tensor) -> None:
        """Set the model's parameters."""
        named = dict(self.model.named_parameters())
        for name, part in self.named(vector).items():
            named[name].copy_(part)
