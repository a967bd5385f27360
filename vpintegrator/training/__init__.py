"""Training: the best map of some data, and the training of one model."""

from vpintegrator.compiled.one_step import OneStep, OneStepTable, Rival
from vpintegrator.names import LOSSES, OPTIMIZERS
from vpintegrator.training.choice import Fit, best
from vpintegrator.training.fit import fit
from vpintegrator.training.history import History
from vpintegrator.training.kinds import (
    KINDS,
    Budget,
    ClassicalMethods,
    Couplings,
    GeneratingFunctions,
    Kind,
    LinearMaps,
    Network,
    PolynomialRegression,
    Splittings,
    Trial,
    kinds_of,
)
from vpintegrator.training.one_step import one_step
from vpintegrator.training.residuals import relative_error
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
