"""Whether a system, such as one of a Python function, gives the trajectories of a dataset."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from vpintegrator.dynamics import System, solve
from vpintegrator.errors import InputError

_TOLERANCE = 1e-6  # relative to the size of states: other solvers, and tolerances of recipes


def check_reproduces(
    path: Path,
    stored: System,
    system: System,
    states: np.ndarray,
    times: np.ndarray,
) -> None:
    """Check that a system gives the first states of a dataset again.

    Parameters
    ----------
    path, stored
        The file of the dataset, and the system that stands in it.
    system
        The system, with the parameters of the dataset.
    states, times
        First states (trajectory, time, dim), NaN where none was observed, and their times (time,).

    Raises
    ------
    InputError
        If it has other components, or gives other states; the message says by how much.
    """
    if system.components != stored.components:
        raise InputError(
            f"{system.name} has the components {', '.join(system.components[:8])}, but states of "
            f"{path} have {', '.join(stored.components[:8])}"
        )
    if system.is_measured:
        raise InputError(f"the equations of {system.name} are not known; give its function")
    known = states[np.isfinite(states).all(axis=(1, 2))]
    if not len(known):
        return
    times = np.rint(times - times[0]) if system.is_discrete else times - times[0]
    try:
        found = solve(system, known[:, 0], times)
    except InputError as error:
        raise InputError(
            f"{system.name} does not give the trajectories of {path}: {error}"
        ) from None
    allowed = _TOLERANCE * (1 + np.abs(known).max())
    excess = np.abs(found - known) - allowed
    if (excess > 0).any():
        _, k, i = np.unravel_index(int(np.argmax(excess)), excess.shape)
        defect = np.abs(found - known).max()
        raise InputError(
            f"{system.name} does not give the trajectories of {path}: after {k} steps "
            f"{system.components[i]} differs by {defect:.3g}; give the function, and the "
            "parameters, that they were made with"
        )
