"""Baselines from the literature, trained on the same data as a model and judged beside it.

``compare`` gives a table: a linear map, sparse regression of the vector field, a Hamiltonian neural
network, and Gaussian-process generating functions. The baselines serve as comparisons and are not
stored as models.
"""

from vpintegrator.baselines.base import Baseline, BaselineData
from vpintegrator.baselines.gaussian_process import GaussianProcess
from vpintegrator.baselines.hamiltonian_network import HamiltonianNetwork
from vpintegrator.baselines.least_squares_map import LeastSquaresMap
from vpintegrator.baselines.sparse_regression import SparseRegression
from vpintegrator.baselines.table import BASELINES, BaselineRow, BaselineTable, compare

__all__ = [
    "BASELINES",
    "Baseline",
    "BaselineData",
    "BaselineRow",
    "BaselineTable",
    "GaussianProcess",
    "HamiltonianNetwork",
    "LeastSquaresMap",
    "SparseRegression",
    "compare",
]
