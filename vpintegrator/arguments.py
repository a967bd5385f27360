"""Groups of arguments, frozen dataclasses, for calls with many arguments.

A function takes the groups, and its caller may name what is in them directly::

    @dataclass(frozen=True)
    class Budget:
        seconds: float | None = None
        epochs: int | None = None

    @grouped(budget=Budget)
    def train(model, dataset, *, budget: Budget, seed: int = 0): ...

    train(model, dataset, seconds=60, seed=1)
    train(model, dataset, budget=Budget(seconds=60), seed=1)  # the same
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import fields, replace
from inspect import Parameter, signature
from typing import Any, TypeVar

from vpintegrator.errors import InputError, nearest

Result = TypeVar("Result")


def grouped(**groups: Any) -> Callable[[Callable[..., Result]], Callable[..., Result]]:
    """Let a function's groups be given by keyword, whole, or field by field, or not at all.

    A field that is given takes the place of that in its group. ``help`` and ``inspect.signature``
    list the fields with their defaults in the place of their group, and the groups at the end.

    Parameters
    ----------
    groups
        The dataclass of each of the function's parameters that is a group; all its fields have
        defaults.

    Raises
    ------
    InputError
        If a keyword is not an argument, or a group is of the wrong type. The groups raise the same
        error for an invalid value.
    TypeError
        If two groups, or a group and the function, have a name in common.
    """
    group_of = {field.name: name for name, group in groups.items() for field in fields(group)}

    def decorate(function: Callable[..., Result]) -> Callable[..., Result]:
        listed = _listed(function, groups)
        names = [parameter.name for parameter in listed]
        if len(set(names)) < len(names):
            raise TypeError(f"{function.__name__}: {max(names, key=names.count)} is there twice")

        @functools.wraps(function)
        def call(*positional: Any, **keywords: Any) -> Result:
            given: dict[str, dict[str, Any]] = {name: {} for name in groups}
            for name in list(keywords):
                if name in group_of:
                    given[group_of[name]][name] = keywords.pop(name)
                elif name not in names:
                    hint = nearest(name, names)
                    hint = hint or f"; there are {', '.join(n for n in names if n != 'cls')}"
                    raise InputError(f"{function.__name__} has no argument '{name}'{hint}")
            for name, kind in groups.items():
                group = kind() if keywords.get(name) is None else keywords[name]
                if not isinstance(group, kind):
                    raise InputError(f"{name} = {group!r} must be a {kind.__name__}")
                keywords[name] = replace(group, **given[name])
            return function(*positional, **keywords)

        call.__signature__ = signature(function).replace(parameters=listed)  # type: ignore[attr-defined]
        return call

    return decorate


def _listed(function: Callable[..., Any], groups: Mapping[str, Any]) -> list[Parameter]:
    """Return the parameters that callers see."""
    own = signature(function).parameters
    listed = []
    for name, parameter in own.items():
        if name not in groups:
            listed.append(parameter)
            continue
        for field in fields(groups[name]):
            default = getattr(groups[name](), field.name)
            listed.append(
                parameter.replace(name=field.name, default=default, annotation=field.type)
            )
    return listed + [own[name].replace(default=None) for name in groups]
