"""What second-order methods share: a subset of windows, its cost, and a choice of damping."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable

import torch

from vpintegrator.models import Integrator
from vpintegrator.training import processes
from vpintegrator.training.objective import Objective
from vpintegrator.training.parameters import ParameterVector

_DAMPING_FACTORS = (0.33, 1.3, 5.0, 30.0, 1e3, 1e5, 1e8)
_FIRST_DAMPING = 0.1
_OVERFITTED = 1.3
_BLOCK = 8192  # windows evaluated at once


class DampedLeastSquares(ABC):
    """Minimises |r + J delta|^2 + damping |delta|^2 over steps delta, again and again.

    The damping is chosen afresh in every iteration: a few are tried and the best kept, since a
    step and its cost are far cheaper than the derivatives. The windows in use are a random subset,
    doubled when it is fitted better than the validation windows, and drawn anew when no step
    lowers its cost.

    Parameters
    ----------
    model
        Trained in place.
    inputs, targets
        Pairs of windows, shape (pair, window, dim) and (pair, time, dim).
    objective
        What is minimised.
    batch
        Windows in use to begin with.
    generator
        Of the subset and the noise.
    """

    def __init__(
        self,
        model: Integrator,
        inputs: torch.Tensor,
        targets: torch.Tensor,
        objective: Objective,
        *,
        batch: int,
        generator: torch.Generator,
    ) -> None:
        self.model, self.objective, self.generator = model, objective, generator
        self.all_inputs, self.all_targets = inputs, objective.new_states(model, targets)
        self.vector = ParameterVector(model)
        self.parameters = self.vector.read()
        self.batch = batch
        self.damping = _FIRST_DAMPING
        self.choose_windows()

    def choose_windows(self) -> None:
        """Draw another subset of windows."""
        order = torch.randperm(len(self.all_inputs), generator=self.generator)[: self.batch]
        order = order.to(self.all_inputs.device)
        inputs = self.objective.noisy(self.model, self.all_inputs[order], self.generator)
        targets = self.all_targets[order]
        self.size = targets.square().sum().item()
        self.inputs, self.targets = processes.share(inputs), processes.share(targets)
        self.cost = self._cost(self.parameters)

    @abstractmethod
    def linearise(self) -> tuple[Callable[[float], torch.Tensor | None], float]:
        """The step (or None) as a function of the damping, and the least damping worth trying."""

    def epoch(self, progress: float) -> float:
        """One iteration; ``progress`` is not used. Returns the relative error on the subset."""
        step, least = self.linearise()
        best_cost, best, best_damping = math.inf, self.parameters, self.damping
        for factor in _DAMPING_FACTORS:
            damping = max(self.damping * factor, least)
            delta = step(damping)
            trial = self.parameters if delta is None else self.parameters + delta
            cost = math.inf if delta is None else self._cost(trial)
            if cost < best_cost:  # false for nan
                best_cost, best, best_damping = cost, trial, damping
            elif best_cost < self.cost:
                break  # more damping only shortens the step
        if best_cost < self.cost:
            self.cost, self.parameters, self.damping = best_cost, best, best_damping
            self.vector.write(self.parameters)
        else:
            # no step helps: these windows are fitted to rounding, or a minimum is reached
            self.damping = max(1e3 * least, 1e-3)
            self.choose_windows()
        squares = self._sum_of_squares(self.parameters, weighted=False)
        return math.sqrt(squares / self.size) if self.size > 0 else math.sqrt(squares)

    def observe(self, training_error: float, validation_error: float) -> None:
        """Take twice as many windows when those in use are fitted better than others."""
        overfitted = validation_error > _OVERFITTED * training_error
        if overfitted and self.batch < len(self.all_inputs):
            self.batch *= 2
            self.choose_windows()

    def roll_back(self) -> None:
        """The model was set back to better weights: go on from them, more carefully."""
        self.parameters = self.vector.read()
        self.damping = _FIRST_DAMPING
        self.choose_windows()

    def residual(self, vector: torch.Tensor, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        """Weighted residuals of some windows at some parameters, flattened."""
        difference = self.objective.difference(self.model, x, y, self.vector.named(vector))
        return self.objective.weighted(self.model, difference).reshape(-1)

    def _cost(self, vector: torch.Tensor) -> float:
        return self._sum_of_squares(vector, weighted=True)

    @torch.no_grad()
    def _sum_of_squares(self, vector: torch.Tensor, weighted: bool) -> float:
        """Over the windows in use, of all processes."""
        squares = self.inputs.new_zeros(1)
        parameters = self.vector.named(vector)
        for x, y in zip(self.inputs.split(_BLOCK), self.targets.split(_BLOCK), strict=True):
            difference = self.objective.difference(self.model, x, y, parameters)
            if weighted:
                difference = self.objective.weighted(self.model, difference)
            squares += difference.square().sum()
        return processes.total(squares).item()

    def state(self) -> tuple[dict[str, torch.Tensor], dict[str, float]]:
        """Tensors and numbers from which :meth:`restore` goes on exactly."""
        tensors = {
            "parameters": self.parameters,
            "inputs": self.inputs.contiguous(),
            "targets": self.targets.contiguous(),
        }
        numbers = {
            "damping": self.damping,
            "batch": self.batch,
            "cost": self.cost,
            "size": self.size,
        }
        return tensors, numbers

    def restore(self, tensors: dict[str, torch.Tensor], numbers: dict[str, float]) -> None:
        """Go on from a state."""
        self.parameters = tensors["parameters"]
        self.inputs, self.targets = tensors["inputs"], tensors["targets"]
        self.damping, self.batch = numbers["damping"], int(numbers["batch"])
        self.cost, self.size = numbers["cost"], numbers["size"]
