"""A reference solution, and how far it can be trusted."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from vpintegrator.dynamics import System, solve

METHOD = "DOP853"
TOLERANCE = 1e-13
CONTROL_TOLERANCE = 1e-12


@dataclass(frozen=True)
class Reference:
    """A reference solution.

    Attributes
    ----------
    states
        (trajectory, time, dim).
    error
        Estimate of its largest error in any component of each trajectory, (trajectory,).
    """

    states: np.ndarray
    error: np.ndarray


def solve_reference(
    system: System,
    initial: np.ndarray,
    times: np.ndarray,
    progress: Callable[[str, int, int], None] | None = None,
) -> Reference:
    """Solve for the reference twice and take the difference as the estimate of its error.

    The control has a ten times looser tolerance and ends its steps at the output times; the
    reference ends them at the middles between these too. Where the outputs lie so close that they
    set the steps, a tolerance alone would change nothing and certify nothing.

    Parameters
    ----------
    system
        The system.
    initial
        Initial states, (trajectory, dim).
    times
        Output times, increasing, (time,).
    progress
        Called with ``"reference"``, and states found and wanted over both solutions.

    Raises
    ------
    InputError
        If a solution cannot be continued to the last time.
    """
    halves = np.empty(2 * len(times) - 1)
    halves[::2] = times
    halves[1::2] = (times[1:] + times[:-1]) / 2
    total = len(initial) * (len(times) + len(halves))
    done = 0

    def report(count: int) -> None:
        nonlocal done
        done += count
        if progress:
            progress("reference", done, total)

    control = solve(
        system, initial, times, METHOD, CONTROL_TOLERANCE, CONTROL_TOLERANCE, progress=report
    )
    states = solve(system, initial, halves, METHOD, TOLERANCE, TOLERANCE, progress=report)
    states = np.ascontiguousarray(states[:, ::2])
    return Reference(states, np.abs(states - control).max(axis=(1, 2)))
