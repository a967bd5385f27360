"""Layers of neural integrators, each with its law and its source.

Windows are (..., window, dim): time before state, any leading axes. Layers know no system;
symmetries come in as matrices. A layer that preserves volume exactly says
``volume_preserving = True`` and has an explicit ``inverse``; one that mixes time steps and is the
identity where all its parameters are zero says ``identity_at_zero = True``, and learns after the
others where sizes are searched for.
"""

from vpintegrator.nn.additive_flows import AdditiveFlows as AdditiveFlows
from vpintegrator.nn.additive_hamiltonian import AdditiveHamiltonian as AdditiveHamiltonian
from vpintegrator.nn.additive_hamiltonian import MagneticMotion as MagneticMotion
from vpintegrator.nn.additive_hamiltonian import PartSum as PartSum
from vpintegrator.nn.attention import AdditiveAttention as AdditiveAttention
from vpintegrator.nn.attention import Attention as Attention
from vpintegrator.nn.attention import GeneralMultiHeadAttention as GeneralMultiHeadAttention
from vpintegrator.nn.attention import MultiHeadAttention as MultiHeadAttention
from vpintegrator.nn.attention import MultiplicativeAttention as MultiplicativeAttention
from vpintegrator.nn.attention import TimeMixing as TimeMixing
from vpintegrator.nn.attention import VolumePreservingAttention as VolumePreservingAttention
from vpintegrator.nn.attention_coupling import AttentionCoupling as AttentionCoupling
from vpintegrator.nn.attention_coupling import CoupledAttention as CoupledAttention
from vpintegrator.nn.attention_coupling import SymplecticAttention as SymplecticAttention
from vpintegrator.nn.attention_coupling import WindowAttention as WindowAttention
from vpintegrator.nn.attention_diagnostics import attention_change as attention_change
from vpintegrator.nn.attention_diagnostics import attention_weights as attention_weights
from vpintegrator.nn.basis_layers import BasisCoupling as BasisCoupling
from vpintegrator.nn.basis_layers import BasisPotential as BasisPotential
from vpintegrator.nn.cayley import cayley as cayley
from vpintegrator.nn.cayley import skew_correlations as skew_correlations
from vpintegrator.nn.cayley import skew_matrix as skew_matrix
from vpintegrator.nn.composition import Composition as Composition
from vpintegrator.nn.composition import Reflection as Reflection
from vpintegrator.nn.composition import Reversible as Reversible
from vpintegrator.nn.composition import SymmetricComposition as SymmetricComposition
from vpintegrator.nn.couplings import AdditiveCoupling as AdditiveCoupling
from vpintegrator.nn.couplings import Coupling as Coupling
from vpintegrator.nn.discrete_lagrangian import DiscreteLagrangian as DiscreteLagrangian
from vpintegrator.nn.elementary_hamiltonians import ElementaryHamiltonians as ElementaryHamiltonians
from vpintegrator.nn.exact_flows import LearnedSplitting as LearnedSplitting
from vpintegrator.nn.feed_forward import AffineMap as AffineMap
from vpintegrator.nn.feed_forward import EncoderBlock as EncoderBlock
from vpintegrator.nn.feed_forward import LeapfrogLayer as LeapfrogLayer
from vpintegrator.nn.feed_forward import PointwiseFeedForward as PointwiseFeedForward
from vpintegrator.nn.feed_forward import PolynomialLayer as PolynomialLayer
from vpintegrator.nn.feed_forward import ResidualLayer as ResidualLayer
from vpintegrator.nn.fields import EnergyNetwork as EnergyNetwork
from vpintegrator.nn.fields import HamiltonianField as HamiltonianField
from vpintegrator.nn.fields import LagrangianField as LagrangianField
from vpintegrator.nn.fields import Perceptron as Perceptron
from vpintegrator.nn.flows import RungeKuttaFlow as RungeKuttaFlow
from vpintegrator.nn.flows import SplitFlow as SplitFlow
from vpintegrator.nn.generating_function import GeneratingFunction as GeneratingFunction
from vpintegrator.nn.generating_maps import (
    SymplecticGeneratingFunction as SymplecticGeneratingFunction,
)
from vpintegrator.nn.generating_maps import (
    VolumePreservingGeneratingFunction as VolumePreservingGeneratingFunction,
)
from vpintegrator.nn.gradient_coupling import ComponentPotential as ComponentPotential
from vpintegrator.nn.gradient_coupling import GradientCoupling as GradientCoupling
from vpintegrator.nn.gradient_coupling import GradientShear as GradientShear
from vpintegrator.nn.gradient_coupling import HenonMap as HenonMap
from vpintegrator.nn.gradient_coupling import LocallySymplecticShear as LocallySymplecticShear
from vpintegrator.nn.gradient_coupling import NeuronPotential as NeuronPotential
from vpintegrator.nn.gradient_coupling import QuadraticPotential as QuadraticPotential
from vpintegrator.nn.hidden_parameter import HiddenParameterLayer as HiddenParameterLayer
from vpintegrator.nn.invariant_polynomial import InvariantPolynomial as InvariantPolynomial
from vpintegrator.nn.invariants import PolynomialInvariants as PolynomialInvariants
from vpintegrator.nn.lift import Lifted as Lifted
from vpintegrator.nn.multihead_rotations import (
    MultiHeadVolumePreservingAttention as MultiHeadVolumePreservingAttention,
)
from vpintegrator.nn.recurrent import GatedRecurrentUnit as GatedRecurrentUnit
from vpintegrator.nn.recurrent import LongShortTermMemory as LongShortTermMemory
from vpintegrator.nn.rotations import Rotations as Rotations
from vpintegrator.nn.scores import AdditiveScores as AdditiveScores
from vpintegrator.nn.scores import BilinearScores as BilinearScores
from vpintegrator.nn.scores import Heads as Heads
from vpintegrator.nn.scores import ProductScores as ProductScores
from vpintegrator.nn.scores import orthonormality_error as orthonormality_error
from vpintegrator.nn.scores import stiefel as stiefel
from vpintegrator.nn.shears import Rotated as Rotated
from vpintegrator.nn.shears import spread_rotation as spread_rotation
from vpintegrator.nn.symmetry import canonical_form as canonical_form
from vpintegrator.nn.symmetry import generated_group as generated_group
from vpintegrator.nn.symmetry import symmetry_group as symmetry_group
from vpintegrator.nn.triangular import TriangularFeedForward as TriangularFeedForward
from vpintegrator.nn.triangular import TriangularLayer as TriangularLayer
from vpintegrator.nn.window_potentials import AttentionPotential as AttentionPotential
from vpintegrator.nn.window_potentials import LinearAttentionPotential as LinearAttentionPotential
from vpintegrator.nn.window_potentials import LinearSymplecticAttention as LinearSymplecticAttention
from vpintegrator.nn.window_potentials import (
    SoftmaxSymplecticAttention as SoftmaxSymplecticAttention,
)

# the classes and functions above: a layer is named in one line
__all__ = sorted(
    name
    for name, value in dict(globals()).items()
    if getattr(value, "__module__", "").startswith(__name__)
)
