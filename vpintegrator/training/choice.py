"""Result of a training with one estimate of its error, and the choice among several."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from vpintegrator.errors import InputError
from vpintegrator.models import Model
from vpintegrator.training.history import History


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
        Why this model was chosen among them, in a sentence.
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
