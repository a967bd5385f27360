"""Default untrained model of a system, built by vp-train."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from vpintegrator.arguments import of_kind
from vpintegrator.dynamics.structure import Structure
from vpintegrator.errors import InputError, nearest
from vpintegrator.models.arguments import arguments_of
from vpintegrator.models.model import Model
from vpintegrator.models.registry import ARCHITECTURES
from vpintegrator.models.system_arguments import (
    GENERATING,
    SYMPLECTIC,
    family_arguments,
    formula_arguments,
    function_arguments,
)
from vpintegrator.nn.layer import drawing
from vpintegrator.nn.triangular import IdleComponents

if TYPE_CHECKING:
    from vpintegrator.dynamics import Chart, System

DELAYS = 2  # states in a window of one measured component: enough for one degree of freedom
_INCOMPLETE = "a single measured component is not the whole state of an oscillation"
_OF_ONE_STEP = ("vpff", "spff", "sgf", "vpgf", "split")


def suited(
    system: System, arguments: Mapping[str, Any] | None = None, chart: bool | None = None
) -> str:
    """Return the name of the architecture that "auto" chooses by the system's structure.

    Symplectic models for Hamiltonian systems in states (q, p), volume-preserving ones where the
    flow only preserves volume, a network without structure where it changes it. Maps of one step,
    which keep the structure of phase space itself; transformers where a window is given, or another
    argument of theirs. Where a symplectic model has no such argument a volume-preserving one may.
    Where the system has a chart its structure is that in the coordinates of the chart.

    Parameters
    ----------
    system : System
    arguments : mapping, optional
        Arguments of the model, by name.
    chart : bool, optional
        Argument of ``build``.

    Examples
    --------
    >>> import vpintegrator as vp
    >>> vp.models.suited(vp.load_system("henon-heiles"))
    'spff'
    >>> vp.models.suited(vp.load_system("rigid-body"))
    'vpff'
    >>> vp.models.suited(vp.load_system("rigid-body"), {"window": 3})
    'vpt'
    """
    given = arguments or {}
    chosen = _chart(system, "auto", chart, given)
    return _suited(system if chosen is None else chosen.system, given)[0]


def _suited(system: System, given: Mapping[str, Any]) -> tuple[str, str]:
    """Return the name of the suited architecture, and the reason in a sentence."""
    if _is_incomplete(system) and system.family is not None:
        raise InputError(
            f"{_INCOMPLETE}, and families read single states; import runs of one step and one set "
            "of parameters"
        )
    if system.dim < 2:
        return "resnet", "resnet was chosen: states of one component have no structure to keep"
    if not system.may_preserve_volume:
        if system.is_measured:
            return "resnet", "resnet was chosen: the file claims no structure of the states"
        return "resnet", "resnet was chosen: the flow changes volumes"
    if given.get("functions") == "hamiltonian":
        return "sgf", "sgf was chosen: it has exact terms of a known Hamiltonian"
    known = {name: {*arguments_of(ARCHITECTURES[name])} for name in ("spff", "spt", "vpff", "vpt")}
    names = set().union(*known.values()).intersection(given) - {"window", "prediction_window"}
    windows = given.get("window") not in (None, 1)
    without: set[str] = set()
    if _is_canonical(system):
        why = "the system is Hamiltonian in states (q, p), and the map symplectic"
        if system.is_discrete:
            why = "the map is symplectic in states (q, p)"
        elif system.is_measured:
            why = "measured states (q, p) are taken for those of a symplectic map"
        of_windows = ("spt",) if system.explicit_time is None else ()
        for name in of_windows if windows else ("spff", *of_windows):
            missing = names - known[name]
            if not missing:
                return name, f"{name} was chosen: {why}"
            without |= missing
    name = "vpt" if windows or names - known["vpff"] else "vpff"
    if system.is_measured:
        why = "measured states are taken for those of a flow that preserves volume"
    else:
        why = "the flow preserves volume, and so does the map"
    if without:
        why += f"; symplectic models have no {', '.join(sorted(without))}"
    elif system.is_hamiltonian:
        why += "; symplectic models of windows, and of families, are for equations without time"
    return name, f"{name} was chosen: {why}"


def _is_incomplete(system: System) -> bool:
    """Whether a single component was measured and no equations are known."""
    return (
        system.is_measured
        and len((system.family.system if system.family else system).components) == 1
    )


def build(
    system: System,
    model: str | type[Model] = "auto",
    arguments: Mapping[str, Any] | None = None,
    *,
    reversible: bool | None = None,
    chart: bool | None = None,
    seed: int | None = None,
    dtype: str = "float64",
) -> Model:
    """Build an untrained model for a system, with its symmetries, angles and a split.

    Parameters
    ----------
    system : System
    model : str or class
        The name of an architecture, or a class of your own; "auto" takes what is suited.
    arguments : mapping, optional
        Arguments of the architecture, by name. ``functions="system"`` takes polynomials in the
        functions of the system's equations, ``functions="hamiltonian"`` polynomials beside the
        exact terms of a known Hamiltonian.
    reversible : bool, optional
        Whether the system's reversing symmetries are built in; None for as many of them as the
        model asked for can respect.
    chart : bool, optional
        Whether the model works in the coordinates of the system's chart; None for where the system
        has one and the model preserves its volume.
    seed : int, optional
        Seed of the weights, which leaves torch's random state as it is; by default they are drawn
        as those of torch's layers.
    dtype : str
        "float64" or "float32".

    Returns
    -------
    Model
        Untrained model; its attribute ``choices`` lists the choices made without request, a
        sentence each.

    Raises
    ------
    InputError
        If the arguments do not fit together, or the network does not fit into memory.

    Examples
    --------
    >>> import vpintegrator as vp
    >>> pendulum = vp.load_system("pendulum")
    >>> model = vp.models.build(pendulum, arguments={"functions": "polynomial", "degree": 3})
    >>> model.name, model.structure.is_symplectic, model.arguments["periodic"]
    ('spff', True, [[0, 6.283185307179586]])
    """
    arguments = dict(arguments or {})
    chosen = _chart(system, model, chart, arguments)
    coordinates: dict[str, Any] = {}
    if chosen is not None:
        system = chosen.system
        coordinates |= {"chart": chosen.texts, "inverse_chart": chosen.inverse_texts}
    if system.canonical_order:
        dim = system.dim if system.family is None else system.family.system.dim
        coordinates["order"] = [i for i in system.canonical_order if i < dim]
        system = system.canonical
    name, why = _suited(system, arguments) if model == "auto" else (model, "")
    architecture = ARCHITECTURES.find(name) if isinstance(name, str) else name
    known = arguments_of(architecture)
    arguments, why = _with_delays(system, architecture, arguments, why)
    if system.explicit_time == system.dim - 1 and name in _OF_ONE_STEP:
        arguments = {"explicit_time": True} | arguments
    if "split" in known and _is_canonical(system, arguments.get("explicit_time", False)):
        arguments.setdefault("split", "halves")  # positions and momenta
    if name in GENERATING:
        arguments.setdefault("functions", "polynomial")
    arguments |= function_arguments(system, architecture, arguments.get("functions"))
    arguments = formula_arguments(system, known) | arguments
    neurons = arguments.get("functions", "neurons") == "neurons"
    if "periodic" in known and (architecture.linear_in_parameters or not neurons):
        arguments["periodic"] = system.periods
    # in a chart, or beside the time since the start of a return map
    of_one_step = (chosen is not None or system.is_discrete) and name in _OF_ONE_STEP
    if of_one_step and arguments.get("functions") == "polynomial":
        arguments.setdefault("cyclic", system.cyclic)
        if not system.is_hamiltonian:  # gradient couplings conserve momenta of cyclic components
            last = [*range(system.dim - len(system.conserved), system.dim)]
            if system.family is None and system.conserved == last:
                arguments.setdefault("conserved", last)
    for argument in arguments:
        if argument not in known:
            hint = nearest(argument, known) or f"; it has {', '.join(known)}"
            raise InputError(f"{architecture.__name__} has no argument '{argument}'{hint}")
    arguments |= {"dim": system.dim} | ({"dtype": dtype} if "dtype" in known else {})
    if system.family is not None:
        arguments |= family_arguments(architecture, system)
    keeps = "reversing_symmetries" in known and reversible is not False
    rhos: list[Any] = list(system.reversing_symmetries) if keeps else []
    count, refusal = _admitted(architecture, rhos, arguments)
    if refusal and reversible:
        raise InputError(f"{refusal}; or leave out reversible")
    if rhos:
        arguments["reversing_symmetries"] = rhos[:count]
    built = _untrained(architecture, seed, arguments)
    if coordinates:
        built.set_coordinates(**coordinates)
    built.choices = [why] if why else []
    if chosen is not None:
        pairs = zip(chosen.components, chosen.equations, strict=True)
        words = ", ".join(f"{new} = {text}" for new, text in pairs)
        built.choices.append(f"the model works in the system's coordinates {words}")
    if system.family is not None:
        built.choices.append(system.family.words)
    if refusal:
        kept = f"{count or 'none'} of the system's {len(rhos)} reversing symmetries"
        built.choices.append(f"{kept} are built in: {refusal}")
    weighting = getattr(built, "weighting", "skew")
    if weighting != "skew" and arguments.get("weighting", "auto") == "auto":
        built.choices.append(
            f"the {weighting} weighting was chosen: the reversing symmetries leave no skew one but "
            "zero"
        )
    return built


def _with_delays(
    system: System, architecture: type[Model], arguments: dict[str, Any], why: str
) -> tuple[dict[str, Any], str]:
    """Return arguments with windows where one component is not the whole state, and the reason."""
    known = arguments_of(architecture)
    if system.dim < 2 and "split" in known:
        raise InputError(
            f"{architecture.name} moves components by others, and states have one; take resnet"
        )
    incomplete = _is_incomplete(system)
    if incomplete:
        arguments = {"window": DELAYS, "prediction_window": 1} | arguments
    if "window" not in known:
        if arguments.get("window") not in (None, 1):
            raise InputError(
                f"a map of one step: window must be 1, not {arguments['window']}; take a model of "
                "windows, such as vpt or spt"
            )
        left_out = ("window", "prediction_window")
        return {name: value for name, value in arguments.items() if name not in left_out}, why
    if not incomplete or arguments["window"] == 1:
        return arguments, why
    told = (
        f"{_INCOMPLETE}: windows of {arguments['window']} states stand for the rest (delay "
        "coordinates); more frequencies need more, and --window 1 takes it for the whole state"
    )
    return arguments, f"{why}; {told}" if why else told


def _chart(
    system: System, model: str | type[Model], wanted: bool | None, arguments: Mapping[str, Any]
) -> Chart | None:
    """Return the system's chart, if a model is to work in it."""
    from vpintegrator.dynamics import System

    of_kind("system", system, System, "a system, as vp.load_system gives it")
    chart, reason = system.chart, ""
    if wanted is False:
        return None
    architecture = None if model == "auto" else model
    if isinstance(architecture, str):
        architecture = ARCHITECTURES.find(architecture)
    functions = arguments.get("functions", "polynomial" if model in GENERATING else "neurons")
    if chart is None:
        reason = f"the file of {system.name} declares none"
    elif chart.jumps and (
        functions == "neurons"
        or arguments.get("window") not in (None, 1)
        or model not in ("auto", *_OF_ONE_STEP)
    ):
        reason = "it has an angle, in which only one-step models of polynomials are periodic"
    elif model in SYMPLECTIC and not chart.system.is_hamiltonian:
        reason = "the system is not Hamiltonian in its coordinates"
    if wanted and reason:
        raise InputError(f"no model in the coordinates of a chart: {reason}; leave out chart")
    keeps = architecture is None or "cyclic" in arguments_of(architecture)
    return chart if not reason and (keeps or wanted) else None


def _is_canonical(system: System, explicit_time: bool = True) -> bool:
    """Whether models move positions and momenta alone, beside the time if there is one."""
    last = explicit_time and system.explicit_time == system.dim - 1
    return system.is_canonical and (system.explicit_time is None or last)


def _admitted(
    architecture: type[Model], rhos: list[Any], arguments: Mapping[str, Any]
) -> tuple[int, str]:
    """Return how many of the reversing symmetries a model can respect, and why not more."""
    refusal = ""
    for count in range(len(rhos), 0, -1):
        reason = architecture.admits(Structure.of("none", rhos[:count]), arguments)
        if reason is None:
            return count, refusal
        refusal = refusal or reason
    return 0, refusal


def _untrained(architecture: type[Model], seed: int | None, arguments: dict[str, Any]) -> Model:
    try:
        with drawing(seed), warnings.catch_warnings():
            # components that never move are a reason to choose otherwise
            warnings.simplefilter("error", IdleComponents)
            return architecture(**arguments)
    except IdleComponents as warning:
        raise InputError(warning) from None
    except (MemoryError, OverflowError, RuntimeError):  # sizes that torch cannot allocate
        raise InputError(
            f"a {architecture.name} of these sizes does not fit into memory; make it smaller"
        ) from None
