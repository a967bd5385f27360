"""The best map of some data: every kind of map in turn, one estimate of the error, one choice."""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any, Literal

from vpintegrator.arguments import one_of, whole
from vpintegrator.data.opening import is_dataset, opened, without_broken_structure
from vpintegrator.dynamics import Structure
from vpintegrator.errors import InputError
from vpintegrator.models import Model
from vpintegrator.models.iteration import with_gradients
from vpintegrator.names import FORMS
from vpintegrator.nn.layer import LARGEST_SEED
from vpintegrator.rich_display import duration
from vpintegrator.runtime.interrupts import BEYOND, held_back, stopping, until
from vpintegrator.training.kinds import KINDS, kinds_of_windows, regressions
from vpintegrator.training.kinds.classical import ClassicalMethods
from vpintegrator.training.kinds.kind import Kind
from vpintegrator.training.one_step import one_step
from vpintegrator.training.options import Budget
from vpintegrator.training.orbits import iterated, with_orbits
from vpintegrator.training.results import Fit, best, training_bar
from vpintegrator.training.trainer import Trainer
from vpintegrator.training.training_data import TrainingData
from vpintegrator.training.windows import WindowSearch, shared_error

NOTHING_LEARNED = (
    "no model has learned anything: no validation error was finite; try another model, dataset or "
    "learning rate"
)

SEARCHED = 0.9  # part of the seconds in which maps are trained; then held-out orbits judge them

SOLVED = 0.75  # part of the seconds left that a kind of solves may take where others iterate

UNDETERMINED = (
    "the observations are noisy, too few, or of too few components; a longer window is tried by "
    "window, with --window"
)


