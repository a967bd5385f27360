"""Untrained models of a system: architecture, arguments, symmetries and coordinates."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import torch

from vpintegrator.arguments import of_kind
from vpintegrator.errors import InputError, nearest
from vpintegrator.models.model import Model
from vpintegrator.models.registry import ARCHITECTURES
from vpintegrator.models.stored import Argument, arguments_of
from vpintegrator.nn.layer import drawing
from vpintegrator.nn.triangular import IdleComponents

if TYPE_CHECKING:
    from vpintegrator.dynamics import Chart, System

DELAYS = 2  # states in a window of one measured component: enough for one degree of freedom
_INCOMPLETE = "a single measured component is not the whole state of an oscillation"


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
    system_chart = _chart(system, None, chart, given)
    return _suited(system if system_chart is None else system_chart.system, given)[0]


def _suited(system: System, given: Mapping[str, Any]) -> tuple[str, str]:
    """Return the name of the suited architecture, and the reason."""
    if _is_incomplete(system) and system.family is not None:
        raise InputError(
            f"{_INCOMPLETE}, and families read single states; import runs of one step and one set "
            "of parameters"
        )
    if system.is_lagrangian and given.get("window") in (None, 2):
        return "lagrangian", "two positions of a mechanical system determine the next"
    if system.dim < 2:
        return "resnet", "states of one component have no structure to keep"
    if not system.may_preserve_volume:
        return "resnet", "the flow changes volumes, or is not known to keep them"
    if given.get("functions") == "hamiltonian":
        return "sgf", "it has exact terms of a known Hamiltonian"
    windows = given.get("window") not in (None, 1)
    symplectic, volume = (["spt"], ["vpt"]) if windows else (["spff", "spt"], ["vpff", "vpt"])
    if system.explicit_time is not None and "spt" in symplectic:
        symplectic.remove("spt")
    if not _is_canonical(system):
        symplectic = []
    known = {name: {*arguments_of(ARCHITECTURES[name])} for name in ("spff", "spt", "vpff", "vpt")}
    asked = set().union(*known.values()).intersection(given) - {"window", "prediction_window"}
    name = next((name for name in symplectic + volume if asked <= known[name]), "vpt")
    if name in symplectic:
        return name, "states (q, p) are positions and momenta, and the map is symplectic"
    missing = sorted(asked.difference(*[known[other] for other in symplectic]))
    more = f"; symplectic models have no {', '.join(missing)}" if symplectic else ""
    return name, f"the volume of states is kept{more}"


def _is_incomplete(system: System) -> bool:
    """Whether a single component was measured, of a system without equations."""
    base = system.family.system if system.family else system
    is_observed = system.is_measured and not _has_known_equations(system)
    return is_observed and len(base.components) == 1


def _has_known_equations(system: System) -> bool:
    """Whether the equations are known, though perhaps left out: the states are then complete."""
    base = system.family.system if system.family else system
    return not base.is_measured or base.definition.withheld


def _is_canonical(system: System, explicit_time: bool = True) -> bool:
    """Whether models move positions and momenta alone, beside the time if there is one."""
    last = explicit_time and system.explicit_time == system.dim - 1
    return system.is_canonical and (system.explicit_time is None or last)


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
    choices = []
    coordinates: dict[str, Any] = {}
    if isinstance(model, str):
        architecture = None if model == "auto" else ARCHITECTURES.find(model)
    else:
        architecture = model
    system_chart = _chart(system, architecture, chart, arguments)
    if system_chart is not None:
        system = system_chart.system
        coordinates |= {"chart": system_chart.texts, "inverse_chart": system_chart.inverse_texts}
    if system.canonical_order:
        dim = system.dim if system.family is None else system.family.system.dim
        coordinates["order"] = [i for i in system.canonical_order if i < dim]
        system = system.canonical
    if architecture is None:
        name, why = _suited(system, arguments)
        architecture = ARCHITECTURES[name]
        choices = [f"{name} was chosen: {why}"]
    known = arguments_of(architecture)
    if "window" not in known:
        steps = architecture.fixed_window
        if (window := arguments.pop("window", steps)) not in (None, steps):
            words = "one step" if steps == 1 else f"windows of {steps} states"
            raise InputError(
                f"a map of {words}: window must be {steps}, not {window}; take a model of windows, "
                "such as vpt or spt"
            )
        arguments.pop("prediction_window", None)
    elif system.is_measured:
        delays = {"window": DELAYS} if _is_incomplete(system) else {}
        arguments = delays | arguments
        is_open = "prediction_window" in known.keys() - arguments.keys()
        if (
            is_open
            and not _has_known_equations(system)
            and arguments.get("window", known["window"].default) != 1
        ):
            arguments["prediction_window"] = 1
            choices.append(
                "one state is predicted at a time, and the window shifts: measured states may be "
                "incomplete"
            )
        if delays and arguments["window"] != 1:
            choices.append(
                f"{_INCOMPLETE}: windows of {arguments['window']} states stand for the rest (delay "
                "coordinates); more frequencies need more, and --window 1 takes it for the whole "
                "state"
            )
    arguments = _of_system(system, architecture, known, arguments, system_chart is not None)
    for argument in arguments:
        if argument not in known:
            hint = nearest(argument, known) or f"; it has {', '.join(known)}"
            raise InputError(f"{architecture.__name__} has no argument '{argument}'{hint}")
    arguments |= {"dim": system.dim} | ({"dtype": dtype} if "dtype" in known else {})
    if system.family is not None:
        arguments |= _family_arguments(system, architecture, known)
    keeps = "reversing_symmetries" in known and reversible is not False
    rhos: list[Any] = list(system.reversing_symmetries) if keeps else []
    result, count, refusal = _reversible(architecture, seed, arguments, rhos, bool(reversible))
    if coordinates:
        result.set_coordinates(**coordinates)
    if system_chart is not None:
        pairs = zip(system_chart.components, system_chart.equations, strict=True)
        words = ", ".join(f"{new} = {text}" for new, text in pairs)
        choices.append(f"the model works in the system's coordinates {words}")
    if system.family is not None:
        choices.append(system.family.words)
    if refusal:
        kept = f"{count or 'none'} of the system's {len(rhos)} reversing symmetries"
        choices.append(f"{kept} are built in: {refusal}")
    weighting = getattr(result, "weighting", "skew")
    if weighting != "skew" and arguments.get("weighting", "auto") == "auto":
        choices.append(
            f"the {weighting} weighting was chosen: the reversing symmetries leave no skew one but "
            "zero"
        )
    result.choices = choices
    return result


def _functions(known: Mapping[str, Argument], arguments: Mapping[str, Any]) -> Any:
    """Return the functions in the layers of a model; "neurons" where it has no choice."""
    default = known["functions"].default if "functions" in known else "neurons"
    return arguments.get("functions", default)


def _chart(
    system: System,
    architecture: type[Model] | None,
    wanted: bool | None,
    arguments: Mapping[str, Any],
) -> Chart | None:
    """Return the system's chart, if a model is to work in it."""
    from vpintegrator.dynamics import System

    of_kind("system", system, System, "a system, as vp.load_system gives it")
    if wanted is False:
        return None
    chart = system.chart
    reason = ""
    known = {} if architecture is None else arguments_of(architecture)
    neurons = _functions(known, arguments) == "neurons"
    if chart is None:
        reason = f"the file of {system.name} declares none"
    elif chart.jumps and (neurons or "window" in known or arguments.get("window") not in (None, 1)):
        reason = "it has an angle, in which only one-step models of polynomials are periodic"
    elif architecture and architecture.canonical and not chart.system.is_canonical:
        reason = "its coordinates are no positions and momenta"
    if wanted and reason:
        raise InputError(f"no model in the coordinates of a chart: {reason}; leave out chart")
    keeps = architecture is None or "cyclic" in known
    return chart if not reason and (keeps or wanted) else None


