"""Learned and classical methods side by side, from the same initial states."""

from __future__ import annotations

import json
import math
import re
import time as clock
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from vpintegrator.dynamics import System, load_system
from vpintegrator.errors import InputError
from vpintegrator.rollout.classical import OneStepMethod, find_method, integrate
from vpintegrator.rollout.classical.integrate import check_initial
from vpintegrator.rollout.diagnostics import step_log_determinant, window_log_determinant
from vpintegrator.rollout.neural import rollout
from vpintegrator.rollout.reference import solve_reference
from vpintegrator.rollout.report import Report, Run
from vpintegrator.rollout.store import REFERENCE

if TYPE_CHECKING:
    from vpintegrator.models import Integrator

Progress = Callable[[str, int, int], None]

_STEPS = 500  # where neither the call nor the system says how long
_VOLUME_SAMPLES = 60  # times at which the determinant is measured


def compare(
    model: Integrator | Sequence[Integrator] | Mapping[str, Integrator] | None,
    against: Sequence[str] = ("implicit-midpoint", "rk4"),
    *,
    initial: Any = None,
    time: float | None = None,
    steps: int | None = None,
    step: float | None = None,
    seed: int = 0,
    trajectories: int = 12,
    system: System | str | None = None,
    progress: Progress | None = None,
) -> Report:
    """Roll out models and classical methods beside a reference solution.

    Parameters
    ----------
    model
        A trained model, several, or several by name; None for classical methods alone.
    against
        Names of classical methods.
    initial
        Initial states, (trajectory, dim). By default ``trajectories`` states are drawn from the
        distribution that the system suggests.
    time, steps
        How long: a time, rounded to whole steps, or a number of steps. By default the ``time`` that
        the system suggests, else 500 steps.
    step
        Time step; by default the one the models were trained for, else the one the system suggests.
    seed, trajectories
        Seed and number of initial states.
    system
        By default the one that the models were trained on.
    progress
        Called with a method's name (``"reference"`` first), steps done, and steps in all.

    Returns
    -------
    Report
        States of each method and the reference, with errors, invariants, volumes and cost.

    Raises
    ------
    InputError
        If an argument is wrong, the models do not belong together, or a classical method does not
        apply to the system.

    Notes
    -----
    The first window of a model with ``window`` > 1 is taken from the reference. Wall times are
    those of one batch of all trajectories after a first step that is not counted.
    """
    models = _named(model)
    methods = _classical(against, models)
    if not models and not methods:
        raise InputError("there is nothing to compare: give a model or the name of a method")
    system = _system(models, system)
    step = _step(models, system, step)
    count = _steps(system, step, time, steps)
    for method in methods.values():
        method.check(system)
    for name, m in models.items():
        if m.dim != system.dim:
            raise InputError(
                f"the model {name} has dim = {m.dim}, but {system.name} has {system.dim} components"
            )
    given = initial is not None
    if not given:
        if isinstance(trajectories, bool) or int(trajectories) != trajectories or trajectories < 1:
            raise InputError(f"trajectories = {trajectories!r} must be a whole number, 1 or more")
        initial = system.sample_initial(int(trajectories), np.random.default_rng(seed))
    initial = check_initial(system, initial)

    times = step * np.arange(count + 1)
    # first windows come from the reference even where a window is longer than the rollout
    longest = max([count + 1, *(m.window for m in models.values())])
    reference = solve_reference(system, initial, step * np.arange(longest), progress)
    runs = {}
    for name, m in models.items():
        window = reference.states[:, : m.window]
        runs[name] = _run_model(name, m, window, count, _renamed(progress, name))
    for name, method in methods.items():
        runs[name] = _run_method(method, system, initial, step, count, progress)
    return Report(
        system=system,
        step=step,
        times=times,
        reference=reference.states[:, : count + 1],
        reference_error=reference.error,
        runs=runs,
        seed=None if given else seed,
    )


def _run_model(
    name: str, model: Integrator, window: np.ndarray, steps: int, progress: Progress | None
) -> Run:
    rollout(model, window, model.window)  # one call, to warm up
    start = clock.perf_counter()
    states = rollout(model, window, steps, progress).astype(np.float64)
    seconds = clock.perf_counter() - start
    index = _thinned(np.arange(0, max(steps + 2 - model.window, 0), model.prediction_window))
    rows = index[:, None] + np.arange(model.window)
    return Run(
        name=name,
        kind="learned",
        method=model.name,
        title=name,
        description=model.description,
        order=None,
        states=states,
        volume_index=index,
        log_determinant=window_log_determinant(model, states[:, rows]),
        seconds_per_step=_per_step(seconds, steps + 1 - model.window, len(states)),
        window=model.window,
        prediction_window=model.prediction_window,
    )


