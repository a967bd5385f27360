"""Results of trainings: the errors of one, the choice among several, and their progress bar."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import numpy as np

from vpintegrator.errors import InputError
from vpintegrator.maps import Map
from vpintegrator.models import Model
from vpintegrator.models.stored import History
from vpintegrator.nn import canonical_form
from vpintegrator.nn.feed_forward import AffineMap
from vpintegrator.runtime.progress import progress_bar

if TYPE_CHECKING:
    from rich.progress import Progress


@dataclass(frozen=True)
class Orbits:
    """Orbits of a map that begin at held-out states.

    Attributes
    ----------
    count, steps
        Number of the orbits, and of the steps of each.
    lost
        Number of those that are not finite, or outside twice the range of the training states.
    horizon
        Steps after which ``error`` is taken; at most 100, and as long as the data.
    error
        Median distance from the data then, relative to the spread of the states; nan where the
        data have single steps.
    """

    count: int
    steps: int
    lost: int
    horizon: int
    error: float

    @property
    def words(self) -> str:
        """A line on these orbits."""
        lost = f"{self.lost} of {self.count} lost within {self.steps:,} steps"
        if math.isnan(self.error):
            return f"held-out orbits: {lost}"
        return f"held-out orbits: error {self.error:.1e} after {self.horizon} steps, {lost}"


@dataclass(frozen=True)
class Tolerances:
    """Relative errors of one step below which a map needs nothing more.

    Attributes
    ----------
    rounding
        No further map can be better.
    exact
        No further functions or orbits are needed: data have this error at usual tolerances of
        their solver.
    good
        Couplings are not worth the rest of the budget.
    test
        A larger test error may be rounding, however small the validation error is.
    form
        Defect of the matrix of a linear map that keeps a form.
    """

    rounding: float = 1e-14
    exact: float = 1e-12
    good: float = 1e-9
    test: float = 1e-10
    form: float = 1e-10


TOLERANCES = Tolerances()


@dataclass(frozen=True, repr=False, eq=False)
class Fit:
    """A trained model, and one estimate of its error.

    Attributes
    ----------
    model
        The :class:`vpintegrator.Map` that was trained: a model, or with equations a classical
        method.
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
    provenance
        Source of the map in words: "learned from 16,000 pairs of states".
    segment
        Whether it is the map of a segment of a step, which is no map of the data by itself.
    superseded
        Whether this one is not chosen: another fit of its kind is better over several steps, or
        others were iterated in its place.
    history
        Errors of the training, iteration by iteration.
    stopped_by
        Reason of the end: ``solved``, ``seconds``, ``epochs``, ``target``, ``patience`` or
        ``interrupt``.
    orbits
        Orbits of the map that begin at held-out states; None where the map was not iterated.
    cost
        Seconds of a step of one of 1,000 states; nan where it was not measured.
    tried
        Every model that was trained, in order; of the result of :func:`vpintegrator.fit`.
    reason
        Why this model was chosen as the cheapest, in a sentence.
    windows
        Least error of each window that was tried, by its number of states, where states may be
        incomplete observations.
    window_words
        Number of observations that determine the next one, with these errors, in a line.
    """

    model: Any
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
    provenance: str = ""
    segment: bool = False
    orbits: Orbits | None = None
    superseded: bool = False
    cost: float = math.nan
    tried: tuple[Fit, ...] = ()
    reason: str = ""
    windows: Mapping[int, float] = field(default_factory=dict)
    window_words: str = ""

    @property
    def parameters(self) -> int:
        """Number of trained coefficients."""
        return self.history.parameters

    @property
    def keeps_invariants(self) -> bool:
        """Whether the map is projected to keep invariants of the data."""
        return isinstance(self.model, Model) and self.model.invariants is not None

    @property
    def score(self) -> float:
        """Error of a step, by one step and by the steps of held-out orbits: the geometric mean."""
        orbits = self.orbits
        if orbits is None or math.isnan(orbits.error):
            return self.error
        return math.sqrt(self.error * orbits.error / orbits.horizon)

    @property
    def line(self) -> str:
        """Return kind, size, error and seconds in a line."""
        return f"{self.kind}: {self.size}: error {self.error:.1e} after {self.seconds:.1f} s"

    @property
    def kinds(self) -> dict[str, float]:
        """Least error of each kind that was tried."""
        errors: dict[str, float] = {}
        for fit in self.tried:
            if fit.segment:
                continue
            errors[fit.kind] = min(fit.error, errors.get(fit.kind, math.inf))
        return errors

    def __repr__(self) -> str:
        return f"<Fit {self.kind}, {self.model.name}, {self.size}: error {self.error:.1e}>"

    def __str__(self) -> str:
        history = self.history
        end = f"stopped by {self.stopped_by}"
        if self.stopped_by == "interrupt":
            end = "interrupted; the best model so far is kept, --start goes on from it"
        errors = ", ".join(f"{kind} {error:.1e}" for kind, error in self.kinds.items())
        how = history.optimizer + ("" if history.device == "cpu" else f" on {history.device}")
        if history.compiled:
            how += f", compiled in {history.compiler_seconds:.1f} s"
        test = f", test {history.test_error:.2e} ± {history.test_deviation:.1e}"
        attention = self.model.attention_summary
        lines = [
            f"{self.kind}: {self.model.name}, {self.size}; {_structure_of(self.model)}",
            f"  {self.provenance}" if self.provenance else "",
            f"  {how}: {history.epochs} epochs, {self.seconds:.1f} s in all, {end}",
            f"  relative error one window ahead: {_JUDGED[self.judged_by]} {self.error:.2e}"
            + (test if math.isfinite(history.test_error) else ""),
            _lead_times(self.model),
            f"  {self.orbits.words}" if self.orbits else "",
            f"  {self.window_words}" if self.window_words else "",
            f"  tried, with their errors: {errors}" if len(self.tried) > 1 else "",
            f"  {self.reason}" if self.reason else "",
            f"  not compiled: {history.not_compiled}" if history.not_compiled else "",
            f"  {attention}" if attention else "",
        ]
        return "\n".join(filter(None, lines))


_JUDGED = {"held out": "validation", "left out": "leave-one-out", "blocks": "blocks of time"}


def _lead_times(map: Map) -> str:
    """Return a line on the errors of all new states of a call, if there are several."""
    errors = map.record.lead_time_errors if isinstance(map, Model) else ()
    if not errors:
        return ""
    return (
        f"  error of the new states, 1 to {len(errors)} steps ahead: {min(errors):.1e} to "
        f"{max(errors):.1e}"
    )


def _structure_of(map: Map) -> str:
    """Return what a map preserves, in words."""
    words = "no structure is kept"
    if isinstance(map, Model) and map.measure_preserving:
        words = "preserves the volume of its coordinates"
    if isinstance(map, Model) and map.invariants is not None:
        words = map.invariant_words
    structure = map.structure
    if structure.form != "none":
        words = structure.words[0]
    if isinstance(map, Model) and map.shifts:
        return f"{words}: the map shifts windows"
    symmetries = len(structure.reversing_symmetries)
    return f"{words}, reversible ({symmetries} symmetries)" if symmetries else words


def keeps(map: Map, form: str, rounding: float = TOLERANCES.form) -> bool:
    """Whether a map keeps a form: ``symplectic``, ``volume`` or ``lagrangian``.

    A linear map of single states keeps it where its matrix does, up to ``rounding``.

    Examples
    --------
    >>> from vpintegrator.training.results import keeps
    >>> keeps(vp.models.SymplecticFeedForward(dim=2), "symplectic")
    True
    >>> keeps(vp.models.ResidualNetwork(dim=2), "volume")
    False
    """
    structure = map.structure
    if form == "lagrangian":
        return bool(structure.form == form)
    claimed = structure.is_symplectic if form == "symplectic" else structure.keeps_volume
    if claimed or not isinstance(map, Model) or not isinstance(map.core, AffineMap):
        return bool(claimed)
    matrix = map.derivative(np.zeros((1, 1, map.dim)))[0]  # (dim, dim)
    if form == "volume":
        return bool(abs(abs(np.linalg.det(matrix)) - 1) < rounding)
    if map.dim % 2:
        return False
    J = canonical_form(map.dim).numpy()
    return bool(np.abs(matrix.T @ J @ matrix - J).max() < rounding)


def best(
    fits: Sequence[Fit],
    slack: float = 3.0,
    rounding: float = TOLERANCES.rounding,
    errors: float = 2.0,
    lost: float = 100.0,
) -> Fit:
    """Return the fit to keep.

    The least :attr:`Fit.score` counts. These may be taken instead of a map of a lower one:

    - one that loses no held-out orbits, up to ``lost`` times the error of one that does;
    - one with the structure of the system, up to ``slack`` times that of one without it;
    - an explicit one, which costs less, up to ``slack`` times that of an implicit one, or below
      ``rounding``;
    - one that keeps invariants, up to ``slack`` times that of another one without structure, if it
      loses no more orbits;
    - the smallest of those that differ by less than ``errors`` standard errors.

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
    >>> from vpintegrator.training import best, search
    >>> dataset = vp.generate("pendulum", "pendulum.h5", count=40, steps=20, overwrite=True)
    >>> result = vp.fit(dataset, [search("sgf")])
    >>> best(result.tried).model is result.model
    True
    """
    if not isinstance(fits, Sequence) or not fits or not all(isinstance(f, Fit) for f in fits):
        raise InputError("fits must be one or more results of trainings, each a Fit")
    last = candidates(fits)
    losing = [fit for fit in last if fit.orbits is not None and fit.orbits.lost]
    steady = [fit for fit in last if fit not in losing]
    kept: Sequence[Fit] = steady or losing
    if steady and losing and min(map(_error, steady)) > lost * min(map(_error, losing)):
        kept = last
    structured = [fit for fit in kept if fit.structured]
    kept = _preferred(structured, [fit for fit in kept if not fit.structured], slack, errors)
    kept = _projected(kept, slack)
    least = min(kept, key=_score)
    explicit = [fit for fit in kept if fit.explicit]
    # left-out pairs are too few for a preference
    factor = slack if least.judged_by == "held out" else 1.0
    limit = max(rounding, factor * least.score)
    if not least.explicit and any(fit.score <= limit for fit in explicit):
        kept = explicit
        least = min(explicit, key=_score)
    alike = [fit for fit in kept if fit is least or _is_alike(fit, least, errors)]
    return min((fit for fit in alike if fit.explicit >= least.explicit), key=_parameters)


_error = attrgetter("error")
_score = attrgetter("score")
_parameters = attrgetter("parameters")


def candidates(fits: Sequence[Fit]) -> list[Fit]:
    """Return the fits among which one is chosen: the last training of each model.

    Segments are none, and those that are superseded only where there is no other.
    """
    whole = [fit for fit in fits if not fit.segment]
    whole = [fit for fit in whole if not fit.superseded] or whole
    return [*{id(fit.model): fit for fit in whole}.values()]


def _preferred(
    wanted: Sequence[Fit], others: Sequence[Fit], slack: float, errors: float = 0.0
) -> Sequence[Fit]:
    """Return the wanted fits, or the others where all of the wanted ones err much more."""
    if not wanted or not others:
        return wanted or others
    least = min(others, key=_score)
    near = min(wanted, key=_score)
    is_near = near.score <= slack * least.score or _is_alike(near, least, errors)
    return wanted if is_near else others


def _projected(fits: Sequence[Fit], slack: float) -> Sequence[Fit]:
    """Return the maps that keep invariants, or the others where these err or lose less.

    One step counts: a projected map may be the last one, for whose orbits no time is left.
    """
    others = [fit for fit in fits if not fit.keeps_invariants]
    fewest = min((fit.orbits.lost for fit in others if fit.orbits), default=math.inf)
    limit = slack * min(map(_error, others), default=math.inf)
    wanted = [
        fit
        for fit in fits
        if fit.keeps_invariants
        and fit.error <= limit
        and (fit.orbits is None or fit.orbits.lost <= fewest)
    ]
    return wanted or others or fits


def _is_alike(fit: Fit, least: Fit, errors: float) -> bool:
    """Whether two errors differ by less than some standard errors."""
    spread = math.hypot(fit.deviation, least.deviation)
    return math.isfinite(fit.score) and fit.score <= least.score + errors * spread


Show = Callable[[History], None]


@contextmanager
def training_bar(progress: object, seconds: float) -> Iterator[Callable[..., None]]:
    """Show a bar of trainings if ``progress`` is True, or None and standard error is a terminal.

    The value is a function that takes a history with a new iteration, the share that is done, and
    further words: what is trained (``description``), and the least ``error``.

    Parameters
    ----------
    progress
        Argument of ``vp.train`` and ``vp.fit``.
    seconds
        Time of all trainings; infinite for no limit.
    """
    is_terminal = sys.stderr is not None and sys.stderr.isatty()
    start = time.perf_counter()
    bounded = math.isfinite(seconds)
    with ExitStack() as stack:
        bar: Progress | None = None
        if progress is True or (progress is None and is_terminal):
            from rich.progress import TextColumn

            texts = "least error {task.fields[error]}", "{task.fields[training]}"
            bar = stack.enter_context(progress_bar(*map(TextColumn, texts)))
            # without a limit the bar says only that it is at work
            task = bar.add_task("", total=1.0 if bounded else None, error="-", training="")

        def update(history: History | None = None, share: float = 0.0, **words: Any) -> None:
            if bar is None:
                return
            if history is not None:
                error = history.validation_error[-1]
                words["training"] = f"iteration {history.epochs}, {error:.1e}"
            if bounded:
                share = max(share, (time.perf_counter() - start) / seconds)
            words |= {"total": 1.0, "completed": share} if share > 0 else {}
            bar.update(task, **words)

        yield update
