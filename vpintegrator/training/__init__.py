"""Training: Levenberg-Marquardt and Adam on windows, in double precision."""

from vpintegrator.training.errors import relative_error
from vpintegrator.training.train import OPTIMIZERS, History, train

__all__ = ["OPTIMIZERS", "History", "relative_error", "train"]
