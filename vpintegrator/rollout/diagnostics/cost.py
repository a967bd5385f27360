"""Cost: evaluations of the field, error and cost of a step, error against cost at several steps."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import numpy as np

from vpintegrator.arguments import positive
from vpintegrator.compiled.method import Machine
from vpintegrator.dynamics import System
from vpintegrator.errors import InputError
from vpintegrator.maps import ClassicalMap, Map, PeriodMap, classical
from vpintegrator.maps.base import check_initial
from vpintegrator.measure import repeat_states, seconds_per_step, table
from vpintegrator.measure.rows import OneStep, OneStepTable
from vpintegrator.measure.steps import applicable_methods
from vpintegrator.rollout.diagnostics.diagnostic import Diagnostic
from vpintegrator.rollout.diagnostics.tangent import first_windows
from vpintegrator.rollout.guarded_map import GuardedMap, unguarded
from vpintegrator.rollout.reference import Progress, Reference, solve_reference
from vpintegrator.rollout.report import Report, Run, Summary
from vpintegrator.rollout.start import is_model
from vpintegrator.rollout.variables import Column, Variable

_RIVAL = ("rival", "rival_cost")  # a method, and its cost beside that of the same model
_FITTED = 4  # at most so many errors, of the smallest steps, give the order
_ABOVE_FLOOR = 30.0  # an error this many times above rounding is one of the method


def count_evaluations(map: Map, initial: np.ndarray, steps: int = 1) -> float | None:
    """Return the mean evaluations of the field in a step, over steps and initial states (n, dim).

    If a method states its number of evaluations, that number is returned (single components count
    as a fraction). Otherwise evaluations are counted during the steps. None for a learned map,
    which evaluates none, for a method that evaluates other functions than the field, and where no
    initial state is finite.

    Parameters
    ----------
    map
        The map.
    initial
        Initial states, (n, dim).
    steps
        Number of steps that are counted from each.

    Examples
    --------
    >>> map = vp.classical("rk4", vp.load_system("pendulum"), 0.1)
    >>> vp.rollout.diagnostics.count_evaluations(map, np.ones((1, 2)))
    4.0
    """
    initial = np.asarray(initial, dtype=np.float64)
    initial = initial[np.isfinite(initial).all(axis=-1)]
    map = getattr(map, "original", map)
    if isinstance(map, PeriodMap):
        return count_evaluations(map.inner, map.embedded(initial)) if len(initial) else None
    if not isinstance(map, ClassicalMap) or not len(initial) or steps < 1:
        return None
    stated = map.method.evaluations(map.system)
    # machine code evaluates the formulas itself
    if stated is not None or map.method.needs_formulas:
        return stated and stated * map.substeps
    system, counts = _counting(map.system)
    other = ClassicalMap(map.method, system, map.step, map.substeps)
    next(other.advance(initial[:, None], steps, chunk=steps))
    return sum(counts) / (len(initial) * steps) or None


def _counting(system: System) -> tuple[System, list[int]]:
    """Return a copy of a system, and a list of the numbers of states at which its field is read."""
    other = object.__new__(type(system))
    counts = list[int]()
    vars(other).update(vars(system))  # copy would pickle, which not every function can be

    def counted(function: Callable[..., Any], axes: slice) -> Callable[..., Any]:
        def call(states: Any, *parameters: Any, **others: Any) -> Any:
            counts.append(math.prod(np.shape(states)[axes]))
            return function(states, *parameters, **others)

        return call

    counter: Any = other
    counter.vector_field = counted(system.vector_field, slice(-1))  # states (..., dim)
    # components (dim, ...)
    counter.vector_field_by_component = counted(system.vector_field_by_component, slice(1, None))
    return other, counts


@dataclass(frozen=True)
class WorkPrecision:
    """Error and cost of a method at several steps.

    Attributes
    ----------
    step
        (k,).
    seconds
        Processor seconds per unit of simulated time and trajectory, in a batch of 1,000, (k,).
    evaluations
        Evaluations of the vector field per unit of simulated time and trajectory, (k,); NaN where
        there are none, as for a learned map.
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
        Names, classical methods, or maps such as models, also by name.
    initial
        Initial states, (trajectory, dim).
    system
        The system; by default that of the maps.
    time
        Time at which the error is measured; by default 20 of the largest step. The time is rounded
        to whole steps of each size.
    steps
        Steps of the classical methods, in any order; by default twice the step of the first map,
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
    The errors are those of the solution at the end, found by the reference solver. Costs are those
    of :func:`vpintegrator.measure.seconds_per_step`, of all methods and steps in turn.

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
    maps = [each for _, each in named if isinstance(each, Map)]
    system = system or next((each.system for each in maps if each.system is not None), None)
    if system is None or (steps is None and not maps):
        raise InputError("no method knows its system and its step; give system and steps")
    initial = check_initial(system, initial)
    if steps is None:
        steps = [maps[0].step * 2.0**k for k in range(1, -5, -1)]
    sizes = sorted((positive("steps", step) for step in steps), reverse=True)
    time = positive("time", 20 * sizes[0] if time is None else time)
    references: dict[float, Reference] = {}

    def measure(map: Map) -> tuple[float, float]:
        """Return evaluations for a unit of time, and the error of a map at its step."""
        count = max(round(time / map.step), 1, map.window)
        final = _final(map, first_windows(map, initial), count + 1 - map.window)
        end = float(f"{count * map.step:.12g}")  # the same time comes as 3 * 0.1 and as 0.3
        if end not in references:
            times = np.array([0.0, count * map.step])
            references[end] = solve_reference(system, initial, times)
        with np.errstate(all="ignore"):
            squares = np.sum((final - references[end].states[:, -1]) ** 2, axis=-1)
            error = float(np.sqrt(np.mean(squares)))
        evaluations = (count_evaluations(map, initial, min(count, 100)) or math.nan) / map.step
        return evaluations, error if math.isfinite(error) else math.inf

    maps_of: dict[str, list[Map]] = {}
    points: dict[str, np.ndarray] = {}
    for name, member in named:
        map: Any = member if isinstance(member, Map) else classical(member, system, sizes[0])
        if map.system is None:
            map = copy(map)
            map.system = system
        name = name or map.name
        original = getattr(map, "original", map)
        several = isinstance(original, ClassicalMap) and map.differentiable
        maps_of[name] = [map.at_step(h) for h in sizes] if several else [map]
        rows = []
        for map in maps_of[name]:
            rows.append(measure(map))
            if progress:
                progress(name, len(rows), len(maps_of[name]))
        points[name] = np.array(rows).T
    costs = seconds_per_step(
        {
            f"{name}, {i}": partial(_final, map, repeat_states(first_windows(map, initial)))
            for name, maps in maps_of.items()
            for i, map in enumerate(maps)
        }
    )
    rounding = 10 * np.finfo(np.float64).eps
    ends = references.values()
    # the reference and rounding have errors by themselves
    floor = max(max(r.error.max(), rounding * np.abs(r.states[:, -1]).max()) for r in ends)
    result: dict[str, WorkPrecision] = {}
    for name, (evaluations, error) in points.items():
        h = np.array([map.step for map in maps_of[name]])
        seconds = np.array([costs[f"{name}, {i}"] for i in range(len(h))]) / h
        order = _fitted_order(h, error, floor)
        result[name] = WorkPrecision(h, seconds, evaluations, error, order)
    return result


