"""Systems from user code, given to the commands as MODULE:NAME."""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import os
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from vpintegrator.errors import InputError, nearest

if TYPE_CHECKING:
    from vpintegrator.dynamics import System

_REFERENCE = re.compile(r"([A-Za-z_][\w.]*|[^\n=:]*\.py):([A-Za-z_]\w*)")
_OF_SYSTEMS = ("dim", "components", "sample", "step", "parameters", "name")
_CLAIMS = ("reversing_symmetries", "invariants", "periodic")
_OF_FLOWS = ("hamiltonian", "divergence_free", "period")
_OF_MAPS = ("inverse", "structure")


def is_reference(text: str) -> bool:
    """Whether a text names an object of Python, ``module:name`` or ``file.py:name``."""
    return _REFERENCE.fullmatch(text) is not None


def system_of(text: str, parameters: Mapping[str, Any]) -> System:
    """Return the system ``module:name`` with other values of some parameters.

    Parameters
    ----------
    text
        Name of a module, or path of a file, and the name of an object in it: a
        :class:`vpintegrator.System`, a function f(t, y) with attributes such as ``dim``, or a
        function without arguments that returns a system.
    parameters
        Values of parameters.

    Raises
    ------
    InputError
        If the module or the name is missing, or the object is no system.
    """
    from vpintegrator.dynamics import System

    match = _REFERENCE.fullmatch(text)
    assert match is not None
    module = _imported(match[1])
    if not hasattr(module, match[2]):
        known = [name for name in vars(module) if not name.startswith("_")]
        raise InputError(f"{match[1]} has no '{match[2]}'{nearest(match[2], known)}")
    found = getattr(module, match[2])
    system = found if isinstance(found, System) else _of_object(found, text)
    return system.with_parameters(parameters) if parameters else system


def _of_object(found: Any, text: str) -> System:
    from vpintegrator.dynamics import System

    if not callable(found):
        raise InputError(
            f"{text} is of type {type(found).__name__}: neither a system nor a function"
        )
    given = {name: getattr(found, name) for name in (*_OF_SYSTEMS, *_CLAIMS) if name in vars(found)}
    own = vars(found)
    if any(name in own for name in _OF_MAPS):
        given |= {name: own[name] for name in _OF_MAPS if name in own}
        given.pop("step", None)
        return System.from_map(found, **given)
    if "dim" in given or "components" in given:
        given |= {name: own[name] for name in _OF_FLOWS if name in own}
        return System.from_function(found, **given)
    try:
        made = found()
    except TypeError:
        made = None
    if not isinstance(made, System):
        raise InputError(
            f"{text} is a function without the number of its components: set {found.__name__}.dim "
            f"= 2, or name what vp.System.from_function({found.__name__}, dim=2) returns"
        )
    return made


def _imported(name: str) -> ModuleType:
    try:
        with _current_folder():
            if name.endswith(".py"):
                return _of_file(Path(name))
            return importlib.import_module(name)
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


@contextlib.contextmanager
def _current_folder() -> Iterator[None]:
    """Put the current folder first on the path, as for ``python -m``."""
    folder = os.getcwd()
    added = folder not in sys.path
    if added:
        sys.path.insert(0, folder)
    importlib.invalidate_caches()
    try:
        yield
    finally:
        if added and folder in sys.path:
            sys.path.remove(folder)


def load_system_asked(name: str, parameters: Mapping[str, Any]) -> System:
    """Load the system that a user names: of the catalogue, a file, a text, or ``module:name``."""
    if is_reference(name):
        return system_of(name, parameters)
    from vpintegrator.dynamics import load_system

    return load_system(name, **parameters)
