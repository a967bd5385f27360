"""The functions, degree and depth of a model, found by training: polynomials that grow.

A small stack of polynomial couplings is trained until it gets no better, then grown by a degree,
from exactly the map that it was, or in depth, from that map or from nearly it with its layers
sampled anew, whichever promises more, and so on while that pays. So each stage begins where least
squares converge in a few iterations; the same large model trained
from the identity ends orders of magnitude above, in a flat valley (see docs/accuracy.md). Neurons
run beside it where polynomials stay poor.
"""

from __future__ import annotations

import json
import math
import time
import warnings
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import Any

from vpintegrator.arguments import of_kind
from vpintegrator.data import Dataset
from vpintegrator.errors import InputError
from vpintegrator.models import Integrator
from vpintegrator.models.growth import rest_attention
from vpintegrator.models.one_step import simplified, without_attention
from vpintegrator.native import NotCompilable, find_compiler
from vpintegrator.runtime.interrupts import held_back
from vpintegrator.training.attention import awakened
from vpintegrator.training.continuation import FAR, continued
from vpintegrator.training.deadline import BEYOND, TimeIsUp, until
from vpintegrator.training.found import Found
from vpintegrator.training.history import Budget, History, NothingLearned
from vpintegrator.training.judgement import doubt
from vpintegrator.training.making import Make, making
from vpintegrator.training.sizes import (
    DEPTHS,
    MOST,
    affordable,
    count,
    describe,
    larger_ones,
    smallest,
    splitting_of,
)
from vpintegrator.training.stretches import by_stretches
from vpintegrator.training.train import train
from vpintegrator.training.training_data import TrainingData

SHARE = 0.6  # fraction of the budget for the search; the rest trains the model found
_SLICE = 0.08  # fraction of the budget, for one size
# of the budget, for attention: the compiler takes half of less, and an awakened model needs some 50
# epochs before its orbits are the better for it (unknown moments of inertia, 100 s)
_ATTENTION = 0.2
_TRIAL = 40  # epochs after which sizes are compared,
_TRIAL_SHARE = 0.03  # or this share of the budget
_LEAP = 0.2  # fraction of the budget, for a large model
_NEURONS = 0.1  # fraction of the budget, for neurons
_DEPTH = 3  # layers of neurons
_HANDICAP = 4.0  # relative error up to which neurons are trained further
_MORE = 0.5  # fraction of the remaining budget, for further training of neurons
# epochs without progress after which a size has given what it can, or where there is time left
_PATIENCES = (20, 100)
_STRETCH = 0.03  # fraction of the budget, for one segment of a step
_SHORTEST = 2.0  # seconds of a segment at least
_NEAR = 1e-3  # error at which the training of a segment ends
_FAR = 1e-3  # initial error beyond which segments of a step are tried
_BETTER = 0.9  # times the smallest error so far: what a model must reach to be kept instead
_GAIN = 1.5  # gain of a larger model for which a still larger one is tried
_GOOD = 3e-6  # relative error that neurons do not reach in the time
_LARGE = 400  # parameters from which an iteration costs more than its overhead
_ITERATIONS = 150  # iterations of the last training of a large model
_AT_REST = "attention is at rest: the states of a window are mapped one by one"
_TINY = 1e-300
_EXACT = 1e-13  # relative error, that of data at the usual tolerances: no more is to be learned


def find_functions(
    make: Make,
    dataset: Dataset,
    budget: Budget,
    *,
    sizes: dict[str, Any] | None = None,
    tell: Callable[[str], None] = lambda line: None,
    **options: Any,
) -> Found:
    """Return the model that does best on the validation windows, trained as far as the search goes.

    Parameters
    ----------
    make
        The untrained model of some arguments: ``functions``, ``degree``, ``depth``.
    dataset
        Training dataset.
    budget
        Budget of the whole search; its ``target`` ends the search.
    sizes
        ``degree`` or ``depth`` where they are given; the search leaves them as they are.
    tell
        Called with a line about each model that was tried.
    options
        Options of :func:`vpintegrator.training.train`, for every training.

    Returns
    -------
    Found
        The best model; also after an interrupt (Ctrl-C), at whatever stage of the search.

    Raises
    ------
    InputError
        If no model of these sizes can be made, or none has a finite validation error.
    KeyboardInterrupt
        If it comes before any model was trained.

    Examples
    --------
    >>> dataset = vp.generate("pendulum", "pendulum.h5", count=20, steps=20, overwrite=True)
    >>> def make(arguments):
    ...     return vp.models.VolumePreservingFeedForward(dim=2, **arguments)
    >>> budget = vp.training.Budget(epochs=200, target=1e-3)
    >>> found = vp.training.find_functions(make, dataset, budget)
    >>> found.model.arguments["functions"]
    'polynomial'
    """
    of_kind("dataset", dataset, Dataset, "a dataset, as vp.open_dataset gives it")
    of_kind("budget", budget, Budget, "a vp.training.Budget")
    make = making(make)
    return _Search(make, dataset, budget, sizes or {}, tell, options).run()