def _run_method(
    method: OneStepMethod,
    system: System,
    initial: np.ndarray,
    step: float,
    steps: int,
    progress: Progress | None,
) -> Run:
    method.step(system, initial, step)
    start = clock.perf_counter()
    states = integrate(system, method, initial, step, steps, progress)
    seconds = clock.perf_counter() - start
    index = _thinned(np.arange(steps + 1))
    return Run(
        name=method.name,
        kind="classical",
        method=method.name,
        title=method.title,
        description=method.source,
        order=method.order,
        states=states,
        volume_index=index,
        log_determinant=step_log_determinant(method, system, states[:, index], step),
        seconds_per_step=_per_step(seconds, steps, len(states)),
    )


def _per_step(seconds: float, steps: int, trajectories: int) -> float:
    return seconds / (steps * trajectories) if steps > 0 else math.nan


def _thinned(index: np.ndarray) -> np.ndarray:
    """At most _VOLUME_SAMPLES of the indices, evenly spread, the ends among them."""
    if len(index) <= _VOLUME_SAMPLES:
        return index
    return index[np.linspace(0, len(index) - 1, _VOLUME_SAMPLES).round().astype(int)]


def _renamed(progress: Progress | None, name: str) -> Progress | None:
    if progress is None:
        return None
    return lambda _, done, total: progress(name, done, total)


def _named(
    model: Integrator | Sequence[Integrator] | Mapping[str, Integrator] | None,
) -> dict[str, Integrator]:
    if model is None:
        return {}
    if isinstance(model, Mapping):
        for name in model:
            # the name becomes that of a group in the file
            if not re.fullmatch(r"[^/\x00]+", str(name)) or name in (REFERENCE, ".", ".."):
                raise InputError(f"a model cannot be named '{name}'; choose another name")
        return dict(model)
    models = list(model) if isinstance(model, Sequence) else [model]
    named: dict[str, Integrator] = {}
    for m in models:
        name, number = m.name, 1
        while name in named:
            number += 1
            name = f"{m.name}-{number}"
        named[name] = m
    return named


def _classical(against: Sequence[str], models: Mapping[str, Any]) -> dict[str, OneStepMethod]:
    if isinstance(against, str):
        against = [name.strip() for name in against.split(",") if name.strip()]
    methods = {}
    for name in against:
        if name in models:
            raise InputError(f"a model and a classical method are both named '{name}'; rename one")
        methods[name] = find_method(name)
    return methods


def _system(models: Mapping[str, Integrator], system: System | str | None) -> System:
    if isinstance(system, System):
        return system
    if system is not None:
        return load_system(system)
    found: dict[str, tuple[str, str]] = {}
    for name, model in models.items():
        text = model.metadata.get("system")
        if text is None:
            raise InputError(
                f"the model {name} does not say which system it was trained on; give system"
            )
        found[name] = (text, model.metadata.get("parameters", "{}"))
    if not found:
        raise InputError("without a model, give the system")
    first, (text, parameters) = next(iter(found.items()))
    for other, origin in found.items():
        if origin != (text, parameters):
            raise InputError(
                f"the models {first} and {other} were trained on different systems or parameters; "
                "compare them one at a time, or give the system"
            )
    system_name = models[first].metadata.get("system_name")
    return System(text, system_name, json.loads(parameters), source=f"system of the model {first}")


def _step(models: Mapping[str, Integrator], system: System, step: float | None) -> float:
    if step is not None and not (math.isfinite(step) and step > 0):
        raise InputError(f"step = {step!r} must be a positive number")
    source = "the step given"
    for name, model in models.items():
        if "step" not in model.metadata:
            continue
        trained = float(model.metadata["step"])
        if step is not None and not math.isclose(step, trained, rel_tol=1e-12):
            raise InputError(
                f"the model {name} was trained for the step {trained:g}, but {source} is {step:g}; "
                "a learned map has one step"
            )
        step, source = trained, f"that of the model {name}"
    if step is None:
        step = system.defaults.get("step")
    if step is None:
        raise InputError(f"{system.name} suggests no step; give step")
    return float(step)


def _steps(system: System, step: float, time: float | None, steps: int | None) -> int:
    if time is not None and steps is not None:
        raise InputError("give either time or steps, not both")
    if steps is not None:
        if isinstance(steps, bool) or int(steps) != steps or steps < 1:
            raise InputError(f"steps = {steps!r} must be a whole number, 1 or more")
        return int(steps)
    if time is None:
        time = system.defaults.get("time")
    if time is None:
        return _STEPS
    if not (math.isfinite(time) and time >= step / 2):
        raise InputError(f"time = {time!r} must be at least one step, {step:g}")
    return max(round(time / step), 1)
