"""The options of each architecture, as its constructor declares and its docstring explains them."""

from __future__ import annotations

import inspect
import re
from types import NoneType
from typing import TYPE_CHECKING, Any

from vpintegrator.cli.architecture import GIVEN_OTHERWISE, flag
from vpintegrator.nn.split import Blocks

if TYPE_CHECKING:
    from collections.abc import Collection

    from vpintegrator.models import Integrator

_KINDS = {bool: "true|false", int: "INTEGER", float: "NUMBER", str: "TEXT", Blocks: "BLOCKS"}


def model_options(
    architecture: type[Integrator], flags: Collection[str]
) -> list[tuple[str, str, Any]]:
    """How each option is given, what it is, and its default.

    Parameters
    ----------
    flags
        Names of arguments that have a flag of their own; the others go through ``--option``.
    """
    from vpintegrator.models.arguments import argument_kinds

    told = _parameters(inspect.getdoc(architecture) or "")
    defaults = inspect.signature(architecture).parameters
    result = []
    for name, kinds in argument_kinds(architecture).items():
        if name in GIVEN_OTHERWISE:
            continue
        kind, words = told.get(name, ("", ""))
        choices = re.fullmatch(r"\{(.*)\}", kind)
        value = "|".join(
            [part.strip().strip('"') for part in choices[1].split(",")]
            if choices
            else [_KINDS[kind] for kind in kinds if kind in _KINDS]
        )
        if NoneType in kinds:
            value += "|none"
        given = f"{flag(name)} {value}" if name in flags else f"--option {name}={value}"
        result.append((given, words, defaults[name].default))
    return result


def help_of_options(
    architecture: type[Integrator], flags: Collection[str]
) -> list[tuple[str, str]]:
    """The same as two columns of a help text."""
    return [
        (given, f"{words}  [default: {_as_typed(default)}]".strip())
        for given, words, default in model_options(architecture, flags)
    ]


def _as_typed(value: Any) -> str:
    return str(value).lower() if value is None or isinstance(value, bool) else f"{value}"


def _parameters(text: str) -> dict[str, tuple[str, str]]:
    """Kind and explanation of each parameter in a numpydoc text."""
    section = re.search(r"^Parameters\n-+\n(.*?)(?=^\w[\w ]*\n-+$|\Z)", text, re.M | re.S)
    found: dict[str, tuple[str, str]] = {}
    names: list[str] = []
    for line in (section[1] if section else "").splitlines():
        if line and not line.startswith(" "):
            head, _, kind = line.partition(" : ")
            names = [name.strip() for name in head.split(",")]
            found |= dict.fromkeys(names, (kind.strip(), ""))
        else:
            words = line.strip().replace("``", "")
            found |= {name: (found[name][0], f"{found[name][1]} {words}".strip()) for name in names}
    return found
