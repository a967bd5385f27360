"""How a system is found: by its name in the catalogue, a path, or its text."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from vpintegrator.catalogue import SYSTEMS, catalogue
from vpintegrator.dynamics.expression import nearest
from vpintegrator.dynamics.system import System
from vpintegrator.errors import InputError

MAXIMUM_SIZE = 1_000_000  # bytes of a TOML file


def read_text(path: Path) -> str:
    """Text of a small UTF-8 file, or InputError saying why it cannot be read."""
    try:
        if path.is_file() and path.stat().st_size > MAXIMUM_SIZE:
            raise InputError(f"{path} is larger than {MAXIMUM_SIZE} bytes: not a description")
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise InputError(f"there is no file {path}") from None
    except IsADirectoryError:
        raise InputError(f"{path} is a folder; give a TOML file") from None
    except UnicodeDecodeError:
        raise InputError(f"{path} is not a text file in UTF-8; give a TOML file") from None
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror}") from None


def is_path(source: str | os.PathLike[str]) -> bool:
    """Whether a name given by the user means a file: it ends in .toml or holds a separator."""
    return isinstance(source, os.PathLike) or source.endswith(".toml") or os.sep in source


def is_text(source: str | os.PathLike[str]) -> bool:
    """Whether this is TOML itself rather than a name or a path."""
    return isinstance(source, str) and ("\n" in source or "=" in source)


def load_system(source: str | os.PathLike[str], /, **parameters: Any) -> System:
    """Load a system.

    Parameters
    ----------
    source
        A name in the catalogue (:func:`list_systems`), the path of a TOML file, or TOML text.
    **parameters
        Values that replace the file's: numbers, lists for arrays, or expressions as text.

    Raises
    ------
    InputError
        If there is no such system, it cannot be understood, or it claims what does not hold.

    Examples
    --------
    >>> system = load_system("rigid-body", I1=3.0)
    >>> system.vector_field([0.0, 0.6, 0.8]).tolist()[0]
    0.24
    """
    if isinstance(source, System):
        raise InputError("load_system was given a System; it is loaded already")
    if is_text(source):
        return System(str(source), parameters=parameters)
    if is_path(source):
        path = Path(source)
        return System(read_text(path), path.stem, parameters, source=path.name)
    systems = catalogue(SYSTEMS)
    name = str(source)
    if name not in systems:
        hint = nearest(name, systems) or f"; there are {', '.join(systems)}"
        raise InputError(
            f"there is no system '{name}' in the catalogue{hint} (a file of your own is given "
            "by its path, ending in .toml)"
        )
    return System(systems[name].read_text(encoding="utf-8"), name, parameters)
