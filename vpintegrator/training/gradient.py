"""The gradient of the sum of squares that training minimises."""

from __future__ import annotations

import torch

from vpintegrator.compiled import CompiledResidual
from vpintegrator.models import Integrator
from vpintegrator.training.objective import Objective
from vpintegrator.training.parameters import ParameterVector


class Gradient:
    """Sums of squares over windows, and the gradient with respect to a vector of parameters.

    Parameters
    ----------
    model, objective
        What is differentiated. The model's own parameters are not used.
    compiled
        The same as machine code, to be used instead as soon as it is ready.
    """

    def __init__(
        self, model: Integrator, objective: Objective, compiled: CompiledResidual | None
    ) -> None:
        self.model, self.objective, self.compiled = model, objective, compiled
        self.vector = ParameterVector(model)

    def __call__(
        self, vector: torch.Tensor, inputs: torch.Tensor, targets: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """The sums of squares, weighted and as they are, (2,), and the gradient of the first."""
        if self.compiled is not None and self.compiled.ready:
            arrays = (tensor.detach().numpy() for tensor in (vector, inputs, targets))
            sums, half = self.compiled.gradient(*arrays)
            return torch.from_numpy(sums), torch.from_numpy(2 * half)
        vector = vector.detach().requires_grad_()
        parameters = self.vector.named(vector)
        difference = self.objective.difference(self.model, inputs, targets, parameters)
        cost = self.objective.weighted(self.model, difference).square().sum()
        (gradient,) = torch.autograd.grad(cost, vector, allow_unused=True, materialize_grads=True)
        squares = torch.stack([cost.detach(), difference.detach().square().sum()])
        return squares, gradient

    @torch.no_grad()
    def sums(
        self, vector: torch.Tensor, inputs: torch.Tensor, targets: torch.Tensor
    ) -> torch.Tensor:
        """The sums of squares alone, of any number of windows."""
        if self.compiled is not None and self.compiled.ready:
            arrays = (tensor.detach().numpy() for tensor in (vector, inputs, targets))
            return torch.from_numpy(self.compiled.sums(*arrays))
        squares = inputs.new_zeros(2)
        parameters = self.vector.named(vector)
        for x, y in zip(inputs.split(_BLOCK), targets.split(_BLOCK), strict=True):
            difference = self.objective.difference(self.model, x, y, parameters)
            squares[0] += self.objective.weighted(self.model, difference).square().sum()
            squares[1] += difference.square().sum()
        return squares


_BLOCK = 8192  # windows evaluated at once
