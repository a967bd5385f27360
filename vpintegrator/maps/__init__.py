"""Maps, all that steps: classical methods, exact maps, functions of a user; models above."""

from vpintegrator.maps.adaptive import AdaptiveMethod
from vpintegrator.maps.base import ClassicalMap, ClassicalMethod, OneStepMethod
from vpintegrator.maps.boris import Boris
from vpintegrator.maps.explicit import ExplicitRungeKutta
from vpintegrator.maps.gauss_legendre import GaussLegendre
from vpintegrator.maps.map import ExactMap, Map
from vpintegrator.maps.period import PeriodMap, period_flow_of
from vpintegrator.maps.registry import METHODS, applicable_methods, classical, find_method
from vpintegrator.maps.splitting import CoordinateSplitting, StoermerVerlet

__all__ = [
    "METHODS",
    "AdaptiveMethod",
    "Boris",
    "ClassicalMap",
    "ClassicalMethod",
    "CoordinateSplitting",
    "ExactMap",
    "ExplicitRungeKutta",
    "GaussLegendre",
    "Map",
    "OneStepMethod",
    "PeriodMap",
    "StoermerVerlet",
    "applicable_methods",
    "classical",
    "find_method",
    "period_flow_of",
]
