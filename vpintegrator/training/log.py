"""Training curves for TensorBoard; a failure to write them does not stop the training."""

from __future__ import annotations

import os
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from vpintegrator.errors import InputError
from vpintegrator.storage.files import disk_errors
from vpintegrator.training import processes
from vpintegrator.training.history import History
from vpintegrator.training.output import sentence


@contextmanager
def logging_to(
    folder: str | os.PathLike[str] | None,
) -> Iterator[Callable[[History], None] | None]:
    """Yield a function that logs the last epoch of a history, or None without a folder.

    Raises
    ------
    InputError, OSError
        If TensorBoard is not installed, or the folder cannot be written at the beginning. A later
        failure gives a warning.
    """
    if folder is None or processes.rank() > 0:
        yield None
        return
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        raise InputError(
            f"log = {folder}: TensorBoard is not installed; pip install tensorboard"
        ) from None
    with _silent_threads():
        with disk_errors(folder):
            writer: Any = SummaryWriter(os.fspath(folder))

        def note(history: History) -> None:
            nonlocal writer
            if writer is None:
                return
            try:
                with disk_errors(folder):
                    for name in ("training", "validation"):
                        value = getattr(history, f"{name}_error")[-1]
                        writer.add_scalar(f"error/{name}", value, history.epochs)
            except (InputError, OSError) as error:
                warnings.warn(
                    f"curves end at epoch {history.epochs}, {sentence(error)}", stacklevel=2
                )
                writer = None

        try:
            yield note
        finally:
            with suppress(OSError):
                if writer is not None:
                    writer.close()


@contextmanager
def _silent_threads() -> Iterator[None]:
    """Errors of the disk in the writer's thread reach its caller, and need not be printed too."""
    before = threading.excepthook

    def hook(arguments: threading.ExceptHookArgs) -> None:
        if not isinstance(arguments.exc_value, OSError):
            before(arguments)

    threading.excepthook = hook
    try:
        yield
    finally:
        threading.excepthook = before
