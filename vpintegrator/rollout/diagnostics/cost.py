"""Cost of a step and of a training, and evaluations of the vector field."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from vpintegrator.dynamics import System
from vpintegrator.maps import ClassicalMap, Map, PeriodMap
from vpintegrator.rollout.diagnostics.diagnostic import Diagnostic
from vpintegrator.rollout.report import Report, Run, Summary
from vpintegrator.rollout.variables import Column, Variable
from vpintegrator.storage.reading import read_json


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
        found = count_evaluations(map.inner, map.embedded(initial)) if len(initial) else None
        return found and found * map.steps
    if not isinstance(map, ClassicalMap) or not len(initial) or steps < 1:
        return None
    stated = map.method.evaluations(map.system)
    # machine code evaluates the formulas itself
    if stated is not None or map.method.needs_formulas:
        return stated
    system, counts = _counting(map.system)
    next(ClassicalMap(map.method, system, map.step).advance(initial[:, None], steps, chunk=steps))
    return sum(counts) / (len(initial) * steps) or None


def _counting(system: System) -> tuple[System, list[int]]:
    """Return a copy of a system, and a list of the numbers of states at which its field is read."""
    other, counts = object.__new__(type(system)), list[int]()
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


class Evaluations(Diagnostic):
    """Evaluations of the vector field per step of a trajectory."""

    variables = (Variable("evaluations_per_step", "evaluations of the vector field in a step"),)

    def result(self) -> dict[str, Any]:
        return {"evaluations_per_step": count_evaluations(self.map, self.ensemble.sample[:, 0])}

    @classmethod
    def columns(cls, report: Report) -> list[Column]:
        header = ("evaluations", "per step")
        return [Column(" ".join(header), "evaluations_per_step", "short", header, rank=9)]


class StepCost(Diagnostic):
    """Cost of a step, and of the cheapest classical method with the same error."""

    def result(self) -> dict[str, Any]:
        return {}  # costs are measured side by side, see rollout/step_costs.py

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
        rows, header = report.step_table.rows, ("time", "per step")
        columns = [
            Column("time per step", "seconds_per_step", "duration", header, rank=10),
            Column("error of a step", "step_error", "hidden"),
        ]
        if any(row.note for row in rows):
            columns.append(Column("not compiled", "not_compiled", "words", rank=9.5))
        if any(row.cheapest_rival for row in rows):
            columns += [
                Column("cheapest at equal error", "rival", "words", rank=6),
                Column("at times the cost", "rival_cost", "short", rank=6.5),
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
        known: dict[str, Any] = {}
        if self.map.kind == "learned":
            model: Any = getattr(self.map, "original", self.map)
            text = model.metadata.get("training", "{}")
            known = read_json(text, f"what is told of the training of {self.ensemble.name}")
        epochs = known.get("epoch") or [None]
        seconds = known.get("search_seconds") or (known.get("seconds") or [None])[-1]
        values = (known.get("parameters"), seconds, epochs[-1], known.get("compiled"))
        names = (variable.name for variable in self.variables)
        return {n: None if v is None else float(v) for n, v in zip(names, values, strict=True)}

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
