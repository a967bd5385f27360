"""Training: the best map of some data, and the training of one model."""

from vpintegrator.compiled.one_step import OneStep, OneStepTable, Rival
from vpintegrator.names import LOSSES, OPTIMIZERS
from vpintegrator.training.fit import fit
from vpintegrator.training.kinds import KINDS, kinds_of
from vpintegrator.training.kinds.classical import ClassicalMethods
from vpintegrator.training.kinds.couplings import Couplings
from vpintegrator.training.kinds.generating import GeneratingFunctions, Splittings
from vpintegrator.training.kinds.kind import Budget, Kind, Trial
from vpintegrator.training.kinds.unstructured import LinearMaps, Network, PolynomialRegression
from vpintegrator.training.one_step import one_step
from vpintegrator.training.residuals import relative_error
from vpintegrator.training.results import Fit, History, best
from vpintegrator.training.train import train

__all__ = [
    "KINDS",
    "LOSSES",
    "OPTIMIZERS",
    "Budget",
    "ClassicalMethods",
    "Couplings",
    "Fit",
    "GeneratingFunctions",
    "History",
    "Kind",
    "LinearMaps",
    "Network",
    "OneStep",
    "OneStepTable",
    "PolynomialRegression",
    "Rival",
    "Splittings",
    "Trial",
    "best",
    "fit",
    "kinds_of",
    "one_step",
    "relative_error",
    "train",
]
