"""Layers of neural integrators, each with its law and its source.

Windows are (..., window, dim): time before state, any leading axes. Layers know no system;
symmetries come in as matrices. A layer that preserves volume exactly says
``volume_preserving = True`` and has an explicit ``inverse``.
"""

from vpintegrator.nn.attention import CoupledAttention, VolumePreservingAttention
from vpintegrator.nn.cayley import cayley, skew_correlations, skew_matrix
from vpintegrator.nn.composition import Composition
from vpintegrator.nn.couplings import AdditiveCoupling, Coupling
from vpintegrator.nn.reversible import Reflection, Reversible, reversible
from vpintegrator.nn.symmetry import generated_group, symmetry_group
from vpintegrator.nn.time_mixing import TimeMixing
from vpintegrator.nn.triangular import TriangularFeedForward, TriangularLayer

__all__ = [
    "AdditiveCoupling",
    "Composition",
    "CoupledAttention",
    "Coupling",
    "Reflection",
    "Reversible",
    "TimeMixing",
    "TriangularFeedForward",
    "TriangularLayer",
    "VolumePreservingAttention",
    "cayley",
    "generated_group",
    "reversible",
    "skew_correlations",
    "skew_matrix",
    "symmetry_group",
]
