"""Trajectories of learned and classical methods, and their accuracy over long times.

The module itself can be called: ``vpintegrator.rollout(model, initial, steps)`` is the function
:func:`rollout` of this module.
"""

from vpintegrator.compiled import integrate
from vpintegrator.maps import METHODS, OneStepMethod, applicable_methods, find_method
from vpintegrator.rollout.compare import compare
from vpintegrator.rollout.diagnostics import (
    InvariantError,
    Volume,
    frequencies,
    invariant_errors,
    lyapunov_spectrum,
    root_mean_square_error,
)
from vpintegrator.rollout.iteration import rollout
from vpintegrator.rollout.reference import Reference, solve_reference
from vpintegrator.rollout.report import Report, Run, Summary
from vpintegrator.rollout.rollout_file import open_rollout
from vpintegrator.runtime.callable_module import make_callable as _make_callable

__all__ = [
    "METHODS",
    "InvariantError",
    "OneStepMethod",
    "Reference",
    "Report",
    "Run",
    "Summary",
    "Volume",
    "applicable_methods",
    "compare",
    "find_method",
    "frequencies",
    "integrate",
    "invariant_errors",
    "lyapunov_spectrum",
    "open_rollout",
    "rollout",
    "root_mean_square_error",
    "solve_reference",
]

_make_callable(__name__)
