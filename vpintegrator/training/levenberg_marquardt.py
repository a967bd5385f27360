"""Levenberg-Marquardt: nonlinear least squares to high precision, for up to some 10^4 parameters.

Each iteration minimises |r + J delta|^2 + damping |delta|^2 over the step delta, with the residuals
r of all windows in use and their exact Jacobian J (Levenberg 1944, Marquardt 1963; Nocedal and
Wright, Numerical Optimization, section 10.3). Where first-order methods stop near 1e-3, this goes
on to 1e-6 and below.

The damping is chosen afresh in every iteration: once J^T J is known, a step is one Cholesky
factorisation and one evaluation of the residuals, far cheaper than J itself, so a few dampings are
tried and the best kept. The plain norm |delta| does better than Marquardt's scaling by the diagonal
of J^T J, which lingers for a hundred iterations on the way.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch.func import functional_call, jacrev, vmap

from vpintegrator.models import Integrator

_JACOBIAN_BYTES = 1 << 23  # of a block of rows; a few times this is needed while it is computed
_DAMPING_FACTORS = (0.33, 1.3, 5.0, 30.0, 1e3, 1e5, 1e8)
_ROWS_PER_PARAMETER = 4  # to begin with
_OVERFITTED = 1.3


class LevenbergMarquardt:
    """Trains on a random subset of windows that determines the parameters well.

    Memory: a block of the Jacobian (8 MiB, and a few times that for intermediate values) and three
    matrices of (parameters)^2; the number of windows does not matter.

    Parameters
    ----------
    model
        Trained in place.
    inputs, targets
        Pairs of windows, shape (pair, window, dim).
    batch
        Windows in use to begin with; by default so many that there are four residuals for each
        parameter, and at least 256 (or all there are). They are doubled when they are fitted
        better than the validation windows.
    generator
        Of the subset.
    """

    def __init__(
        self,
        model: Integrator,
        inputs: torch.Tensor,
        targets: torch.Tensor,
        *,
        batch: int | None = None,
        generator: torch.Generator,
    ) -> None:
        self.model, self.generator = model, generator
        new = model.prediction_window
        self.all_inputs, self.all_targets = inputs, targets[:, -new:]
        named = {name: p for name, p in model.named_parameters() if p.requires_grad}
        self.names = list(named)
        self.shapes = [p.shape for p in named.values()]
        self.sizes = [p.numel() for p in named.values()]
        self.parameters = torch.cat([p.detach().reshape(-1) for p in named.values()])
        rows = new * model.dim  # of one window
        self.batch = batch or max(_ROWS_PER_PARAMETER * len(self.parameters) // rows, 256)
        self.block = max(_JACOBIAN_BYTES // (8 * rows * len(self.parameters)), 16)
        self.damping = 0.1
        self.choose_windows()
        self.jacobian: Callable[..., torch.Tensor] = vmap(jacrev(self._residual), (None, 0, 0))

    def choose_windows(self) -> None:
        """Draw another subset of windows."""
        order = torch.randperm(len(self.all_inputs), generator=self.generator)[: self.batch]
        order = order.to(self.all_inputs.device)
        self.inputs, self.targets = self.all_inputs[order], self.all_targets[order]
        self.size = self.targets.square().sum().item()
        self.cost = self._cost(self.parameters)

    def epoch(self, progress: float) -> float:
        """One iteration; ``progress`` is not used. Returns the relative error on the subset."""
        matrix, gradient = self._normal_equations()
        # below this, damping is lost in the rounding of the matrix
        least = torch.finfo(matrix.dtype).eps * matrix.diagonal().max().item()
        best_cost, best, best_damping = math.inf, self.parameters, self.damping
        for factor in _DAMPING_FACTORS:
            damping = max(self.damping * factor, least)
            trial = self._damped_step(matrix, gradient, damping)
            cost = math.inf if trial is None else self._cost(trial)
            if trial is not None and cost < best_cost:  # false for nan
                best_cost, best, best_damping = cost, trial, damping
            elif best_cost < self.cost:
                break  # more damping only shortens the step
        if best_cost < self.cost:
            self.cost, self.parameters, self.damping = best_cost, best, best_damping
            self._write(self.parameters)
        else:
            # no step helps: these windows are fitted to rounding, or a minimum is reached
            self.damping = max(1e3 * least, 1e-3)
            self.choose_windows()
        return math.sqrt(self._raw_cost() / self.size) if self.size > 0 else math.sqrt(self.cost)

    def observe(self, training_error: float, validation_error: float) -> None:
        """Take twice as many windows when those in use are fitted better than others."""
        overfitted = validation_error > _OVERFITTED * training_error
        if overfitted and self.batch < len(self.all_inputs):
            self.batch *= 2
            self.choose_windows()

    def _damped_step(
        self, matrix: torch.Tensor, gradient: torch.Tensor, damping: float
    ) -> torch.Tensor | None:
        """Parameters after the step of this damping; None where rounding leaves no step."""
        damped = matrix.clone()
        damped.diagonal().add_(damping)
        factor, failed = torch.linalg.cholesky_ex(damped)
        if failed.item():
            return None
        return self.parameters - torch.cholesky_solve(gradient[:, None], factor)[:, 0]

    def _normal_equations(self) -> tuple[torch.Tensor, torch.Tensor]:
        count = len(self.parameters)
        matrix, gradient = self.parameters.new_zeros(count, count), self.parameters.new_zeros(count)
        for x, y in zip(self.inputs.split(self.block), self.targets.split(self.block), strict=True):
            jacobian = self.jacobian(self.parameters, x, y).reshape(-1, count)
            with torch.no_grad():
                residual = self._residual(self.parameters, x, y)
            matrix.addmm_(jacobian.mT, jacobian)
            gradient.addmv_(jacobian.mT, residual)
        return matrix, gradient

    def _residual(self, flat: torch.Tensor, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        """Differences in units of the model's normalisation, flattened."""
        parts = flat.split(self.sizes)
        parameters = {
            name: part.reshape(shape)
            for name, part, shape in zip(self.names, parts, self.shapes, strict=True)
        }
        output = functional_call(self.model, parameters, (x,))
        new = self.model.prediction_window
        return ((output[..., -new:, :] - y) / self.model.scale).reshape(-1)

    @torch.no_grad()
    def _cost(self, flat: torch.Tensor) -> float:
        return self._residual(flat, self.inputs, self.targets).square().sum().item()

    @torch.no_grad()
    def _raw_cost(self) -> float:
        residual = self._residual(self.parameters, self.inputs, self.targets)
        return (residual.reshape(self.targets.shape) * self.model.scale).square().sum().item()

    @torch.no_grad()
    def _write(self, flat: torch.Tensor) -> None:
        named = dict(self.model.named_parameters())
        for name, part, shape in zip(self.names, flat.split(self.sizes), self.shapes, strict=True):
            named[name].copy_(part.reshape(shape))
