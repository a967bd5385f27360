"""The residuals that training minimises, as functions of a vector of parameters."""

from __future__ import annotations

import math
from collections.abc import Iterable

import torch

from vpintegrator.data.pairs import Pair
from vpintegrator.models import Integrator
from vpintegrator.training.machine_code import MachineCode
from vpintegrator.training.objective import Objective

BLOCK = 8192  # windows evaluated at once


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


class Residuals(ParameterVector):
    """Weighted residuals, their sums of squares and the gradient of these.

    Parameters
    ----------
    model, objective
        What is differentiated. The model's own parameters are only read and written.
    compiled
        The same as machine code, to be used instead as soon as it is ready.
    """

    def __init__(
        self, model: Integrator, objective: Objective, compiled: MachineCode | None = None
    ) -> None:
        super().__init__(model)
        self.objective, self._compiled = objective, compiled

    @property
    def compiled(self) -> MachineCode | None:
        """The machine code, if it is ready."""
        ready = self._compiled is not None and self._compiled.ready
        return self._compiled if ready else None

    def __call__(self, vector: torch.Tensor, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        """The residuals of some windows, flattened."""
        difference = self.objective.difference(self.model, x, y, self.named(vector))
        return self.objective.weighted(self.model, difference).reshape(-1)

    def gradient(
        self, vector: torch.Tensor, inputs: torch.Tensor, targets: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """The sums of squares, weighted and as they are, (2,), and the gradient of the first."""
        if self.compiled is not None:
            squares, half = self.compiled.gradient(vector, inputs, targets)
            return squares, 2 * half
        vector = vector.detach().requires_grad_()
        difference = self.objective.difference(self.model, inputs, targets, self.named(vector))
        cost = self.objective.weighted(self.model, difference).square().sum()
        (gradient,) = torch.autograd.grad(cost, vector, allow_unused=True, materialize_grads=True)
        squares = torch.stack([cost.detach(), difference.detach().square().sum()])
        return squares, gradient

    @torch.no_grad()
    def sums(
        self, vector: torch.Tensor, inputs: torch.Tensor, targets: torch.Tensor
    ) -> torch.Tensor:
        """The sums of squares alone, of any number of windows."""
        if self.compiled is not None:
            return self.compiled.sums(vector, inputs, targets)
        squares = inputs.new_zeros(2)
        parameters = self.named(vector)
        for x, y in zip(inputs.split(BLOCK), targets.split(BLOCK), strict=True):
            difference = self.objective.difference(self.model, x, y, parameters)
            squares[0] += self.objective.weighted(self.model, difference).square().sum()
            squares[1] += difference.square().sum()
        return squares


@torch.no_grad()
def relative_error(
    model: Integrator,
    inputs: torch.Tensor,
    targets: torch.Tensor,
    compiled: MachineCode | None = None,
) -> float:
    r"""Relative L2 error one window ahead, over all new states.

    .. math:: \frac{\| z^{\text{predicted}} - z^{\text{true}} \|_2}{\| z^{\text{true}} \|_2}

    The model is judged in evaluation mode, as it is rolled out, and left as it was.

    Parameters
    ----------
    model
        The model.
    inputs, targets
        Pairs of windows, shape (pair, window, dim) and (pair, time, dim), see
        :func:`vpintegrator.data.windows`.
    compiled
        The residuals of the model as machine code, to be used instead.

    Examples
    --------
    >>> dataset = vp.generate("pendulum", "pendulum.h5", count=10, steps=10, overwrite=True)
    >>> inputs, targets = map(torch.from_numpy, vp.windows(dataset.states("test"), 1))
    >>> model = vp.models.VolumePreservingFeedForward(dim=2)
    >>> 0 < vp.training.relative_error(model, inputs, targets) < 1
    True
    """
    if compiled is not None and compiled.ready:
        new_states = Objective().new_states(model, targets)
        vector = ParameterVector(model).read()
        squares = compiled.sums(vector, inputs, new_states)[1]
        return relative(float(squares), new_states.square().sum().item())
    return relative_error_of(model, zip(inputs.split(BLOCK), targets.split(BLOCK), strict=True))


@torch.no_grad()
def relative_error_of(model: Integrator, parts: Iterable[Pair]) -> float:
    """The same of any number of windows, part by part."""
    objective = Objective()
    residual = size = 0.0
    mode = model.training
    model.eval()
    for inputs, targets in parts:
        new_states = objective.new_states(model, targets)
        difference = objective.difference(model, inputs, new_states)
        sums = torch.stack([part.square().sum() for part in (difference, new_states)]).tolist()
        residual, size = residual + sums[0], size + sums[1]
    model.train(mode)
    return relative(residual, size)


def relative(squares: float, size: float) -> float:
    """The root of the quotient of sums of squares, or of the first where the other is zero."""
    return math.sqrt(squares / size) if size > 0 else math.sqrt(squares)