def _final(map: Map, first: np.ndarray, steps: int) -> np.ndarray:
    """Return states (trajectory, dim) after so many steps from windows."""
    last = deque(map.advance(first, steps, chunk=1024), maxlen=1)
    return (last[0] if last else first)[:, -1]


def _fitted_order(steps: np.ndarray, errors: np.ndarray, floor: float) -> float | None:
    """Return the slope of log(error) over log(step), for decreasing steps."""
    clean = np.flatnonzero(np.isfinite(errors) & (errors > _ABOVE_FLOOR * floor))[-_FITTED:]
    if len(clean) < 2:
        return None
    return float(np.polyfit(np.log(steps[clean]), np.log(errors[clean]), 1)[0])


class Evaluations(Diagnostic):
    """Evaluations of the vector field per step of a trajectory."""

    variables = (Variable("evaluations_per_step", "evaluations of the vector field in a step"),)

    def result(self) -> dict[str, Any]:
        if isinstance(self.map, GuardedMap) and self.map.failure:
            return {"evaluations_per_step": None}
        return {"evaluations_per_step": count_evaluations(self.map, self.ensemble.sample[:, 0])}

    @classmethod
    def columns(cls, report: Report) -> list[Column]:
        header = ("evaluations", "per step")
        return [Column(" ".join(header), "evaluations_per_step", "short", header, rank=9)]


class StepCost(Diagnostic):
    """Cost of a step, and of the cheapest classical method with the same error."""

    joins: ClassVar[Mapping[str, str]] = dict.fromkeys(("not_compiled", *_RIVAL), "typical")

    def result(self) -> dict[str, Any]:
        return {}  # costs are measured side by side, see ``step_table``

    @classmethod
    def summary(cls, run: Run, report: Report) -> dict[str, Any]:
        row = report.step_table.row(run.name)
        rival = row.cheapest_rival
        return {
            "seconds_per_step": _two_digits(row.cost),
            "not_compiled": row.note,
            "step_error": row.error,
            "rival": rival.words if rival else None,
            "rival_cost": _two_digits(row.relative_cost) if rival else None,
        }

    @classmethod
    def columns(cls, report: Report) -> list[Column]:
        rows = report.step_table.rows
        header = ("time", "per step")
        columns = [
            Column("time per step", "seconds_per_step", "duration", header, rank=10),
            Column("error of a step", "step_error", "hidden"),
        ]
        if any(row.note for row in rows):
            columns.append(Column("not compiled", "not_compiled", "words", rank=0.5))
        if any(row.cheapest_rival for row in rows):
            columns += [
                Column("cheapest at equal error", "rival", "words", rank=6),
                Column("at times the cost", "rival_cost", "short", rank=5.9),
            ]
        return columns


