"""Kinds of maps that ``vp.fit`` tries, each in one file."""

from vpintegrator.training.kinds.couplings import Couplings
from vpintegrator.training.kinds.generating import GeneratingFunctions
from vpintegrator.training.kinds.kind import Budget, Kind, Trial
from vpintegrator.training.kinds.linear import LinearMaps
from vpintegrator.training.kinds.network import Network
from vpintegrator.training.kinds.splittings import Splittings

KINDS: tuple[Kind, ...] = (
    LinearMaps(),
    Splittings(),
    GeneratingFunctions(form="symplectic"),
    GeneratingFunctions(form="volume"),
    Couplings(form="symplectic"),
    Couplings(form="volume"),
    Network(),
)
__all__ = [
    "KINDS",
    "Budget",
    "Couplings",
    "GeneratingFunctions",
    "Kind",
    "LinearMaps",
    "Network",
    "Splittings",
    "Trial",
]
