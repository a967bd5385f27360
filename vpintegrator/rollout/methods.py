"""Maps in a comparison: models and own maps by name, and classical methods that apply."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from copy import copy
from typing import TYPE_CHECKING, Any, Union

from vpintegrator.dynamics import System, load_system
from vpintegrator.errors import InputError
from vpintegrator.maps import ClassicalMethod, Map, applicable_methods, classical
from vpintegrator.rollout.report import RESERVED
from vpintegrator.rollout.start import as_dataset, find_step, find_system, is_model

if TYPE_CHECKING:
    from torch import nn

    Mover = Map | nn.Module

# names of classical methods, methods and maps of one's own
Against = str | Sequence["str | ClassicalMethod | Map"]
Models = Union["Mover", Sequence["Mover"], Mapping[str, "Mover | Sequence[Mover]"], None]

_USUAL_METHODS = ("implicit-midpoint", "rk4")


def chosen_maps(
    model: Models,
    against: Against | None,
    system: System | str | None,
    step: float | None,
    dataset: Any = None,
) -> tuple[dict[str, Map], dict[str, list[str]], System, float]:
    """Return maps by name, names of models that share one, and the system and step of all.

    Models and maps of your own come first, then the classical methods. Families are taken at the
    step and the parameters of the system given, or else at the parameters of their own system. A
    dataset to start from tells system and step where no model does.

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
        system, step = data.system, data.step if step is None else step
    system = find_system(known, system)
    step = find_step(known, system, step)
    maps = {n: known[n] if n in known else _wrapped(m, system, step) for n, m in named.items()}
    maps = {name: _beside(map, system, step) for name, map in maps.items()}
    if against is None:
        against = () if system.is_measured or system.is_discrete else _USUAL_METHODS
    methods = _classical_maps(against, system, step)
    if not maps and not methods:
        raise InputError("there is nothing to compare: give a model or the name of a method")
    for name in methods:
        _check_name(name, {**maps, **seeds})
    for name, map in (maps | methods).items():
        if map.dim != system.dim:
            raise InputError(
                f"{name} has dim = {map.dim}, but {system.name} has {system.dim} components"
            )
    return maps | methods, seeds, system, step


def single_models(model: Models) -> tuple[dict[str, Any], dict[str, list[str]]]:
    """Return models by names of their own, and the names of those that were given under one.

    Examples
    --------
    >>> from vpintegrator.rollout.methods import single_models
    >>> single_models({"VPT": ["first", "second"], "RNN": ["third"]})
    ({'VPT 1': 'first', 'VPT 2': 'second', 'RNN': 'third'}, {'VPT': ['VPT 1', 'VPT 2']})
    """
    if not isinstance(model, Mapping):
        models = [] if model is None else model if isinstance(model, list | tuple) else [model]
        own = [getattr(each, "name", type(each).__name__) for each in models]
        counts = [own[:place].count(name) + 1 for place, name in enumerate(own)]
        names = [f"{name}-{k}" if k > 1 else name for name, k in zip(own, counts, strict=True)]
        return dict(zip(names, models, strict=True)), {}
    single: dict[str, Any] = {}
    seeds: dict[str, list[str]] = {}
    for key, given in model.items():
        members = [*given] if isinstance(given, list | tuple) else [given]
        count, name = len(members), str(key)
        names = [name] if count == 1 else [f"{name} {k + 1}" for k in range(count)]
        for each in (name, *names):
            _check_name(each, single)
        if not members:
            raise InputError(f"'{name}' names no model")
        seeds |= {name: names} if count > 1 else {}
        single |= zip(names, members, strict=True)
    return single, seeds


def _wrapped(module: Any, system: System, step: float) -> Map:
    from vpintegrator.models.wrapped import wrap

    return wrap(module, system.dim, step)


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
        other.metadata = {**other.metadata, "step": repr(step)}
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
            names = applicable_methods(system)[0] if given == "all" else [given]
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
