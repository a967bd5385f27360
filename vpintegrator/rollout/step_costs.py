"""Error and cost of a step of all methods of a comparison, and costs at equal error."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial

import numpy as np

from vpintegrator.compiled.method import CompiledMethod
from vpintegrator.compiled.one_step import (
    MethodStep,
    ModelStep,
    OneStepTable,
    applicable_methods,
    compiling,
    images_of,
    measure_steps,
)
from vpintegrator.compiled.timing import repeat_states
from vpintegrator.dynamics import System
from vpintegrator.rollout.flow import ClassicalFlow, LearnedFlow, NumericalFlow
from vpintegrator.rollout.reference import Reference, solve_reference


def step_table(
    flows: Sequence[NumericalFlow], system: System, reference: Reference, spread: float
) -> OneStepTable:
    """Return errors and costs of a step, on windows of the reference.

    Beside a model in machine code stand the classical methods of
    ``vpintegrator.compiled.one_step.METHODS`` that apply, also where they do not run.

    Parameters
    ----------
    flows
        Models and methods, of one step.
    system, reference
        The system, and its reference solution at all steps.
    spread
        Size that errors are relative to.
    """
    windows, images = _windows(flows, system, reference)

    def error(states: np.ndarray) -> float:
        if not len(images):  # the reference ends with the first windows
            return math.nan
        wrong = (states - images)[:, system.moving]
        value = float(np.sqrt((wrong**2).sum(-1).mean())) / (spread or 1.0)
        return math.inf if math.isnan(value) else value

    models, methods = [], []
    for flow in flows:
        given = windows[:, -flow.window :]
        if isinstance(flow, LearnedFlow):
            models.append(_model_step(flow, given, error))
        elif isinstance(flow, ClassicalFlow) and flow.compiled:
            methods.append(_rival(flow.name, flow.compiled, flow.step, given[:, 0], error))
        else:
            methods.append(_method_step(flow, given, error))
    if len(images) and any(not model.note for model in models):
        known = {method.name for method in methods}
        others = {n: m for n, m in applicable_methods(system).items() if n not in known}
        states, step = windows[:, -1], flows[0].step
        with compiling(others, system, states, step) as ready:
            machines = {name: ready(name) for name in others}
        for name, machine in machines.items():
            if not isinstance(machine, str):
                methods.append(_rival(name, machine, step, states, error))
    with np.errstate(all="ignore"):
        return measure_steps(models, methods)


def _windows(
    flows: Sequence[NumericalFlow], system: System, reference: Reference, most: int = 100
) -> tuple[np.ndarray, np.ndarray]:
    """Return some windows of the reference, (n, window, dim), and accurate next states."""
    length, states = max(flow.window for flow in flows), reference.states
    if states.shape[1] <= length:  # nothing follows the first windows
        return states[:, :length], states[:0, 0]
    rows = np.lib.stride_tricks.sliding_window_view(states, length + 1, axis=1).swapaxes(2, 3)
    known = np.argwhere(np.isfinite(rows).all(axis=(2, 3)))
    chosen = known[np.linspace(0, len(known) - 1, min(most, len(known))).round().astype(int)]
    rows = rows[chosen[:, 0], chosen[:, 1]]  # (n, window + 1, dim)
    windows, images = rows[:, :-1], rows[:, -1]
    if reference.difference is not None and not system.is_discrete:
        # after one step from the window itself, without the error of a long solution
        step = np.array([0.0, flows[0].step])
        images = solve_reference(system, windows[:, -1], step).states[:, 1]
    return windows, images


def _model_step(
    flow: LearnedFlow, windows: np.ndarray, error: Callable[[np.ndarray], float]
) -> ModelStep:
    batch = repeat_states(windows)
    images = flow.map(windows)[:, flow.window - flow.prediction_window]
    if flow.compiled is None:

        def run(count: int) -> None:
            flow.start(batch).advance(count * flow.prediction_window)

        return ModelStep(flow.name, error(images), run, flow.prediction_window, "in PyTorch")
    machine = flow.compile(batch, None).compiled or flow.compiled  # that for many trajectories
    advance = partial(machine.advance, batch.astype(machine.dtype))
    return ModelStep(flow.name, error(images), advance, flow.prediction_window)


def _rival(
    name: str,
    machine: CompiledMethod,
    step: float,
    states: np.ndarray,
    error: Callable[[np.ndarray], float],
) -> MethodStep:
    batch = repeat_states(states)

    def error_of(substeps: int) -> float:
        return error(images_of(machine.start, states, step / substeps, substeps))

    def run(count: int, substeps: int) -> None:
        images_of(machine.start, batch, step / substeps, count)

    return MethodStep(name, error_of, run)


def _method_step(
    flow: NumericalFlow, windows: np.ndarray, error: Callable[[np.ndarray], float]
) -> MethodStep:
    batch = repeat_states(windows)

    def error_of(substeps: int) -> float:
        return error(flow.map(windows)[:, 0])

    def run(count: int, substeps: int) -> None:
        flow.start(batch).advance(count)

    note = "in NumPy" if isinstance(flow, ClassicalFlow) else ""
    return MethodStep(flow.name, error_of, run, note, is_rival=False)
