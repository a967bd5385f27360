"""Declaration of arguments: their kinds, defaults, bounds and meanings.

A class names a dataclass of its arguments, ``Arguments``, whose fields are made by ``argument``.
From it come the constructor's check, what is stored, the signature and the docstring that Python
shows, and the options of vp-train. Nothing here needs torch, so that command lines are quick.
"""

from __future__ import annotations

import functools
import inspect
import re
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import MISSING, Field, dataclass, field, fields
from inspect import Parameter
from types import NoneType, UnionType
from typing import Any, TypeVar, get_args, get_type_hints

from vpintegrator.arguments import one_of, plain, whole
from vpintegrator.errors import InputError, nearest

Declared = TypeVar("Declared", bound="Arguments")
Class = TypeVar("Class", bound=type)
Blocks = str | Sequence[Sequence[int]]  # as in vpintegrator.nn.split

_SECTION = re.compile(r"^(Attributes|Raises|Notes|References|Examples)\n-+$", re.M)
_PLAIN = {bool, int, float, str, NoneType}
# listed after the others, and stored in forms of their own or not at all
_LAST = ("reversing_symmetries", "periodic", "shift", "scale", "dtype")


def argument(
    default: Any = MISSING,
    help: str = "",
    *,
    choices: Iterable[str] = (),
    least: int | None = None,
    kind: str = "",
    flag: str = "",
    omitted: bool = False,
) -> Any:
    """Return a field of a dataclass of arguments.

    Parameters
    ----------
    default
        None given: the argument is required.
    help
        Meaning, for docstrings and the command line.
    choices, least
        The texts, or the least integer, that it may be.
    kind
        Kind in docstrings, if the annotation says too little: ``(dim,)``.
    flag
        Text of an option of vp-train for the argument, for all models that have it; other arguments
        are given by ``--option``.
    omitted
        Whether ``arguments`` leaves out the default, which most models have.

    Examples
    --------
    >>> vp.models.argument(8, "Hidden units.", least=1).default
    8
    """
    told = {"help": help, "choices": tuple(choices), "least": least, "kind": kind}
    return field(default=default, metadata=told | {"flag": flag, "omitted": omitted})


@dataclass(frozen=True, kw_only=True)
class Arguments:
    """Arguments that are checked, and as plain Python values where they are of plain kinds.

    Raises
    ------
    InputError
        If a value is of another kind than its field declares, or out of bounds.
    """

    def __post_init__(self) -> None:
        declared = self.declared()
        for name, kinds in kinds_of(type(self)).items():
            value, each = getattr(self, name), declared[name]
            if set(kinds) <= _PLAIN:
                value = plain(name, value, kinds)
            if each.metadata["least"] is not None and value is not None:
                value = whole(name, value, each.metadata["least"])
            if each.metadata["choices"]:
                one_of(name, value, each.metadata["choices"])
            self._set(name, value)

    def _set(self, name: str, value: Any) -> None:
        object.__setattr__(self, name, value)  # while it is made: frozen from then on

    @classmethod
    def declared(cls) -> dict[str, Field[Any]]:
        """Return the fields by their names, in the order in which they are listed."""
        found = {each.name: each for each in fields(cls)}
        last = {name: found.pop(name) for name in _LAST if name in found}
        return found | last

    @classmethod
    def given(cls: type[Declared], owner: str, values: Mapping[str, Any]) -> Declared:
        """Make arguments from the keywords of a call of ``owner``.

        Raises
        ------
        InputError
            If there is no such argument, a required one is missing, or a value is wrong.
        """
        known = cls.declared()
        for name in values:
            if name not in known:
                hint = nearest(name, known) or f"; it has {', '.join(known)}"
                raise InputError(f"{owner} has no argument '{name}'{hint}")
        for name, each in known.items():
            if each.default is MISSING and name not in values:
                raise InputError(f"{owner} needs {name}")
        return cls(**values)

    def stored(self) -> dict[str, Any]:
        """Return the arguments to store in a file, JSON-serialisable."""
        found = {}
        for name, each in self.declared().items():
            value = _as_list(getattr(self, name))
            if not (each.metadata["omitted"] and value == _as_list(each.default)):
                found[name] = value
        return {name: value for name, value in found.items() if name not in _LAST}


def _as_list(value: Any) -> Any:
    """Return a tuple as the list that files hold; other values as they are."""
    return list(value) if isinstance(value, tuple) else value


def kinds_of(group: type[Arguments]) -> dict[str, tuple[Any, ...]]:
    """Return the alternatives of kind of each argument: ``(int, NoneType)``, ``(bool,)``.

    ``Blocks`` stays one alternative; anything that is not checked here is ``Any``.
    """
    hints = get_type_hints(group)
    return {
        name: get_args(hints[name])
        if isinstance(hints[name], UnionType) and hints[name] != Blocks
        else (hints[name],)
        for name in group.declared()
    }


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
    words = textwrap.indent(
        textwrap.fill(each.metadata["help"], 92, break_on_hyphens=False), "    "
    )
    return f"{name} : {kind}{default}\n{words}".rstrip()
