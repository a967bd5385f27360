"""The options of a model on vp-train's command line: flags, NAME=VALUE, and their help."""

from __future__ import annotations

import inspect
import re
from collections.abc import Collection, Mapping
from inspect import Parameter
from types import NoneType
from typing import TYPE_CHECKING, Any

import click

from vpintegrator.errors import InputError, nearest

if TYPE_CHECKING:
    from collections.abc import Callable

    from vpintegrator.models import Model

# kind and text of the arguments that have a flag of their own, known before any model is imported
FLAGS: dict[str, tuple[type, str]] = {
    "window": (int, "Time steps that the model reads."),
    "prediction_window": (
        int,
        "How many of its output are new.  [default: 1 for transformers, else window]",
    ),
    "depth": (int, "Blocks."),
    "width": (
        int,
        "Hidden units.  [default: of resnet and transformer as many as there is time for]",
    ),
    "functions": (
        str,
        "What couplings are made of: neurons; polynomial, more accurate where the flow is "
        "smooth, and only there where the data are; system, polynomials also in the functions that "
        "the system's equations are made of; hamiltonian, for sgf, polynomials beside exact terms "
        "of a known Hamiltonian; or auto, which tries neurons and prolonged polynomials for some "
        "half of the budget.  [default: auto where the model has the choice]",
    ),
    "degree": (int, "Of polynomials.  [default: found by --functions auto]"),
    "heads": (int, "Attention heads."),
    "weighting": (
        str,
        "Attention weighting: skew, coupled, arbitrary, or auto, which is skew where the "
        "symmetries allow it, else coupled.",
    ),
    "feed_forward": (str, "Feed-forward layers: coupling, triangular."),
    "activation": (str, "Activation function, such as tanh."),
}
GIVEN_OTHERWISE = {
    "dim": "it is the number of components in the dataset",
    "dtype": "give --dtype",
    "reversing_symmetries": "they are those of the system; --no-reversible leaves them out",
    "periodic": "angles are those that the system declares",
    **dict.fromkeys(
        ("cyclic", "conserved", "scaling", "explicit_time"),
        "the equations say which components are",
    ),
    "expressions": "--functions system takes those of the system",
    "field": "the equations are those of the system",
}
_TRUTH = {"true": True, "yes": True, "on": True, "1": True}
_TRUTH |= {"false": False, "no": False, "off": False, "0": False}
_SHOWN = {bool: "true|false", int: "INTEGER", float: "NUMBER", str: "TEXT"}
_WORDS = {bool: "true or false", int: "an integer", float: "a number", NoneType: "none"}


def flag(name: str) -> str:
    """Return the name of an argument as a flag."""
    return "--" + name.replace("_", "-")


def flags_of_models(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command the flags that arguments of models declare."""
    for name, (kind, words) in reversed(FLAGS.items()):
        command = click.option(flag(name), type=kind, help=words)(command)
    return command


def given_names(flags: Mapping[str, Any], entries: tuple[str, ...]) -> dict[str, Any]:
    """Return the arguments given by flags, with their values, before the model is known."""
    named = {entry.partition("=")[0].strip(): None for entry in entries}
    return named | {name: value for name, value in flags.items() if value is not None}


def read_options(
    architecture: type[Model], flags: Mapping[str, Any], entries: tuple[str, ...]
) -> dict[str, Any]:
    """Return arguments of an architecture from its own flags and from ``--option NAME=VALUE``.

    Parameters
    ----------
    flags
        Values by the argument's name; None where a flag was not given.
    entries
        Texts such as ``stiefel=false`` or ``split=0,1|2``; the kinds of values are those that the
        architecture declares.

    Raises
    ------
    InputError
        If the architecture has no such argument, it is not for the user to give, it is given
        twice, or the value is of the wrong kind.
    """
    from vpintegrator.models.arguments import arguments_of

    known = arguments_of(architecture)
    options = {name: value for name, value in flags.items() if value is not None}
    for name in options:
        if name not in known and name not in ("window", "prediction_window"):  # 1, for one step
            raise InputError(f"the model {architecture.name} has no option {flag(name)}")
    for entry in entries:
        name, equals, text = (part.strip() for part in entry.partition("="))
        if not equals or not name or not text:
            raise InputError(f"--option {entry}: give NAME=VALUE, such as split=halves")
        if name in GIVEN_OTHERWISE:
            raise InputError(f"--option {entry}: {name} is no option; {GIVEN_OTHERWISE[name]}")
        if name not in known:
            offered = [key for key in known if key not in GIVEN_OTHERWISE]
            hint = nearest(name, offered) or f"; it has {', '.join(offered)}"
            raise InputError(f"--option {entry}: {architecture.name} has no option '{name}'{hint}")
        if name in options:
            raise InputError(f"--option {entry}: {name} is given twice")
        options[name] = _value(name, text, known[name].kinds, known[name].choices)
    return options


def _value(name: str, text: str, kinds: Collection[Any], choices: Collection[str]) -> Any:
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
    raise InputError(f"--option {name}={text}: {name} must be {expected}, not '{text}'")


def model_options(architecture: type[Model]) -> list[tuple[str, str, Any]]:
    """Return the option, the description and the default of each argument of an architecture."""
    from vpintegrator.models.arguments import arguments_of

    words, result = described(architecture), []
    for name, (kinds, choices, default) in arguments_of(architecture).items():
        if name in GIVEN_OTHERWISE:
            continue
        shown = choices or [_SHOWN[kind] for kind in kinds if kind in _SHOWN]
        value = "BLOCKS" if name == "split" else "|".join(shown)
        if NoneType in kinds:
            value += "|none"
        given = f"{flag(name)} {value}" if name in FLAGS else f"--option {name}={value}"
        result.append((given, words[name], None if default is Parameter.empty else default))
    return result


def described(architecture: type[Model]) -> dict[str, str]:
    """Return the words of a class's docstring on each of its parameters."""
    text = inspect.getdoc(architecture) or ""
    section = re.split(r"^\w+\n-+\n", text.partition("Parameters\n----------\n")[2], flags=re.M)[0]
    entries = re.findall(r"^(\w[\w, ]*)\n((?: +.*\n?)+)", section, flags=re.M)
    return {
        name: " ".join(words.split()).replace("``", "")
        for names, words in entries
        for name in names.split(", ")
    }


def help_of_options(architecture: type[Model]) -> list[tuple[str, str]]:
    """Return the options of an architecture as two columns of a help text."""
    return [
        (given, f"{words}  [default: {_as_typed(default)}]".strip())
        for given, words, default in model_options(architecture)
    ]


def _as_typed(value: Any) -> str:
    return str(value).lower() if value is None or isinstance(value, bool) else f"{value}"
