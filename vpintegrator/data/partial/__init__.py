"""Systems identified from orbits of which only some components, or sums of them, are observed."""

from vpintegrator.data.partial.identified import IdentifiedSystem, PredictedOrbits
from vpintegrator.data.partial.identify import identify
from vpintegrator.data.partial.learned import LearnedPotential, learn_potential
from vpintegrator.data.partial.observed import Observed

__all__ = [
    "IdentifiedSystem",
    "LearnedPotential",
    "Observed",
    "PredictedOrbits",
    "identify",
    "learn_potential",
]
