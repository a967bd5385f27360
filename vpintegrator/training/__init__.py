"""Training: second- and first-order optimisation in double precision."""

from vpintegrator.names import LOSSES, OPTIMIZERS
from vpintegrator.training.history import History
from vpintegrator.training.residuals import Objective, relative_error
from vpintegrator.training.search.couplings import find_functions
from vpintegrator.training.search.degrees import find_generating_function
from vpintegrator.training.search.models import find_model
from vpintegrator.training.search.options import Budget, Execution, Files, Method
from vpintegrator.training.search.result import SearchResult
from vpintegrator.training.search.stages import find_splitting
from vpintegrator.training.train import train

__all__ = [
    "LOSSES",
    "OPTIMIZERS",
    "Budget",
    "Execution",
    "Files",
    "History",
    "Method",
    "Objective",
    "SearchResult",
    "find_functions",
    "find_generating_function",
    "find_model",
    "find_splitting",
    "relative_error",
    "train",
]
