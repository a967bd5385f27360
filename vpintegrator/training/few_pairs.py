"""Fit of an explicit map to few pairs of states.

Levenberg-Marquardt with derivatives that are accumulated shear by shear. The leave-one-out error
of the linearised equations takes the place of a validation error.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch

from vpintegrator.models import Integrator
from vpintegrator.nn.basis import Terms
from vpintegrator.nn.linearised import Jet, ShearDerivatives
from vpintegrator.runtime.deadline import check_time
from vpintegrator.runtime.threads import one_blas_thread
from vpintegrator.training.linear import normalised_pairs, weights
from vpintegrator.training.linear_least_squares import SequentialQR, trimmed
from vpintegrator.training.residuals import ParameterVector

RIDGE = 1e-12  # ridge penalty relative to the equations, on coefficients times squared degrees
_FIRST_DAMPING, _LEAST, _LARGEST = 1e-2, 1e-15, 1e8  # damping
_ITERATIONS = 150
_SETTLED = 0.95  # times the cost ten iterations before, above which a fit has settled
_ROUNDING = 1e-15


@dataclass(frozen=True)
class FewPairsFit:
    """Result of a fit to few pairs.

    All errors are infinite where the map overflows at the first parameters.

    Attributes
    ----------
    training
        Root mean square of the images' errors in units of the spread of each component.
    error
        Leave-one-out error of the same kind, by the equations linearised at the fit.
    typical
        Leave-one-out error without the largest twentieth of the errors: pairs at the edge of the
        data, which the linearised equations extrapolate too far.
    deviation
        Standard error of the mean square that ``error`` is the root of, relative to it.
    """

    training: float
    error: float
    typical: float
    deviation: float = 0.0


def fit_few_pairs(
    model: Integrator,
    inputs: torch.Tensor,
    targets: torch.Tensor,
    iterations: int = _ITERATIONS,
) -> FewPairsFit:
    """Fit an explicit map to few pairs of states, in place.

    Parameters
    ----------
    model
        Normalised, and made of shears with derivatives.
    inputs, targets : (pair, dim)
        States before and after a step.
    iterations
        Largest number of iterations.

    Raises
    ------
    InputError
        If states are not finite, coincide, or there are fewer equations than parameters need.
    """
    fit = _ShearFit(model, *normalised_pairs(model, inputs, targets))
    if math.isinf(fit.cost):
        return FewPairsFit(math.inf, math.inf, math.inf)
    with one_blas_thread():
        try:
            fit.iterate(iterations)
        finally:  # an interruption may come at a trial
            fit.vector.write(fit.theta)
        left_out = (fit.left_out() ** 2).mean(1)
    return FewPairsFit(
        training=float(fit.residual.square().mean().sqrt()),
        error=float(np.sqrt(left_out.mean())),
        typical=math.sqrt(trimmed(left_out)),
        deviation=float(left_out.std() / (left_out.mean() or 1.0)) / math.sqrt(len(left_out)),
    )


class _ShearFit:
    """Normalised pairs, and the parameters that map the first states to the second ones."""

    def __init__(self, model: Integrator, before: torch.Tensor, after: torch.Tensor) -> None:
        self.before, self.after = before, after
        self.map = ShearDerivatives(model.core)
        self.vector = ParameterVector(model)
        self.theta = self.vector.read().double()
        self.weight = weights(after)
        self.rough = degrees(model) ** 2
        self.penalty = RIDGE * len(after) * self.rough**2
        self.cost, self.residual, self.jets = self._at(self.theta)

    def _at(self, theta: torch.Tensor) -> tuple[float, torch.Tensor, list[Jet]]:
        """Return cost, residuals (pair, component) and jets at some parameters."""
        self.vector.write(theta)
        images, jets = self.map.images(self.before)
        residual = (self.after - images) * self.weight
        cost = float(residual.square().sum() + (self.penalty * theta.square()).sum())
        return cost if math.isfinite(cost) else math.inf, residual, jets

    def _rows(self) -> torch.Tensor:
        """Return derivatives of the images by the parameters, in units of the residuals."""
        return self.map.derivatives(self.jets) * self.weight[:, None]

    def iterate(self, iterations: int) -> None:
        """Change the parameters as long as the cost falls."""
        damping, costs = _FIRST_DAMPING, [self.cost]
        enough = _ROUNDING**2 * self.after.numel()
        while len(costs) <= iterations and self.cost > enough:
            check_time()
            J = self._rows().flatten(0, 1)
            matrix = J.mT @ J + torch.diag(self.penalty)
            right = J.mT @ self.residual.flatten() - self.penalty * self.theta
            diagonal = matrix.diagonal().clamp(min=1e-300)
            while damping < _LARGEST:
                damped = matrix + damping * torch.diag(diagonal)
                factor, failed = torch.linalg.cholesky_ex(damped)
                change = torch.cholesky_solve(right[:, None], factor)[:, 0]
                if not failed and (new := self._at(self.theta + change))[0] < self.cost:
                    break
                damping = max(4 * damping, _LEAST)
            else:
                break
            self.theta = self.theta + change
            self.cost, self.residual, self.jets = new
            damping = max(damping / 5, _LEAST)
            costs.append(self.cost)
            if len(costs) > 10 and self.cost > _SETTLED * costs[-11]:
                break

    def left_out(self) -> np.ndarray:
        """Return leave-one-out residuals (pair, component) of the equations linearised here."""
        matrix = self._rows()
        pairs, size, count = matrix.shape
        rows = matrix.numpy().reshape(-1, count)
        qr = SequentialQR(count)
        qr.add(rows, self.residual.flatten().numpy())
        solution = next(qr.ridge(self.rough.numpy(), np.array([RIDGE * pairs])))
        projected = (rows @ solution.directions).reshape(pairs, size, -1)
        return solution.left_out(projected, self.residual.numpy())


def degrees(model: Integrator) -> torch.Tensor:
    """Return the degree of what each parameter multiplies, at least 1."""
    found = torch.cat([each.degrees for each in model.modules() if isinstance(each, Terms)])
    return found.clamp(min=1).double()
