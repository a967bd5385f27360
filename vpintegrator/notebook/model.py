"""A model in a notebook: architecture, structure, layers and training."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from torch import nn

from vpintegrator.errors import InputError
from vpintegrator.models import Integrator
from vpintegrator.models.family import MEMBER
from vpintegrator.nn.reversible import Reversible
from vpintegrator.notebook.page import facts, folded, heading, table, whole
from vpintegrator.storage.reading import read_json

_SHOWN = 40  # layers


def html(model: Integrator) -> str:
    """Return HTML of a model: properties, a table of its layers, and the nested modules, folded."""
    layers = list(layers_of(model.core))
    shown = [(str(n), *_row(layer)) for n, layer in enumerate(layers[:_SHOWN], start=1)]
    if len(layers) > _SHOWN:
        rest = sum(_parameters(layer) for layer in layers[_SHOWN:])
        shown.append(("", f"and {len(layers) - _SHOWN:,} more", "", "", f"{rest:,}"))
    return whole(
        heading(type(model).__name__, model.description),
        facts(
            [
                ("parameters", f"{_parameters(model):,}"),
                ("keeps", _kept(model)),
                ("arguments", _arguments(model)),
                ("numbers", _numbers(model)),
                *_trained(model),
            ]
        ),
        table(("", "layer", "arguments", "keeps", "parameters"), shown, words=4),
        folded("all modules", repr(model)),
    )


def layers_of(core: nn.Module) -> Iterator[nn.Module]:
    """Yield the layers in order; for a reversible map, those of its psi."""
    if isinstance(core, Reversible):
        yield from layers_of(core.psi)
    elif isinstance(core, nn.Sequential):
        yield from core
    else:
        yield core


def _parameters(module: nn.Module) -> int:
    return sum(parameter.numel() for parameter in module.parameters())


def _row(layer: nn.Module) -> tuple[str, str, str, str]:
    laws = {"volume_preserving": "volume", "symplectic": "dq dp"}
    claims = {words: getattr(layer, name, None) for name, words in laws.items()}
    kept = ", ".join(words for words, holds in claims.items() if holds)
    return type(layer).__name__, _said(layer), kept or "–", f"{_parameters(layer):,}"


def _said(layer: nn.Module) -> str:
    """Return the arguments of a layer, or of its parts."""
    return layer.extra_repr() or "; ".join(
        f"{name}: {type(part).__name__}({part.extra_repr()})"
        for name, part in layer.named_children()
    )


def _kept(model: Integrator) -> str:
    windows = " of windows" if model.window > 1 else ""
    symmetries = len(model.reversing_symmetries)
    traits = {
        f"volume{windows}": model.volume_preserving,
        "volume in the coordinates of its chart": model.measure_preserving
        and not model.volume_preserving,
        f"the symplectic form dq dp{windows}": model.symplectic,
        f"{symmetries} reversing {'symmetry' if symmetries == 1 else 'symmetries'}": symmetries,
    }
    words = ", ".join(name for name, holds in traits.items() if holds)
    return f"{words}: exactly, by construction" if words else "nothing by construction"


def _arguments(model: Integrator) -> str:
    """Return the arguments of a model without matrices, which are too long."""
    plain = {
        n: v for n, v in model.arguments.items() if v is None or not isinstance(v, list | dict)
    }
    return ", ".join(f"{name} = {value}" for name, value in plain.items())


def _numbers(model: Integrator) -> str:
    kind = str(model.shift.dtype).removeprefix("torch.")
    return f"{kind} on {model.shift.device}"


def _trained(model: Integrator) -> Iterator[tuple[str, Any]]:
    """Return rows on the training of a model, from its metadata."""
    metadata = model.metadata
    yield "trained for", metadata.get("system_name", "not trained")
    if "parameters" in metadata:
        values = _read(metadata["parameters"]).items()
        fixed = (f"{name} = {value}" for name, value in values if name not in model.conditions)
        yield "with", ", ".join(fixed)
    if "step" not in model.conditions:
        yield "step", metadata.get("step")
    for name, (low, high) in model.conditions.items():
        yield f"family: {name}", f"{low:.6g} to {high:.6g}"
    training = _read(metadata.get("training", "{}"))
    error = training.get("test_error")
    if isinstance(error, float):
        whose = "test error of the family" if MEMBER in metadata else "test error"
        yield whose, f"{error:.3g}, by {training.get('optimizer', 'an unknown optimizer')}"
    yield "warning", training.get("warning") or None


def _read(text: str) -> dict[str, Any]:
    """Parse JSON of the metadata; return an empty dictionary if it is invalid."""
    try:
        return read_json(text, "metadata")
    except InputError:
        return {}
