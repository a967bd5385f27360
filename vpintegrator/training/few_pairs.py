"""Fit of an explicit map to few pairs of states.

Derivatives are accumulated shear by shear. The leave-one-out error of the linearised equations
takes the place of a validation error.
"""

from __future__ import annotations

import math
import time

import numpy as np
import torch

from vpintegrator.data.pairs import Pair
from vpintegrator.models import Model
from vpintegrator.nn.basis import Terms
from vpintegrator.nn.shears import ShearDerivatives
from vpintegrator.runtime.threads import one_blas_thread
from vpintegrator.training.least_squares import (
    Choice,
    DampedIteration,
    LeftOut,
    NormalEquations,
    Residual,
    SequentialQR,
    normal_equations,
)
from vpintegrator.training.linear import LinearFit, normalised_pairs
from vpintegrator.training.residuals import ParameterVector, reciprocal_spread


def fit_few_pairs(
    model: Model, pair: Pair, folds: np.ndarray | None = None, iterations: int = 150
) -> LinearFit:
    """Fit an explicit map to few pairs of states, in place.

    Parameters
    ----------
    model
        Normalised, and made of shears with derivatives.
    pair
        States before and after a step, the last ones of windows.
    folds : (pair,), optional
        Number of the fold of each pair: pairs of a fold are left out together.
    iterations
        Largest number of iterations.

    Returns
    -------
    LinearFit
        The last linear solve. Its errors are by the equations linearised there, and infinite where
        the map overflows at the first parameters.

    Raises
    ------
    InputError
        If states are not finite, coincide, or there are fewer equations than parameters need.
    """
    start = time.perf_counter()
    before, after, folds = normalised_pairs(model, pair, folds)
    images = ShearImages(model, before, after)
    fit = DampedIteration(images, images.units * images.vector.read().double(), damping=1e-2)
    if not math.isfinite(fit.cost):
        count = len(images.units)
        seconds = time.perf_counter() - start
        return LinearFit(count, count, len(before), math.inf, 0.0, 0.0, seconds, math.inf)
    with one_blas_thread():
        fit.run(iterations, exact=1e-30 * images.after.numel(), settled=0.98)
        return LinearFit.of(images.left_out(folds), len(before), start)


class ShearImages(Residual):
    """Normalised images of states, with a ridge penalty on coefficients times squared degrees.

    Parameters
    ----------
    model
        Model made of shears.
    before, after : (pair, dim)
        Normalised states.
    ridge
        Penalty relative to the number of pairs.
    """

    def __init__(
        self, model: Model, before: torch.Tensor, after: torch.Tensor, ridge: float = 1e-12
    ) -> None:
        self.before, self.after = before, after
        self.map, self.vector = ShearDerivatives(model.core), ParameterVector(model)
        self.weight = reciprocal_spread(after)
        degrees = [each.degrees for each in model.modules() if isinstance(each, Terms)]
        self.units = torch.cat(degrees).clamp(min=1).double() ** 2
        self.penalty = ridge * len(after)

    def cost(self, parameters: torch.Tensor) -> float:
        """Return the sum of squares with the penalty, and set the model's parameters."""
        self.vector.write(parameters / self.units)
        images, self.jets = self.map.images(self.before)
        self.residual = (images - self.after) * self.weight  # (pair, dim)
        return float(self.residual.square().sum() + self.penalty * parameters.square().sum())

    def _jacobian(self) -> torch.Tensor:
        """Return derivatives (pair, dim, parameter) of the residuals."""
        return self.map.derivatives(self.jets) * self.weight[:, None] / self.units

    def linearise(self, parameters: torch.Tensor) -> NormalEquations:
        """Return normal equations at the model's parameters."""
        equations = normal_equations(parameters, scaled=True)
        equations.add(self._jacobian().flatten(0, 1), self.residual.flatten())
        equations.add_penalty(self.penalty, parameters)
        return equations

    def left_out(self, folds: np.ndarray | None = None) -> Choice:
        """Return the error of pairs or folds that are left out, by the linearised equations."""
        J = self._jacobian().numpy()
        count = J.shape[2]
        qr = SequentialQR(count)
        qr.add(J.reshape(-1, count), self.residual.flatten().numpy())
        (solution,) = qr.ridge(torch.ones(count).numpy(), [self.penalty / qr.rows])
        return LeftOut(J, J, self.residual.numpy(), folds).choice(solution)
