"""Trajectories by a classical method, sampled at a fixed step."""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from numbers import Real
from typing import Any

import numpy as np

from vpintegrator.arguments import of_kind, whole_number
from vpintegrator.compiled.method import compile_method
from vpintegrator.dynamics import System, load_system
from vpintegrator.errors import InputError
from vpintegrator.maps import ClassicalMethod, find_method
from vpintegrator.maps.base import check_initial

Progress = Callable[[str, int, int], None]

_LARGEST_PART = 4096  # steps between two calls of progress


def integrate(
    system: System | str | os.PathLike[str],
    method: str | ClassicalMethod,
    initial: Any,
    step: float,
    steps: int,
    progress: Progress | None = None,
    compiled: bool = False,
) -> np.ndarray:
    """Integrate many trajectories of a system by a classical method.

    Parameters
    ----------
    system
        The system, its name in the catalogue, or its file.
    method
        A name in ``METHODS``, such as ``"implicit-midpoint"``, or a method.
    initial
        Initial states, shape (trajectory, dim).
    step
        Time step h, not zero; negative goes back in time.
    steps
        Number of steps.
    progress
        Called a hundred times or more with the method's name, steps done, and steps in all.
    compiled
        Whether the method runs as machine code: equal up to rounding and ten to fifty times
        faster. Compilation takes one to four seconds for each new form of equations. Methods with
        an :func:`~vpintegrator.compiled.obstacle` run in NumPy.

    Returns
    -------
    numpy.ndarray
        States of shape (trajectory, steps + 1, dim), the initial ones first. A trajectory that
        diverges, or whose implicit equations have no solution that Newton's method finds, is NaN
        from there on.

    Raises
    ------
    InputError
        If an argument is wrong, the method does not apply to the system, or it cannot be compiled.

    Examples
    --------
    >>> import vpintegrator as vp
    >>> vp.integrate("harmonic-oscillator", "stoermer-verlet", [[1.0, 0.0]], 0.1, 100).shape
    (1, 101, 2)
    """
    if not isinstance(system, System):
        system = load_system(system)
    if not isinstance(method, ClassicalMethod):
        method = find_method(method)
    initial = check_initial(system, initial)
    of_kind("step", step, Real, "a number")
    if not (math.isfinite(step) and step != 0):
        raise InputError(f"step = {step!r} must be a finite number other than zero")
    steps = whole_number("steps", steps)
    method.require(system)
    states = np.empty((len(initial), steps + 1, system.dim))
    states[:, 0] = initial
    machine = compile_method(method, system, initial, step, compiled)
    if machine is not None:
        cursor = machine.start(initial, step)
    else:
        cursor = method.start(system, initial, step)
    part = max(min(steps // 100, _LARGEST_PART), 1)
    for done in range(0, steps, part):
        count = min(part, steps - done)
        states[:, done + 1 : done + count + 1] = cursor.advance(count)
        if progress:
            progress(method.name, done + count, steps)
    return states
