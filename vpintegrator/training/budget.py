"""Budget of a training: seconds, epochs and a target error, and the clock that holds them."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from contextlib import contextmanager

from vpintegrator.arguments import positive, whole
from vpintegrator.names import DEFAULT_SECONDS
from vpintegrator.runtime.deadline import until


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
        by :func:`vpintegrator.runtime.deadline.check_time`.

        Raises
        ------
        TimeIsUp
            At the next such look.
        """
        with until(self.start + beyond * self.seconds):
            yield
