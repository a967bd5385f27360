"""Registry of the diagnostics, in the order of their columns."""

from __future__ import annotations

from collections.abc import Iterable

from vpintegrator.arguments import of_kind
from vpintegrator.errors import InputError
from vpintegrator.rollout.diagnostics.cost import EVALUATIONS, STEP_COST, TRAINING_COST
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
from vpintegrator.rollout.diagnostics.training_domain import DOMAIN
from vpintegrator.rollout.diagnostics.trajectory_error import ERROR
from vpintegrator.rollout.diagnostics.volume import VOLUME

DIAGNOSTICS: tuple[Diagnostic, ...] = (
    ERROR,
    INVARIANTS,
    VOLUME,
    SYMPLECTICITY,
    WINDOW_SYMPLECTICITY,
    REVERSIBILITY,
    LYAPUNOV,
    EVALUATIONS,
    STEP_COST,
    TRAINING_COST,
    DIVERGENCE,
    DOMAIN,
    SECTION,
    ROTATION,
)


def with_own(own: Iterable[Diagnostic]) -> tuple[Diagnostic, ...]:
    """Return all diagnostics of the package, and further ones.

    Raises
    ------
    InputError
        If one is no diagnostic, or a measurement has a name that another one has.
    """
    found = [*DIAGNOSTICS]
    for diagnostic in own:
        of_kind("diagnostics", diagnostic, Diagnostic, "subclasses of Diagnostic, as objects")
        taken = {variable.name for each in found for variable in each.variables}
        for variable in diagnostic.variables:
            if variable.name in taken:
                raise InputError(
                    f"diagnostics: {type(diagnostic).__name__} measures {variable.name}, and so "
                    "does another diagnostic; take another name"
                )
        found.append(diagnostic)
    return tuple(found)
