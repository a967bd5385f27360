"""The model of vp-train: its arguments by options and ``--set``, and the kinds of maps to try."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from pathlib import Path
from types import NoneType
from typing import TYPE_CHECKING, Any

from vpintegrator.errors import InputError, nearest

if TYPE_CHECKING:
    from vpintegrator.data import Dataset
    from vpintegrator.training import Kind

_TRUTH = {"true": True, "yes": True, "on": True, "1": True}
_TRUTH |= {"false": False, "no": False, "off": False, "0": False}
_WORDS = {bool: "true or false", int: "an integer", float: "a number", NoneType: "none"}


def read_arguments(
    name: str | None, options: dict[str, Any], entries: tuple[str, ...]
) -> dict[str, Any]:
    """Return arguments of an architecture from options and from texts such as ``stiefel=false``.

    Parameters
    ----------
    name
        Name of the architecture; None where it is found by the data. Then the values of texts are
        of the kinds that any architecture with such an argument declares.
    options
        Values by the argument's name.

    Raises
    ------
    InputError
        If there is no such architecture or argument, an argument is given twice, or a value is of
        the wrong kind.
    """
    if not entries and (name is None or not options):
        if name is not None:
            declared_arguments(name)
        return options
    from vpintegrator.overview import GIVEN_OTHERWISE

    known = declared_arguments(name)
    result = dict(options)
    for option in options:
        if option not in known and option != "window":  # window 1 is that of one step
            raise InputError(f"the model {name} has no argument {option}; see vp-show {name}")
    for entry in entries:
        key, equals, text = (part.strip() for part in entry.partition("="))
        if not equals or not key or not text:
            raise InputError(f"--set {entry}: give NAME=VALUE, such as split=halves")
        if key == "reversing_symmetries" and key in known and text.lower() == "none":
            result[key] = ()
            continue
        if key in GIVEN_OTHERWISE:
            raise InputError(f"--set {entry}: {key} cannot be set; {GIVEN_OTHERWISE[key]}")
        if key not in known:
            hint = nearest(key, known) or f"; see vp-show {name or 'models'}"
            raise InputError(f"--set {entry}: {name or 'no model'} has no argument '{key}'{hint}")
        if key in result:
            raise InputError(f"--set {entry}: {key} is given twice")
        result[key] = argument_value(key, text, known[key].kinds, known[key].choices)
    return result


def declared_arguments(name: str | None) -> dict[str, Any]:
    """Return the arguments of an architecture, or of all of them together."""
    from vpintegrator.models import ARCHITECTURES
    from vpintegrator.models.stored import arguments_of

    if name is not None:
        return arguments_of(ARCHITECTURES.find(name))
    declared: dict[str, Any] = {}
    for architecture in ARCHITECTURES.values():
        declared = arguments_of(architecture) | declared
    return declared


def argument_value(name: str, text: str, kinds: Collection[Any], choices: Collection[str]) -> Any:
    """Convert a text to a value of one of the kinds."""
    if name == "split":
        from vpintegrator.nn.split import parse_split

        return parse_split(text)
    if NoneType in kinds and text.lower() == "none":
        return None
    if bool in kinds and text.lower() in _TRUTH:
        return _TRUTH[text.lower()]
    for kind in (int, float):
        if kind in kinds:
            try:
                return kind(text)
            except ValueError:
                continue
    if str in kinds or choices:
        return text
    expected = " or ".join(word for kind, word in _WORDS.items() if kind in kinds)
    raise InputError(f"--set {name}={text}: {name} must be {expected}, not '{text}'")


def kinds_asked(
    data: Dataset,
    name: str | None,
    is_search: bool,
    arguments: dict[str, Any],
    training: dict[str, Any],
    start: Path | None,
    recipe: str | None,
    seed: int,
) -> Sequence[Kind]:
    """Return the kinds of maps that the options ask for; all of them where no model is named."""
    import torch

    from vpintegrator.models import ARCHITECTURES, load
    from vpintegrator.training import KINDS, Network, TrainingOptions, search

    options = TrainingOptions(**training)
    if start is not None:
        model = load(start)
        model.record = replace(model.record, start=start.name, one_step=())
        return [Network(model=model, training=replace(options, normalise=False))]
    if recipe is not None:
        architecture = None if name is None else ARCHITECTURES.find(name)
        if architecture is None or not hasattr(architecture, "published"):
            raise InputError("--recipe published is for --model vpff, vpt or transformer")
        torch.manual_seed(seed)
        network = architecture.published(data.dim)
        return [Network(model=network, training=replace(options, recipe=recipe))]
    if name is None:
        return KINDS
    others = {key: value for key, value in arguments.items() if key != "reversing_symmetries"}
    reversible = None if len(others) == len(arguments) else False
    if is_search:
        return [search(name, others, reversible=reversible, training=options)]
    return [Network(others, reversible, architecture=name, training=options)]
