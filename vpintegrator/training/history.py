"""History of a training, and how it is shown."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from vpintegrator.runtime.deadline import BEYOND, time_left
from vpintegrator.runtime.progress import progress_bar

if TYPE_CHECKING:
    from rich.progress import Progress

CURVES = ("seconds", "training_error", "validation_error")
_CURVE_POINTS = 200
# a training is overfitted after so many epochs, if the best was in this part of them and the last
# one's validation error is so many times as large
_MANY, _EARLY, _WORSE = 50, 0.2, 1.1


@dataclass
class History:
    r"""Errors of a training, epoch by epoch, and its outcome.

    Errors are root mean squares over all new states of all windows, relative to the spread of the
    training states, see :func:`vpintegrator.training.relative_error`. The time and constants of
    motion do not count.

    Validation and test errors are one window ahead, from exact windows. The training error is the
    optimizer's: on its windows, with the horizon and the noise of the loss; for Adam, while the
    weights change.

    Attributes
    ----------
    optimizer, seed, parameters
        Name of the optimizer, seed, and number of parameters.
    epoch, seconds, training_error, validation_error
        Values of each epoch (for second-order methods an epoch is an iteration).
    best_epoch, best_validation_error
        Epoch and error of the kept weights.
    test_error
        Error of the kept weights on the dataset's test group; nan if the group is empty.
    windows
        Number of windows that a second-order method used at the end, see ``DampedLeastSquares``;
        else 0.
    rollbacks
        Number of times that the error exploded and training returned to the best weights.
    stopped_by
        ``epochs``, ``seconds``, ``target``, ``patience``, ``interrupt``, ``divergence``, or
        ``solved`` for a linear solve.
    compiled
        Whether residuals and their derivatives were computed as machine code.
    not_compiled
        Reason why they were not, if machine code was not refused by the user.
    share
        Fraction of the budget that is used up, 0 to 1.
    device
        Device of the training.
    warning
        Reason why the model is unreliable, or empty. Its error is larger than without any change of
        state, or far larger on the test group than on the validation group.
    """

    optimizer: str
    seed: int
    parameters: int
    epoch: list[int] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    training_error: list[float] = field(default_factory=list)
    validation_error: list[float] = field(default_factory=list)
    best_epoch: int = 0
    best_validation_error: float = float("inf")
    test_error: float = float("nan")
    windows: int = 0
    rollbacks: int = 0
    stopped_by: str = ""
    compiled: bool = False
    not_compiled: str = ""
    share: float = 0.0
    device: str = "cpu"
    warning: str = ""

    def __repr__(self) -> str:
        ending = f", stopped by {self.stopped_by}" if self.stopped_by else ""
        return (
            f"<History {self.optimizer}: {self.epochs} epochs in {self.used:.3g} s{ending}; "
            f"validation error {self.best_validation_error:.2e} (epoch {self.best_epoch}), "
            f"test error {self.test_error:.2e}>"
        )

    @property
    def epochs(self) -> int:
        """Number of epochs done."""
        return self.epoch[-1] if self.epoch else 0

    @property
    def used(self) -> float:
        """Seconds used."""
        return self.seconds[-1] if self.seconds else 0.0

    @property
    def overfitted(self) -> bool:
        """Whether training learned its windows better and others worse for most of the time."""
        best = self.best_epoch - 1
        if best < 0 or self.epochs < _MANY or self.best_epoch > _EARLY * self.epochs:
            return False
        worse = self.validation_error[-1] > _WORSE * self.best_validation_error
        return worse and self.training_error[-1] < self.training_error[best]

    def add(self, seconds: float, training_error: float, validation_error: float) -> bool:
        """Note an epoch; return whether its weights are the best so far."""
        self.epoch.append(self.epochs + 1)
        self.seconds.append(seconds)
        self.training_error.append(training_error)
        self.validation_error.append(validation_error)
        if validation_error < self.best_validation_error:  # false for nan
            self.best_epoch, self.best_validation_error = self.epochs, validation_error
            return True
        return False

    def summary(self) -> dict[str, Any]:
        """Return the history for a model file, with curves thinned to a few hundred points."""
        every = max(len(self.epoch) // _CURVE_POINTS, 1)
        values = asdict(self)
        for name in ("epoch", *CURVES):
            values[name] = values[name][::every]
        return values


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
        pace = BEYOND / max(
            time_left(), 1.0
        )  # zero without a limit: then the first epoch has no share
        words = dict.fromkeys(("rate", "training", "validation"), "")
        task = bar.add_task("training", total=1.0 if pace else None, pace=pace, epoch=0, **words)

        def show(history: History) -> None:
            bar.update(
                task,
                total=1.0,
                completed=history.share,
                pace=history.share / (history.used or math.inf),
                epoch=history.epochs,
                rate=f"{history.epochs / history.used:.2g}/s" if history.used else "",
                training=f"{history.training_error[-1]:.1e}",
                validation=f"{history.validation_error[-1]:.1e}",
            )

        yield show


class FitBar:
    """Progress bar of a fit: the time used, the kind of map at hand, and the least error so far.

    Parameters
    ----------
    bar
        The bar of rich; None for none.
    seconds
        Time of the fit; None for no limit.
    """

    def __init__(self, bar: Progress | None, seconds: float | None) -> None:
        self.bar, self.kind, self.error = bar, "", "-"
        self.start = time.perf_counter()
        if bar is not None:
            self.task = bar.add_task("", total=seconds, error="-", training="")

    def update(self, kind: str = "", error: float | None = None, training: str = "") -> None:
        """Show another kind, the error of a model, or how far its training is."""
        self.kind = kind or self.kind
        self.error = self.error if error is None else f"{error:.1e}"
        if self.bar is not None:
            spent = time.perf_counter() - self.start
            words = {"description": self.kind, "error": self.error, "training": training}
            self.bar.update(self.task, completed=spent, **words)

    def show(self, history: History) -> None:
        """Show an iteration of a training."""
        self.update(training=f"iteration {history.epochs}, {history.validation_error[-1]:.1e}")


@contextmanager
def fit_bar(progress: object, seconds: float | None) -> Iterator[FitBar]:
    """Show the bar of a fit: if ``progress`` is True, or not False and there is a terminal."""
    from rich.progress import TextColumn

    is_terminal = sys.stderr is not None and sys.stderr.isatty()
    if progress is False or not (progress is True or is_terminal):
        yield FitBar(None, seconds)
        return
    columns = TextColumn("least error {task.fields[error]}"), TextColumn("{task.fields[training]}")
    with progress_bar(*columns) as bar:
        yield FitBar(bar, seconds)
