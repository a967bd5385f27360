"""Start and length of a comparison: its system, initial states, states to compare with, steps."""

from __future__ import annotations

import contextlib
import math
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from vpintegrator.arguments import check_integrator, of_kind, whole_number
from vpintegrator.dynamics import System, load_system
from vpintegrator.dynamics.family import STEP
from vpintegrator.dynamics.plot import check_section, read_section
from vpintegrator.errors import InputError
from vpintegrator.maps import Map
from vpintegrator.maps.base import check_initial
from vpintegrator.storage.reading import read_json

if TYPE_CHECKING:
    from vpintegrator.data import Dataset
    from vpintegrator.models import Model

Origin = tuple[np.ndarray, np.ndarray | None, int | None]


_TOLD = 3  # trajectories whose conditions are listed
_STEPS = 500  # default, if neither the call nor the system has a length
_REFERENCE_STEPS = 10_000  # default length of the reference
_MOST_STEPS = 10**12  # at a microsecond each, 12 days; and they are counted exactly
_STORED_TIMES = 10_000  # default number of states that are kept
_STORED_VALUES = 20_000_000  # numbers in them


def find_origin(
    maps: Mapping[str, Map],
    system: System,
    window: int,
    *,
    initial: Any,
    dataset: Any,
    reference: Any,
    trajectories: int,
    seed: int,
) -> Origin:
    """Return initial states (trajectory, dim), given states to compare with, and a seed.

    Given states are (trajectory, time, dim), None where they are to be solved for. The seed is that
    of the initial states, None where they are given. ``window`` is the longest one.

    Raises
    ------
    InputError
        If the arguments contradict themselves, do not fit the maps and the system, or a dataset
        cannot be read.
    """
    if isinstance(reference, str) and reference == "solution":
        system.require_equations("--reference solution")
        reference = None
    recorded = isinstance(reference, str) and reference == "dataset"
    if recorded or dataset is not None:
        if initial is not None or not (recorded or reference is None):
            raise InputError("a dataset holds the first states; leave out others")
        models = learned(maps)
        dataset = recorded_dataset(models) if dataset is None else dataset
        whole_states = recorded or system.is_measured
        count = whole_number("trajectories", trajectories, 1)
        found = states_of_dataset(dataset, models, count, whole_states, system)
        initial, reference = (None, found) if whole_states else (found, None)
    if reference is not None:
        if initial is not None:
            raise InputError("a reference that is given holds the first states; leave out initial")
        reference = given_reference(system, reference, window)
        return reference[:, 0], reference, None
    if system.is_measured:
        return initial_of_measured(system, initial, window), None, None
    initial, own_seed = initial_states(system, initial, trajectories, seed)
    return initial, None, own_seed


def learned(maps: Mapping[str, Map]) -> dict[str, Any]:
    """Return the models of maps by name."""
    return {name: map for name, map in maps.items() if is_model(map)}


def is_model(map: Any) -> bool:
    """Whether a map is a model, with metadata of its training; machine code of one has none."""
    return hasattr(map, "metadata")


def find_system(models: Mapping[str, Any], system: System | str | None) -> System:
    if isinstance(system, System):
        return system
    if system is not None:
        return load_system(system)
    found: dict[str, tuple[str, str]] = {}
    others = [map.system for map in models.values() if not is_model(map) and map.system]
    for name, model in learned(models).items():
        text = model.metadata.get("system")
        if text is None:
            raise InputError(
                f"the model {name} does not say which system it was trained on; give system"
            )
        found[name] = (text, model.metadata.get("parameters", "{}"))
    if not found and others:
        return others[0]
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


def check_agreement(models: Mapping[str, Model], system: System) -> None:
    """Raise InputError if a model was trained on another system, or with other parameters.

    A model without metadata, imported or trained in code of one's own, agrees with any system.
    """
    for name, model in models.items():
        if "system" not in model.metadata:
            continue
        own = find_system({name: model}, None)
        if own.text != system.text or own.definitions != system.definitions:
            other = (
                "other parameters" if own.text == system.text else f"the equations {system.name}"
            )
            raise InputError(
                f"the model {name} holds {own.name}, on which it was trained, and was given "
                f"{other}; leave out the system and its parameters"
            )


