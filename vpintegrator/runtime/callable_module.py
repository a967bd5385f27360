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
    function = getattr(module, name.rpartition(".")[2])
    module.__signature__ = inspect.signature(function)  # type: ignore[attr-defined]
