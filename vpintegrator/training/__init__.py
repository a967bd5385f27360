"""Training: second- and first-order optimisation in double precision, on one process or many."""

from vpintegrator.training.history import History
from vpintegrator.training.objective import LOSSES, Objective, relative_error
from vpintegrator.training.train import OPTIMIZERS, train

__all__ = ["LOSSES", "OPTIMIZERS", "History", "Objective", "relative_error", "train"]
