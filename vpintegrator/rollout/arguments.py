"""What a comparison is asked for, checked and completed."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from vpintegrator.dynamics import System, load_system
from vpintegrator.dynamics.plot import check_section, read_section
from vpintegrator.errors import InputError
from vpintegrator.reading import read_json
from vpintegrator.rollout.classical import METHODS, ClassicalMethod, find_method
from vpintegrator.rollout.classical.integrate import check_initial
from vpintegrator.rollout.file_writing import RESERVED
from vpintegrator.rollout.flow import trained_step
from vpintegrator.rollout.memory import check_memory

if TYPE_CHECKING:
    from vpintegrator.models import Integrator

_STEPS = 500  # where neither the call nor the system says how long
_REFERENCE_STEPS = 10_000  # where the call does not say how far the reference goes
_MOST_STEPS = 10**12  # at a microsecond each, 12 days; and they are counted exactly
_STORED_TIMES = 10_000  # where the call does not say how many states are kept
_STORED_VALUES = 20_000_000  # numbers in them


def named_models(
    model: Integrator | Sequence[Integrator] | Mapping[str, Integrator] | None,
) -> dict[str, Integrator]:
    """Models by name: that given, or that of the architecture, numbered where it is taken."""
    if model is None:
        return {}
    if isinstance(model, Mapping):
        for name in model:
            # the name becomes that of a group in the file
            fit = re.fullmatch(r"[^/\x00\ud800-\udfff]{1,200}", str(name))
            if not fit or name in (*RESERVED, ".", ".."):
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


def classical_methods(
    against: str | Sequence[str], models: Mapping[str, Any], system: System
) -> dict[str, ClassicalMethod]:
    """The methods named, or for ``all`` every one that applies to the system."""
    if isinstance(against, str):
        against = [name.strip() for name in against.split(",") if name.strip()]
    methods: dict[str, ClassicalMethod] = {}
    for name in against:
        if name == "all" and system.is_measured:
            continue
        if name == "all":
            methods |= applicable_methods(system)[0]
            continue
        methods[name] = find_method(name)
        system.require_equations(name)
        methods[name].check(system)
    for name in methods:
        if name in models:
            raise InputError(f"a model and a classical method are both named '{name}'; rename one")
    return methods


def applicable_methods(system: System) -> tuple[dict[str, ClassicalMethod], dict[str, str]]:
    """All classical methods that apply to a system, and why the others do not, by name.

    Of two names of one map the first counts.
    """
    methods: dict[str, ClassicalMethod] = {}
    reasons = {}
    for name, method in METHODS.items():
        try:
            system.require_equations(name)
            method.check(system)
        except InputError as error:
            reasons[name] = str(error)
            continue
        same = next((n for n, m in methods.items() if m.is_same_map(method)), None)
        if same is None:
            methods[name] = method
        else:
            reasons[name] = f"{name} is the same map as {same}"
    return methods, reasons


def find_system(models: Mapping[str, Integrator], system: System | str | None) -> System:
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
    source = f"system of the model {first}"
    return System(text, system_name, read_json(parameters, f"{source}, parameters"), source=source)


def check_agreement(models: Mapping[str, Integrator], system: System) -> None:
    """InputError where a model was trained on another system, or with other parameters.

    A model without metadata, imported or trained in code of one's own, agrees with any system.
    """
    for name, model in models.items():
        if "system" not in model.metadata:
            continue
        own = find_system({name: model}, None)
        if own.text != system.text or own.definitions != system.definitions:
            what = "parameters" if own.text == system.text else "system"
            raise InputError(
                f"the model {name} was trained on {own.name} and holds it, with other {what} than "
                f"those of the {system.name} given; leave out the system and its parameters"
            )


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
    steps = whole("steps", steps, 1)
    if steps > _MOST_STEPS:
        raise InputError(
            f"more than {_MOST_STEPS:,} steps of {step:g} would take too long; take a shorter "
            "time, or a longer step"
        )
    return steps


def initial_states(
    system: System, initial: Any, trajectories: int, seed: int
) -> tuple[np.ndarray, int | None]:
    """Initial states (trajectory, dim), and the seed where they are drawn."""
    if initial is not None:
        return check_initial(system, initial), None
    count = whole("trajectories", trajectories, 1)
    check_memory(f"{count:,} initial states", count * system.dim, "take fewer trajectories")
    return system.sample_initial(count, np.random.default_rng(seed)), seed


def given_reference(system: System, reference: Any, window: int) -> np.ndarray:
    """States to compare with, (trajectory, time, dim), of trajectories whose first window is known.

    Raises
    ------
    InputError
        If they have another shape, or no trajectory begins with a whole window.
    """
    try:
        states = np.asarray(reference, dtype=np.float64)
    except (TypeError, ValueError):
        raise InputError("reference is not an array of numbers") from None
    if states.ndim != 3 or states.shape[2] != system.dim or 0 in states.shape:
        raise InputError(
            f"reference has shape {states.shape}, but states of {system.name} have shape "
            f"(trajectory, time, {system.dim})"
        )
    if states.shape[1] < window + 1:
        raise InputError(
            f"reference has {states.shape[1]} times, but a model reads {window} states and "
            f"predicts the next; give {window + 1} times or more"
        )
    states = states[np.isfinite(states[:, :window]).all(axis=(1, 2))]
    if not len(states):
        raise InputError(
            f"no trajectory of the reference begins with {window} states that are all observed"
        )
    seen = np.flatnonzero(np.isfinite(states).any(axis=(0, 2)))
    return states[:, : seen[-1] + 1]


def initial_of_measured(system: System, initial: Any, window: int) -> np.ndarray:
    """Initial states for a system without equations and without a reference."""
    if initial is None:
        raise InputError(
            f"{system.name} was measured, so there are no random initial states; start from the "
            "measured ones with --dataset (reference=... in Python)"
        )
    if window > 1:
        raise InputError(
            f"a model reads {window} states, and no equations of {system.name} are known that "
            "make them from the first; start from measured ones with --dataset (reference=... in "
            "Python)"
        )
    return check_initial(system, initial)


def stored_steps(steps: int, every: int | None, initial: np.ndarray) -> tuple[np.ndarray, int]:
    """Steps at which states are kept, the first and the last among them, and their distance."""
    if every is None:
        room = max(min(_STORED_TIMES, _STORED_VALUES // initial.size), 1)
        every = max(math.ceil(steps / room), 1)
    every = min(whole("every", every, 1), steps)
    values = (steps // every + 2) * initial.size
    check_memory(
        f"{steps // every + 2:,} states of each trajectory", values, "keep fewer (--every)"
    )
    return np.unique(np.append(np.arange(0, steps + 1, every), steps)), every


def reference_steps(step: float, steps: int, reference_time: float | None) -> int:
    """How many steps the reference goes along."""
    if reference_time is None:
        return min(steps, _REFERENCE_STEPS)
    if not (math.isfinite(reference_time) and reference_time >= 0):
        raise InputError(f"reference_time = {reference_time!r} must be a time, 0 or more")
    return round(min(reference_time / step, steps))


def section_plane(
    system: System, section: str | tuple[str, float, int] | None
) -> tuple[str, float, int] | None:
    """Component, value and direction of a Poincare section.

    ``"q[0] = 0"`` is passed upwards, ``"-q[0] = 0"`` downwards; ``auto`` is the section that the
    system file names, else q[0] = 0 for a Hamiltonian system of two degrees of freedom, where
    orbits of one energy pass a plane, and none for others.
    """
    if section is None or section == "none":
        return None
    if section == "auto":
        if system.plot.section is not None:
            return system.plot.section
        return (system.components[0], 0.0, 1) if system.is_hamiltonian and system.dim == 4 else None
    if isinstance(section, str):
        return read_section(section, system.components, "section")
    return check_section(section, system.components, "section")


def whole(name: str, value: Any, least: int) -> int:
    """A whole number, ``least`` or more, or InputError."""
    number = isinstance(value, int | float | np.number) and math.isfinite(value)
    if isinstance(value, bool) or not number or int(value) != value or value < least:
        raise InputError(f"{name} = {value!r} must be a whole number, {least} or more")
    return int(value)
