"""Former names of functions, arguments and options: valid for one release, with a warning."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Collection, Mapping
from functools import wraps
from typing import Any, TypeVar

Function = TypeVar("Function", bound=Callable[..., Any])

# new names of arguments by their former ones
ARGUMENTS = {
    "clock": "explicit_time",
    "kernel": "initial_scheme",
    "rates": "scaling",
}
# arguments that are no more, with the values that stored files may have; None for any
ENDED: dict[str, tuple[Any, ...] | None] = {
    "attention": ("rotations",),
    "features": (0,),
    "heads": None,
}


def warn_of_former_name(former: str, name: str, stacklevel: int = 3) -> None:
    """Warn that a name has changed.

    Parameters
    ----------
    former, name
        Name that was used, and the name that replaces it.
    stacklevel
        See :func:`warnings.warn`; the default is the caller of the function that calls this one.
    """
    text = f"{former} is now {name}; the former name ends with the next release"
    warnings.warn(text, FutureWarning, stacklevel=stacklevel)


def with_new_arguments(values: Mapping[str, Any], known: Collection[str]) -> dict[str, Any]:
    """Return arguments by their new names, and warn of former ones.

    Parameters
    ----------
    values
        Arguments by name.
    known
        Names that are valid; a valid name is no former one.
    """
    found = {}
    for name, value in values.items():
        if has_ended(name, value, known):
            continue
        new = name if name in known else ARGUMENTS.get(name, name)
        if new != name and new in known:
            warn_of_former_name(f"{name}=", f"{new}=", stacklevel=4)
            name = new
        found[name] = value
    return found


def former_arguments(**names: str) -> Callable[[Function], Function]:
    """Return a decorator of a function some of whose keyword arguments have changed their names.

    Parameters
    ----------
    **names
        New name of each former name.
    """

    def decorate(function: Function) -> Function:
        @wraps(function)
        def call(*arguments: Any, **given: Any) -> Any:
            for former in names.keys() & given.keys():
                warn_of_former_name(f"{former}=", f"{names[former]}=")
                given[names[former]] = given.pop(former)
            return function(*arguments, **given)

        return call  # type: ignore[return-value]

    return decorate


def has_ended(name: str, value: Any, known: Collection[str]) -> bool:
    """Return whether a former argument says nothing that its absence does not say."""
    allowed = ENDED.get(name, ())
    return name not in known and (allowed is None or value in allowed)


def former_attributes(
    module: str, names: Mapping[str, str], otherwise: Callable[[str], Any] | None = None
) -> Callable[[str], Any]:
    """Return ``__getattr__`` of a module whose attributes have changed their names.

    Parameters
    ----------
    module
        Name of the module.
    names
        New name of each former name.
    otherwise
        ``__getattr__`` for all other names.
    """

    def find(name: str) -> Any:
        import importlib

        if name in names:
            warn_of_former_name(f"{module}.{name}", names[name])
            return getattr(importlib.import_module(module), names[name])
        if otherwise is not None:
            return otherwise(name)
        raise AttributeError(f"module {module!r} has no attribute {name!r}")

    return find


def with_new_names(args: list[str], names: Mapping[str, str]) -> list[str]:
    """Return the words of a command line with options by their new names.

    Parameters
    ----------
    args
        Words of the command line, such as ``--kernel none`` or ``--kernel=none``.
    names
        New option of each former one.
    """
    found = []
    for word in args:
        option, equals, value = word.partition("=")
        if option in names:
            import click

            click.echo(f"Warning: {option} is now {names[option]}", err=True)
            option = names[option]
        found.append(option + equals + value)
    return found
