"""Systems by name, file or ``MODULE:NAME``, an object of the user's own Python code."""

from __future__ import annotations

import importlib
import importlib.util
import os
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from vpintegrator.errors import InputError, nearest

if TYPE_CHECKING:
    from vpintegrator.dynamics import System

_REFERENCE = re.compile(r"([A-Za-z_][\w.]*|[^\n=:]*\.py):([A-Za-z_]\w*)")


def is_reference(text: str) -> bool:
    """Whether a text names an object of Python, ``module:name`` or ``file.py:name``."""
    return _REFERENCE.fullmatch(text) is not None


def load_system(text: str, parameters: Mapping[str, Any]) -> System:
    """Load a system of the catalogue, a file, a text, or a :class:`System` as ``module:name``.

    Raises
    ------
    InputError
        If there is no such system, or the module has none of this name.
    """
    match = _REFERENCE.fullmatch(text)
    if match is None:
        from vpintegrator.dynamics import load_system as load

        return load(text, **parameters)
    from vpintegrator.dynamics import System

    module = _imported(match[1])
    if not hasattr(module, match[2]):
        known = [name for name in vars(module) if not name.startswith("_")]
        raise InputError(f"{match[1]} has no '{match[2]}'{nearest(match[2], known)}")
    system = getattr(module, match[2])
    if not isinstance(system, System):
        raise InputError(
            f"{text} is of type {type(system).__name__}; name a System, such as "
            f"vp.System.from_function({match[2]}, dim=2) gives"
        )
    return system.with_parameters(parameters) if parameters else system


def _imported(name: str) -> ModuleType:
    try:
        _search_current_folder()
        return _of_file(Path(name)) if name.endswith(".py") else importlib.import_module(name)
    except InputError:
        raise
    except ModuleNotFoundError as error:
        if error.name is not None and name.split(".")[0] == error.name.split(".")[0]:
            raise InputError(
                f"there is no module '{name}' in this folder, nor is one installed"
            ) from None
        raise InputError(f"{name} needs the module '{error.name}', which is missing") from None
    except Exception as error:  # whatever the code of the user raises
        raise InputError(f"{name} cannot be imported: {type(error).__name__}: {error}") from None


def _of_file(path: Path) -> ModuleType:
    if not path.is_file():
        raise InputError(f"there is no file {path}")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise InputError(f"{path} is no file of Python")
    module = importlib.util.module_from_spec(spec)
    sys.modules.setdefault(path.stem, module)
    spec.loader.exec_module(module)
    return module


def _search_current_folder() -> None:
    """Put the current folder first on the path, as ``python -m`` does."""
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    importlib.invalidate_caches()
