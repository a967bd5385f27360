"""Training: the best map of some data, and the training of one model."""

from vpintegrator.measure.rows import OneStep, OneStepTable, Rival
from vpintegrator.models.stored import History
from vpintegrator.names import LOSSES, OPTIMIZERS
from vpintegrator.training.fit import fit
from vpintegrator.training.kinds import KINDS, search
from vpintegrator.training.kinds.additive import AdditiveHamiltonians
from vpintegrator.training.kinds.classical import ClassicalMethods
from vpintegrator.training.kinds.couplings import Couplings
from vpintegrator.training.kinds.generating import GeneratingFunctions, Splittings
from vpintegrator.training.kinds.invariants import KeptInvariants
from vpintegrator.training.kinds.kind import Kind, ModelKind
from vpintegrator.training.kinds.lagrangian import DiscreteLagrangians
from vpintegrator.training.kinds.unstructured import (
    LinearMaps,
    Network,
    PolynomialRegression,
    WidestNetwork,
)
from vpintegrator.training.one_step import one_step
from vpintegrator.training.options import Budget, TrainingOptions
from vpintegrator.training.residuals import relative_error
from vpintegrator.training.results import Fit, best
from vpintegrator.training.stiefel_adam import StiefelAdam
from vpintegrator.training.study import study
from vpintegrator.training.train import train
from vpintegrator.training.trainer import Trainer

__all__ = [
    "KINDS",
    "LOSSES",
    "OPTIMIZERS",
    "AdditiveHamiltonians",
    "Budget",
    "ClassicalMethods",
    "Couplings",
    "DiscreteLagrangians",
    "Fit",
    "GeneratingFunctions",
    "History",
    "KeptInvariants",
    "Kind",
    "LinearMaps",
    "ModelKind",
    "Network",
    "OneStep",
    "OneStepTable",
    "PolynomialRegression",
    "Rival",
    "Splittings",
    "StiefelAdam",
    "Trainer",
    "TrainingOptions",
    "WidestNetwork",
    "best",
    "fit",
    "one_step",
    "relative_error",
    "search",
    "study",
    "train",
]
