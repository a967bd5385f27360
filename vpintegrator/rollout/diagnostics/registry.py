"""Registry of the diagnostics, in the order of their columns."""

from __future__ import annotations

from collections.abc import Iterable
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


def with_own(own: Iterable[Any]) -> tuple[type[Diagnostic], ...]:
    """Return all diagnostics of the package, and further ones.

    Raises
    ------
    InputError
        If one is no diagnostic, or a measurement has a name that another one has.
    """
    found, taken = [*DIAGNOSTICS], {v.name for each in DIAGNOSTICS for v in each.variables}
    for diagnostic in own:
        if not (isinstance(diagnostic, type) and issubclass(diagnostic, Diagnostic)):
            raise InputError(f"diagnostics must be subclasses of Diagnostic, not {diagnostic!r}")
        names = {variable.name for variable in diagnostic.variables}
        if both := names & taken:
            raise InputError(
                f"diagnostics: {diagnostic.__name__} measures {min(both)}, and so does another "
                "diagnostic; take another name"
            )
        found.append(diagnostic)
        taken |= names
    return tuple(found)
