"""Progress bar of a training."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from vpintegrator.runtime.progress import progress_bar
from vpintegrator.training.history import History

Show = Callable[[History], None]


@contextmanager
def shown(progress: Show | bool | None) -> Iterator[Show | None]:
    """Yield a function to call after every epoch, or None.

    Parameters
    ----------
    progress
        A function; True for a bar on standard error (plain lines where that is no terminal), None
        for a bar where it is a terminal, False for nothing.
    """
    if progress is None:
        progress = sys.stderr is not None and sys.stderr.isatty()
    if not isinstance(progress, bool):
        yield progress
    elif progress:
        with training_bar() as show:
            yield show
    else:
        yield None


@contextmanager
def training_bar(quiet: bool = False) -> Iterator[Show]:
    """A progress bar with epochs, errors and time left."""
    from rich.progress import TextColumn

    columns = (
        TextColumn("epoch {task.fields[epoch]} ({task.fields[rate]})"),
        TextColumn("error {task.fields[training]}, validation {task.fields[validation]}"),
    )
    with progress_bar(*columns, quiet=quiet) as bar:
        task = bar.add_task("training", total=1.0, epoch=0, rate="", training="", validation="")

        def show(history: History) -> None:
            bar.update(
                task,
                completed=history.share,
                epoch=history.epochs,
                rate=f"{history.epochs / history.used:.2g}/s" if history.used else "",
                training=f"{history.training_error[-1]:.1e}",
                validation=f"{history.validation_error[-1]:.1e}",
            )

        yield show
