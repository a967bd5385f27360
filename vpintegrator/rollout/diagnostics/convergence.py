"""Error against cost over several steps, and the order of accuracy."""

from __future__ import annotations

import math
import time as clock
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from vpintegrator.dynamics import System
from vpintegrator.errors import InputError
from vpintegrator.maps.base import check_initial
from vpintegrator.rollout.diagnostics.cost import count_evaluations
from vpintegrator.rollout.diagnostics.first_window import first_windows
from vpintegrator.rollout.flow import ClassicalFlow, NumericalFlow, as_flow
from vpintegrator.rollout.reference import Reference, solve_reference

Progress = Callable[[str, int, int], None]

_FITTED = 4  # at most so many errors, of the smallest steps, give the order
_ABOVE_FLOOR = 30.0  # an error this many times above rounding is one of the method
_LARGEST_PART = 1024  # steps advanced at a time
_SMALLEST_TIME = 0.05  # seconds of work for a time that means something
_REPEATS = 5


@dataclass(frozen=True)
class WorkPrecision:
    """Error and cost of a method at several steps.

    Attributes
    ----------
    step
        (k,).
    seconds
        Wall time per unit of simulated time and trajectory, in a batch of all trajectories, (k,).
    evaluations, jacobian_evaluations
        Evaluations of the vector field and of its Jacobian matrix per unit of simulated time and
        trajectory, (k,); NaN where there are none, as for a learned map.
    error
        Root mean square, over the trajectories, of the Euclidean error at the end, (k,).
    order
        Fitted to the errors of the smallest steps, four at most, that rounding leaves alone; None
        if there are not two of them.
    """

    step: np.ndarray
    seconds: np.ndarray
    evaluations: np.ndarray
    error: np.ndarray
    order: float | None
    jacobian_evaluations: np.ndarray | None = None


def work_precision(
    methods: Sequence[Any] | Mapping[str, Any],
    initial: Any,
    *,
    system: System | None = None,
    time: float | None = None,
    steps: Sequence[float] | None = None,
    progress: Progress | None = None,
) -> dict[str, WorkPrecision]:
    """Return error against cost: fixed-step methods at several steps, other maps at their own.

    A learned map has one step and gives one point. An adaptive solver gives one point for its
    tolerance; list it with several tolerances for more points.

    Parameters
    ----------
    methods
        Names, classical methods, models or flows, also by name.
    initial
        Initial states, (trajectory, dim).
    system
        The system; by default that of the flows.
    time
        Time at which the error is measured; by default 20 of the largest step. The time is rounded
        to whole steps of each size.
    steps
        Steps of the classical methods, in any order; by default twice the step of the first flow,
        that step, and its halves down to a sixteenth.
    progress
        Called with a method's name, step sizes done, and step sizes in all.

    Returns
    -------
    dict of str to WorkPrecision
        In the order of the methods. A method that diverges at a step has an infinite error there.

    Raises
    ------
    InputError
        If an argument is wrong, or a method does not apply to the system.

    Notes
    -----
    The errors are those of the solution at the end, found by the reference solver. A time is the
    least of several, as everything else that a computer does can only add to it.

    Examples
    --------
    >>> pendulum = vp.load_system("pendulum")
    >>> study = vp.rollout.diagnostics.work_precision(
    ...     ["rk4"], np.array([[1.0, 0.0]]), system=pendulum, time=1.0, steps=[0.1, 0.05]
    ... )
    >>> round(float(np.log2(study["rk4"].error[0] / study["rk4"].error[1])))
    4
    """
    named = list(methods.items()) if isinstance(methods, Mapping) else [("", m) for m in methods]
    flows = [member for _, member in named if isinstance(member, NumericalFlow)]
    if system is None:
        system = next((flow.system for flow in flows if flow.system is not None), None)
    if system is None:
        raise InputError("no method knows its system; give system")
    initial = check_initial(system, initial)
    if steps is None:
        if not flows:
            raise InputError("no method knows its step; give steps")
        steps = [flows[0].step * 2.0**k for k in range(1, -5, -1)]
    sizes = np.sort(np.asarray(steps, dtype=np.float64))[::-1]
    if not len(sizes) or not (np.isfinite(sizes) & (sizes > 0)).all():
        raise InputError(f"steps = {steps!r} must be positive numbers")
    if time is None:
        time = 20 * float(sizes[0])
    if not (math.isfinite(time) and time > 0):
        raise InputError(f"time = {time!r} must be a positive number")
    references = _References(system, initial)
    result: dict[str, WorkPrecision] = {}
    for name, member in named:
        flow = as_flow(member, system, float(sizes[0]))
        key = name or flow.name
        chosen = [flow]
        if isinstance(flow, ClassicalFlow) and flow.differentiable:
            chosen = [ClassicalFlow(flow.method, system, float(h), flow.compiled) for h in sizes]
        points = []
        for i, each in enumerate(chosen):
            points.append(_measure(each, initial, time, references))
            if progress:
                progress(key, i + 1, len(chosen))
        seconds, evaluations, jacobian, error = np.array(points).T
        h = np.array([each.step for each in chosen])
        floor = max(_floor(reference) for reference in references.known.values())
        result[key] = WorkPrecision(
            step=h,
            seconds=seconds,
            evaluations=evaluations,
            error=error,
            order=_fitted_order(h, error, floor),
            jacobian_evaluations=jacobian,
        )
    return result


