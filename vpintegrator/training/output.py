"""Output of a training: the model in its file or, if that fails, elsewhere."""

from __future__ import annotations

import itertools
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from vpintegrator.errors import InputError
from vpintegrator.models import Integrator, save
from vpintegrator.storage.files import check_output, locked


@dataclass(frozen=True)
class Files:
    """File that a training writes.

    Attributes
    ----------
    output, overwrite
        Arguments of :func:`vpintegrator.train`.
    """

    output: str | os.PathLike[str] | None = None
    overwrite: bool = False

    @contextmanager
    def claimed(self) -> Iterator[None]:
        """Keep other processes from the file.

        Raises
        ------
        InputError
            If another is at work on it, or the model cannot be written where it should.
        """
        if self.output is None:
            yield
            return
        check_output(self.output, self.overwrite)
        with locked(self.output):
            yield


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
        reason = _sentence(error)
    for other in _other_places(path):
        try:
            save(model, other)
        except (InputError, OSError):
            continue
        raise InputError(f"{reason}; the trained model is kept in {other}")
    raise InputError(f"{reason}; nor can the trained model be kept anywhere else")


def _other_places(path: Path) -> Iterator[Path]:
    """Yield new files: beside the first choice, in this folder, and in a temporary one."""
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


def _sentence(error: Exception) -> str:
    """Return the message of an error without error numbers."""
    if isinstance(error, OSError) and error.strerror:
        return f"cannot write {error.filename or 'a file'}: {error.strerror}"
    return str(error)
