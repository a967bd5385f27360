"""The optimizer of generating functions and linear maps: one linear least-squares solve."""

from __future__ import annotations

from vpintegrator.data.pairs import Pairs
from vpintegrator.models import Integrator
from vpintegrator.training.composed import fit_pairs
from vpintegrator.training.linear import (
    FEWEST,
    ROWS,
    enough_pairs,
    implicit_map,
    layer_pairs,
    maps_of,
)
from vpintegrator.training.linear_map import fit_linear_map, linear_layer
from vpintegrator.training.optimizers.base import Optimizer
from vpintegrator.training.residuals import Objective
from vpintegrator.training.training_data import TrainingData


class LinearSolve(Optimizer):
    """Optimizer that solves one linear least-squares problem for a generating function or a map.

    One epoch is the whole training. Random pairs of the training group give twenty equations for
    each coefficient.
    """

    name = "linear"

    @classmethod
    def default_batch(cls, model: Integrator, objective: Objective) -> int:
        """Return the number of pairs that gives twenty equations for each coefficient."""
        if (layer := linear_layer(model)) is not None:
            return max(ROWS * (layer.dim + 1), FEWEST)
        return enough_pairs(model)

    @classmethod
    def pairs_of(cls, data: TrainingData, model: Integrator, objective: Objective) -> Pairs:
        """Return pairs before and after the layer that is solved for."""
        if linear_layer(model) is not None:
            return data.pairs(model)
        implicit_map(model)
        return layer_pairs(model, data, enough_pairs(model))

    def epoch(self, progress: float) -> float:
        """Solve; return the leave-one-out error."""
        self.finished = "solved"
        pairs = self.pairs
        if linear_layer(self.model) is not None:
            inputs, targets = pairs.sample(self.batch, self.generator)
            return fit_linear_map(self.model, inputs[:, -1], targets[:, -1]).error
        if maps_of(self.model) == 1:
            pairs = Pairs.of_tensors(*pairs.sample(self.batch, self.generator))
        return fit_pairs(self.model, pairs).error

    def roll_back(self) -> None:
        """Nothing is left to try."""