@with_gradients
def fit(
    data: Any,
    kinds: Sequence[Kind] = KINDS,
    *,
    step: float | None = None,
    structure: Structure | str | None = None,
    equations: bool = False,
    window: int | None = None,
    seconds: float | None = None,
    epochs: int | None = None,
    prefer: Literal["error", "cost"] = "error",
    target: float | None = None,
    seed: int = 0,
    progress: bool | Callable[[Fit], object] | None = None,
) -> Fit:
    """Return the best map of some data: what ``vp-train DATASET`` does.

    Kinds of maps are tried in turn, each from small models to large ones, as long as a further one
    can be chosen. :func:`vpintegrator.training.best` chooses among all that was trained.

    Parameters
    ----------
    data
        A dataset or its path; states as :func:`vpintegrator.import_dataset` takes them, such as an
        array or a tensor (trajectory, time, dim) or a list of runs of any lengths, with ``step``
        where they tell no times; or a tuple of two arrays (before, after) of states (pair, dim).
    kinds
        Kinds of maps in the order in which they are tried, see
        :class:`vpintegrator.training.Kind`.
    step
        Time between states that are no dataset.
    structure
        Form that the map must keep: ``symplectic``, ``volume``, ``lagrangian`` (of positions), or
        a :class:`vpintegrator.dynamics.Structure` with this form. No map without it is chosen.
        ``none`` claims that states which are no dataset keep nothing. Without a claim the error
        decides.
    equations
        Whether the equations of the dataset's system may be used, for splittings, exact terms,
        functions of the equations and states within a step. Otherwise maps are learned from the
        states, see :meth:`vpintegrator.System.without_equations`.
    window
        States that the map reads. With more than one, kinds of maps of windows take the place of
        the default ones. By default windows are tried where one state does not determine the next,
        see :class:`vpintegrator.training.windows.WindowSearch`.
    seconds
        Time of the whole fit; 150 without ``epochs``, infinite for no limit. Choices count
        iterations, so that seconds only end it.
    epochs
        Iterations of each kind that is trained by iterations.
    prefer
        ``cost``: the cheapest step whose error is at most ``target``, among the models and, with
        ``equations``, classical methods with substeps.
    target
        Error at which the fit ends; with ``prefer="cost"`` the largest error that is allowed.
    seed
        Seed of weights and of the choice of windows.
    progress
        Called with each model that was trained; or True for a bar on standard error, False for
        none. By default there is a bar where standard error is a terminal.

    Returns
    -------
    Fit
        The model that was chosen; ``tried`` has all of them.

    Raises
    ------
    InputError
        If an argument is wrong, or no model can be trained on these data.
    KeyboardInterrupt
        If it comes before any model was trained. Later it ends the fit, with the best model so far.

    Warns
    -----
    UserWarning
        If the states were observed, and neither one nor a window of several determines the next.

    Examples
    --------
    >>> dataset = vp.generate("pendulum", "pendulum.h5", count=40, steps=20, overwrite=True)
    >>> result = vp.fit(dataset)
    >>> result.kind, result.error < 1e-10, result.provenance
    ('generating functions', True, 'learned from 620 pairs of states')
    >>> vp.fit(dataset, equations=True).kind
    'splittings'

    Angles alone, of which two determine the next:

    >>> angles = dataset.states("train")[..., :1]
    >>> result = vp.fit(angles, step=dataset.step)
    >>> result.kind, result.model.window, result.windows[1] > 0.01 > 1e-6 > result.windows[2]
    ('discrete Lagrangians', 2, True)
    """
    are_kinds = isinstance(kinds, Sequence) and all(isinstance(kind, Kind) for kind in kinds)
    if not are_kinds or not kinds:
        raise InputError("kinds must be one or more kinds of maps, such as [search('vpff')]")
    followers = [kind for kind in kinds if kind.follows]
    are_default = kinds is KINDS
    if window is not None and whole("window", window) > 1:
        if not are_default:
            raise InputError(
                "window is an argument of the default kinds; give it to your own kinds"
            )
        kinds = kinds_of_windows(window)
    finds = WindowSearch() if are_default and window is None else None
    one_of("prefer", prefer, ("error", "cost"))
    form = _form_of(structure)
    required = None if form in (None, "none") else form
    budget = Budget(seconds, epochs, target)
    seed = whole("seed", seed, 0, LARGEST_SEED)
    is_cheapest = prefer == "cost"
    if is_cheapest and target is None:
        raise InputError("prefer = 'cost' needs the largest error that is allowed: give target")
    if is_cheapest and followers and not are_default:
        raise InputError(
            "prefer = 'cost' takes maps as they are: leave KeptInvariants out of kinds"
        )
    claim = None if required is not None and is_dataset(data) else form
    with held_back() as signals, opened(data, step, claim) as dataset:
        training_data = TrainingData(without_broken_structure(dataset), equations)
        classical = [ClassicalMethods()] if is_cheapest and equations else []
        tried: list[Kind] = [*(kind for kind in kinds if not kind.follows), *classical]
        if not training_data.may_be_incomplete or required is not None:
            finds = None
        train = partial(Trainer, seed=seed, form=required)
        # of several kinds one is chosen by orbits
        share = SEARCHED if len(tried) + len(followers) > 1 else 1.0
        searching = budget.part(share, epochs=budget.epochs)
        trials = _Trials(training_data, searching, train, is_cheapest, required)
        stopped_by = trials.run(tried, progress, finds)
        fits = trials.fits
        if required is not None:
            fits = [fit for fit in fits if fit.structured or fit.segment]
            if all(fit.segment for fit in fits):
                raise InputError(
                    f"no map that keeps the form '{required}' was trained; leave out structure, or "
                    "give more seconds"
                )
        candidates = [fit for fit in fits if fit not in trials.left_out] or fits
        is_chosen = len(candidates) > 1 or bool(followers)
        if is_chosen and not is_cheapest and stopped_by != "interrupt":
            with budget.hold(BEYOND):
                judged = iterated(candidates, training_data)
                by_orbits = {id(fit): new for fit, new in zip(candidates, judged, strict=True)}
                fits = [by_orbits.get(id(fit), fit) for fit in fits]
                for kind in followers if required is None else []:
                    made = trials.followed_by(kind, judged)
                    made = [with_orbits(fit, training_data) for fit in made]
                    judged += made
                    fits += made
            candidates = judged
        choice = best(candidates)
        if is_cheapest and stopped_by != "interrupt":
            with stopping():
                choice = _cheapest(candidates, training_data, budget)
        history = choice.history
        history.best_validation_error = choice.error
        training_data.judge(choice.model, history)
        if history.warning:
            warnings.warn(history.warning, stacklevel=3)
        if finds is not None and finds.is_undetermined:
            warnings.warn(f"{finds.words}; {UNDETERMINED}", stacklevel=3)
        if isinstance(choice.model, Model):
            held_out = training_data.held_out(choice.model)
            if reason := choice.model.doubt(held_out.inputs.numpy(force=True), held_out.parameters):
                warnings.warn(reason, stacklevel=3)
            lines = tuple(fit.line for fit in fits)
            record = replace(choice.model.record, search=lines, search_seconds=budget.used)
            choice.model.record = record
            if not is_dataset(data):  # its file is deleted
                choice.model.origin = replace(choice.model.origin, dataset="")
        stopped_by = stopped_by or choice.stopped_by
        if signals:  # also one that came after the last training: the best model is kept
            signals.forget()
            stopped_by = "interrupt"
        result = replace(choice, tried=tuple(fits), seconds=budget.used, stopped_by=stopped_by)
        if finds is None:
            return result
        return replace(result, windows=dict(finds.errors), window_words=finds.words)