class TrainingCost(Diagnostic):
    """Cost of the training of a model: coefficients, time, iterations, and machine code.

    The columns are in CSV and JSON, and in printed tables where they are chosen by name.
    """

    variables = (
        Variable("training_parameters", "number of trained coefficients"),
        Variable("training_seconds", "seconds of the training, with search and compilation"),
        Variable("training_epochs", "epochs or iterations of the training"),
        Variable("training_compiled", "whether residuals were machine code: 1 or 0"),
    )

    def result(self) -> dict[str, Any]:
        names = [variable.name for variable in self.variables]
        model: Any = getattr(self.map, "original", self.map)
        record = model.record if is_model(model) else None
        if record is None or record.history is None:
            return dict.fromkeys(names)
        history = record.history
        seconds = record.search_seconds or history.used
        values = (history.parameters, seconds, history.epochs, history.compiled)
        return dict(zip(names, map(float, values), strict=True))

    @classmethod
    def columns(cls, report: Report) -> list[Column]:
        def whole(name: str) -> Callable[[Summary], int | None]:
            return lambda s: None if (value := getattr(s, name)) is None else round(value)

        def is_compiled(summary: Summary) -> str | None:
            return {None: None, 0: "no"}.get(summary.training_compiled, "yes")

        return [
            Column("parameters", whole("training_parameters"), "hidden"),
            Column("training seconds", "training_seconds", "hidden"),
            Column("epochs", whole("training_epochs"), "hidden"),
            Column("trained as machine code", is_compiled, "hidden"),
        ]


def _two_digits(number: float) -> float:
    return float(f"{number:.1e}")


def step_table(
    maps: Mapping[str, Map],
    system: System,
    reference: Reference,
    spread: float,
    observe: Callable[[np.ndarray], np.ndarray] | None = None,
    components: Sequence[int] | None = None,
) -> OneStepTable:
    """Return errors and costs of a step, on windows of the reference.

    Beside a model in machine code stand the classical methods of
    ``vpintegrator.measure.steps.METHODS`` that apply, also where they do not run.

    Parameters
    ----------
    maps
        Models and methods by name, of one step.
    system, reference
        The system, and its reference solution at all steps.
    spread
        Size that errors are relative to.
    observe, components
        Function of states that gives what errors are taken of, and components of that; by default
        all components that move.
    """
    if not maps:
        return OneStepTable(())
    windows, images = _windows([*maps.values()], system, reference)
    measured = {
        n: unguarded(m) if isinstance(unguarded(m), Machine) else m for n, m in maps.items()
    }
    methods: dict[str, ClassicalMap] = {}
    compiled = any(isinstance(map, Machine) and map.kind == "learned" for map in measured.values())
    if len(images) and compiled:
        step = next(iter(maps.values())).step
        usual = applicable_methods(system).items()
        methods = {n: ClassicalMap(m, system, step) for n, m in usual if n not in maps}
    result = table(
        measured,
        windows,
        images,
        methods=methods,
        components=system.moving if components is None else components,
        spread=spread,
        observe=observe,
        as_they_are=True,
    )
    return OneStepTable(tuple(_without_failure(row, maps.get(row.name)) for row in result.rows))


def _without_failure(row: OneStep, map: Map | None) -> OneStep:
    """Return a row of the table; one without numbers where the map has failed."""
    if isinstance(map, GuardedMap) and map.failure:
        return OneStep(row.name, row.kind, error=math.nan, note=map.failure)
    return row


def _windows(
    maps: Sequence[Map], system: System, reference: Reference, most: int = 100
) -> tuple[np.ndarray, np.ndarray]:
    """Return windows of the reference, (n, window, dim), and next states (n, ahead, dim)."""
    length = max(map.window for map in maps)
    states = reference.states
    if states.shape[1] <= length:  # nothing follows the first windows
        return states[:, :length], states[:0, :0]
    ahead = min(max(map.prediction_window for map in maps), states.shape[1] - length)
    rows = np.lib.stride_tricks.sliding_window_view(states, length + ahead, axis=1).swapaxes(2, 3)
    known = np.argwhere(np.isfinite(rows).all(axis=(2, 3)))
    sample = known[np.linspace(0, len(known) - 1, min(most, len(known))).round().astype(int)]
    rows = rows[sample[:, 0], sample[:, 1]]  # (n, window + ahead, dim)
    windows = rows[:, :length]
    images = rows[:, length:]
    is_solved = reference.difference is not None and not system.is_measured
    if is_solved and not system.is_discrete:
        # after steps from the window itself, without the error of a long solution
        times = maps[0].step * np.arange(ahead + 1)
        images = solve_reference(system, windows[:, -1], times).states[:, 1:]
    return windows, images