def initial_states(
    system: System, initial: Any, trajectories: int, seed: int
) -> tuple[np.ndarray, int | None]:
    """Return initial states (trajectory, dim), and the seed if they are drawn."""
    if initial is not None:
        return check_initial(system, initial), None
    count = whole_number("trajectories", trajectories, 1)
    check_memory(f"{count:,} initial states", count * system.dim, "take fewer trajectories")
    return system.sample_initial(count, np.random.default_rng(seed)), seed


def given_reference(system: System, reference: Any, window: int) -> np.ndarray:
    """Return given states to compare with, (trajectory, time, dim), with known first windows.

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
    """Return initial states for a system without equations and without a reference."""
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


def states_of_dataset(
    dataset: Dataset | str | os.PathLike[str],
    models: Mapping[str, Any],
    trajectories: int,
    whole: bool,
    system: System,
) -> np.ndarray:
    """Return the first test trajectories of a dataset, (trajectory, time, dim).

    If ``whole`` is false, return their initial states, (trajectory, dim), where these were
    observed. Of trajectories with steps or parameters of their own, whole ones are those with the
    step of the models and the parameters of the system.

    Raises
    ------
    InputError
        If the dataset cannot be read, or does not fit the models.
    """
    from vpintegrator.data import Dataset, open_dataset

    data = dataset if isinstance(dataset, Dataset) else open_dataset(dataset)
    for name, model in models.items():
        if model.dim != data.dim:
            raise InputError(
                f"{name} is for states of {model.dim} components, but {data.path} holds states of "
                f"{data.dim}"
            )
    if 0 in data.shapes.get("test", (0,)):
        raise InputError(f"{data.path} has no test trajectories to start from")
    if whole:
        step = None if STEP in data.varied else data.step
        for name, model in models.items():
            trained = _own_step(model)
            step = trained if step is None else step
            if trained is not None and not math.isclose(trained, step or 0.0, rel_tol=1e-12):
                raise InputError(
                    f"{name} was trained for the step {trained:g}, but that of {data.path} is "
                    f"{step:g}; a learned map has one step"
                )
        return data.states("test", _members(data, system, step)[:trajectories])
    initial = data.states("test", slice(None), 0)
    known = initial[np.isfinite(initial).all(axis=1)]
    if not len(known):
        raise InputError(f"{data.path}: no test trajectory has an observed initial state")
    return known[:trajectories]


def _members(data: Dataset, system: System, step: float | None) -> np.ndarray:
    """Return the numbers of the test trajectories with this step and the system's parameters."""
    own = data.conditions("test")
    wanted: dict[str, Any] = {STEP: step, **system.parameters}
    values = [wanted.get(name, math.nan) for name in data.varied]
    found = np.flatnonzero(np.isclose(own, np.array(values, dtype=float), 1e-9, 0.0).all(axis=1))
    if not len(found):

        def told(row: Sequence[Any]) -> str:
            return ", ".join(f"{name} = {v}" for name, v in zip(data.varied, row, strict=True))

        there = "; ".join(told(row) for row in own[:_TOLD].tolist())
        raise InputError(
            f"no test trajectory of {data.path} has {told(values)}; name the values of one (the "
            f"first have {there}), or give initial states (--initial; initial=... in Python)"
        )
    return found


