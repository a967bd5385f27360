"""Fit of equations to measured trajectories with their own steps and parameters."""

from __future__ import annotations

from typing import Any

import numpy as np

from vpintegrator.data.importing.arguments import Identification
from vpintegrator.data.importing.samples import Samples
from vpintegrator.data.variation import STEP
from vpintegrator.dynamics import System
from vpintegrator.dynamics.varied import VariedEquations
from vpintegrator.dynamics.varied_solve import solve_varied
from vpintegrator.errors import InputError

_MOST = 1000  # steps that are computed
_TOLERANCE = 1e-9


def judge_family(
    system: System, given: Identification, samples: Samples
) -> tuple[System, dict[str, Any]]:
    """The system, and how far its step is from what was observed, relative to the change in it.

    Raises
    ------
    InputError
        If something varies that is no parameter of the system, or parameters are to be fitted.
    """
    for name in ("fit", "noise"):
        if getattr(given, name) is not None:
            raise InputError(
                f"{name} is for trajectories of equal steps and parameters; these have their own "
                f"{', '.join(samples.varied)}"
            )
    if system.is_measured:
        return system, {}
    names = [name for name in samples.varied if name != STEP]
    varied = VariedEquations(system, names)
    seen = np.flatnonzero(np.isfinite(samples.states[:, :2]).all(axis=(1, 2)))
    chosen = seen[np.unique(np.linspace(0, len(seen) - 1, _MOST).astype(int))]
    if not len(chosen):
        return system, {"fits": "unknown", "said": "it cannot be told how well they describe them"}
    pairs, own = samples.states[chosen, :2], samples.conditions[chosen]
    steps = own[:, 0] if STEP in samples.varied else np.full(len(own), samples.step)
    parameters = own[:, len(samples.varied) - len(names) :]
    try:
        reached = solve_varied(
            varied, pairs[:, 0], steps, parameters, np.arange(2), rtol=_TOLERANCE, atol=_TOLERANCE
        )
    except InputError as error:
        said = f"it cannot be told how well they describe the data: {error}"
        return system, {"fits": "unknown", "said": said}
    size = np.abs(pairs[:, 1] - pairs[:, 0]).max(axis=1)
    misses = np.abs(reached[:, 1] - pairs[:, 1]).max(axis=1) / np.where(size > 0, size, 1.0)
    median = float(np.median(misses))
    said = f"one step of them misses the next state by {median:.2g} of the change in it (median)"
    return system, {"fits": "unknown", "said": said, "relative_residual": median}
