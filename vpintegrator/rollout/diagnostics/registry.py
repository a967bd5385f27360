"""Registry of the diagnostics, in the order of their columns."""

from __future__ import annotations

from vpintegrator.rollout.diagnostics.cost import Evaluations, StepCost, TrainingCost
from vpintegrator.rollout.diagnostics.diagnostic import Diagnostic
from vpintegrator.rollout.diagnostics.invariants import Invariants
from vpintegrator.rollout.diagnostics.lyapunov import LyapunovExponent
from vpintegrator.rollout.diagnostics.poincare import PoincareSection
from vpintegrator.rollout.diagnostics.rotation import Rotation
from vpintegrator.rollout.diagnostics.structure import Defects
from vpintegrator.rollout.diagnostics.trajectory_error import Divergence, TrajectoryError
from vpintegrator.rollout.diagnostics.volume import VolumeChange

DIAGNOSTICS: tuple[type[Diagnostic], ...] = (
    TrajectoryError,
    Invariants,
    VolumeChange,
    Defects,
    LyapunovExponent,
    Evaluations,
    StepCost,
    TrainingCost,
    Divergence,
    PoincareSection,
    Rotation,
)