def recorded_dataset(models: Mapping[str, Model]) -> Path:
    """Return the dataset of the first model's training, if it is still at its path.

    Parameters
    ----------
    models
        Models by their names.

    Raises
    ------
    InputError
        If it is not, is another one now, or there is no model.

    Examples
    --------
    >>> vp.rollout.recorded_dataset({"mine": vp.models.ResidualNetwork(dim=2)})
    Traceback (most recent call last):
    vpintegrator.errors.InputError: ...
    """
    from vpintegrator.data import open_dataset

    of_kind("models", models, Mapping, "a dictionary of models by name")
    if not models:
        raise InputError("without a model, give the dataset to compare with by --dataset")
    name, model = next(iter(models.items()))
    check_integrator(model)
    recorded = model.metadata.get("dataset")
    # the model may be a stranger's: no device or pipe, which never ends, and no other machine,
    # which would be told who asks
    network = recorded is not None and recorded.startswith(("//", r"\\"))
    if recorded is None or network or not os.path.isfile(recorded):
        at = "" if recorded is None else f" at {recorded}"
        raise InputError(
            f"the dataset that {name} was trained on is not found{at}; give it, or another of "
            "the same kind, with --dataset"
        )
    if open_dataset(recorded).fingerprint != model.metadata.get("dataset_fingerprint"):
        raise InputError(
            f"{recorded} has changed since {name} was trained on it; if that is meant, give it "
            "with --dataset"
        )
    return Path(recorded)


def find_step(maps: Mapping[str, Any], system: System, step: float | None) -> float:
    if step is not None and not (math.isfinite(step) and step > 0):
        raise InputError(f"step = {step!r} must be a positive number")
    source = "the step given"
    for name, map in maps.items():
        own, what = _own_step(map), "model" if map.kind == "learned" else "map"
        if own is None:
            continue
        if step is not None and not math.isclose(step, own, rel_tol=1e-12):
            is_for = "was trained for" if what == "model" else "has"
            raise InputError(
                f"the {what} {name} {is_for} the step {own:g}, but {source} is {step:g}; a "
                f"{'learned ' * (what == 'model')}map has one step"
            )
        step, source = own, f"that of the {what} {name}"
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
        f"{steps // every + 2:,} states of each trajectory", values, "keep fewer (a larger every)"
    )
    return np.unique(np.append(np.arange(0, steps + 1, every), steps)), every


def reference_steps(step: float, steps: int, reference_time: float | None) -> int:
    """Return the number of steps of the reference."""
    if reference_time is None:
        return min(steps, _REFERENCE_STEPS)
    if not (math.isfinite(reference_time) and reference_time >= 0):
        raise InputError(f"reference_time = {reference_time!r} must be a time, 0 or more")
    return round(min(reference_time / step, steps))


def section_plane(
    system: System, section: str | tuple[str, float, int] | None
) -> tuple[str, float, int] | None:
    """Return component, value and direction of a Poincare section.

    ``"q[0] = 0"`` is crossed upwards, ``"-q[0] = 0"`` downwards. ``auto`` is the section of the
    system file; otherwise once in a period for equations periodic in time, q[0] = 0 for Hamiltonian
    systems of two degrees of freedom, and none for others.
    """
    if section is None or section == "none":
        return None
    if section == "auto":
        if system.plot.section is not None:
            return system.plot.section
        if system.time is not None:
            return (system.time, 0.0, 1) if system.period else None
        return (system.components[0], 0.0, 1) if system.is_hamiltonian and system.dim == 4 else None
    if isinstance(section, str):
        return read_section(section, system.components, "section")
    return check_section(section, system.components, "section")


def check_memory(what: str, values: float, advice: str) -> None:
    """Say before they are made that so many float64 numbers do not fit into the memory.

    Raises
    ------
    InputError
        If they do not; ``what`` says what they are, ``advice`` how to ask for fewer.
    """
    needed, there = 8 * values, _memory()
    if needed > there:
        raise InputError(
            f"{what} would need {in_bytes(needed)} of memory, and this machine has "
            f"{in_bytes(there)}; {advice}"
        )


def in_bytes(size: float) -> str:
    """Return a number of bytes in words."""
    unit, scale = ("GiB", 2**30) if size >= 2**30 else ("MiB", 2**20)
    return f"{size / scale:,.1f} {unit}"


def _memory() -> float:
    """Return the bytes of memory of this machine, infinite if not known."""
    with contextlib.suppress(AttributeError, ValueError, OSError):
        return float(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    return float("inf")


def _own_step(map: Any) -> float | None:
    """Return the step of a map; None of a model whose metadata have none."""
    known = not is_model(map) or "step" in map.metadata
    return float(map.step) if known else None
