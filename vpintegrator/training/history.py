"""History of a training, and how it is shown."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from vpintegrator.runtime.progress import progress_bar

if TYPE_CHECKING:
    from rich.progress import Progress

CURVES = ("seconds", "training_error", "validation_error")
_CURVE_POINTS = 200


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


class TrainingBar:
    """Progress bar of trainings: what is trained, its iterations and errors, and the time.

    Parameters
    ----------
    bar
        Bar of rich; None shows nothing.
    seconds
        Time of all trainings; None for no limit.
    """

    def __init__(self, bar: Progress | None, seconds: float | None) -> None:
        self.bar, self.seconds, self.start = bar, seconds, time.perf_counter()
        if bar is not None:
            total = 1.0 if seconds else None  # without a limit the bar says only that it is at work
            self.task = bar.add_task("", total=total, error="-", training="")

    def update(
        self, kind: str | None = None, error: float | None = None, share: float | None = None
    ) -> None:
        """Show another kind of model, the least error, or the share of the work that is done."""
        if self.bar is None:
            return
        words: dict[str, Any] = {} if kind is None else {"description": kind, "training": ""}
        words |= {} if error is None else {"error": f"{error:.1e}"}
        if self.seconds:
            share = max(share or 0.0, (time.perf_counter() - self.start) / self.seconds)
        if share is not None:
            words |= {"total": 1.0, "completed": share}
        self.bar.update(self.task, **words)

    def show(self, history: History) -> None:
        """Show an iteration of a training."""
        if self.bar is not None:
            words = f"iteration {history.epochs}, {history.validation_error[-1]:.1e}"
            self.bar.update(self.task, training=words)
            self.update()


@contextmanager
def training_bar(progress: object, seconds: float | None) -> Iterator[TrainingBar]:
    """Show a bar if ``progress`` is True, or None and standard error is a terminal."""
    is_terminal = sys.stderr is not None and sys.stderr.isatty()
    if not (progress is True or (progress is None and is_terminal)):
        yield TrainingBar(None, seconds)
        return
    from rich.progress import TextColumn

    columns = TextColumn("least error {task.fields[error]}"), TextColumn("{task.fields[training]}")
    with progress_bar(*columns) as bar:
        yield TrainingBar(bar, seconds)
