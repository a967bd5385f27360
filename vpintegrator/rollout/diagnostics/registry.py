"""Registry of the diagnostics, in the order of their columns."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from vpintegrator.errors import InputError
from vpintegrator.rollout.diagnostics.cost import Evaluations, StepCost, TrainingCost
from vpintegrator.rollout.diagnostics.diagnostic import Diagnostic
from vpintegrator.rollout.diagnostics.divergence import Divergence
from vpintegrator.rollout.diagnostics.invariants import Invariants
from vpintegrator.rollout.diagnostics.poincare import PoincareSection
from vpintegrator.rollout.diagnostics.rotation import Rotation
from vpintegrator.rollout.diagnostics.structure import Defects
from vpintegrator.rollout.diagnostics.tangent import LyapunovExponent
from vpintegrator.rollout.diagnostics.trajectory_error import TrajectoryError
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


def with_own(own: Iterable[Any]) -> tuple[type[Diagnostic], ...]:
    """Return all diagnostics of the package, and further ones.

    Raises
    ------
    InputError
        If one is no diagnostic, or a measurement has a name that another one has.
    """
    found = [*DIAGNOSTICS]
    for diagnostic in own:
        if not (isinstance(diagnostic, type) and issubclass(diagnostic, Diagnostic)):
            raise InputError(f"diagnostics must be subclasses of Diagnostic, not {diagnostic!r}")
        taken = {variable.name for each in found for variable in each.variables}
        for variable in diagnostic.variables:
            if variable.name in taken:
                raise InputError(
                    f"diagnostics: {diagnostic.__name__} measures {variable.name}, and so does "
                    "another diagnostic; take another name"
                )
        found.append(diagnostic)
    return tuple(found)
