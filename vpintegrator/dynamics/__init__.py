"""Systems and maps: the equations of small TOML files, their solution and their iteration."""

from vpintegrator.catalogue import list_systems
from vpintegrator.dynamics.chart import Chart
from vpintegrator.dynamics.family import Family
from vpintegrator.dynamics.initial_conditions import InitialConditions
from vpintegrator.dynamics.load import load_system, return_map
from vpintegrator.dynamics.solve import solve
from vpintegrator.dynamics.structure import Structure
from vpintegrator.dynamics.system import System

__all__ = [
    "Chart",
    "Family",
    "InitialConditions",
    "Structure",
    "System",
    "list_systems",
    "load_system",
    "return_map",
    "solve",
]
