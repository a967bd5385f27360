"""Classical methods sampled at a fixed step, for many trajectories at once."""

from vpintegrator.maps.adaptive import AdaptiveMethod
from vpintegrator.maps.base import ClassicalMethod, OneStepMethod
from vpintegrator.maps.boris import Boris
from vpintegrator.maps.explicit import ExplicitRungeKutta
from vpintegrator.maps.gauss_legendre import GaussLegendre
from vpintegrator.maps.registry import METHODS, find_method
from vpintegrator.maps.splitting import CoordinateSplitting, StoermerVerlet

__all__ = [
    "METHODS",
    "AdaptiveMethod",
    "Boris",
    "ClassicalMethod",
    "CoordinateSplitting",
    "ExplicitRungeKutta",
    "GaussLegendre",
    "OneStepMethod",
    "StoermerVerlet",
    "find_method",
]
