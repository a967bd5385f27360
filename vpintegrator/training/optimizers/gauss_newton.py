"""Gauss-Newton without matrices, for models too big for J^T J.

Each step solves (J^T J + damping) delta = -J^T r by conjugate gradients, which need products with
J and J^T only (Nocedal and Wright, Numerical Optimization, section 7.1; Martens, ICML 2010).
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch.func import jvp, vjp

from vpintegrator.models import Integrator
from vpintegrator.runtime.deadline import check_time
from vpintegrator.training import processes
from vpintegrator.training.objective import Objective
from vpintegrator.training.optimizers.least_squares import DampedLeastSquares, Linearisation

_BATCH = 2048
ITERATIONS = 60
_TOLERANCE = 1e-3  # relative residual of the linear system; the damping matters more


class GaussNewton(DampedLeastSquares):
    """Matrix-free Gauss-Newton with the damping of :class:`DampedLeastSquares`.

    Memory: activations of the windows in use and a few vectors of parameters.

    Parameters
    ----------
    model, pairs, objective, batch, generator
        See :class:`vpintegrator.training.optimizers.base.Optimizer`; 2048 windows are in use to
        begin with, by default.
    """

    name = "gauss-newton"

    @classmethod
    def default_batch(cls, model: Integrator, objective: Objective) -> int:
        """Return 2048."""
        return _BATCH

    def linearise(self) -> Linearisation:
        """Return products with J^T J, and the steps that conjugate gradients find with them."""

        def residual(vector: torch.Tensor) -> torch.Tensor:
            return self.residuals(vector, self.inputs, self.targets)

        value, transposed = vjp(residual, self.parameters)[:2]
        gradient = processes.total(transposed(value.detach())[0])

        def product(vector: torch.Tensor) -> torch.Tensor:
            check_time()
            forward = jvp(residual, (self.parameters,), (vector,))[1]
            return processes.total(transposed(forward)[0])

        def step(damping: float) -> torch.Tensor | None:
            return conjugate_gradients(
                lambda v: product(v) + damping * v, -gradient, ITERATIONS, _TOLERANCE
            )

        direction = gradient / gradient.norm().clamp_min(1e-300)
        return Linearisation(gradient, step, product(direction).dot(direction).item())


@torch.no_grad()
def conjugate_gradients(
    product: Callable[[torch.Tensor], torch.Tensor],
    right: torch.Tensor,
    iterations: int,
    tolerance: float,
) -> torch.Tensor:
    """Solve a symmetric positive definite system to a relative residual ``tolerance``."""
    solution = torch.zeros_like(right)
    residual = right.clone()
    direction = residual.clone()
    squares = residual.dot(residual)
    goal = tolerance**2 * squares
    for _ in range(iterations):
        if squares <= goal:
            break
        image = product(direction)
        length = squares / direction.dot(image)
        solution += length * direction
        residual -= length * image
        before, squares = squares, residual.dot(residual)
        direction = residual + (squares / before) * direction
    return solution
