"""Methods in a comparison: models by name, and classical methods that apply."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Union

from vpintegrator.arguments import of_kind
from vpintegrator.dynamics import System, load_system
from vpintegrator.errors import InputError
from vpintegrator.maps import METHODS, ClassicalMethod, find_method
from vpintegrator.rollout.arguments import Start
from vpintegrator.rollout.flow import ClassicalFlow, NumericalFlow, learned_flow
from vpintegrator.rollout.map_flows import PeriodFlow, find_period_method, period_flow_of
from vpintegrator.rollout.report import RESERVED
from vpintegrator.rollout.start import find_step, find_system

if TYPE_CHECKING:
    from vpintegrator.models import Integrator

# names of classical methods, and methods of one's own
Against = str | Sequence["str | ClassicalMethod"]

_USUAL_METHODS = ("implicit-midpoint", "rk4")


def chosen_flows(
    models: Mapping[str, Integrator], against: Against | None, system: System, step: float
) -> list[NumericalFlow]:
    """Return flows of the models, then of the classical methods named, with system and step.

    Raises
    ------
    InputError
        If there are none, or one does not fit the system.
    """
    if against is None:
        against = () if system.is_measured or system.is_discrete else _USUAL_METHODS
    methods = classical_methods(against, models, system)
    if not models and not methods:
        raise InputError("there is nothing to compare: give a model or the name of a method")
    for name, m in models.items():
        if m.dim != system.dim:
            raise InputError(
                f"the model {name} has dim = {m.dim}, but {system.name} has {system.dim} components"
            )
    return [
        *(learned_flow(m, system, name, step) for name, m in models.items()),
        *(
            ClassicalFlow(method, system, step)
            if period_flow_of(system) is None
            else PeriodFlow(name, system)
            for name, method in methods.items()
        ),
    ]


Models = Union[
    "Integrator",
    Sequence["Integrator"],
    Mapping[str, "Integrator | Sequence[Integrator]"],
    None,
]


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


def named_models(
    model: Integrator | Sequence[Integrator] | Mapping[str, Integrator] | None,
) -> dict[str, Integrator]:
    """Return models by name: the name given, or that of the architecture, numbered if taken.

    Modules of one's own are left as they are, see :func:`as_models`.
    """
    if model is None or (isinstance(model, Mapping) and not model):
        return {}
    from vpintegrator.models.wrapped import check_model, is_own

    if isinstance(model, Mapping):
        for name in model:
            _check_name("model", str(name))
        given = {str(name): m for name, m in model.items()}
        for name, m in given.items():
            check_model(m, f"the model {name}")
        return given
    models = list(model) if isinstance(model, Sequence) and not isinstance(model, str) else [model]
    named: dict[str, Integrator] = {}
    for m in models:
        check_model(m, "model")
        own = type(m).__name__ if is_own(m) else m.name
        name, number = own, 1
        while name in named:
            number += 1
            name = f"{own}-{number}"
        named[name] = m
    return named


def as_models(
    models: Mapping[str, Any], system: System | str | None, start: Start, step: float | None
) -> tuple[dict[str, Integrator], System, float]:
    """Return models and modules by name as models, with the system and step of all.

    A dataset to start from tells system and step where no model does. A family is taken at the step
    and the parameters of the system given, or else at the parameters of its own system.

    Raises
    ------
    InputError
        If the system or the step is not known, or models do not belong together.
    """
    if not models:  # then PyTorch is not needed
        found = find_system(models, system)
        return {}, found, find_step(models, found, step)
    from vpintegrator.data import Dataset, open_dataset
    from vpintegrator.models.family import member_for
    from vpintegrator.models.wrapped import is_own, wrap

    if isinstance(system, str):
        system = load_system(system)
    parameters = None if system is None else system.parameters
    known = {
        name: member_for(model, step, parameters)
        for name, model in models.items()
        if not is_own(model)
    }
    if len(known) < len(models) and not known and system is None:
        if start.dataset is None:
            raise InputError(
                f"{next(iter(models))} does not say which system it is for; give system, or dataset"
            )
        given = start.dataset
        data = given if isinstance(given, Dataset) else open_dataset(given)
        system, step = data.system, data.step if step is None else step
    system = find_system(known, system)
    step = find_step(known, system, step)
    wrapped = {
        name: wrap(model, system.dim, step) if is_own(model) else known[name]
        for name, model in models.items()
    }
    return wrapped, system, step


def classical_methods(
    against: Against, models: Mapping[str, Any], system: System
) -> dict[str, ClassicalMethod]:
    """Return the methods named or given, or for ``all`` every method that applies to the system.

    For a stroboscopic map the methods are those for its flow, ``rk4@64`` with 64 steps in a period.
    """
    if isinstance(against, str):
        against = [name.strip() for name in against.split(",") if name.strip()]
    if not isinstance(against, Sequence):
        raise InputError("against must be a list of names of classical methods, or of methods")
    methods: dict[str, ClassicalMethod] = {}
    for given in against:
        name = given if isinstance(given, str) else _name_of_own(given, methods, system)
        flow = period_flow_of(system) or system
        if name == "all" and (flow.is_measured or flow.is_discrete):
            continue
        if name == "all":
            methods |= applicable_methods(system)[0]
            continue
        if isinstance(given, ClassicalMethod):
            methods[name] = given
        elif flow is system:
            methods[name] = find_method(name)
        else:
            methods[name] = find_period_method(name)[0]
        methods[name].require(flow)
    for name in methods:
        if name in models:
            raise InputError(f"a model and a classical method are both named '{name}'; rename one")
    return methods


def _name_of_own(given: Any, others: Mapping[str, ClassicalMethod], system: System) -> str:
    """Return the name of a method given as an object; no other method may have it."""
    if not isinstance(given, ClassicalMethod):
        raise InputError(f"against takes names and classical methods, not {given!r}")
    name = given.name
    _check_name("method", name, "all")
    if system.is_discrete:
        raise InputError(f"{name} is given as a method; {system.name} is a map: give names alone")
    if any(other not in (None, given) for other in (_catalogued(name), others.get(name))):
        raise InputError(f"there is another method named '{name}'; rename yours")
    return name


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


def applicable_methods(system: System) -> tuple[dict[str, ClassicalMethod], dict[str, str]]:
    """Return the classical methods for a system, and the reasons why others do not apply.

    If two names give the same map, only the first is returned. For a stroboscopic map the methods
    are those for its flow.

    Parameters
    ----------
    system
        The system.

    Examples
    --------
    >>> methods, others = vp.rollout.applicable_methods(vp.load_system("rigid-body"))
    >>> "implicit-midpoint" in methods, others["stoermer-verlet"]
    (True, 'stoermer-verlet needs a Hamiltonian H(q, p) = T(p) + V(q), ...')
    """
    of_kind("system", system, System, "a system, as vp.load_system gives it")
    methods: dict[str, ClassicalMethod] = {}
    reasons = {}
    system = period_flow_of(system) or system
    for name, method in METHODS.items():
        try:
            method.require(system)
        except InputError as error:
            reasons[name] = str(error)
            continue
        same = next((n for n, m in methods.items() if m.is_same_map(method)), None)
        if same is None:
            methods[name] = method
        else:
            reasons[name] = f"{name} is the same map as {same}"
    return methods, reasons