def _of_system(
    system: System,
    architecture: type[Model],
    known: Mapping[str, Argument],
    arguments: dict[str, Any],
    in_chart: bool,
) -> dict[str, Any]:
    """Return arguments with the time, angles, split and formulas of the system's equations."""
    if "explicit_time" in known and system.explicit_time == system.dim - 1:
        arguments = {"explicit_time": True} | arguments
    if "split" in known and _is_canonical(system, arguments.get("explicit_time", False)):
        arguments.setdefault("split", "halves")  # positions and momenta
    asked = arguments.get("functions")
    formulas: dict[str, Any] | None = None
    hamiltonian = system.hamiltonian_formula if "hamiltonian" in known else ""
    if asked == "system" and "expressions" in known:
        of_potentials = architecture.canonical and system.is_canonical
        texts = system.hamiltonian_functions if of_potentials else system.functions
        formulas = {"expressions": texts} if texts else None
    elif asked == "hamiltonian" and hamiltonian:
        formulas = {"hamiltonian": hamiltonian}
        # beyond the times of training exact terms alone are right, unless time is an angle
        if system.explicit_time is not None and system.explicit_time not in system.periods:
            formulas["cyclic"] = [system.explicit_time]
    elif {"hamiltonian", "field"} <= known.keys():
        if system.is_canonical and hamiltonian:
            formulas = {"hamiltonian": hamiltonian} | arguments
        elif system.field_formulas:
            formulas = {"field": system.field_formulas} | arguments
    elif asked not in ("system", "hamiltonian"):
        formulas = arguments
    if formulas is None:
        raise InputError(
            f"the equations of {system.name} are unknown, too long, made of polynomials, or of no "
            f"use to {architecture.name}; take functions = polynomial, or another model"
        )
    arguments |= formulas
    if asked in ("system", "hamiltonian"):
        arguments["functions"] = "polynomial"
    functions = _functions(known, arguments)
    if "periodic" in known and (architecture.linear_in_parameters or functions != "neurons"):
        arguments["periodic"] = arguments.get("periodic") or system.periods
    # in a chart, or beside the time since the start of a return map
    placed = (in_chart or system.is_discrete) and "explicit_time" in known
    if placed and functions == "polynomial":
        arguments.setdefault("cyclic", system.cyclic)
        if not system.is_canonical:  # gradient couplings conserve momenta of cyclic components
            last = [*range(system.dim - len(system.conserved), system.dim)]
            if system.family is None and system.conserved == last:
                arguments.setdefault("conserved", last)
    return arguments


