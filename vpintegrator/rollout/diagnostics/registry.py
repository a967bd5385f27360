"""The diagnostics, in the order of their columns."""

from __future__ import annotations

from vpintegrator.rollout.diagnostics.cost import EVALUATIONS, SECONDS
from vpintegrator.rollout.diagnostics.departure import DEPARTURE
from vpintegrator.rollout.diagnostics.diagnostic import Diagnostic
from vpintegrator.rollout.diagnostics.divergence import DIVERGENCE
from vpintegrator.rollout.diagnostics.invariants import INVARIANTS
from vpintegrator.rollout.diagnostics.lyapunov import LYAPUNOV
from vpintegrator.rollout.diagnostics.poincare import SECTION
from vpintegrator.rollout.diagnostics.rotation import ROTATION
from vpintegrator.rollout.diagnostics.structure import (
    REVERSIBILITY,
    SYMPLECTICITY,
    WINDOW_SYMPLECTICITY,
)
from vpintegrator.rollout.diagnostics.trajectory_error import ERROR
from vpintegrator.rollout.diagnostics.volume import VOLUME

DIAGNOSTICS: list[Diagnostic] = [
    ERROR,
    INVARIANTS,
    VOLUME,
    SYMPLECTICITY,
    WINDOW_SYMPLECTICITY,
    REVERSIBILITY,
    LYAPUNOV,
    EVALUATIONS,
    SECONDS,
    DIVERGENCE,
    DEPARTURE,
    SECTION,
    ROTATION,
]
