"""Maps in a comparison: models and own maps by name, and classical methods that apply."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from copy import copy
from typing import TYPE_CHECKING, Any, Union

from vpintegrator.dynamics import System, load_system
from vpintegrator.errors import InputError
from vpintegrator.maps import (
    ClassicalMethod,
    Map,
    applicable_methods,
    classical,
    find_method,
    period_flow_of,
)
from vpintegrator.rollout.results import RESERVED
from vpintegrator.rollout.start import find_step, find_system, is_model

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
    step and the parameters of the system given, or else at the parameters of their own system.

    Raises
    ------
    InputError
        If there are no maps, one does not fit the system, or system or step are not known.
    """
    single, seeds = single_models(model)
    own, system, step = _own_maps(_named(single), system, step, dataset)
    if against is None:
        against = () if system.is_measured or system.is_discrete else _USUAL_METHODS
    methods = _classical_maps(against, own, system, step)
    maps = own | methods
    if not maps:
        raise InputError("there is nothing to compare: give a model or the name of a method")
    for name, map in maps.items():
        if map.dim != system.dim:
            what = "model" if map.kind == "learned" else "map"
            raise InputError(
                f"the {what} {name} has dim = {map.dim}, but {system.name} has {system.dim} "
                "components"
            )
        if name in seeds:
            raise InputError(f"'{name}' names several models, and another one; rename one")
    return maps, seeds, system, step


def single_models(model: Models) -> tuple[Any, dict[str, list[str]]]:
    """Return models of which no two share a name, and the names of those that were given under one.

    Examples
    --------
    >>> from vpintegrator.rollout.methods import single_models
    >>> single_models({"VPT": ["first", "second"], "RNN": ["third"]})
    ({'VPT 1': 'first', 'VPT 2': 'second', 'RNN': 'third'}, {'VPT': ['VPT 1', 'VPT 2']})
    """
    if not isinstance(model, Mapping):
        return model, {}
    single: dict[str, Any] = {}
    seeds: dict[str, list[str]] = {}
    for name, given in model.items():
        members = [*given] if isinstance(given, list | tuple) else [given]
        if not members:
            raise InputError(f"there is no model of the name '{name}'")
        names = [name] if len(members) == 1 else [f"{name} {k + 1}" for k in range(len(members))]
        if len(members) > 1:
            _check_name("model", str(name))
            seeds[str(name)] = names
        for own, member in zip(names, members, strict=True):
            if own in single:
                raise InputError(f"two models are named '{own}'; rename one")
            single[own] = member
    return single, seeds


def _named(model: Any) -> dict[str, Any]:
    """Return models, modules and maps by name: the name given, or their own, numbered if taken."""
    if model is None:
        return {}
    if isinstance(model, Mapping):
        named = {str(name): each for name, each in model.items()}
        for name in named:
            _check_name("model", name)
    else:
        several = isinstance(model, Sequence) and not isinstance(model, str)
        named = {}
        for each in model if several else [model]:
            own = getattr(each, "name", type(each).__name__)
            name, number = own, 1
            while name in named:
                number += 1
                name = f"{own}-{number}"
            named[name] = each
    for name, each in named.items():
        if not isinstance(each, Map):
            from vpintegrator.models.wrapped import check_model

            check_model(each, f"the model {name}" if isinstance(model, Mapping) else "model")
    return named


def _own_maps(
    named: Mapping[str, Any], system: System | str | None, step: float | None, dataset: Any
) -> tuple[dict[str, Map], System, float]:
    """Return models, modules and maps as maps that know the system and step of all.

    A dataset to start from tells system and step where no model does.
    """
    if isinstance(system, str):
        system = load_system(system)
    parameters = None if system is None else system.parameters
    known = {n: _member(each, step, parameters) for n, each in named.items() if _is_map(each)}
    if len(known) < len(named) and not known and system is None:
        if dataset is None:
            name = next(iter(named))
            raise InputError(f"{name} does not say which system it is for; give system, or dataset")
        from vpintegrator.data import Dataset, open_dataset

        data = dataset if isinstance(dataset, Dataset) else open_dataset(dataset)
        system, step = data.system, data.step if step is None else step
    system = find_system(known, system)
    step = find_step(known, system, step)
    maps: dict[str, Map] = {}
    for name, each in named.items():
        if name not in known:
            from vpintegrator.models.wrapped import wrap

            maps[name] = wrap(each, system.dim, step)
        else:
            maps[name] = known[name]
        if maps[name].kind in ("learned", "own"):
            maps[name] = _beside(maps[name], system, step)
    return maps, system, step


def _is_map(each: Any) -> bool:
    return isinstance(each, Map)


def _member(map: Any, step: float | None, parameters: Mapping[str, Any] | None) -> Any:
    if not is_model(map):
        return map
    from vpintegrator.models.family import member_for

    return member_for(map, step, parameters)


def _beside(map: Map, system: System, step: float) -> Map:
    """Return a map, of the same weights, that knows the system and the step of a comparison."""
    other: Any = copy(map)
    other.system = system
    if is_model(map):
        other.metadata = {**other.metadata, "step": repr(step)}
    return other


def _classical_maps(
    against: Against, others: Mapping[str, Map], system: System, step: float
) -> dict[str, Map]:
    """Return the methods named or given, or for ``all`` every method that applies to the system.

    For a stroboscopic map the methods are those for its flow, ``rk4@64`` with 64 steps in a period.
    """
    if isinstance(against, str):
        against = [name.strip() for name in against.split(",") if name.strip()]
    if not isinstance(against, Sequence):
        raise InputError("against must be a list of names of classical methods, or of methods")
    flow, maps = period_flow_of(system) or system, dict[str, Map]()
    for given in against:
        if given == "all":
            if not (flow.is_measured or flow.is_discrete):
                names = applicable_methods(system)[0]
                maps |= {name: classical(name, system, step) for name in names}
            continue
        if not isinstance(given, str | ClassicalMethod | Map):
            raise InputError(f"against takes names, classical methods and maps, not {given!r}")
        if isinstance(given, Map):
            name, map = given.name, given
            find_step({name: map}, system, step)
            map = _beside(map, system, step) if map.kind == "own" else map
        else:
            name = given if isinstance(given, str) else given.name
            if isinstance(given, ClassicalMethod) and system.is_discrete:
                raise InputError(
                    f"{name} is given as a method; {system.name} is a map: give names alone"
                )
            if flow is system:
                method = find_method(given) if isinstance(given, str) else given
                method.require(system)
            map = classical(given, system, step)
        if not isinstance(given, str):
            _check_name("method", name, "all")
            catalogued = None if map is given and map.kind == "classical" else _catalogued(name)
            if catalogued not in (None, given) or (name in maps and maps[name] is not map):
                raise InputError(f"there is another method named '{name}'; rename yours")
        maps[name] = map
    for name in maps:
        if name in others:
            raise InputError(f"a model and a classical method are both named '{name}'; rename one")
    return maps


def _check_name(what: str, name: str, *reserved: str) -> None:
    """Refuse a name that cannot be that of a group in the rollout file."""
    fits = re.fullmatch(r"[^/\x00\ud800-\udfff]{1,200}", name)
    if not fits or name in (*RESERVED, ".", "..", *reserved):
        raise InputError(f"a {what} cannot be named '{name}'; choose another name")


def _catalogued(name: str) -> ClassicalMethod | None:
    """Return the method of this name in the catalogue."""
    try:
        return find_method(name)
    except InputError:
        return None
