"""The declared arguments of a class as Python shows them: its signature and its docstring."""

from __future__ import annotations

import functools
import inspect
import re
import textwrap
from dataclasses import MISSING
from inspect import Parameter
from typing import Any, TypeVar

Class = TypeVar("Class", bound=type)

_SECTION = re.compile(r"^(Attributes|Raises|Notes|References|Examples)\n-+$", re.M)


def show_arguments(cls: Class) -> Class:
    """Let ``help`` and ``inspect.signature`` show what ``cls.Arguments`` declares."""
    build, declared = cls.__init__, cls.Arguments.declared()  # type: ignore[misc,attr-defined]

    @functools.wraps(build)
    def __init__(self: Any, *psi: Any, **arguments: Any) -> None:
        build(self, *psi, **arguments)

    listed = [
        Parameter(
            name,
            Parameter.KEYWORD_ONLY,
            default=Parameter.empty if each.default is MISSING else each.default,
            annotation=each.type,
        )
        for name, each in declared.items()
    ]
    own = Parameter("self", Parameter.POSITIONAL_OR_KEYWORD)
    __init__.__signature__ = inspect.Signature([own, *listed])  # type: ignore[attr-defined]
    cls.__init__ = __init__  # type: ignore[misc]
    text = inspect.cleandoc(cls.__doc__ or "")
    at = _SECTION.search(text)
    place = at.start() if at else len(text)
    section = "\n".join(["Parameters", "----------", *map(_described, declared.items())])
    cls.__doc__ = f"{text[:place].rstrip()}\n\n{section}\n\n{text[place:]}".rstrip() + "\n"
    return cls


def _described(entry: tuple[str, Any]) -> str:
    name, each = entry
    choices = ", ".join(f'"{choice}"' for choice in each.metadata["choices"])
    kind = f"{{{choices}}}" if choices else each.metadata["kind"] or str(each.type)
    default = "" if each.default is MISSING else f", default {each.default!r}"
    words = textwrap.indent(textwrap.fill(each.metadata["help"], 92), "    ")
    return f"{name} : {kind}{default}\n{words}".rstrip()
