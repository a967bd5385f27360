"""Reference solution with an estimate of its error."""

from __future__ import annotations

import time as clock
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from vpintegrator.arguments import of_kind, real_array
from vpintegrator.dynamics import System, solve
from vpintegrator.dynamics.solve import bounded_sizes, component_sizes
from vpintegrator.rollout.classical.integrate import check_initial
from vpintegrator.rollout.recording import RECORD_SECONDS, Recording

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
        Estimate of its largest error in any component of each trajectory, relative to the size of
        the component, (trajectory,). The size is the largest absolute value in all trajectories,
        and the period of an angle at most.
    """

    states: np.ndarray
    error: np.ndarray

    def __repr__(self) -> str:
        count, times, _ = self.states.shape
        return (
            f"<Reference: {count:,} by {times:,} states, error about "
            f"{self.error.max(initial=0):.0e}>"
        )


def solve_reference(
    system: System,
    initial: np.ndarray,
    times: np.ndarray,
    progress: Callable[[str, int, int], None] | None = None,
    recording: Recording | None = None,
) -> Reference:
    """Solve for the reference twice and take the difference as the estimate of its error.

    Maps by formula are iterated, with an error of 0; return maps with both tolerances.

    The control has a ten times looser tolerance and ends its steps at the output times; the
    reference ends them at the middles between these too. If outputs are so close that they set the
    steps, a tighter tolerance alone would change nothing.

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
    recording
        Storage of the states, from which an interrupted solution is resumed.

    Raises
    ------
    InputError
        If a solution cannot be continued to the last time.

    Examples
    --------
    >>> pendulum = vp.load_system("pendulum")
    >>> exact = vp.rollout.solve_reference(pendulum, np.array([[1.0, 0.0]]), np.linspace(0, 1, 6))
    >>> bool(exact.error.max() < 1e-11)
    True
    """
    of_kind("system", system, System, "a system, as vp.load_system gives it")
    initial = check_initial(system, initial)
    times = real_array("times", times, ("time",))
    if system.is_exact:  # exact, as far as rounding and chaos let it be
        return Reference(solve(system, initial, np.rint(times)), np.zeros(len(initial)))
    recording = recording or Recording()
    count = len(times) - 1
    control, error, done = initial, np.zeros(initial.shape), 0
    saved = recording.progress()
    begun = "reference.done" in saved
    if begun:
        done = int(saved["reference.done"])
        control, error = saved["reference.control"], saved["reference.error"]
    states = recording.array("reference", (len(times), *initial.shape), begun)
    states[0] = initial

    def record() -> None:
        entries = {"done": np.array(done), "control": control, "error": error}
        recording.record({f"reference.{name}": value for name, value in entries.items()})

    sizes = None
    if count and not system.is_discrete:  # nothing is solved of measured systems
        sizes = component_sizes(system, initial, float(times[-1] - times[0]))
    recorded = clock.monotonic()
    if progress:
        progress("reference", done, count)
    try:
        while done < count:
            part = times[done : done + _PART + 1]
            each = 1 if system.is_discrete else 2
            halves = np.empty(each * (len(part) - 1) + 1)
            halves[::each] = part
            if each == 2:
                halves[1::2] = (part[1:] + part[:-1]) / 2
            start = np.array(states[done])
            new = solve(system, start, halves, METHOD, TOLERANCE, TOLERANCE, sizes=sizes)
            new = new[:, ::each]
            tolerance = CONTROL_TOLERANCE
            other = solve(system, control, part, METHOD, tolerance, tolerance, sizes=sizes)
            states[done + 1 : done + len(part)] = new[:, 1:].transpose(1, 0, 2)
            largest = np.maximum(error, np.abs(new - other).max(axis=1))
            # together, lest an interruption come between them
            done, control, error = done + len(part) - 1, other[:, -1], largest
            if clock.monotonic() - recorded > RECORD_SECONDS:
                record()
                recorded = clock.monotonic()
            if progress:
                progress("reference", done, count)
    finally:
        if done:
            record()
    relative = error / bounded_sizes(system, np.abs(states).max(axis=(0, 1)))
    return Reference(states.transpose(1, 0, 2), relative.max(axis=1))
