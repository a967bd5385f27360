"""Arguments of a class of models: their kinds by its signature, and their values as JSON."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from inspect import Parameter
from types import NoneType, UnionType
from typing import Any, Literal, NamedTuple, Self, Union, get_args, get_origin, get_type_hints

import numpy as np
import torch

from vpintegrator.arguments import one_of, plain

Blocks = str | Sequence[Sequence[int]]  # "coordinates", "halves" or blocks of indices
Matrices = Sequence[Any] | np.ndarray | torch.Tensor  # (count, dim, dim)
Periods = Mapping[int, float] | Sequence[Sequence[float]]  # of pairs (component, period)

_PLAIN = {bool, int, float, str, NoneType}


class Argument(NamedTuple):
    """Alternatives of an argument's annotation, the texts that it may be, and its default."""

    kinds: tuple[Any, ...]
    choices: tuple[str, ...]
    default: Any  # Parameter.empty: the argument is required

    def check(self, name: str, value: Any) -> None:
        """Raise InputError for a value of another plain kind, or a text that is no choice."""
        if {*self.kinds} <= _PLAIN:
            plain(name, value, self.kinds)
        if self.choices and not (value is None and NoneType in self.kinds):
            one_of(name, value, self.choices)


def arguments_of(function: type | Callable[..., Any]) -> dict[str, Argument]:
    """Return the arguments of a class or function by name."""
    own = function.__init__ if isinstance(function, type) else function  # type: ignore[misc]
    hints = get_type_hints(own)
    result = {}
    for name, parameter in inspect.signature(function).parameters.items():
        if parameter.kind in (Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD):
            continue
        hint = hints.get(name, Any)
        is_union = get_origin(hint) in (Union, UnionType) and hint != Blocks
        kinds = get_args(hint) if is_union else (hint,)
        choices = [text for k in kinds if get_origin(k) is Literal for text in get_args(k)]
        result[name] = Argument(kinds, (*choices,), parameter.default)
    return result


class Stored(torch.nn.Module):
    """A module whose attribute ``arguments`` holds what its class was called with, as JSON.

    Defaults are included, but those that are None or empty; modules and the dtype are left out. A
    call that does not fit the signature stores none: the constructor raises the TypeError.

    Raises
    ------
    InputError
        If an argument is of another plain kind than its annotation says.
    """

    arguments: dict[str, Any]

    def __new__(cls, *values: Any, **keywords: Any) -> Self:
        module = super().__new__(cls)
        stored = {}
        declared = arguments_of(cls)
        with suppress(TypeError):
            bound = inspect.signature(cls).bind(*values, **keywords).arguments
            for name in [name for name in bound if name in declared]:
                declared[name].check(name, bound[name])
            for name, (_, _, default) in declared.items():
                value = as_json(bound.get(name, default))
                default = as_json(default)
                own = name != "dtype" and not isinstance(value, torch.nn.Module)
                if own and (value not in (None, "", []) or value != default):
                    stored[name] = value
        module.__dict__["arguments"] = stored
        return module


def as_json(value: Any) -> Any:
    """Return arrays, mappings and sequences as the lists that JSON holds; other values as is."""
    if isinstance(value, np.ndarray | np.generic | torch.Tensor):
        return value.tolist()
    if isinstance(value, Mapping):
        return [[as_json(key), as_json(each)] for key, each in value.items()]
    if isinstance(value, Iterable) and not isinstance(value, str):
        return [as_json(each) for each in value]
    return value
