"""Classical methods sampled at a fixed step, for many trajectories at once."""

from vpintegrator.rollout.classical.base import ClassicalMethod, OneStepMethod
from vpintegrator.rollout.classical.explicit import ExplicitRungeKutta
from vpintegrator.rollout.classical.gauss_legendre import GaussLegendre
from vpintegrator.rollout.classical.integrate import integrate
from vpintegrator.rollout.classical.registry import METHODS, find_method
from vpintegrator.rollout.classical.stoermer_verlet import StoermerVerlet

__all__ = [
    "METHODS",
    "ClassicalMethod",
    "ExplicitRungeKutta",
    "GaussLegendre",
    "OneStepMethod",
    "StoermerVerlet",
    "find_method",
    "integrate",
]
