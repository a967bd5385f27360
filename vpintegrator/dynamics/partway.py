"""States on the way from one to the next: where a step has come to after parts of it."""

from __future__ import annotations

import numpy as np

from vpintegrator.dynamics.solve import solve
from vpintegrator.dynamics.system import System

_TOLERANCE = 1e-8  # the states only initialise a training


def partway(
    system: System, initial: np.ndarray, step: float, parts: int, tolerance: float = _TOLERANCE
) -> np.ndarray | None:
    """Return states at equal parts of a step.

    Parameters
    ----------
    system : System
    initial : (state, dim)
    step
        The whole of it.
    parts
        Number of parts.
    tolerance
        Relative and absolute, of the solver.

    Returns
    -------
    numpy.ndarray or None
        (part + 1, state, dim), the initial states first; None where no such states are known, as
        of measured systems.

    Raises
    ------
    InputError
        If a solution cannot be continued to the end of the step.

    Examples
    --------
    >>> from vpintegrator.dynamics.partway import partway
    >>> pendulum = vp.load_system("pendulum")
    >>> partway(pendulum, np.array([[1.0, 0.0], [0.5, 0.0]]), step=6.0, parts=4).shape
    (5, 2, 2)
    """
    if system.is_measured:
        return None
    if system.is_discrete:
        return system.partway(initial, parts)
    times = step * np.arange(parts + 1) / parts
    states = solve(system, initial, times, rtol=tolerance, atol=tolerance)
    return np.ascontiguousarray(states.transpose(1, 0, 2))
