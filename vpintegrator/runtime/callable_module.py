"""Callable modules, which call their function of the same name: ``vp.rollout(...)``."""

from __future__ import annotations

import inspect
import sys
from types import ModuleType
from typing import Any


class CallableModule(ModuleType):
    """Module that calls its function of the same name."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return getattr(self, self.__name__.rpartition(".")[2])(*args, **kwargs)


def make_callable(name: str) -> None:
    """Let a module that has been imported be called."""
    module = sys.modules[name]
    module.__class__ = CallableModule
    plain = name.rpartition(".")[2]
    function = getattr(module, plain)
    signature = inspect.signature(function)
    module.__signature__ = signature  # type: ignore[attr-defined]
    # help() describes a module by its docstring: the arguments of the call belong there
    about, _, rest = (module.__doc__ or "").partition("\n")
    call = f"{plain}{signature}\n\n{inspect.getdoc(function)}"
    module.__doc__ = f"{about}\n\n{call}\n\n{rest.strip()}"
