"""Options and budget of a training: optimizer, loss, device; seconds, epochs, target."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields

from vpintegrator.arguments import one_of, positive, whole
from vpintegrator.names import DEFAULT_SECONDS
from vpintegrator.runtime.devices import check_device
from vpintegrator.runtime.interrupts import until
from vpintegrator.training.residuals import Loss, Objective


@dataclass(frozen=True)
class TrainingOptions:
    """Options of a training, each with the default of :func:`vpintegrator.train`.

    Attributes
    ----------
    recipe, optimizer, batch, learning_rate
        Training of a paper, name of the optimizer, windows in a step, and first learning rate.
    loss, horizon, noise
        Loss, predictions in a row that count, and noise on the inputs.
    initial_scheme, normalise
        Whether polynomials begin as a splitting, and whether the normalisation is set.
    device, compiled
        Device of the training, and whether machine code is used.

    Raises
    ------
    InputError
        If a value is out of range, or the recipe decides it.

    Examples
    --------
    >>> from vpintegrator.training import TrainingOptions
    >>> TrainingOptions(optimizer="adam", batch=64).changed
    {'optimizer': 'adam', 'batch': 64}
    """

    recipe: str | None = None
    optimizer: str = "auto"
    batch: int | None = None
    learning_rate: float | None = None
    loss: str | Loss = "mean-square"
    horizon: int = 1
    noise: float = 0.0
    initial_scheme: str = "auto"
    normalise: bool = True
    device: str = "cpu"
    compiled: bool | None = None

    def __post_init__(self) -> None:
        if self.device != "cpu":
            check_device(self.device)
        if self.recipe is not None:
            one_of("recipe", self.recipe, ["published"])
            one_of("optimizer of the published recipe", self.optimizer, ["auto", "adam"])
            object.__setattr__(self, "loss", "relative")
            object.__setattr__(self, "normalise", False)
        one_of("initial_scheme", self.initial_scheme, ("auto", "none"))
        if self.batch is not None:
            whole("batch", self.batch)
        if self.learning_rate is not None:
            positive("learning_rate", self.learning_rate)
        _ = self.objective

    @property
    def objective(self) -> Objective:
        """The least-squares problem."""
        return Objective(self.loss, self.horizon, self.noise)

    @property
    def changed(self) -> dict[str, object]:
        """Options that differ from their defaults, by name."""
        values = {each: getattr(self, each.name) for each in fields(self)}
        return {each.name: value for each, value in values.items() if value != each.default}


class Budget:
    """Limits of a training or of a search, and the clock that holds them.

    :func:`vpintegrator.fit` and :func:`vpintegrator.train` make one budget each, and hand it down.
    Its clock starts when it is made.

    Attributes
    ----------
    whole
        Seconds of the whole work, of which this budget may be a part. Sizes are chosen by them, as
        seconds that are left differ from run to run.

    Parameters
    ----------
    seconds
        Seconds of wall time; infinite for no limit. Without seconds and epochs, 150.
    epochs
        Epochs of a training; of a search, iterations of each kind that is trained by iterations.
    target
        Validation error at which the work ends.

    Raises
    ------
    InputError
        If a limit is not positive, or ``epochs`` is no whole number.

    Examples
    --------
    >>> from vpintegrator.training import Budget
    >>> budget = Budget(epochs=20)
    >>> budget.seconds, budget.share(epochs=5)
    (inf, 0.25)
    """

    def __init__(
        self,
        seconds: float | None = None,
        epochs: int | None = None,
        target: float | None = None,
    ) -> None:
        self.epochs = None if epochs is None else whole("epochs", epochs)
        self.target = 0.0 if target is None else positive("target", target)
        if seconds is None:
            seconds = DEFAULT_SECONDS if epochs is None else math.inf
        self.seconds = seconds if seconds == math.inf else positive("seconds", seconds)
        self.whole = self.seconds
        self.start = time.perf_counter()

    @property
    def end(self) -> float:
        """Value of ``time.perf_counter`` at the end of the seconds."""
        return self.start + self.seconds

    @property
    def used(self) -> float:
        """Seconds since the start."""
        return time.perf_counter() - self.start

    @property
    def left(self) -> float:
        """Seconds that are left, negative after the end."""
        return self.end - time.perf_counter() if math.isfinite(self.seconds) else math.inf

    def share(self, epochs: int = 0, seconds: float | None = None) -> float:
        """Return the fraction of the budget that is used up, 0 to 1.

        Parameters
        ----------
        epochs
            Epochs that are done.
        seconds
            Seconds that are used; by default those of the clock.
        """
        seconds = self.used if seconds is None else seconds
        return min(max(epochs / (self.epochs or math.inf), seconds / self.seconds), 1.0)

    def part(self, fraction: float = 1.0, epochs: int | None = None) -> Budget:
        """Return a budget of a fraction of the seconds that are left, with the same target.

        Parameters
        ----------
        fraction
            Fraction of the seconds.
        epochs
            Epochs of the part; None for no limit.
        """
        part = Budget(math.inf, epochs)
        part.seconds = max(fraction * self.left, 1e-9)
        part.target = self.target
        part.whole = self.whole
        return part

    @contextmanager
    def hold(self, beyond: float = 1.0) -> Iterator[None]:
        """Cut short what is done in the block, at ``beyond`` times the seconds.

        Long computations that know no budget, such as a compilation or a solve, look at this end
        by :func:`vpintegrator.runtime.interrupts.check_time`.

        Raises
        ------
        TimeIsUp
            At the next such look.
        """
        with until(self.start + beyond * self.seconds):
            yield
