"""Results of trainings: the errors of one, the choice among several, and their progress bar."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from vpintegrator.errors import InputError
from vpintegrator.models import Model
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


@dataclass(frozen=True, repr=False, eq=False)
class Fit:
    """A trained model, and one estimate of its error.

    Attributes
    ----------
    model
        The model.
    kind, size
        Kind of map and the size of this one, in words.
    error, deviation
        Root mean square error one step ahead, relative to the spread of the states, and its
        standard error.
    judged_by
        ``held out``: by windows of the validation group. ``left out``: by pairs each of which is
        predicted by the fit to all others; ``blocks``: the same with blocks of time.
    seconds
        Seconds of this training; of the result of :func:`vpintegrator.fit`, of all.
    explicit, structured
        Whether a step is a formula; whether the map keeps the structure of the system.
    history
        Errors of the training, iteration by iteration.
    stopped_by
        Reason of the end: ``solved``, ``seconds``, ``epochs``, ``target``, ``patience`` or
        ``interrupt``.
    cost
        Seconds of a step of one of 1,000 states; nan where it was not measured.
    tried
        Every model that was trained, in order; of the result of :func:`vpintegrator.fit`.
    reason
        Why this model was chosen as the cheapest, in a sentence.
    """

    model: Model
    kind: str
    size: str
    error: float
    deviation: float
    judged_by: str
    seconds: float
    explicit: bool
    structured: bool
    history: History
    stopped_by: str
    cost: float = math.nan
    tried: tuple[Fit, ...] = ()
    reason: str = ""

    @property
    def parameters(self) -> int:
        """Number of trained coefficients."""
        return self.history.parameters

    @property
    def line(self) -> str:
        """Return kind, size, error and seconds in a line."""
        return f"{self.kind}: {self.size}: error {self.error:.1e} after {self.seconds:.1f} s"

    @property
    def kinds(self) -> dict[str, float]:
        """Least error of each kind that was tried."""
        return {
            kind: min(fit.error for fit in self.tried if fit.kind == kind)
            for kind in dict.fromkeys(fit.kind for fit in self.tried)
        }

    def __repr__(self) -> str:
        return f"<Fit {self.kind}, {self.model.name}, {self.size}: error {self.error:.1e}>"

    def __str__(self) -> str:
        history = self.history
        errors = ", ".join(f"{kind} {error:.1e}" for kind, error in self.kinds.items())
        how = history.optimizer + ("" if history.device == "cpu" else f" on {history.device}")
        how += ", compiled" if history.compiled else ""
        lines = [
            f"{self.kind}: {self.model.name}, {self.size}; {structure_of(self.model)}",
            f"  {how}: {history.epochs} epochs, {self.seconds:.1f} s in all, {self._ending}",
            f"  relative error one window ahead: {_JUDGED[self.judged_by]} {self.error:.2e}"
            + (f", test {history.test_error:.2e}" if math.isfinite(history.test_error) else ""),
            f"  tried, with their errors: {errors}" if len(self.tried) > 1 else "",
            f"  {self.reason}" if self.reason else "",
            f"  not compiled: {history.not_compiled}" if history.not_compiled else "",
            f"  {attention}" if (attention := self.model.metadata.get("attention")) else "",
        ]
        return "\n".join(line for line in lines if line)

    @property
    def _ending(self) -> str:
        if self.stopped_by == "interrupt":
            return "interrupted; the best model so far is kept, --start goes on from it"
        return f"stopped by {self.stopped_by}"


_JUDGED = {"held out": "validation", "left out": "leave-one-out", "blocks": "blocks of time"}


def structure_of(model: Model) -> str:
    """Return what a model preserves, in words."""
    words = "no structure is kept"
    if model.measure_preserving:
        words = "preserves the volume of its coordinates"
    if (structure := model.structure).keeps_volume:
        words = structure.words[0]
    symmetries = len(model.reversing_symmetries)
    return f"{words}, reversible ({symmetries} symmetries)" if symmetries else words


def best(
    fits: Sequence[Fit], slack: float = 10.0, rounding: float = 1e-14, errors: float = 2.0
) -> Fit:
    """Return the fit to keep.

    The least error counts. Explicit maps cost less: one is kept up to ``slack`` times the least
    error, or below ``rounding``. Among errors that differ by less than ``errors`` standard errors
    the smallest model is kept. A map without the structure of the system must err ``slack`` times
    less than every map with it.

    Parameters
    ----------
    fits
        Trained models, at least one.

    Raises
    ------
    InputError
        If there is none.

    Examples
    --------
    >>> from vpintegrator.training import best, kinds_of
    >>> dataset = vp.generate("pendulum", "pendulum.h5", count=40, steps=20, overwrite=True)
    >>> result = vp.fit(dataset, kinds_of("sgf"))
    >>> best(result.tried).model is result.model
    True
    """
    if not isinstance(fits, Sequence) or not fits or not all(isinstance(f, Fit) for f in fits):
        raise InputError("fits must be one or more results of trainings, each a Fit")
    fits = [*{id(fit.model): fit for fit in fits}.values()]  # the last training of each model
    kept = [fit for fit in fits if fit.structured]
    free = min((fit.error for fit in fits if not fit.structured), default=math.inf)
    if not kept or slack * free < min(fit.error for fit in kept):
        kept = [fit for fit in fits if not fit.structured]
    least = min(kept, key=lambda fit: fit.error)
    factor = slack if least.judged_by == "held out" else 1.0
    limit = max(rounding, factor * least.error)
    explicit = [fit for fit in kept if fit.explicit and fit.error <= limit]
    if explicit and not least.explicit:
        kept, least = explicit, min(explicit, key=lambda fit: fit.error)

    def is_alike(fit: Fit) -> bool:
        spread = math.hypot(fit.deviation, least.deviation)
        is_known = math.isfinite(fit.error) and fit.error <= least.error + errors * spread
        return fit is least or is_known

    alike = [fit for fit in kept if is_alike(fit) and fit.explicit >= least.explicit]
    return min(alike, key=lambda fit: fit.parameters)


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
        self.bar, self.seconds, self.start = bar, seconds or math.inf, time.perf_counter()
        if bar is not None:
            total = 1.0 if seconds else None  # without a limit the bar says only that it is at work
            self.task = bar.add_task("", total=total, error="-", training="")

    def update(self, share: float = 0.0, **words: Any) -> None:
        """Show what is trained (description), the least error, or the share that is done."""
        if self.bar is not None:
            share = max(share, (time.perf_counter() - self.start) / self.seconds)
            words |= {"total": 1.0, "completed": share} if share > 0 else {}
            self.bar.update(self.task, **words)

    def show(self, history: History) -> None:
        """Show an iteration of a training."""
        self.update(training=f"iteration {history.epochs}, {history.validation_error[-1]:.1e}")


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
