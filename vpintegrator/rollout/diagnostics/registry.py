"""Registry of the diagnostics, in the order of their columns."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from vpintegrator.errors import InputError
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
    *(TrajectoryError, Invariants, VolumeChange, Defects, LyapunovExponent, Evaluations),
    *(StepCost, TrainingCost, Divergence, PoincareSection, Rotation),
)


def with_own(own: Sequence[Any]) -> tuple[type[Diagnostic], ...]:
    """Return all diagnostics of the package, and further ones.

    Raises
    ------
    InputError
        If one is no diagnostic, or a measurement has a name that another one has.
    """
    for each in own:
        if not (isinstance(each, type) and issubclass(each, Diagnostic)):
            raise InputError(f"diagnostics must be subclasses of Diagnostic, not {each!r}")
    kinds = (*DIAGNOSTICS, *own)
    counts = Counter(variable.name for each in kinds for variable in each.variables)
    name, count = counts.most_common(1)[0]
    if count > 1:
        raise InputError(f"diagnostics: two of them measure {name}; take another name")
    return kinds