def _form_of(structure: Structure | str | None) -> str | None:
    """Return the form of a claimed structure."""
    if not isinstance(structure, Structure):
        known = (*FORMS, "lagrangian")
        return None if structure is None else one_of("structure", structure, known)
    if structure != Structure(form=structure.form):
        raise InputError(
            "structure says the form alone; symmetries, angles and pairs stand in a system file, "
            "which vp.import_dataset takes as system"
        )
    return structure.form


class _Trials:
    """Fits of kinds of maps in turn, and what ended the work early, if so."""

    def __init__(
        self,
        data: TrainingData,
        budget: Budget,
        trainer: Callable[..., Trainer],
        is_cheapest: bool,
        form: str | None = None,
    ) -> None:
        self.data = data
        self.budget = budget
        self.trainer = trainer
        self.is_cheapest = is_cheapest
        self.form = form
        self.fits: list[Fit] = []
        self.left_out: list[Fit] = []  # fits of windows that gain nothing, or are too short
        self.refusals: list[str] = []
        self.stopped_by = ""
        self.update: Callable[..., None] = lambda *values, **words: None
        self.progress: bool | Callable[[Fit], object] | None = None

    def run(
        self,
        kinds: Sequence[Kind],
        progress: bool | Callable[[Fit], object] | None,
        finds: WindowSearch | None,
    ) -> str:
        """Train maps of each kind, and of windows if asked to; return what ended it early."""
        self.progress = progress
        with training_bar(progress, self.budget.seconds) as update, self.budget.hold():
            self.update = update
            if finds is None:
                self._try(kinds)
            else:
                self._search(kinds, finds)
        fits = self.fits
        if not any(not fit.segment for fit in fits):
            if self.stopped_by == "interrupt":
                raise KeyboardInterrupt
            if self.budget.left <= 0:
                raise InputError(
                    f"no model was trained in {self.budget.whole:g} seconds; give more seconds"
                )
        if not any(math.isfinite(fit.error) for fit in fits):
            raise InputError("; ".join(self.refusals) or NOTHING_LEARNED)
        return self.stopped_by if self.stopped_by in ("interrupt", "seconds") else ""

    def _search(self, kinds: Sequence[Kind], finds: WindowSearch) -> None:
        """Compare windows of 1, 2, 3, ... states by regressions, then try kinds of the best.

        Where windows err less than single states by far, kinds of observations come next, then
        longer windows, solved kinds of the best one, and those that are trained by iterations.
        Otherwise all kinds read single states. Of these the solves of maps with structure come
        before windows where that is in doubt.
        """
        observed = [kind for kind in kinds if kind.of_observations]
        single = [kind for kind in kinds if not kind.of_observations]
        done = [*regressions(1)]
        window = 1
        goes_on = True
        while goes_on and (window == 1 or finds.goes_on) and self.data.has_windows(window):
            goes_on = self._try(regressions(window))
            finds.note(self.fits)
            if window not in finds.errors:  # too few windows
                break
            if window > 1 and goes_on and observed and finds.window > 1:
                goes_on = self._try(observed, is_followed=True)
                finds.note(self.fits)
                observed = []
            if any(kind.admits(self.data) for kind in regressions(window + 1)):
                break
            if window == 1 and goes_on and finds.goes_on:
                least = min(self.fits, key=lambda fit: fit.error)
                finds.shared = shared_error(least.model, self.data)
                if finds.is_doubtful:
                    solved = [kind for kind in single if kind.structured and not kind.iterative]
                    done += solved
                    goes_on = self._try(solved, is_followed=True)
                    finds.note(self.fits)
            window += 1
        if goes_on and finds.window == 1:
            goes_on = self._try([kind for kind in single if kind not in done])
        elif goes_on:
            windows = [kind for kind in kinds_of_windows(finds.window) if not kind.of_observations]
            solved = [kind for kind in windows if not kind.iterative]
            goes_on = self._try([*observed, *solved], is_followed=True)
            finds.note(self.fits)
            if goes_on and finds.errors[finds.window] > finds.good:
                self._try([kind for kind in windows if kind.iterative])
        finds.note(self.fits)
        found = finds.window
        self.left_out = [
            fit
            for fit in self.fits
            if fit.model.window > found or (fit.model.window < found and not fit.structured)
        ]

    def _try(self, kinds: Sequence[Kind], is_followed: bool = False) -> bool:
        """Train maps of each kind; return whether the work goes on.

        Solves leave time for iterations, also for those that follow another call.
        """
        data = self.data
        budget = self.budget
        fits = self.fits
        reasons = [(kind, kind.unsuited(data) or kind.admits(data)) for kind in kinds]
        admitted = [kind for kind, reason in reasons if reason is None]
        prefix = "{}: {}" if len(reasons) > 1 else "{1}"
        self.refusals += [prefix.format(kind.name, why) for kind, why in reasons if why is not None]
        for place, kind in enumerate(admitted):
            is_only = len(kinds) == 1 and not fits
            eligible = [fit for fit in fits if self.form is None or fit.structured]
            if not is_only and not kind.is_needed(data, [] if self.is_cheapest else eligible):
                continue
            self.update(description=kind.name, training="")
            later = sum(other.iterative for other in admitted[place + 1 :])
            share = 1 / (1 + later)
            if not kind.iterative:
                share = SOLVED if later or is_followed else 1.0
            part = budget.part(share, epochs=budget.epochs)
            train = self.trainer(kind, data, part, fits, show=self.update, report=self._report)
            with stopping() as stop, part.hold():
                try:
                    kind.search(data, train, fits)
                except InputError as error:
                    self.refusals.append(prefix.format(kind.name, error))
            self.stopped_by = stop.by
            met = bool(fits) and fits[-1].error <= budget.target
            if stop.by == "interrupt" or (met and not self.is_cheapest) or budget.left <= 0:
                return False
        return True

    def followed_by(self, kind: Kind, fits: Sequence[Fit]) -> list[Fit]:
        """Return the fits of a kind that takes the best one of others."""
        if kind.admits(self.data) is not None or not kind.is_needed(self.data, fits):
            return []
        made: list[Fit] = []
        train = self.trainer(kind, self.data, self.budget, made, report=self._report)
        with stopping(), suppress(InputError):
            kind.search(self.data, train, fits)
        return made

    def _report(self, fit: Fit) -> None:
        error = min(each.error for each in self.fits if not each.segment)
        self.update(error=f"{error:.1e}")
        if callable(self.progress):
            self.progress(fit)


def _cheapest(fits: Sequence[Fit], data: TrainingData, budget: Budget) -> Fit:
    """Return the fit of the cheapest step below an error, or of the least error if none is."""
    target = budget.target
    whole_steps = [fit for fit in fits if not fit.segment]
    below = [fit for fit in whole_steps if fit.error <= target] or [best(fits)]
    named = {f"{fit.model.name}, {fit.size}": fit for fit in below}
    with until(max(budget.end, time.perf_counter()) + 10.0):
        maps = {name: fit.model for name, fit in named.items()}
        table = one_step(maps, data, methods=(), group="validation", seconds=10.0 * len(maps))
    row = table.cheapest(target)
    reason = f"the cheapest step below {target:g} among {len(below)} maps, {duration(row.cost)}"
    if row.error > target:
        reason = f"no map errs by at most {target:g}, this one errs least"
    return replace(named[row.name], cost=row.cost, reason=reason)
