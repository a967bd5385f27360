"""The best map of some data: every kind of map in turn, one estimate of the error, one choice."""

from __future__ import annotations

import json
import math
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Literal

from vpintegrator.arguments import one_of, positive, whole
from vpintegrator.data.importing.opening import is_dataset, opened
from vpintegrator.data.inspection import without_broken_structure
from vpintegrator.errors import InputError
from vpintegrator.models.iteration import with_gradients
from vpintegrator.rich_display import duration
from vpintegrator.runtime.deadline import check_time, time_left, until
from vpintegrator.runtime.interrupts import held_back, stopping
from vpintegrator.training.kinds import KINDS
from vpintegrator.training.kinds.classical import ClassicalMethods
from vpintegrator.training.kinds.kind import Budget, Kind
from vpintegrator.training.one_step import one_step
from vpintegrator.training.residuals import doubt
from vpintegrator.training.results import Fit, best, training_bar
from vpintegrator.training.training_data import TrainingData

NOTHING_LEARNED = (
    "no model has learned anything: no validation error was finite; try another model, dataset or "
    "learning rate"
)


@with_gradients
def fit(
    data: Any,
    kinds: Sequence[Kind] = KINDS,
    *,
    step: float | None = None,
    structure: Literal["symplectic", "volume", "none"] | None = None,
    seconds: float | None = 150.0,
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
    step, structure
        Time between states that are no dataset, and the structure that their map keeps. Without a
        claim the error decides.
    seconds
        Time of the whole fit. Choices count iterations, so that seconds only end it.
    epochs
        Iterations of each kind that is trained by iterations.
    prefer
        ``cost``: the cheapest step whose error is at most ``target``, among the models and
        classical methods with substeps.
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

    Examples
    --------
    >>> dataset = vp.generate("pendulum", "pendulum.h5", count=40, steps=20, overwrite=True)
    >>> result = vp.fit(dataset)
    >>> result.kind, result.error < 1e-12
    ('splittings', True)
    """
    start = time.perf_counter()
    are_kinds = isinstance(kinds, Sequence) and all(isinstance(kind, Kind) for kind in kinds)
    if not are_kinds or not kinds:
        raise InputError("kinds must be one or more kinds of maps; kinds_of('vpff') has some")
    one_of("prefer", prefer, ("error", "cost"))
    seconds = None if seconds is None else positive("seconds", seconds)
    target = None if target is None else positive("target", target)
    epochs = None if epochs is None else whole("epochs", epochs)
    if prefer == "cost" and target is None:
        raise InputError("prefer = 'cost' needs the largest error that is allowed: give target")
    budget = Budget(epochs, target, seconds, seed, cheapest=prefer == "cost")
    with held_back() as signals, opened(data, step, structure) as dataset:
        training_data = TrainingData(without_broken_structure(dataset))
        end = math.inf if seconds is None else start + seconds
        kinds = [*kinds, ClassicalMethods()] if budget.cheapest else kinds
        fits, stopped_by = _try_kinds(training_data, kinds, budget, end, progress)
        choice = best(fits)
        if budget.target is not None and budget.cheapest and stopped_by != "interrupt":
            with stopping():
                choice = _cheapest(fits, training_data, budget.target, end)
        # test windows are judged in order, as many as there is time for
        with until(max(end, time.perf_counter() + 1.0)):
            _describe(choice, fits, training_data)
        if not is_dataset(data):  # its file is deleted
            choice.model.metadata.pop("dataset")
        spent = time.perf_counter() - start
        record = choice.history.summary() | {"search_seconds": spent}
        choice.model.metadata["training"] = json.dumps(record)
        stopped_by = stopped_by or choice.stopped_by
        if signals:  # also one that came after the last training: the best model is kept
            signals.forget()
            stopped_by = "interrupt"
        return replace(choice, tried=tuple(fits), seconds=spent, stopped_by=stopped_by)


def _try_kinds(
    data: TrainingData,
    kinds: Sequence[Kind],
    budget: Budget,
    end: float,
    progress: bool | Callable[[Fit], object] | None,
) -> tuple[list[Fit], str]:
    """Train models of each kind; return all of them, and what ended the work early, if so."""
    fits: list[Fit] = []
    reasons = [(kind, kind.admits(data)) for kind in kinds]
    admitted = [kind for kind, reason in reasons if reason is None]
    prefix = "{}: {}" if len(reasons) > 1 else "{1}"
    refusals = [prefix.format(kind.name, why) for kind, why in reasons if why is not None]
    stopped_by = ""
    with training_bar(progress, budget.seconds) as update, until(end):
        budget = replace(budget, show=update)
        for place, kind in enumerate(admitted):
            if len(kinds) > 1 and not kind.is_needed(data, [] if budget.cheapest else fits):
                continue
            update(description=kind.name, training="")
            rest = sum(other.iterative for other in admitted[place:]) if kind.iterative else 1
            with stopping() as stop, until(time.perf_counter() + time_left() / rest):
                try:
                    for trial in kind.models(data, fits, budget):
                        fits.append(kind.train(trial, data, budget))
                        update(error=f"{min(fit.error for fit in fits):.1e}")
                        if callable(progress):
                            progress(fits[-1])
                        check_time()
                        if fits[-1].stopped_by in ("interrupt", "seconds"):
                            break
                except InputError as error:
                    refusals.append(prefix.format(kind.name, error))
            stopped_by = stop.by or (fits[-1].stopped_by if fits else "")
            met = budget.target is not None and fits and fits[-1].error <= budget.target
            if stopped_by == "interrupt" or (met and not budget.cheapest) or time_left() <= 0:
                break
    if not fits and stopped_by == "interrupt":
        raise KeyboardInterrupt
    if not fits and time.perf_counter() >= end:
        raise InputError(f"no model was trained in {budget.seconds:g} seconds; give more seconds")
    if not any(math.isfinite(fit.error) for fit in fits):
        raise InputError("; ".join(refusals) or NOTHING_LEARNED)
    return fits, stopped_by if stopped_by in ("interrupt", "seconds") else ""


def _cheapest(fits: Sequence[Fit], data: TrainingData, target: float, end: float) -> Fit:
    """Return the fit of the cheapest step below an error, or of the least error if none is."""
    below = [fit for fit in fits if fit.error <= target] or [best(fits)]
    named = {f"{fit.model.name}, {fit.size}": fit for fit in below}
    with until(max(end, time.perf_counter()) + 10.0):
        models = {name: fit.model for name, fit in named.items()}
        table = one_step(models, data, methods=(), group="validation", seconds=10.0 * len(models))
    row = table.cheapest(target)
    reason = f"the cheapest step below {target:g} among {len(below)} maps, {duration(row.cost)}"
    if row.error > target:
        reason = f"no map errs by at most {target:g}, this one errs least"
    return replace(named[row.name], cost=row.cost, reason=reason)


def _describe(choice: Fit, fits: Sequence[Fit], data: TrainingData) -> None:
    """Test the model, and let it say how it was trained."""
    model, history = choice.model, choice.history
    history.best_validation_error = choice.error
    history.test_error = data.test_error(model)
    history.warning = doubt(model, data.held_out(model), data.error_scale, history)
    if history.warning:
        warnings.warn(history.warning, stacklevel=5)
    data.describe(model)
    model.metadata["search"] = json.dumps([fit.line for fit in fits])
