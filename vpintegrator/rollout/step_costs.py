"""Error and cost of a step of all methods of a comparison, and costs at equal error."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from vpintegrator.compiled.method import Machine
from vpintegrator.dynamics import System
from vpintegrator.maps import ClassicalMap, Map
from vpintegrator.measure import table
from vpintegrator.measure.rows import OneStep, OneStepTable
from vpintegrator.measure.steps import applicable_methods
from vpintegrator.rollout.guarded_map import GuardedMap, unguarded
from vpintegrator.rollout.reference import Reference, solve_reference


def step_table(
    maps: Mapping[str, Map], system: System, reference: Reference, spread: float
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
    """
    windows, images = _windows([*maps.values()], system, reference)
    own = {n: unguarded(m) if isinstance(unguarded(m), Machine) else m for n, m in maps.items()}
    methods: dict[str, ClassicalMap] = {}
    compiled = any(isinstance(map, Machine) and map.kind == "learned" for map in own.values())
    if len(images) and compiled:
        step = next(iter(maps.values())).step
        usual = applicable_methods(system).items()
        methods = {n: ClassicalMap(m, system, step) for n, m in usual if n not in maps}
    result = table(
        own,
        windows,
        images,
        methods=methods,
        components=system.moving,
        spread=spread,
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
    chosen = known[np.linspace(0, len(known) - 1, min(most, len(known))).round().astype(int)]
    rows = rows[chosen[:, 0], chosen[:, 1]]  # (n, window + ahead, dim)
    windows = rows[:, :length]
    images = rows[:, length:]
    if reference.difference is not None and not system.is_discrete:
        # after steps from the window itself, without the error of a long solution
        times = maps[0].step * np.arange(ahead + 1)
        images = solve_reference(system, windows[:, -1], times).states[:, 1:]
    return windows, images
