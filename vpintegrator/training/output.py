"""Where a trained model goes: to its file, and if that cannot be, to another place."""

from __future__ import annotations

import itertools
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

from vpintegrator.errors import InputError
from vpintegrator.models import Integrator, save


def save_somewhere(model: Integrator, path: str | os.PathLike[str], overwrite: bool) -> None:
    """Save a model that took long to train, come what may.

    Raises
    ------
    InputError
        If it cannot be written to ``path``; the message says why, and where it is now.
    """
    path = Path(path)
    try:
        save(model, path, overwrite)
        return
    except (InputError, OSError) as error:
        reason = sentence(error)
    for other in _other_places(path):
        try:
            save(model, other)
        except (InputError, OSError):
            continue
        raise InputError(f"{reason}; the trained model is kept in {other}")
    raise InputError(f"{reason}; nor can the trained model be kept anywhere else")


def _other_places(path: Path) -> Iterator[Path]:
    """Files that do not exist: beside the first choice, here, and where the system puts such."""
    for folder in (path.parent, Path.cwd()):
        yield next(
            other
            for number in itertools.count(2)
            if not os.path.lexists(other := folder / f"{path.stem}-{number}{path.suffix}")
        )
    try:
        yield Path(tempfile.mkdtemp(prefix="vp-train-")) / path.name
    except OSError:
        return


def sentence(error: Exception) -> str:
    """What an error says, without numbers of errors."""
    if isinstance(error, OSError) and error.strerror:
        return f"cannot write {error.filename or 'a file'}: {error.strerror}"
    return str(error)
