"""Classical methods sampled at a fixed step, for many trajectories at once."""

from vpintegrator.rollout.classical.adaptive import AdaptiveMethod
from vpintegrator.rollout.classical.base import ClassicalMethod, OneStepMethod
from vpintegrator.rollout.classical.boris import Boris
from vpintegrator.rollout.classical.explicit import ExplicitRungeKutta
from vpintegrator.rollout.classical.gauss_legendre import GaussLegendre
from vpintegrator.rollout.classical.integrate import integrate
from vpintegrator.rollout.classical.machine import CompiledMethod, compile_method
from vpintegrator.rollout.classical.registry import METHODS, find_method
from vpintegrator.rollout.classical.splitting import CoordinateSplitting, StoermerVerlet

__all__ = [
    "METHODS",
    "AdaptiveMethod",
    "Boris",
    "ClassicalMethod",
    "CompiledMethod",
    "CoordinateSplitting",
    "ExplicitRungeKutta",
    "GaussLegendre",
    "OneStepMethod",
    "StoermerVerlet",
    "compile_method",
    "find_method",
    "integrate",
]