class _Search:
    def __init__(
        self,
        make: Make,
        dataset: Dataset,
        budget: Budget,
        sizes: dict[str, Any],
        tell: Callable[[str], None],
        options: dict[str, Any],
    ) -> None:
        self.make, self.dataset, self.budget = make, dataset, budget
        self.data = TrainingData(dataset, tested=False)  # read once for all trainings
        self.sizes, self.tell = sizes, tell
        self.kernel = options.get("kernel", "auto")
        # a named one is for the model that begins as it, and not for those beside it
        self.options = options | {"kernel": "none" if self.kernel == "none" else "auto"}
        self.start, self.epochs = time.perf_counter(), 0
        self.found: Found | None = None
        self.tried: list[str] = []
        self.slow: list[Integrator] = []  # models that cannot be compiled
        self.frozen: Integrator | None = None  # whose attention has been tried
        self.ended, self.way, self.patience = "", "", _PATIENCES[0]
        if callable(progress := options.get("progress")):
            self.options["progress"] = self._shown(progress)

    def run(self) -> Found:
        limit = math.inf if self.budget.seconds is None else self.start + self.budget.seconds
        try:
            with suppress(TimeIsUp), until(limit):
                self._search()
        except KeyboardInterrupt:  # between two trainings, which end with their best weights
            self.ended = "interrupt"
            if self.found is None:
                raise
        with held_back() as held:
            found = self._result()
            if held or self.ended == "interrupt":
                found.ended = "interrupt"
                found.history = replace(found.history, stopped_by="interrupt")
                held.forget()
        return found

    def _search(self) -> None:
        for functions in ("polynomial", "system"):
            if functions == "system" and self.found is not None and self.found.model.bodies:
                break  # functions of a whole state would be learned for one number of bodies only
            self._begin(functions)
        if self.found is None or self.found.error > _FAR:
            self._by_stretches()
        if self.found is not None and self.found.error > FAR:
            self._continue()
        if self.found is not None:
            for self.patience in _PATIENCES:
                while not self._over() and self._grow():
                    pass
                if self._awake():
                    return
            if not self._finished:
                self._leap()
        if (self.found is None or self.found.error > _GOOD) and "degree" not in self.sizes:
            self._try_neurons()
        if self.dataset.is_observed:
            self._awake(any_error=True)

    def _result(self) -> Found:
        """Return the best model, which says how it was trained."""
        assert self.found is not None
        found = self.found
        if found.history.epochs and not math.isfinite(found.error):
            raise NothingLearned(found.model.name, found.history)
        found.history.test_error = self.data.with_test().test_error(found.model)
        alone = simplified(found.model)
        found.history.warning = doubt(
            alone, self.data.held_out(alone), self.data.error_scale, found.history
        )
        found.model.metadata["training"] = json.dumps(found.history.summary())
        if without_attention(found.model, fixed=True) is None:
            found.model.requires_grad_(True)
        else:
            found.model.choices.append(_AT_REST)
        found.tried, found.ended = self.tried, self.ended if self._finished else ""
        found.epochs, found.seconds = self.epochs, time.perf_counter() - self.start
        return found

    def _begin(self, functions: str) -> None:
        """Train what there is to begin with: a few layers, and a splitting method."""
        if self._ends:
            return
        first = smallest(self.make, self.sizes, functions)
        if first is not None and not first.bodies:  # these are worth a splitting method
            self._train(first, _SLICE)
        if self._ends:
            return
        splitting = self._splitting(functions)
        if splitting is not None:
            self._train(splitting, _SLICE)
        elif first is not None and first.bodies:
            self._train(first, _SLICE)

    def _splitting(self, functions: str) -> Integrator | None:
        """Return a model that begins as the method that is asked for, or another that fits."""
        until = time.perf_counter() + _SLICE * (self.budget.seconds or math.inf)
        over = lambda: time.perf_counter() > until  # noqa: E731
        try:
            return splitting_of(self.make, self.sizes, functions, self.data, self.kernel, over)
        except InputError as error:  # a named method that the sizes do not fit
            if "depth" in self.sizes or self.kernel == "auto":
                raise
            self.tell(f"{error}; the search begins with the default instead")
            self.kernel = "auto"
            return self._splitting(functions)

    @property
    def _ends(self) -> bool:
        """Whether there is nothing left to be learned, or no time for it."""
        return self._finished or (self.found is not None and self.found.error < _EXACT)

    def _shown(self, progress: Callable[[History], None]) -> Callable[[History], None]:
        """Return the progress function, given the share of the whole budget."""

        def show(history: History) -> None:
            seconds = time.perf_counter() - self.start
            history.share = self.budget.share(self.epochs + history.epochs, seconds)
            progress(history)

        return show

    def _try_neurons(self) -> None:
        """Train neurons, too; they get better for longer than polynomials do."""
        if self._finished:
            return
        best = math.inf if self.found is None else self.found.error
        neurons = self._neurons({"depth": self.sizes.get("depth", _DEPTH)})
        if neurons is None:
            return
        rest_attention(neurons)
        error = self._train(neurons, _NEURONS)
        left = 1 - self._used
        if best < error < _HANDICAP * best and left and not self._finished:
            self.tell("neurons, which get better for longer, are trained on beside the polynomials")
            self._train(neurons, _MORE * left)

    def _neurons(self, held: dict[str, Any]) -> Integrator | None:
        """Return the model of neurons, if what is asked for allows it or nothing else was found."""
        try:
            return self.make(held)
        except InputError:
            if self.found is None:
                raise
            return None

    @property
    def _finished(self) -> bool:
        return self.ended in ("target", "interrupt", "lost process")

    @property
    def _is_slow(self) -> bool:
        """Whether the best model cannot be compiled: there is no time for a larger one."""
        return any(self.found is not None and self.found.model is each for each in self.slow)

    @property
    def _used(self) -> float:
        """Share of the budget that is used."""
        return self.budget.share(self.epochs, time.perf_counter() - self.start)

    def _over(self) -> bool:
        return self._finished or self._used > SHARE

    def _train(self, model: Integrator, share: float) -> float:
        """Train one size as long as it gets better quickly; its error."""
        error, history, epochs = math.inf, None, 0
        while True:
            given: dict[str, Any] = {} if history is None else {"batch": history.windows or None}
            history = self._tried(model, self.budget.part(share), patience=self.patience, **given)
            before, error = error, history.best_validation_error
            epochs += history.epochs
            slow = history.stopped_by not in ("seconds", "epochs") or not error < before / 3
            if slow or self._over():
                break
        self._note(model, error if epochs else math.inf)
        return error

    def _tried(self, model: Integrator, part: Budget, **others: Any) -> History:
        """Train a model, and keep it if it is the best."""
        history = self._run(model, part, **others)
        self._keep(model, history)
        return history

    def _run(
        self, model: Integrator, part: Budget, data: TrainingData | None = None, **others: Any
    ) -> History:
        given = {"seconds": part.seconds, "epochs": part.epochs, "target": part.target}
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")  # the last training says what there is to say
            # something is to be found, in whatever part of the budget
            first = self.found is None
            within = math.inf if first else BEYOND * (part.seconds or math.inf)
            try:
                with until(time.perf_counter() + within):
                    history = train(model, data or self.data, **(self.options | given | others))
            except NothingLearned as failure:  # another size may
                history = failure.history
            except TimeIsUp:
                history = History("", 0, 0, stopped_by="seconds")
        if any("not compiled" in str(each.message) for each in told) and _is_compiler_there():
            self.slow.append(model)
        self.epochs += history.epochs
        self.ended = history.stopped_by
        return history

    def _note(self, model: Integrator, error: float) -> None:
        reached = f"{error:.1e}" if math.isfinite(error) else "no iteration in its time"
        line = f"{describe(model)}: {reached} after {time.perf_counter() - self.start:.0f} s"
        if self.found is not None and self.found.model is not model and error < self.found.error:
            line += "; not a tenth better, so the model before is kept"
        self.tell(line)
        self.tried.append(line)

    def _keep(self, model: Integrator, history: History) -> None:
        error, best = history.best_validation_error, self.found
        if best is not None and not (self._finished or best.model is model):
            error /= _BETTER
        if best is None or error < best.error:
            self.found = Found(model, history.best_validation_error, history)

    def _by_stretches(self) -> None:
        """Begin with layers that have learned stretches of a step one by one."""

        def learn(part: Integrator, data: TrainingData) -> History:
            share = self.budget.part(_STRETCH)
            seconds = share.seconds and max(share.seconds, _SHORTEST)
            budget = replace(share, seconds=seconds, target=_NEAR)
            few: dict[str, Any] = {"patience": _PATIENCES[0], "kernel": "none", "compiled": False}
            return self._run(part, budget, data, **few)

        if self._ends:
            return
        model = by_stretches(self.make, self.sizes, self.data, learn)
        self.ended = "" if self.ended == "target" else self.ended  # the target of a segment
        if model is not None and not self._ends:
            self._train(model, 2 * _SLICE)

    def _continue(self) -> None:
        """Begin again on the way from the identity, with as few layers as lead to the data."""
        for depth in DEPTHS:
            model = None if self._over() else smallest(self.make, self.sizes, depth=depth)
            if model is None or not self.dataset.is_complete:
                return
            self.data.normalise(model)
            seconds = self.budget.part(_SLICE).seconds or math.inf
            try:
                with until(time.perf_counter() + BEYOND * seconds):
                    continued(model, self.data.pairs(model))
            except TimeIsUp:
                return
            self._train(model, _SLICE)
            assert self.found is not None
            if self.found.error < FAR:
                return

    def _grow(self) -> bool:
        """Whether a larger model does better."""
        assert self.found is not None
        before = self.found.model
        error = self.found.error
        if error < _EXACT or self._is_slow:
            return False
        tried: list[tuple[float, str, Integrator]] = []
        for way, model in larger_ones(before, self.make, self.sizes):
            if count(model) > _LARGE:
                continue
            # models of bodies are worth compiling even for a trial
            compiled: dict[str, Any] = {} if model.bodies else {"compiled": False}
            history = self._tried(model, self.budget.part(_TRIAL_SHARE), epochs=_TRIAL, **compiled)
            if self._finished:
                self._note(model, history.best_validation_error)
                return False
            # orders of magnitude won for orders of magnitude more parameters
            won = math.log(error / max(history.best_validation_error, _TINY))
            tried.append((won / math.log(count(model) / count(before)), way, model))
            if self._over():
                break
        for _, way, model in sorted(tried, key=lambda trial: trial[0], reverse=True):
            if self._train(model, _SLICE) < error / _GAIN:
                self.way = way
                return True
            if self._over():
                break
        return False

    def _awake(self, any_error: bool = False) -> bool:
        """Let attention learn too, where orbits are the better for it.

        Unless any error will do, only where larger maps of single states stay poor: then states
        are likely to be incomplete.
        """
        assert self.found is not None
        before = self.found.model
        if self._finished or before is self.frozen or not (any_error or self.found.error > _FAR):
            return False
        self.frozen = before

        def train(model: Integrator) -> None:
            history.append(self._run(model, self.budget.part(_ATTENTION)))

        history: list[History] = []
        awake = awakened(before, self.dataset, train)
        if not history:
            return False
        error = history[-1].best_validation_error
        if awake is not None:
            self.found = Found(awake, error, history[-1])
            self._note(awake, error)
        elif error < self.found.error:
            self.tell(f"attention rests: with it {error:.1e}, but orbits no nearer to the data's")
        return awake is not None

    def _leap(self) -> None:
        """Grow to the largest model that there is time to train, as it grew before if it can."""
        assert self.found is not None
        if self.found.error < _EXACT or self.budget.seconds is None or self._is_slow:
            return  # the time of an epoch of a large model is not known beforehand
        left = max(self.budget.seconds - (time.perf_counter() - self.start), 0.0)
        most = min(MOST, affordable(left, _ITERATIONS))
        while not self._over():
            before, error = self.found.model, self.found.error
            larger = {
                way: m for way, m in larger_ones(before, self.make, self.sizes) if count(m) <= most
            }
            if not larger:
                return
            if self._train(larger.get(self.way, [*larger.values()][-1]), _LEAP) >= error / _GAIN:
                return


def _is_compiler_there() -> bool:
    try:
        return bool(find_compiler())
    except NotCompilable:
        return False
