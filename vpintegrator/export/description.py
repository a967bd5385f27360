"""Description of a model in the file of its export."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any

import vpintegrator
from vpintegrator.errors import InputError, printable
from vpintegrator.models.family import MEMBER
from vpintegrator.storage.reading import read_json

if TYPE_CHECKING:
    from vpintegrator.models import Model

_MOST = 16  # components or parameters that are listed
_LONGEST = 300  # letters of what a file says


def described(model: Model) -> list[str]:
    """Return the facts, a line each, without control characters that a file may hold."""
    facts = facts_of(model)
    return [
        ": ".join(facts.pop(name) for name in ("model", "description") if name in facts),
        *(f"{name.replace('_', ' ')}: {text}" for name, text in facts.items()),
    ]


def facts_of(model: Model) -> dict[str, str]:
    """Return the facts known of a model, as texts by name."""
    metadata = model.metadata
    found = {"model": getattr(model, "name", "") or type(model).__name__}
    found["description"] = model.description
    found |= {"system": metadata.get("system_name", ""), "step": metadata.get("step", "")}
    found["states"] = f"{model.dim} components{_components(model)}"
    if model.explicit_time:
        time = model.get_buffer("time_step").item()
        found["time"] = f"the last component, which a step moves on by {time:g}"
    if model.window > 1:
        found["windows"] = f"{model.window} states, of which {model.prediction_window} are new"
    found["parameters"] = _parameters(metadata.get("parameters", "{}"))
    found["keeps"] = _structure(model)
    found["training"] = _training(metadata.get("training", "{}"), MEMBER in metadata)
    found["made_by"] = f"vpintegrator {vpintegrator.__version__}"
    return {name: printable(text, _LONGEST) for name, text in found.items() if text}


def _components(model: Model) -> str:
    """Return the names of the components, if the system is known."""
    if "system" not in model.metadata:
        return ""
    from vpintegrator.dynamics import System

    try:
        given = read_json(model.metadata.get("parameters", "{}"), "the parameters of the model")
        system = System(model.metadata["system"], "system", given, source="the model")
        names = list(system.components)
    except InputError:
        return ""  # the description of the numbers is optional
    if len(names) != model.dim:
        return ""
    more = ", ..." if len(names) > _MOST else ""
    return f": {', '.join(names[:_MOST])}{more}"


def _parameters(text: str) -> str:
    try:
        given: dict[str, Any] = read_json(text, "the parameters of the model")
    except InputError:
        return ""
    pairs = [f"{name} = {json.dumps(value)}" for name, value in given.items()]
    return ", ".join(pairs[:_MOST]) + (", ..." if len(pairs) > _MOST else "")


def _structure(model: Model) -> str:
    of, structure = "windows" if model.window > 1 else "phase space", model.structure
    kept = {
        "the symplectic form": structure.is_symplectic,
        f"the volume of {of}": structure.keeps_volume,
        "the volume of its chart": model.measure_preserving and not structure.keeps_volume,
        "reversing symmetries": bool(structure.reversing_symmetries),
    }
    return ", ".join(name for name, holds in kept.items() if holds)


def _training(text: str, member: bool) -> str:
    """Return the relative error of the map, or of its family, as its training measured it."""
    try:
        told = read_json(text, "the training of the model")
    except InputError:
        return ""
    for key, name in (("test_error", "test"), ("validation_error", "validation")):
        error = told.get(key)
        if isinstance(error, int | float) and math.isfinite(error):
            of = " of its family" if member else ""
            return f"relative error one window ahead {error:.2e} on {name} data{of}"
    return ""
