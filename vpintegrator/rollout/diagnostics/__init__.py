"""Diagnostics of trajectories, and of the maps that generate them.

Functions of states take arrays (trajectory, time, dim). A trajectory that has diverged is NaN from
then on and has an infinite error in every summary. Functions that need the map itself take a
:class:`vpintegrator.Map`. Each module with a measurement for comparisons ends with its
:class:`~vpintegrator.rollout.diagnostics.diagnostic.Diagnostic`.
"""

from vpintegrator.dynamics.structure import log_determinant, reversibility_defect
from vpintegrator.rollout.diagnostics.cost import WorkPrecision, count_evaluations, work_precision
from vpintegrator.rollout.diagnostics.diagnostic import Diagnostic, Ensemble
from vpintegrator.rollout.diagnostics.drift import DriftFit, fit_drift
from vpintegrator.rollout.diagnostics.frequencies import Frequencies, frequencies
from vpintegrator.rollout.diagnostics.invariants import InvariantError, invariant_errors
from vpintegrator.rollout.diagnostics.lyapunov import Lyapunov, lyapunov_spectrum
from vpintegrator.rollout.diagnostics.poincare import Section, poincare_section
from vpintegrator.rollout.diagnostics.structure import (
    symplecticity_defect,
    window_symplecticity_defect,
)
from vpintegrator.rollout.diagnostics.tangent import (
    TangentHistory,
    first_window_derivative,
    first_windows,
    tangent_propagation,
)
from vpintegrator.rollout.diagnostics.trajectory_error import root_mean_square_error
from vpintegrator.rollout.diagnostics.volume import Volume
from vpintegrator.rollout.variables import Column, Variable

__all__ = [
    "Column",
    "Diagnostic",
    "DriftFit",
    "Ensemble",
    "Frequencies",
    "InvariantError",
    "Lyapunov",
    "Section",
    "TangentHistory",
    "Variable",
    "Volume",
    "WorkPrecision",
    "count_evaluations",
    "first_window_derivative",
    "first_windows",
    "fit_drift",
    "frequencies",
    "invariant_errors",
    "log_determinant",
    "lyapunov_spectrum",
    "poincare_section",
    "reversibility_defect",
    "root_mean_square_error",
    "symplecticity_defect",
    "tangent_propagation",
    "window_symplecticity_defect",
    "work_precision",
]
