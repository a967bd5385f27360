"""Start of a comparison: maps, system, initial states, states to compare with, and steps."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Collection, Mapping, Sequence
from copy import copy
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Union

import numpy as np

from vpintegrator.arguments import not_negative, positive, real_array, whole_number
from vpintegrator.dynamics import System, load_system
from vpintegrator.dynamics.family import STEP
from vpintegrator.dynamics.plot import check_section, read_section
from vpintegrator.errors import InputError
from vpintegrator.maps import ClassicalMethod, Map, applicable_methods, classical
from vpintegrator.maps.base import check_initial
from vpintegrator.names import method_name
from vpintegrator.rollout.observed import CompleteStates, complete_states, complete_system
from vpintegrator.rollout.report import RESERVED

if TYPE_CHECKING:
    from torch import nn

    from vpintegrator.data import Dataset
    from vpintegrator.models import Model

    Mover = Map | nn.Module

# names of classical methods, methods and maps of one's own
Against = str | Sequence["str | ClassicalMethod | Map"]
Models = Union["Mover", Sequence["Mover"], Mapping[str, "Mover | Sequence[Mover]"], None]

_USUAL_METHODS = ("implicit-midpoint", "rk4")
_STEPS = 500  # default, if neither the call nor the system has a length
_REFERENCE_STEPS = 10_000  # default length of the reference
_MOST_STEPS = 10**12  # at a microsecond each, 12 days; and they are counted exactly
_STORED_TIMES = 10_000  # default number of states that are kept
_STORED_VALUES = 20_000_000  # numbers in them


def chosen_maps(
    model: Models,
    against: Against | None,
    system: System | str | None,
    step: float | None,
    dataset: Any = None,
) -> Chosen:
    """Return maps by name, names of models that share one, and the system and step of all.

    Models and maps of your own come first, then the classical methods. Families are taken at the
    step and the parameters of the system given, or else at the parameters of their own system. A
    dataset to start from tells system and step where no model does. Where it holds complete states
    behind observed ones, classical methods and maps of so many components are of these.

    Raises
    ------
    InputError
        If there are no maps, one does not fit the system, or system or step are not known.
    """
    named, seeds = single_models(model)
    if isinstance(system, str):
        system = load_system(system)
    known = {n: _member(m, step, system) for n, m in named.items() if isinstance(m, Map)}
    if named and not known and system is None and dataset is not None:
        data = as_dataset(dataset)
        system = data.system
        step = data.step if step is None else step
    system = find_system(known, system)
    step = find_step(known, system, step)
    maps = {
        n: known[n] if n in known else wrapped(m, system.dim, step=step) for n, m in named.items()
    }
    is_observed = dataset is not None and system.is_measured
    complete = complete_system(as_dataset(dataset), system) if is_observed else None
    whole = system if complete is None else complete.system
    others = {n for n, m in maps.items() if m.dim != system.dim and m.dim == whole.dim}
    maps = {n: _beside(map, whole if n in others else system, step) for n, map in maps.items()}
    if against is None:
        against = () if whole.is_measured or whole.is_discrete else _USUAL_METHODS
    methods = _classical_maps(against, whole, step)
    if not maps and not methods:
        raise InputError("there is nothing to compare: give a model or the name of a method")
    for name in methods:
        _check_name(name, {**maps, **seeds})
    of_complete = others | {*methods} if complete is not None else set()
    for name, map in (maps | methods).items():
        expected = whole if name in of_complete else system
        if map.dim != expected.dim:
            raise InputError(
                f"{name} has dim = {map.dim}, but {expected.name} has {expected.dim} components"
            )
    return Chosen(maps | methods, seeds, system, step, complete, frozenset(of_complete))


class Chosen(NamedTuple):
    """Maps of a comparison.

    Attributes
    ----------
    maps
        Maps by name.
    seeds
        Names of models that share one.
    system, step
        The system and step of all.
    complete
        Complete states behind observed ones, without any; None where the states are complete.
    of_complete
        Names of the maps of complete states.
    """

    maps: dict[str, Map]
    seeds: dict[str, list[str]]
    system: System
    step: float
    complete: CompleteStates | None
    of_complete: frozenset[str]


def single_models(model: Models) -> tuple[dict[str, Any], dict[str, list[str]]]:
    """Return models by names of their own, and the names of those that were given under one.

    Examples
    --------
    >>> from vpintegrator.rollout.start import single_models
    >>> single_models({"VPT": ["first", "second"], "RNN": ["third"]})
    ({'VPT 1': 'first', 'VPT 2': 'second', 'RNN': 'third'}, {'VPT': ['VPT 1', 'VPT 2']})
    """
    if not isinstance(model, Mapping):
        models = [] if model is None else model if isinstance(model, list | tuple) else [model]
        own_names = [getattr(each, "name", type(each).__name__) for each in models]
        counts = [own_names[:place].count(name) + 1 for place, name in enumerate(own_names)]
        names = [
            f"{name}-{k}" if k > 1 else name for name, k in zip(own_names, counts, strict=True)
        ]
        return dict(zip(names, models, strict=True)), {}
    single: dict[str, Any] = {}
    seeds: dict[str, list[str]] = {}
    for key, given in model.items():
        members = [*given] if isinstance(given, list | tuple) else [given]
        count = len(members)
        name = str(key)
        names = [name] if count == 1 else [f"{name} {k + 1}" for k in range(count)]
        for each in (name, *names):
            _check_name(each, single)
        if not members:
            raise InputError(f"'{name}' names no model")
        seeds |= {name: names} if count > 1 else {}
        single |= zip(names, members, strict=True)
    return single, seeds


def _member(map: Any, step: float | None, system: System | None) -> Any:
    if not is_model(map) or map.family is None:
        return map
    given = dict(system.parameters) if system is not None else {}
    given |= {} if step is None else {"step": step}
    return map.at(**{name: given[name] for name in map.ranges if name in given})


def _beside(map: Map, system: System, step: float) -> Map:
    """Return a map, of the same weights, that knows the system and the step of a comparison."""
    if map.kind not in ("learned", "own"):
        return map
    other: Any = copy(map)
    other.system = system
    if is_model(map):
        other.origin = replace(other.origin, step=step)
    return other


def _classical_maps(against: Against, system: System, step: float) -> dict[str, Map]:
    """Return the methods named or given, or for ``all`` every method that applies to the system.

    For a stroboscopic map the methods are those for its flow, ``rk4@64`` with 64 steps in a period.
    """
    if isinstance(against, str):
        against = [name.strip() for name in against.split(",") if name.strip()]
    if not isinstance(against, Sequence):
        raise InputError("against must be a list of names of classical methods, or of methods")
    maps: dict[str, Map] = {}
    for given in against:
        if isinstance(given, str):
            names = applicable_methods(system)[0] if given == "all" else [method_name(given)]
            maps |= {name: classical(name, system, step) for name in names}
        elif isinstance(given, Map):
            _check_name(given.name, maps)
            find_step({given.name: given}, system, step)
            maps[given.name] = _beside(given, system, step)
        elif isinstance(given, ClassicalMethod):
            _check_name(given.name, maps)
            maps[given.name] = classical(given, system, step)
        else:
            raise InputError(f"against takes names, classical methods and maps, not {given!r}")
    return maps


def _check_name(name: str, taken: Collection[str]) -> None:
    """Refuse a name that another map has, or that cannot be that of a group in the rollout file."""
    fits = re.fullmatch(r"[^/\x00\ud800-\udfff]{1,200}", name)
    if not fits or name in (*RESERVED, ".", "..", "all", *taken):
        raise InputError(f"a map cannot be named '{name}', or two have this name; rename one")


def wrapped(module: Any, dim: int, **options: Any) -> Any:
    """Return the map of a torch module of states of ``dim`` components."""
    from vpintegrator.models.wrapped import wrap  # loads torch

    return wrap(module, dim, **options)


def observed_dataset(
    model: Models, system: System | str | None, initial: Any, dataset: Any, reference: Any
) -> Any:
    """Return the dataset given, or else that of the training of a model of observed states.

    Such a model starts from observed states alone, which the dataset holds.
    """
    is_word = reference is None or isinstance(reference, str)
    if dataset is not None or initial is not None or not is_word:
        return dataset
    models = {name: map for name, map in single_models(model)[0].items() if is_model(map)}
    first: Any = next(iter(models.values()), None)
    known = None if first is None else first.system
    if known is None or not known.is_measured or not os.path.isfile(first.origin.dataset):
        return None
    if system is not None and not (isinstance(system, System) and system.is_measured):
        return None
    return recorded_dataset(models)


def find_origin(
    maps: Mapping[str, Map],
    system: System,
    window: int,
    initial: Any,
    dataset: Any,
    reference: Any,
    trajectories: int,
    seed: int,
    complete: CompleteStates | None = None,
) -> Start:
    """Return initial states, given states to compare with, a seed, and complete states.

    ``window`` is the longest one, ``complete`` the complete states behind observed ones, without
    any. Observed orbits are compared with the solution from the first complete states, unless the
    reference is the dataset itself.

    Raises
    ------
    InputError
        If the arguments contradict themselves, do not fit the maps and the system, or a dataset
        cannot be read.
    """
    count = whole_number("trajectories", trajectories, 1)
    word = reference if isinstance(reference, str) else None
    if word == "solution":
        if complete is None:
            system.require_equations("--reference solution")
        reference = None
    if word == "dataset" or dataset is not None:
        if initial is not None or not (word == "dataset" or reference is None):
            raise InputError("a dataset holds the first states; leave out others")
        models: Any = {name: map for name, map in maps.items() if is_model(map)}
        dataset = recorded_dataset(models) if dataset is None else dataset
        if complete is not None:
            return _observed_origin(dataset, models, count, system, window, word)
        whole = word == "dataset" or system.is_measured
        recorded = states_of_dataset(dataset, models, count, whole, system)
        initial, reference = (None, recorded) if whole else (recorded, None)
    if reference is not None:
        if initial is not None:
            raise InputError("a reference that is given holds the first states; leave out initial")
        reference = given_reference(system, reference, window)
        return Start(reference[:, 0], reference)
    if initial is not None and not (system.is_measured and window > 1):
        return Start(check_initial(system, initial))
    if system.is_measured:
        raise InputError(
            f"no equations of {system.name} are known, so there are no random initial states; a "
            f"model that reads {window} states starts from measured ones: give --dataset "
            "(reference=... in Python)"
        )
    return Start(system.sample_initial(count, np.random.default_rng(seed)), seed=seed)


class Start(NamedTuple):
    """Start of the orbits of a comparison.

    Attributes
    ----------
    initial
        Initial states, (trajectory, dim).
    given
        States to compare with, (trajectory, time, dim); None where they are to be solved for.
    seed
        Seed of the initial states; None where they are given.
    complete
        Complete states behind observed ones; None where the states are complete.
    """

    initial: np.ndarray
    given: np.ndarray | None = None
    seed: int | None = None
    complete: CompleteStates | None = None


def _observed_origin(
    dataset: Any,
    models: Mapping[str, Any],
    count: int,
    system: System,
    window: int,
    word: str | None,
) -> Start:
    """Return the start of observed orbits, behind which complete states are known."""
    data = as_dataset(dataset)
    places = matching_trajectories(data, models, system)[:count]
    complete = complete_states(data, places, system)
    if word == "dataset":
        given = given_reference(system, data.states("test", places), window)
        return Start(given[:, 0], given, complete=complete)
    return Start(complete.observe(complete.initial), complete=complete)


def is_model(map: Any) -> bool:
    """Whether a map is a model, with the origin of its training; machine code of one has none."""
    if getattr(map, "kind", "") != "learned":
        return False
    from vpintegrator.models.model import Model  # loads torch

    return isinstance(map, Model)


def find_system(models: Mapping[str, Any], system: System | str | None) -> System:
    """Return the system given, or else that of the training of models, or of own maps.

    Raises
    ------
    InputError
        If there is none, or models were trained on different ones.
    """
    if system is not None:
        return system if isinstance(system, System) else load_system(system)
    systems = {name: map.system for name, map in models.items() if is_model(map)}
    known = [own for own in systems.values() or (map.system for map in models.values()) if own]
    if not known and not systems:
        raise InputError("no model or map says which system it is for; give system")
    if len(known) < len(systems) or not all(_are_equal(known[0], own) for own in known):
        raise InputError(
            f"{', '.join(systems)}: some model does not say which system it was trained on, or "
            "they were trained on different systems or parameters; compare them one at a time, or "
            "give the system"
        )
    return known[0]


def _are_equal(first: System, second: System) -> bool:
    return first.text == second.text and first.definitions == second.definitions


def check_agreement(models: Mapping[str, Model], system: System) -> None:
    """Raise InputError if a model was trained on another system, or with other parameters.

    A model without one, imported or trained in code of one's own, agrees with any system.
    """
    for name, model in models.items():
        known = model.system
        if known is not None and not _are_equal(known, system):
            raise InputError(
                f"the model {name} was trained on {known.name}, with other equations or parameters "
                f"than the {system.name} given; leave out the system and its parameters"
            )


def given_reference(system: System, reference: Any, window: int) -> np.ndarray:
    """Return given states to compare with, (trajectory, time, dim), with known first windows.

    Raises
    ------
    InputError
        If they have another shape, or no trajectory begins with a whole window.
    """
    states = real_array("reference", reference, ("trajectory", "time", "dim"))
    if states.shape[2] != system.dim or states.shape[1] < window + 1:
        raise InputError(
            f"reference has shape {states.shape}, but a comparison needs states of {system.dim} "
            f"components at {window + 1} times or more: a model reads {window} and predicts the "
            "next"
        )
    states = states[np.isfinite(states[:, :window]).all(axis=(1, 2))]
    if not len(states):
        raise InputError(
            f"no trajectory of the reference begins with {window} states that are all observed"
        )
    seen = np.flatnonzero(np.isfinite(states).any(axis=(0, 2)))
    return states[:, : seen[-1] + 1]


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
    data = as_dataset(dataset)
    if not whole:
        _check_test_group(data)
        initial = data.states("test", slice(None), 0)
        return initial[np.isfinite(initial).all(axis=1)][:trajectories]
    return data.states("test", matching_trajectories(data, models, system)[:trajectories])


def _check_test_group(data: Dataset) -> None:
    if 0 in data.shapes.get("test", (0,)):
        raise InputError(f"{data.path} has no test trajectories to start from")


def matching_trajectories(data: Dataset, models: Mapping[str, Any], system: System) -> np.ndarray:
    """Return numbers of test trajectories with the parameters of a system and the models' step.

    Raises
    ------
    InputError
        If there are none.
    """
    _check_test_group(data)
    step = None if models and STEP in data.varied else data.step
    wanted = {STEP: find_step(models, system, step, f"that of {data.path}"), **system.parameters}
    values = [float(wanted.get(name, math.nan)) for name in data.varied]
    conditions = data.conditions("test")
    matching = np.flatnonzero(np.isclose(conditions, np.array(values), 1e-9, 0.0).all(axis=1))
    if not len(matching):
        asked, first = (
            ", ".join(f"{name} = {value:.6g}" for name, value in zip(data.varied, row, strict=True))
            for row in (values, conditions[0])
        )
        raise InputError(
            f"no test trajectory of {data.path} has {asked}; name the values of one (the first "
            f"has {first}), or give initial states (--initial; initial=... in Python)"
        )
    return matching


def as_dataset(dataset: Any) -> Dataset:
    """Return a dataset, or that of a file."""
    from vpintegrator.data import Dataset, open_dataset

    return dataset if isinstance(dataset, Dataset) else open_dataset(dataset)


def recorded_dataset(models: Mapping[str, Model]) -> Path:
    """Return the dataset of the first model's training, if it is still at its path.

    Raises
    ------
    InputError
        If it is not, is another one now, or there is no model.
    """
    if not models:
        raise InputError("without a model, give the dataset to compare with by --dataset")
    name, model = next(iter(models.items()))
    recorded = model.origin.dataset
    there = os.path.isfile(recorded)
    if there and as_dataset(recorded).fingerprint == model.origin.fingerprint:
        return Path(recorded)
    what = f"{recorded} has changed since {name} was trained on it"
    if not there:
        what = f"the dataset that {name} was trained on is not found at {recorded or 'any path'}"
    raise InputError(f"{what}; give it, or another of the same kind, with --dataset")


def find_step(
    maps: Mapping[str, Any], system: System, step: float | None, source: str = "the step given"
) -> float:
    """Return the step of maps, ``step`` if it is given, or that which the system suggests.

    Raises
    ------
    InputError
        If there is none, or maps have others; ``source`` says where ``step`` is from.
    """
    step = None if step is None else positive("step", step)
    for name, map in maps.items():
        if is_model(map) and map.origin.step is None:
            continue
        usual = float(map.step)
        is_for = "was trained for" if is_model(map) else "has"
        if step is not None and not math.isclose(step, usual, rel_tol=1e-12):
            raise InputError(
                f"{name} {is_for} the step {usual:g}, but {source} is {step:g}; a map has one step"
            )
        step = usual
        source = f"that of {name}"
    if step is None:
        step = system.defaults.get("step")
    elif system.is_discrete and step != 1:
        raise InputError(f"a step of {system.name}, a map, is one iteration, not {step:g}")
    if step is None:
        raise InputError(f"{system.name} suggests no step; give step")
    return float(step)


def lengths(
    system: System,
    step: float,
    time: float | None,
    steps: int | None,
    reference_time: float | None,
    given: np.ndarray | None,
    is_solved: bool = False,
) -> tuple[int, int]:
    """Return the steps of a comparison, and those of its reference, solved for or given.

    ``is_solved`` says whether there is a solution although the states are observed.

    Raises
    ------
    InputError
        If time and steps are given, or the number is not from 1 to 10^12.
    """
    if time is not None and steps is not None:
        raise InputError("give either time or steps, not both")
    if time is None and steps is None and given is not None:
        steps = given.shape[1] - 1
    if steps is None:
        time = system.defaults.get("time", _STEPS * step) if time is None else time
        if not (math.isfinite(time) and time >= step / 2):
            raise InputError(f"time = {time!r} must be at least one step, {step:g}")
        steps = max(round(min(time / step, _MOST_STEPS + 1)), 1)
    steps = whole_number("steps", steps, 1)
    if steps > _MOST_STEPS:
        raise InputError(f"more than {_MOST_STEPS:,} steps of {step:g} would take too long")
    known = steps if given is not None else min(steps, _REFERENCE_STEPS)
    if reference_time is not None:
        known = round(min(not_negative("reference_time", reference_time) / step, steps))
    if given is None:  # nothing is known of measured systems
        return steps, 0 if system.is_measured and not is_solved else known
    return steps, min(known, given.shape[1] - 1)


def stored_steps(steps: int, every: int | None, initial: np.ndarray) -> tuple[np.ndarray, int]:
    """Return the steps at which states are kept, the first and the last included, and ``every``."""
    if every is None:
        room = max(min(_STORED_TIMES, _STORED_VALUES // initial.size), 1)
        every = max(math.ceil(steps / room), 1)
    every = min(whole_number("every", every, 1), steps)
    return np.unique(np.append(np.arange(0, steps + 1, every), steps)), every


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
