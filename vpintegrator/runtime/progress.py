"""Progress of long work: a bar in a terminal, occasional plain lines elsewhere."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

from vpintegrator.errors import printable

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress

NOTEBOOK = 96  # letters of a line in a notebook
_LINE_SECONDS = 2.0  # at least, between two plain lines
_PATIENCE = 60.0  # after so long there is a line, however little was done


def in_notebook() -> bool:
    """Whether a cell of a notebook runs this program, as ``!vp-gen rigid-body``.

    Jupyter gives it a terminal, whose every redrawing would stay on the page. Its kernels have this
    variable from those that start them.
    """
    return "JPY_PARENT_PID" in os.environ


@contextmanager
def progress_bar(*columns: Any) -> Iterator[Progress]:
    """Show a progress bar on standard error with time taken and time left.

    If standard error is no terminal, plain lines are printed from time to time.

    Parameters
    ----------
    columns
        Columns in place of the percentage.
    """
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    console = Console(stderr=True)
    shown = (
        TextColumn("{task.description}", markup=False),  # it may be the name of a file
        BarColumn(bar_width=16),
        *(columns or (TextColumn("{task.percentage:>3.0f}%"),)),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
    )
    if console.is_terminal and not in_notebook():
        bar = Progress(*shown, console=console)
    else:
        plain: dict[str, Any] = dict.fromkeys(("highlight", "markup", "emoji"), False)
        bar = plain_progress(Console(stderr=True, force_terminal=False, **plain), *shown)
    with bar as progress:
        yield progress


@contextmanager
def step_bar(
    progress: bool | Callable[[str, int, int], None] | None, patience: float = 2.0
) -> Iterator[Callable[[str, int, int], None]]:
    """Yield the function that long work calls with a name, steps done, and steps in all.

    Parameters
    ----------
    progress
        The function itself; True for a bar; None for one if standard error is a terminal.
    patience
        Seconds after which the bar appears.
    """
    if callable(progress):
        yield progress
        return
    is_terminal = sys.stderr is not None and sys.stderr.isatty()
    visible = progress is True or (progress is None and is_terminal)
    begin = time.monotonic()
    current = ""
    shown = None
    with ExitStack() as stack:

        def show(name: str, done: int, total: int) -> None:
            nonlocal current, shown
            if not visible or (shown is None and time.monotonic() - begin < patience):
                return
            if shown is None:
                bar = stack.enter_context(progress_bar())
                shown = bar, bar.add_task("", total=None)
            bar, task = shown
            if name != current:
                bar.reset(task, total=total, description=printable(name))
                current = name
            bar.update(task, completed=done, total=total)

        yield show


def plain_progress(console: Console, *columns: Any) -> Progress:
    """Print progress to a file or a pipe: a line for each tenth, and at least one a minute.

    A task that is done within seconds prints nothing.
    """
    from rich.progress import Progress, ProgressColumn, TaskID
    from rich.text import Text

    class PlainProgress(Progress):
        def __init__(self) -> None:
            super().__init__(*columns, console=console, disable=True)
            self._said = time.monotonic()
            self._tenths: dict[TaskID, int] = {}

        def update(self, task_id: TaskID, **changes: Any) -> None:
            super().update(task_id, **changes)
            task = self._tasks[task_id]
            tenths = int(task.percentage // 10)
            since = time.monotonic() - self._said
            ahead = tenths > self._tenths.get(task_id, 0) and since >= _LINE_SECONDS
            if not (ahead or since >= _PATIENCE):
                return
            self._said = time.monotonic()
            self._tenths[task_id] = tenths
            cells = (column(task) for column in self.columns if isinstance(column, ProgressColumn))
            words = (cell.plain for cell in cells if isinstance(cell, Text))
            console.print(printable(" ".join(words)), soft_wrap=True)

    return PlainProgress()
