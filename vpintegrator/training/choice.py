"""Result of a training with one estimate of its error, and the choice among several."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from vpintegrator.models import Integrator
from vpintegrator.training.history import History


@dataclass(frozen=True)
class Fit:
    """A trained model, and one estimate of its error.

    Attributes
    ----------
    model
        The model.
    kind, noun, size
        Kind of map in words, for lists and for sentences, and the size of this one.
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
        Why this model was chosen among them, in a sentence.
    """

    model: Integrator
    kind: str
    noun: str
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
        """Return kind, size and error in a line."""
        return f"{self.kind}, {self.size}: error {self.error:.1e} after {self.seconds:.1f} s"


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
    """
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
        return fit is least or fit.error <= least.error + errors * spread

    alike = [fit for fit in kept if is_alike(fit) and fit.explicit >= least.explicit]
    return min(alike, key=lambda fit: fit.parameters)