def _family_arguments(
    system: System, architecture: type[Model], known: Mapping[str, Argument]
) -> dict[str, Any]:
    """Return the arguments that say how many coefficients of steps and parameters layers read.

    Shears that all vanish with the step are, to first order in it, a sum of shears, and so is the
    field that they can follow: no component drives itself; of (q, p), neither q each other nor p.
    A field of another form needs free shears. A reversing symmetry of the step then makes the map
    of step zero the identity.
    """
    family = system.family
    assert family is not None
    if "parameters" not in known:
        raise InputError(
            f"the model {architecture.name} cannot be one of many steps and parameters; take vpff "
            "or spff"
        )
    result = {"dim": family.system.dim, "parameters": len(family.coefficients)}
    if "vanishing" not in known:
        return result
    driven = system.equations.jacobian
    half = family.system.dim // 2
    if architecture.canonical:
        shears = all(i // half != j // half for i, j in driven if max(i, j) < 2 * half)
    else:
        shears = all(i != j for i, j in driven)
    implicit = architecture.linear_in_parameters  # suited to any field
    if shears or implicit or not len(system.reversing_symmetries):
        result["vanishing"] = family.vanishing
    return result


def _reversible(
    architecture: type[Model],
    seed: int | None,
    arguments: dict[str, Any],
    rhos: list[Any],
    all_of_them: bool,
) -> tuple[Model, int, str]:
    """Return a model with as many of the symmetries as it takes, their number, and why not more."""
    refusal = ""
    state = torch.get_rng_state()
    for count in range(len(rhos), -1, -1):
        if rhos:
            arguments["reversing_symmetries"] = rhos[:count]
        try:
            with drawing(seed), warnings.catch_warnings():
                # components that never move are a reason to choose otherwise
                warnings.simplefilter("error", IdleComponents)
                return architecture(**arguments), count, refusal
        except (InputError, IdleComponents) as error:
            if all_of_them or not count:
                raise InputError(error) from None
            refusal = refusal or str(error)
            torch.set_rng_state(state)
        except (MemoryError, OverflowError, RuntimeError):  # sizes that torch cannot allocate
            raise InputError(
                f"a {architecture.name} of these sizes does not fit into memory; make it smaller"
            ) from None
    raise AssertionError  # the loop ends by a model or an error
