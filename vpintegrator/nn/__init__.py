"""Layers of neural integrators, each with its law and its source.

Windows are (..., window, dim): time before state, any leading axes. Layers know no system;
symmetries come in as matrices. A layer that preserves volume exactly says
``volume_preserving = True`` and has an explicit ``inverse``; one that mixes time steps and is the
identity where all its parameters are zero says ``identity_at_zero = True``, and learns after the
others where sizes are searched for.
"""

from vpintegrator.nn.attention import (
    AdditiveAttention,
    Attention,
    GeneralMultiHeadAttention,
    MultiHeadAttention,
    MultiplicativeAttention,
    TimeMixing,
    VolumePreservingAttention,
)
from vpintegrator.nn.attention_coupling import (
    AttentionCoupling,
    CoupledAttention,
    WindowAttention,
)
from vpintegrator.nn.attention_weights import attention_change, attention_weights
from vpintegrator.nn.basis_coupling import BasisCoupling
from vpintegrator.nn.basis_potential import BasisPotential
from vpintegrator.nn.canonical import canonical_form
from vpintegrator.nn.cayley import cayley, skew_correlations, skew_matrix
from vpintegrator.nn.composition import Composition
from vpintegrator.nn.couplings import AdditiveCoupling, Coupling
from vpintegrator.nn.elementary_hamiltonians import ElementaryHamiltonians
from vpintegrator.nn.encoder import EncoderBlock
from vpintegrator.nn.feed_forward import AffineMap, PointwiseFeedForward, ResidualLayer
from vpintegrator.nn.generating_function import GeneratingFunction
from vpintegrator.nn.gradient_coupling import GradientCoupling, HenonMap
from vpintegrator.nn.learned_splitting import LearnedSplitting
from vpintegrator.nn.polynomial_layer import PolynomialLayer
from vpintegrator.nn.potentials import (
    ComponentPotential,
    NeuronPotential,
    QuadraticPotential,
)
from vpintegrator.nn.reversible import Reflection, Reversible
from vpintegrator.nn.rotated import Rotated, spread_rotation
from vpintegrator.nn.stiefel import orthonormality_error, stiefel
from vpintegrator.nn.symmetry import generated_group, symmetry_group
from vpintegrator.nn.symplectic_attention import SymplecticAttention
from vpintegrator.nn.symplectic_generating import SymplecticGeneratingFunction
from vpintegrator.nn.triangular import TriangularFeedForward, TriangularLayer
from vpintegrator.nn.volume_generating import VolumePreservingGeneratingFunction

__all__ = [
    "AdditiveAttention",
    "AdditiveCoupling",
    "AffineMap",
    "Attention",
    "AttentionCoupling",
    "BasisCoupling",
    "BasisPotential",
    "ComponentPotential",
    "Composition",
    "CoupledAttention",
    "Coupling",
    "ElementaryHamiltonians",
    "EncoderBlock",
    "GeneralMultiHeadAttention",
    "GeneratingFunction",
    "GradientCoupling",
    "HenonMap",
    "LearnedSplitting",
    "MultiHeadAttention",
    "MultiplicativeAttention",
    "NeuronPotential",
    "PointwiseFeedForward",
    "PolynomialLayer",
    "QuadraticPotential",
    "Reflection",
    "ResidualLayer",
    "Reversible",
    "Rotated",
    "SymplecticAttention",
    "SymplecticGeneratingFunction",
    "TimeMixing",
    "TriangularFeedForward",
    "TriangularLayer",
    "VolumePreservingAttention",
    "VolumePreservingGeneratingFunction",
    "WindowAttention",
    "attention_change",
    "attention_weights",
    "canonical_form",
    "cayley",
    "generated_group",
    "orthonormality_error",
    "skew_correlations",
    "skew_matrix",
    "spread_rotation",
    "stiefel",
    "symmetry_group",
]
