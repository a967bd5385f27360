"""A reference solution, and how far it can be trusted."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from vpintegrator.dynamics import System, solve
from vpintegrator.rollout.storage import Storage

METHOD = "DOP853"
TOLERANCE = 1e-13
CONTROL_TOLERANCE = 1e-12
_PART = 256  # steps solved for at a time


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
    storage: Storage | None = None,
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
        Called with ``"reference"``, and times reached and wanted.
    storage
        Where the states are kept and, after an interruption, found.

    Raises
    ------
    InputError
        If a solution cannot be continued to the last time.
    """
    storage = storage or Storage()
    count = len(times) - 1
    states = storage.array("reference", (len(times), *initial.shape))
    control, error, done = initial, np.zeros(len(initial)), 0
    saved = storage.progress()
    if "reference.done" in saved:
        done = int(saved["reference.done"])
        control, error = saved["reference.control"], saved["reference.error"]
    states[0] = initial
    if progress:
        progress("reference", done, count)
    while done < count:
        part = times[done : done + _PART + 1]
        halves = np.empty(2 * len(part) - 1)
        halves[::2] = part
        halves[1::2] = (part[1:] + part[:-1]) / 2
        start = np.array(states[done])
        new = solve(system, start, halves, METHOD, TOLERANCE, TOLERANCE)[:, ::2]
        other = solve(system, control, part, METHOD, CONTROL_TOLERANCE, CONTROL_TOLERANCE)
        states[done + 1 : done + len(part)] = new[:, 1:].transpose(1, 0, 2)
        error = np.maximum(error, np.abs(new - other).max(axis=(1, 2)))
        control = other[:, -1]
        done += len(part) - 1
        storage.record(
            {
                "reference.done": np.array(done),
                "reference.control": control,
                "reference.error": error,
            }
        )
        if progress:
            progress("reference", done, count)
    return Reference(states.transpose(1, 0, 2), error)
