"""The arguments of architectures: their kinds are read off the constructors, and checked once.

Python, model files and the command line all take them from here, so that the same value means
the same model everywhere.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from types import NoneType, UnionType
from typing import Any, Concatenate, ParamSpec, get_args, get_type_hints

from vpintegrator.nn.checks import plain
from vpintegrator.nn.split import Blocks

P = ParamSpec("P")

_PLAIN = {bool, int, float, str, NoneType}


def checked_arguments(
    init: Callable[Concatenate[Any, P], None],
) -> Callable[Concatenate[Any, P], None]:
    """A constructor whose arguments are checked to be of the kinds that it declares.

    Numbers, truth values and texts arrive as plain Python ones (see ``vpintegrator.nn.checks``); a
    value of another kind is an InputError that names the argument. Arguments of composite kinds
    (blocks of a split, matrices, dtypes) are left to the constructor.
    """

    @functools.wraps(init)
    def checked(self: Any, *args: P.args, **kwargs: P.kwargs) -> None:
        kinds = _plain_kinds(init)
        for name, value in kwargs.items():
            if name in kinds:
                kwargs[name] = plain(name, value, kinds[name])
        init(self, *args, **kwargs)

    return checked


def argument_kinds(architecture: type) -> dict[str, tuple[Any, ...]]:
    """The alternatives of kind of each argument, as declared: ``(int, NoneType)``, ``(bool,)``.

    ``Blocks`` stays one alternative; anything that is not checked is ``Any``.
    """
    hints = get_type_hints(inspect.unwrap(architecture.__init__))  # type: ignore[misc]
    return {
        name: _alternatives(hints[name])
        for name in inspect.signature(architecture).parameters
        if name in hints
    }


@functools.cache
def _plain_kinds(init: Callable[..., None]) -> dict[str, tuple[type, ...]]:
    kinds = {name: _alternatives(hint) for name, hint in get_type_hints(init).items()}
    return {name: some for name, some in kinds.items() if set(some) <= _PLAIN}


def _alternatives(hint: Any) -> tuple[Any, ...]:
    return get_args(hint) if isinstance(hint, UnionType) and hint != Blocks else (hint,)
