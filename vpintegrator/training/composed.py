"""Generating functions of one map, or of several in a row, from pairs of states.

The coefficients of one map are linear in pairs of its own states. Where these are not known, as
within a step of measured data, they follow from the pairs of the whole map by the damped iteration.
Derivatives are those of the implicit function theorem.
"""

from __future__ import annotations

import math
import time

import numpy as np
import torch

from vpintegrator.data.pairs import Pairs
from vpintegrator.models import Model
from vpintegrator.nn.shears import linearised
from vpintegrator.runtime.threads import one_blas_thread
from vpintegrator.training.least_squares import (
    Choice,
    DampedIteration,
    NormalEquations,
    Residual,
    normal_equations,
)
from vpintegrator.training.linear import (
    LinearEquations,
    LinearFit,
    WholePairs,
    implicit_map,
    maps_of,
    normalised_pairs,
    solve_layer,
)


def fit_pairs(
    model: Model,
    pairs: Pairs,
    far: bool = False,
    start: Model | None = None,
    folds: np.ndarray | None = None,
) -> LinearFit:
    """Fit a generating function to the pairs of ``layer_pairs``.

    Parameters
    ----------
    model
        Normalised. Its other buffers stay as they are.
    pairs
        See ``layer_pairs``.
    far
        Argument of ``solve_layer``, which pairs of a single map are given to.
    start
        The fitted model of a lower degree, for pairs of several maps in a row.
    folds : (pair,), optional
        Number of the fold of each pair, for few pairs: the pairs of a fold are left out together,
        and all of them count.

    Raises
    ------
    InputError
        If states are not finite, coincide, or there are fewer equations than coefficients need.
    """
    began = time.perf_counter()
    inputs, targets = (states[:, -1] for states in pairs[: len(pairs)])
    before, after, folds = normalised_pairs(model, inputs, targets, folds)
    with one_blas_thread():
        if isinstance(pairs, WholePairs):
            choice = ComposedMaps(model, before, after).fit(start, folds)
        else:
            choice = solve_layer(model, before, after, far, folds)
    implicit_map(model).settle(before[:100].to(model.scale))
    return LinearFit.of(choice, len(before), began)


class ComposedMaps(LinearEquations, Residual):
    """Images of several maps in a row, and their equations linearised at the coefficients.

    Parameters
    ----------
    model
        Its generating function is trained.
    before, after : (pair, dim)
        Normalised states before and after all maps.
    """

    def __init__(self, model: Model, before: torch.Tensor, after: torch.Tensor) -> None:
        super().__init__(implicit_map(model), before, after)
        self.core, self.maps, self.penalty = model.core, maps_of(model), 0.0
        self.penalty_weights = self.penalty_weights[:1]
        self.units = torch.from_numpy(self.penalty_weights[0])
        self.first = self.change = torch.zeros(self.count).double()

    def fit(self, start: Model | None, folds: np.ndarray | None) -> Choice:
        """Set the coefficients; return the leave-one-out error of the linearised equations.

        The coefficients begin as those of a lower degree, or as the solution of the linear
        equations of a single map, divided by the number of maps. Penalties are on the change from
        there, so that directions that leave the map as it is stay as they are.

        Where data are scarce, the leave-one-out error chooses a penalty, with which the iteration
        goes on; then it chooses again, as long as the error falls. An iteration without penalty
        would leave the region where the linearised equations tell an error.

        Parameters
        ----------
        start
            The fitted model of a lower degree, if there is one.
        folds
            Argument of ``LinearEquations.solve``.
        """
        if start is not None:
            self.layer.prolong(implicit_map(start))
        else:
            single = LinearEquations(self.layer, self.before, self.after).solve(folds)
            self.coefficients = torch.from_numpy(single.solution.coefficients) / self.maps
        if not math.isfinite(self.cost(self.coefficients * self.units)):
            self.coefficients = torch.zeros(self.count).double()  # of the identity
        self.first = self.coefficients
        penalty, error = 0.0, math.inf
        if self.are_scarce:
            choice = self.solve(folds)
            penalty, error = choice.solution.penalty, choice.square
        while True:
            self._iterate(penalty)
            choice = self.solve(folds)
            if choice.solution.penalty == penalty or not choice.square < 0.9 * error:
                return choice
            penalty, error = choice.solution.penalty, choice.square

    def _iterate(self, penalty: float) -> None:
        """Minimise the sum of squares with a penalty relative to the number of equations."""
        number = len(self.after) * self.size
        self.penalty, self.change = penalty * number, torch.zeros_like(self.first)
        iteration = DampedIteration(self, self.coefficients * self.units, damping=1e-14)
        iteration.run(30, exact=1e-30 * number, settled=0.81, patience=1)
        self.change = self.coefficients - self.first

    def rows(self, z: torch.Tensor, image: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Return equations of the change so far and further on, see ``LinearEquations.rows``."""
        images, derivatives = linearised(self.core, z)
        matrix = derivatives[:, : self.size, : self.count]  # (pair, component, coefficient)
        return matrix, (image - images)[:, : self.size] + matrix @ self.change

    @torch.no_grad()
    def cost(self, parameters: torch.Tensor) -> float:
        """Return the sum of squares with the penalty, and set the coefficients."""
        self.coefficients = parameters / self.units
        images = self.core(self.before[:, None])[:, 0]
        residual = (self.after - images)[:, : self.size] * self.weight
        change = parameters - self.first * self.units
        return float(residual.square().sum() + self.penalty * change.square().sum())

    def linearise(self, parameters: torch.Tensor) -> NormalEquations:
        """Return normal equations at the coefficients."""
        equations = normal_equations(parameters)
        equations.add_penalty(self.penalty, parameters - self.first * self.units)
        for matrix, right in self.blocks():
            rows = torch.from_numpy(matrix.reshape(-1, self.count)) / self.units
            equations.add(rows, -torch.from_numpy(right).flatten())
        return equations
