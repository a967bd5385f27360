"""Levenberg-Marquardt: nonlinear least squares to high precision, for up to some 10^4 parameters.

Each iteration solves (J^T J + damping) delta = -J^T r with the residuals r of all windows in use
and their exact Jacobian J (Levenberg 1944, Marquardt 1963; Nocedal and Wright, Numerical
Optimization, section 10.3). Where first-order methods stop near 1e-3, this goes on to 1e-6 and
below.

What was measured on the rigid body (one step, 384 parameters): the plain norm |delta| does better
than Marquardt's scaling by the diagonal of J^T J, which lingers for a hundred iterations. Nielsen's
rule for the damping gets further in the same time than trying several dampings in an iteration,
and than geodesic acceleration. Steps from J^T J agree with those from a QR factorisation of J to
1e-8 at the dampings that occur (1e-6), at half the cost. Every damping that is tried has a Cholesky
factor of its own: what dampings could share, a tridiagonal form of J^T J, costs as much as four.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import torch
from torch.func import jacrev, vmap

from vpintegrator.models import Integrator
from vpintegrator.runtime.deadline import check_time
from vpintegrator.training import processes
from vpintegrator.training.objective import Objective
from vpintegrator.training.optimizers.least_squares import DampedLeastSquares, Linearisation
from vpintegrator.training.optimizers.normal_matrix import (
    InMachineCode,
    NormalMatrix,
    normal_matrix,
)

if TYPE_CHECKING:
    from vpintegrator.compiled import CompiledResidual

_JACOBIAN_BYTES = 1 << 23  # bytes of a block of rows; the computation needs a few times as much
_ROWS_PER_PARAMETER = 4  # to begin with
# with more parameters J^T J takes most of the time: with two rows for each the error after
# 30 to 40 s is 1.5 to 3 times smaller (neurons of 1,440 and polynomials of 1,188 parameters on the
# rigid body, a transformer of 1,623)
_LARGE, _ROWS_OF_LARGE = 1_000, 2
_FEWEST_WINDOWS = 256


class LevenbergMarquardt(DampedLeastSquares):
    """Levenberg-Marquardt on a random subset of windows that determines the parameters well.

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

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        rows = self.objective.residuals_of_window(self.model)
        self.block = max(_JACOBIAN_BYTES // (8 * rows * len(self.parameters)), 16)
        self._matrix: NormalMatrix | None = None
        self.jacobian = vmap(jacrev(self._residual_twice, has_aux=True), (None, 0, 0))

    @classmethod
    def default_batch(cls, model: Integrator, objective: Objective) -> int:
        """Return the number of windows that determines the parameters well."""
        count = sum(p.numel() for p in model.parameters() if p.requires_grad)
        rows = _ROWS_PER_PARAMETER if count <= _LARGE else _ROWS_OF_LARGE
        enough = rows * count // objective.residuals_of_window(model)
        return max(enough, _FEWEST_WINDOWS)

    def _residual_twice(
        self, vector: torch.Tensor, x: torch.Tensor, y: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        # once to be differentiated and once as it is
        residual = self.residuals(vector, x, y)
        return residual, residual

    def linearise(self) -> Linearisation:
        """Return J^T J and J^T r, and the steps they give."""
        matrix, gradient = self.normal_equations()

        def step(damping: float) -> torch.Tensor | None:
            return matrix.solve(damping, -gradient)

        return Linearisation(gradient, step, matrix.largest())

    def normal_equations(self) -> tuple[NormalMatrix, torch.Tensor]:
        """Return J^T J, overwritten by the next call, and J^T r of the windows of all processes."""
        machine = self.residuals.compiled  # asked once, as it may be ready at any moment
        compiled = machine is not None and self.parameters.device.type == "cpu"
        if self._matrix is None or (compiled and not isinstance(self._matrix, InMachineCode)):
            self._matrix = None  # there may be no room for another
            self._matrix = normal_matrix(self.parameters, compiled)
        matrix, gradient = self._matrix, torch.zeros_like(self.parameters)
        matrix.clear()
        for jacobian, residual in self._jacobians(machine):
            matrix.add(jacobian, residual, gradient)
        matrix.total()
        return matrix, processes.total(gradient)

    def _jacobians(
        self, compiled: CompiledResidual | None
    ) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        """Yield J and r, block by block of windows, see ``NormalMatrix``."""
        if compiled is not None:
            tensors = (self.parameters, self.inputs, self.targets)
            for jacobian, residual in compiled.jacobians(*(t.detach().numpy() for t in tensors)):
                check_time()
                yield torch.from_numpy(jacobian), torch.from_numpy(residual)
            return
        for x, y in zip(self.inputs.split(self.block), self.targets.split(self.block), strict=True):
            if not len(x):
                continue  # more processes than windows
            check_time()
            jacobian, residual = self.jacobian(self.parameters, x, y)
            yield jacobian.reshape(-1, len(self.parameters)), residual.detach().reshape(-1)