class _References:
    """Certified solutions at end times, each found once."""

    def __init__(self, system: System, initial: np.ndarray) -> None:
        self._system, self._initial = system, initial
        self.known: dict[float, Reference] = {}

    def at(self, time: float) -> Reference:
        # the same time comes as 3 * 0.1 and as 0.3
        key = float(f"{time:.12g}")
        if key not in self.known:
            times = np.array([0.0, time])
            self.known[key] = solve_reference(self._system, self._initial, times)
        return self.known[key]


def _measure(
    flow: NumericalFlow, initial: np.ndarray, time: float, references: _References
) -> tuple[float, float, float, float]:
    """Return seconds, evaluations, Jacobian evaluations and error of a flow at its step."""
    count = max(_whole_steps(time, flow.step), flow.window)
    end = count * flow.step
    first = first_windows(flow, initial)
    final, seconds = _final(flow, first, count)
    error = _root_mean_square(final, references.at(end).states[:, -1])
    made = count + 1 - flow.window  # the others are given
    found = count_evaluations(flow, initial, min(count, 100))
    field, jacobian = (found.vector_field, found.jacobian) if found else (math.nan, math.nan)
    cost = seconds / (made * flow.step * len(initial))
    return cost, field / flow.step, jacobian / flow.step, error


def _final(flow: NumericalFlow, first: np.ndarray, steps: int) -> tuple[np.ndarray, float]:
    """Return states after ``steps`` steps, (trajectory, dim), and the least time of some runs."""
    least, spent = math.inf, 0.0
    for _ in range(_REPEATS):
        cursor = flow.start(first)
        start = clock.perf_counter()
        left, states = steps + 1 - flow.window, first
        while left > 0:
            states = cursor.advance(min(left, _LARGEST_PART))
            left -= states.shape[1]
        seconds = clock.perf_counter() - start
        least, spent = min(least, seconds), spent + seconds
        if spent > _REPEATS * _SMALLEST_TIME:
            break
    return states[:, -1], least


def _whole_steps(time: float, step: float) -> int:
    if not (math.isfinite(step) and step > 0):
        raise InputError(f"step = {step!r} must be a positive number")
    if not (math.isfinite(time) and time > 0):
        raise InputError(f"time = {time!r} must be a positive number")
    return max(round(time / step), 1)


def _root_mean_square(states: np.ndarray, reference: np.ndarray) -> float:
    with np.errstate(all="ignore"):
        error = float(np.sqrt(np.mean(np.sum((states - reference) ** 2, axis=-1))))
    return error if math.isfinite(error) else math.inf


def _floor(reference: Reference) -> float:
    """Return the error that the reference and rounding have by themselves."""
    size = np.abs(reference.states[:, -1]).max()
    return float(max(reference.error.max(), 10 * np.finfo(np.float64).eps * size))


def _fitted_order(steps: np.ndarray, errors: np.ndarray, floor: float) -> float | None:
    """Return the slope of log(error) over log(step), for decreasing steps."""
    clean = np.flatnonzero(np.isfinite(errors) & (errors > _ABOVE_FLOOR * floor))[-_FITTED:]
    if len(clean) < 2:
        return None
    return float(np.polyfit(np.log(steps[clean]), np.log(errors[clean]), 1)[0])
