"""Schedule of a comparison and its reference: length, steps, and steps that are stored."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from vpintegrator.arguments import whole_number
from vpintegrator.dynamics import System
from vpintegrator.errors import InputError
from vpintegrator.rollout.arguments import Duration
from vpintegrator.rollout.flow import trained_step
from vpintegrator.rollout.memory import check_memory
from vpintegrator.rollout.start import Origin

if TYPE_CHECKING:
    from vpintegrator.models import Integrator

_STEPS = 500  # default, if neither the call nor the system has a length
_REFERENCE_STEPS = 10_000  # default length of the reference
_MOST_STEPS = 10**12  # at a microsecond each, 12 days; and they are counted exactly
_STORED_TIMES = 10_000  # default number of states that are kept
_STORED_VALUES = 20_000_000  # numbers in them


@dataclass(frozen=True)
class Schedule:
    """Steps of a comparison.

    Attributes
    ----------
    steps
        Number of steps.
    stored, every
        Steps at which states are kept, including the first and the last, and the distance between
        them.
    known
        Number of steps of the reference.
    """

    steps: int
    stored: np.ndarray
    every: int
    known: int


def make_schedule(
    duration: Duration, system: System, step: float, origin: Origin, first_states: int
) -> Schedule:
    """Return the schedule for ``duration``; the reference has at least ``first_states`` states.

    Raises
    ------
    InputError
        If a value of ``duration`` is invalid, or needs too much memory.
    """
    time, steps, reference = duration.time, duration.steps, origin.reference
    if reference is not None and time is None and steps is None:
        steps = reference.shape[1] - 1
    count = number_of_steps(system, step, time, steps)
    stored, every = stored_steps(count, duration.every, origin.initial)
    ends = duration.reference_time
    if reference is None and system.is_measured:
        ends = 0.0  # nothing is known
    known = reference_steps(step, count, ends)
    if reference is not None:
        known = min(count if ends is None else known, reference.shape[1] - 1)
    # first windows come from the reference even where a window is longer than the rollout
    return Schedule(count, stored, every, max(known, first_states - 1))


def find_step(models: Mapping[str, Integrator], system: System, step: float | None) -> float:
    if step is not None and not (math.isfinite(step) and step > 0):
        raise InputError(f"step = {step!r} must be a positive number")
    source = "the step given"
    for name, model in models.items():
        trained = trained_step(model, name)
        if trained is None:
            continue
        if step is not None and not math.isclose(step, trained, rel_tol=1e-12):
            raise InputError(
                f"the model {name} was trained for the step {trained:g}, but {source} is {step:g}; "
                "a learned map has one step"
            )
        step, source = trained, f"that of the model {name}"
    if step is None:
        step = system.defaults.get("step")
    elif system.is_discrete and step != 1:
        raise InputError(f"a step of {system.name}, a map, is one iteration, not {step:g}")
    if step is None:
        raise InputError(f"{system.name} suggests no step; give step")
    return float(step)


def number_of_steps(system: System, step: float, time: float | None, steps: int | None) -> int:
    if time is not None and steps is not None:
        raise InputError("give either time or steps, not both")
    if steps is None:
        if time is None:
            time = system.defaults.get("time")
        if time is None:
            return _STEPS
        if not (math.isfinite(time) and time >= step / 2):
            raise InputError(f"time = {time!r} must be at least one step, {step:g}")
        steps = max(round(min(time / step, _MOST_STEPS + 1)), 1)
    steps = whole_number("steps", steps, 1)
    if steps > _MOST_STEPS:
        raise InputError(
            f"more than {_MOST_STEPS:,} steps of {step:g} would take too long; take a shorter "
            "time, or a longer step"
        )
    return steps


def stored_steps(steps: int, every: int | None, initial: np.ndarray) -> tuple[np.ndarray, int]:
    """Return the steps at which states are kept, the first and the last included, and ``every``."""
    if every is None:
        room = max(min(_STORED_TIMES, _STORED_VALUES // initial.size), 1)
        every = max(math.ceil(steps / room), 1)
    every = min(whole_number("every", every, 1), steps)
    values = (steps // every + 2) * initial.size
    check_memory(
        f"{steps // every + 2:,} states of each trajectory", values, "keep fewer (--every)"
    )
    return np.unique(np.append(np.arange(0, steps + 1, every), steps)), every


def reference_steps(step: float, steps: int, reference_time: float | None) -> int:
    """Return the number of steps of the reference."""
    if reference_time is None:
        return min(steps, _REFERENCE_STEPS)
    if not (math.isfinite(reference_time) and reference_time >= 0):
        raise InputError(f"reference_time = {reference_time!r} must be a time, 0 or more")
    return round(min(reference_time / step, steps))
