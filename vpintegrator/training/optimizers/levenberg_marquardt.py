"""Levenberg-Marquardt of windows: nonlinear least squares to high precision.

Where first-order methods stop near 1e-3, this goes on to 1e-6 and below, for up to some 10^4
parameters.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, ClassVar

import torch
from torch.func import jacrev, vmap

from vpintegrator.compiled import CompiledResidual
from vpintegrator.models import Integrator
from vpintegrator.runtime.deadline import check_time
from vpintegrator.training.least_squares import (
    DampedIteration,
    NormalEquations,
    Residual,
    normal_equations,
)
from vpintegrator.training.optimizers.base import Optimizer
from vpintegrator.training.residuals import Objective, relative


class LevenbergMarquardt(Optimizer, Residual):
    """The damped iteration on the residuals of some windows, with their exact Jacobian.

    The windows in use are a random subset. A new subset is drawn when no step lowers the cost: the
    subset is fitted to rounding, or a minimum is reached. The subset is doubled when its error is
    below the validation error, and the latter has not improved for some iterations. A larger subset
    before that would only slow iterations down.

    Memory: a block of the Jacobian (8 MiB, and a few times that for intermediate values) and a
    matrix of (parameters)^2, 3.2 GB for 20,000; where there is no C++ compiler, and on a GPU, three
    of them. The number of windows does not matter.

    Parameters
    ----------
    model, pairs, objective, generator, compiled
        See :class:`vpintegrator.training.optimizers.base.Optimizer`.
    batch
        Windows in use to begin with; by default so many that there are four residuals for each
        parameter, two of more than 1,000 parameters, and at least 256 (or all there are).
    """

    name = "levenberg-marquardt"
    compiles = True
    step_seconds = 0.05
    block_bytes: ClassVar[int] = 1 << 23  # of the Jacobian

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.best, self.stalled = math.inf, 0  # validation error, and iterations since it fell
        self.jacobian = vmap(jacrev(self._residual_twice, has_aux=True), (None, 0, 0))
        self._equations: tuple[bool, NormalEquations] | None = None
        self.restart()
        rows = self.objective.residuals_of_window(self.model)
        self.block = max(self.block_bytes // (8 * rows * len(self.iteration.parameters)), 16)

    @classmethod
    def default_batch(cls, model: Integrator, objective: Objective) -> int:
        """Return the number of windows that determines the parameters well."""
        count = sum(p.numel() for p in model.parameters() if p.requires_grad)
        # with more parameters J^T J takes most of the time: with two rows for each the error after
        # 30 to 40 s is 1.5 to 3 times smaller (neurons of 1,440 and polynomials of 1,188 parameters
        # on the rigid body, a transformer of 1,623)
        rows = 4 if count <= 1_000 else 2
        return max(rows * count // objective.residuals_of_window(model), 256)

    def restart(self, damping: float = 0.0) -> None:
        """Draw another subset of windows, and go on from the model's parameters."""
        pairs = self.pairs.sample(self.batch, self.generator)
        self.inputs, self.targets = self.ready(pairs)
        self.size = self.targets[..., 0].numel()
        first = 1e-7 if "training" in self.model.metadata else 1e-3
        self.iteration = DampedIteration(self, self.residuals.read(), first)
        self.iteration.damping = damping

    def epoch(self, progress: float) -> float:
        """Do one iteration; ``progress`` is not used."""
        if self.iteration.step():
            self.residuals.write(self.iteration.parameters)
        else:
            self.restart()
        return relative(self.squares, self.size)

    @property
    def windows(self) -> int:
        """The number of windows in use."""
        return len(self.inputs)

    def observe(self, training_error: float, validation_error: float) -> None:
        """Take twice as many windows when others get no better, and those in use do."""
        if validation_error < 0.9 * self.best:
            self.best, self.stalled = validation_error, 0
            return
        self.stalled += 1
        overfitted = validation_error > 1.3 * training_error  # with four residuals a parameter
        if overfitted and self.stalled >= 10 and self.batch < len(self.pairs):
            self.batch, self.stalled = 2 * self.batch, 0
            self.restart(self.iteration.damping)

    def roll_back(self) -> None:
        """The model was set back to better weights: go on from them with twice as many windows.

        What fits those in use and is far off on others says that these are too few.
        """
        self.batch = min(2 * self.batch, len(self.pairs))
        self.restart()

    def cost(self, parameters: torch.Tensor) -> float:
        """Return the weighted sum of squares over the windows in use, and keep the plain one."""
        sums = self.residuals.sums(parameters, self.inputs, self.targets)
        cost, self.squares = sums.tolist()
        return float(cost)

    def linearise(self, parameters: torch.Tensor) -> NormalEquations:
        """Return normal equations of the windows in use, overwritten by the next call."""
        machine = self.residuals.compiled
        compiled = machine is not None and parameters.device.type == "cpu"
        if self._equations is None or self._equations[0] != compiled:
            self._equations = None  # there may be no room for another
            self._equations = compiled, normal_equations(parameters, compiled)
        equations = self._equations[1]
        equations.clear()
        for jacobian, residual in self._jacobians(parameters, machine):
            equations.add(jacobian, residual)
        return equations

    def _jacobians(
        self, parameters: torch.Tensor, compiled: CompiledResidual | None
    ) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        """Yield J (row, parameter) and r (row,), block by block of windows."""
        if compiled is not None:
            arrays = (t.detach().numpy() for t in (parameters, self.inputs, self.targets))
            for rows in compiled.jacobians(*arrays):
                check_time()
                jacobian, residual = map(torch.from_numpy, rows)
                yield jacobian, residual
            return
        for x, y in zip(self.inputs.split(self.block), self.targets.split(self.block), strict=True):
            check_time()
            jacobian, residual = self.jacobian(parameters, x, y)
            yield jacobian.reshape(-1, len(parameters)), residual.detach().reshape(-1)

    def _residual_twice(
        self, vector: torch.Tensor, x: torch.Tensor, y: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        # once to be differentiated and once as it is
        residual = self.residuals(vector, x, y)
        return residual, residual
