"""Optimizers: how the weights of a model are found."""

from vpintegrator.training.optimizers.base import Optimizer
from vpintegrator.training.optimizers.levenberg_marquardt import LevenbergMarquardt
from vpintegrator.training.optimizers.linear_solve import LinearSolve
from vpintegrator.training.optimizers.torch_optimizers import LBFGS, Adam

BY_NAME: dict[str, type[Optimizer]] = {
    kind.name: kind for kind in (LevenbergMarquardt, Adam, LinearSolve, LBFGS)
}

__all__ = ["BY_NAME", "Optimizer"]
