"""Error and cost of a step of all methods of a comparison, and costs at equal error."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, cast

import numpy as np

from vpintegrator.compiled import machine_code
from vpintegrator.compiled.method import CompiledMethod, Machine
from vpintegrator.compiled.one_step import (
    MethodStep,
    ModelStep,
    OneStep,
    OneStepTable,
    applicable_methods,
    compiling,
    images_of,
    measure_steps,
)
from vpintegrator.compiled.timing import repeat_states
from vpintegrator.dynamics import System
from vpintegrator.maps import ClassicalMap, Map
from vpintegrator.rollout.guarded_map import GuardedMap, unguarded
from vpintegrator.rollout.reference import Reference, solve_reference


def step_table(
    maps: Mapping[str, Map], system: System, reference: Reference, spread: float
) -> OneStepTable:
    """Return errors and costs of a step, on windows of the reference.

    Beside a model in machine code stand the classical methods of
    ``vpintegrator.compiled.one_step.METHODS`` that apply, also where they do not run.

    Parameters
    ----------
    maps
        Models and methods by name, of one step.
    system, reference
        The system, and its reference solution at all steps.
    spread
        Size that errors are relative to.
    """
    windows, images = _windows([*maps.values()], system, reference)

    def error(states: np.ndarray, ahead: int = 0) -> float:
        if not len(images):  # the reference ends with the first windows
            return math.nan
        wrong = (states - images[:, ahead])[:, system.moving]
        value = float(np.sqrt((wrong**2).sum(-1).mean())) / (spread or 1.0)
        return math.inf if math.isnan(value) else value

    models, methods = [], []
    for name, map in maps.items():
        if map.kind == "learned":
            own = windows[:, -map.window :]
            models.append(_model_step(name, map, own, error, images.shape[1]))
        else:
            methods.append(_method_step(name, map, windows[:, -map.window :], error))
    if len(images) and any(not model.note for model in models):
        known = {method.name for method in methods}
        others = {n: m for n, m in applicable_methods(system).items() if n not in known}
        states, step = windows[:, -1], next(iter(maps.values())).step
        with compiling(others, system, states, step) as ready:
            machines = {name: ready(name) for name in others}
        for name, machine in machines.items():
            if not isinstance(machine, str):
                methods.append(_method_step(name, machine, states[:, None], error))
    with np.errstate(all="ignore"):
        table = measure_steps(models, methods)
    return OneStepTable(tuple(_without_failure(row, maps.get(row.name)) for row in table.rows))


def _without_failure(row: OneStep, map: Map | None) -> OneStep:
    """Return a row of the table; one without numbers where the map has failed."""
    if isinstance(map, GuardedMap) and map.failure:
        return OneStep(row.name, row.kind, error=math.nan, note=map.failure)
    return row


def _windows(
    maps: Sequence[Map], system: System, reference: Reference, most: int = 100
) -> tuple[np.ndarray, np.ndarray]:
    """Return windows of the reference, (n, window, dim), and next states (n, ahead, dim)."""
    length, states = max(map.window for map in maps), reference.states
    if states.shape[1] <= length:  # nothing follows the first windows
        return states[:, :length], states[:0, :0]
    ahead = min(max(map.prediction_window for map in maps), states.shape[1] - length)
    rows = np.lib.stride_tricks.sliding_window_view(states, length + ahead, axis=1).swapaxes(2, 3)
    known = np.argwhere(np.isfinite(rows).all(axis=(2, 3)))
    chosen = known[np.linspace(0, len(known) - 1, min(most, len(known))).round().astype(int)]
    rows = rows[chosen[:, 0], chosen[:, 1]]  # (n, window + ahead, dim)
    windows, images = rows[:, :length], rows[:, length:]
    if reference.difference is not None and not system.is_discrete:
        # after steps from the window itself, without the error of a long solution
        times = maps[0].step * np.arange(ahead + 1)
        images = solve_reference(system, windows[:, -1], times).states[:, 1:]
    return windows, images


def _model_step(
    name: str, map: Map, windows: np.ndarray, error: Callable[..., float], ahead: int
) -> ModelStep:
    batch, new = repeat_states(windows), map.prediction_window
    states = map.map(windows)[:, map.window - new :]  # (n, new, dim)
    errors = [error(states[:, k], k) for k in range(min(new, ahead))]
    value = errors[0] if errors else math.nan
    later = tuple(errors) if new > 1 else ()
    map = unguarded(map) if isinstance(unguarded(map), Machine) else map
    if not isinstance(map, Machine):
        return ModelStep(name, value, partial(_calls, map, batch), new, "in PyTorch", later)
    machine: Any = machine_code(map.original, batch)  # that for many trajectories
    run = partial(machine.predict, batch.astype(machine.dtype))
    return ModelStep(name, value, run, new, lead_time_errors=later)


def _method_step(
    name: str, map: Map, windows: np.ndarray, error: Callable[[np.ndarray], float]
) -> MethodStep:
    plain = unguarded(map)
    batch, is_rival = repeat_states(windows), isinstance(plain, CompiledMethod)
    note, machine = "in NumPy" if isinstance(plain, ClassicalMap) else "", cast(Any, map)

    def at(substeps: int) -> Any:
        return machine.at_step(map.step / substeps) if is_rival else map

    def error_of(substeps: int) -> float:
        return error(images_of(at(substeps), windows, substeps if is_rival else 1))

    def run(count: int, substeps: int) -> None:
        _calls(at(substeps), batch, count)

    return MethodStep(name, error_of, run, note, is_rival)


def _calls(map: Map, windows: np.ndarray, count: int) -> None:
    images_of(map, windows, count * map.prediction_window)
