"""Functions, degree and depth of couplings: a search by prolongation.

A small stack of polynomial couplings is trained until it gets no better. Then it is prolonged in
degree, which keeps the map, or in depth, which keeps the map or samples its layers anew. The search
takes what promises more, and goes on while that pays. So each stage begins where least
squares converge in a few iterations; the same large model trained
from the identity ends orders of magnitude above, in a flat valley (see
docs/theory/initialisation.md). Neurons run beside it where polynomials stay poor.
"""

from __future__ import annotations

import json
import math
import warnings
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace

from vpintegrator.arguments import grouped, of_kind
from vpintegrator.data import Dataset
from vpintegrator.errors import InputError
from vpintegrator.models import Integrator
from vpintegrator.models.growth import freeze_attention
from vpintegrator.models.one_step import simplified, without_attention
from vpintegrator.native import NotCompilable, find_compiler
from vpintegrator.runtime.deadline import TimeIsUp, until
from vpintegrator.runtime.interrupts import held_back
from vpintegrator.training.attention import with_trained_attention
from vpintegrator.training.history import History, Show
from vpintegrator.training.residuals import Objective, doubt
from vpintegrator.training.search.multiple_shooting import shooting_start
from vpintegrator.training.search.options import (
    Arguments,
    Budget,
    Execution,
    Make,
    Method,
    SearchOptions,
    keywords,
)
from vpintegrator.training.search.result import SearchResult
from vpintegrator.training.search.size_search import SizeSearch
from vpintegrator.training.search.sizes import (
    count,
    describe,
    larger_ones,
    smallest,
    splitting_of,
)
from vpintegrator.training.train import run
from vpintegrator.training.training_data import TrainingData

ITERATIONS = 4_000  # iterations of a search and the training after it, of which parts take shares
SHARE = 0.6  # fraction of the iterations for the search; the rest trains the model found
_SLICE = 0.08  # fraction of the iterations, for one size
# of the iterations, for attention: unfrozen attention takes some 50 to bring orbits nearer to the
# data (unknown moments of inertia)
_ATTENTION = 0.2
_TRIAL = 40  # iterations after which sizes are compared
_NEURONS = 0.1  # fraction of the iterations, for neurons
_DEPTH = 3  # layers of neurons
_HANDICAP = 4.0  # relative error up to which neurons are trained further
_MORE = 0.5  # fraction of the remaining iterations, for further training of neurons
# iterations without progress after which a size has given what it can, and then a little more
_PATIENCES = (20, 100)
_SEGMENT = 0.03  # fraction of the iterations, for one segment of a step
_NEAR = 1e-3  # error at which the training of a segment ends
_FAR = 1e-3  # initial error beyond which segments of a step are tried
_BETTER = 0.9  # times the smallest error so far: what a model must reach to be kept instead
_GAIN = 1.5  # gain of a larger model for which a still larger one is tried
_GOOD = 3e-6  # relative error that neurons do not reach in the time
_LARGE = 400  # parameters from which a comparison of sizes costs more than it is worth
_TINY = 1e-300
_EXACT = 1e-13  # relative error, that of data at the usual tolerances: no more is to be learned


@grouped(method=Method, objective=Objective, execution=Execution)
def find_functions(
    make: Make,
    dataset: Dataset,
    budget: Budget,
    *,
    sizes: Arguments | None = None,
    method: Method,
    objective: Objective,
    execution: Execution,
    tell: Callable[[str], None] = lambda line: None,
    progress: Show | bool | None = None,
) -> SearchResult:
    """Return the model that does best on the validation windows, trained as far as the search goes.

    Parameters
    ----------
    make
        The untrained model of some arguments: ``functions``, ``degree``, ``depth``.
    dataset
        Training dataset.
    budget
        Budget of the whole search; its ``target`` ends the search. Parts of the search take shares
        of the epochs, or of 4,000 where none are given, so that a search within its seconds can be
        repeated.
    sizes
        ``degree`` or ``depth`` where they are given; the search leaves them as they are.
    tell
        Called with a line about each model that was tried.
    method, optimizer, batch, learning_rate, seed, initial_scheme
        Arguments of :func:`vpintegrator.train`, for every training.
    objective, loss, horizon, noise
        Arguments of :func:`vpintegrator.train`, for every training.
    execution, device, compiled
        Arguments of :func:`vpintegrator.train`, for every training.
    progress
        Called with the history after each epoch.

    Returns
    -------
    SearchResult
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
    shown = progress if callable(progress) else None
    options = SearchOptions(
        budget, method, objective, execution, sizes or {}, tell=tell, progress=shown
    )
    return find_couplings(make, TrainingData(dataset), options)


def find_couplings(make: Make, data: TrainingData, options: SearchOptions) -> SearchResult:
    """Return the couplings that do best on the validation windows."""
    return _CouplingSearch(make, data, options).run()


class _CouplingSearch(SizeSearch):
    def __init__(self, make: Make, data: TrainingData, options: SearchOptions) -> None:
        super().__init__(make, data.without_test(), options)  # read once for all trainings
        self.budget, self.sizes = options.budget, options.sizes
        self.iterations = options.budget.epochs or ITERATIONS
        self.initial_scheme = options.method.initial_scheme
        # a named one is for the model that begins as it, and not for those beside it
        self.method = replace(
            options.method, initial_scheme="none" if self.initial_scheme == "none" else "auto"
        )
        self.epochs = 0
        self.best: SearchResult | None = None
        self.slow: list[Integrator] = []  # models that cannot be compiled
        self.frozen: Integrator | None = None  # whose attention has been tried
        self.ended, self.way, self.patience = "", "", _PATIENCES[0]

    def run(self) -> SearchResult:
        """Train one model after the other until nothing is gained, or the budget is used up."""
        try:
            with suppress(TimeIsUp), until(self.options.end()):
                self._search()
        except KeyboardInterrupt:  # between two trainings, which end with their best weights
            self.ended = "interrupt"
            if self.best is None:
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
            self._begin(functions)
        if self.best is None or self.best.error > _FAR:
            self._shooting_start()
        if self.best is not None:
            for self.patience in _PATIENCES:
                while not self._over() and self._grow():
                    pass
                if self._train_attention():
                    return
        if (self.best is None or self.best.error > _GOOD) and "degree" not in self.sizes:
            self._try_neurons()
        if self.data.dataset.is_observed:
            self._train_attention(any_error=True)

    def _result(self) -> SearchResult:
        """Return the best model, which says how it was trained."""
        if self.best is None:
            raise InputError(
                "no couplings were trained in the time that was left; give more seconds"
            )
        found = self.best
        if found.history.epochs and not math.isfinite(found.error):
            raise InputError(f"{found.model.name} has learned nothing: no error was finite")
        found.history.test_error = self.data.with_test().test_error(found.model)
        alone = simplified(found.model)
        found.history.warning = doubt(
            alone, self.data.held_out(alone), self.data.error_scale, found.history
        )
        found.model.metadata["training"] = json.dumps(found.history.summary())
        if without_attention(found.model, fixed=True) is None:
            found.model.requires_grad_(True)
        found.tried, found.ended = self.tried, self.ended if self._finished else ""
        found.epochs, found.seconds = self.epochs, self.options.used
        return found

    def _begin(self, functions: str) -> None:
        """Train what there is to begin with: a few layers, and a splitting method."""
        if self._ends:
            return
        first = smallest(self.make, self.sizes, functions)
        if first is not None:
            self._train(first, _SLICE)
        if self._ends:
            return
        splitting = self._splitting(functions)
        if splitting is not None:
            self._train(splitting, _SLICE)

    def _splitting(self, functions: str) -> Integrator | None:
        """Return a model that begins as the method that is asked for, or another that fits."""
        try:
            return splitting_of(self.make, self.sizes, functions, self.data, self.initial_scheme)
        except InputError as error:  # a named method that the sizes do not fit
            if "depth" in self.sizes or self.initial_scheme == "auto":
                raise
            self.options.tell(f"{error}; the search begins with the default instead")
            self.initial_scheme = "auto"
            return self._splitting(functions)

    @property
    def _ends(self) -> bool:
        """Whether there is nothing left to be learned, or no time for it."""
        return self._finished or (self.best is not None and self.best.error < _EXACT)

    def _try_neurons(self) -> None:
        """Train neurons, too; they get better for longer than polynomials do."""
        if self._finished:
            return
        best = math.inf if self.best is None else self.best.error
        neurons = self._neurons({"depth": self.sizes.get("depth", _DEPTH)})
        if neurons is None:
            return
        freeze_attention(neurons)
        error = self._train(neurons, _NEURONS)
        left = 1 - self.epochs / self.iterations
        if best < error < _HANDICAP * best and left > 0 and not self._finished:
            self.options.tell(
                "neurons, which get better for longer, are trained on beside the polynomials"
            )
            self._train(neurons, _MORE * left)

    def _neurons(self, held: Arguments) -> Integrator | None:
        """Return the model of neurons, if what is asked for allows it or nothing else was found."""
        try:
            return self.make(held)
        except InputError:
            if self.best is None:
                raise
            return None

    @property
    def _finished(self) -> bool:
        return self.ended in ("target", "interrupt")

    @property
    def _is_slow(self) -> bool:
        """Whether the best model cannot be compiled: there is no time for a larger one."""
        return any(self.best is not None and self.best.model is each for each in self.slow)

    def _over(self) -> bool:
        """Whether the rest of the budget is for the model that is best."""
        used = self.epochs / self.iterations
        return self._finished or used > SHARE or self.options.is_late(SHARE)

    def _part(self, share: float) -> int:
        """Return a share of the iterations."""
        return max(round(share * self.iterations), 1)

    def _train(self, model: Integrator, share: float) -> float:
        """Train one size as long as it gets better quickly; its error."""
        error, windows, epochs = math.inf, self.method.batch, 0
        while True:
            history = self._tried(model, self._part(share), windows, self.patience)
            windows = history.windows or self.method.batch
            before, error = error, history.best_validation_error
            epochs += history.epochs
            slow = history.stopped_by != "epochs" or not error < before / 3
            if slow or self._over():
                break
        self._note(model, error, epochs)
        return error

    def _tried(
        self, model: Integrator, epochs: int, batch: int | None = None, patience: int | None = None
    ) -> History:
        """Train a model, and keep it if it is the best."""
        compiled = False if epochs <= _TRIAL else self.options.execution.compiled
        limits = Budget(epochs=epochs, target=self.budget.target, patience=patience)
        history = self._run(
            model,
            limits,
            method=replace(self.method, batch=batch or self.method.batch),
            execution=replace(self.options.execution, compiled=compiled),
        )
        self._keep(model, history)
        return history

    def _run(
        self,
        model: Integrator,
        limits: Budget,
        *,
        method: Method,
        execution: Execution,
        data: TrainingData | None = None,
    ) -> History:
        # something is to be found, in whatever part of the budget
        end = self.options.end(SHARE if self.best is not None else 1.0)
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")  # the last training says what there is to say
            with until(end):
                history = run(
                    model,
                    data or self.data,
                    **keywords(method, limits, self.options.objective, execution),
                    progress=self._show if self.options.progress is not None else None,
                )
        if any("not compiled" in str(each.message) for each in told) and _is_compiler_there():
            self.slow.append(model)
        self.epochs += history.epochs
        self.ended = history.stopped_by
        return history

    def _show(self, history: History) -> None:
        self.options.show(history, self.epochs + history.epochs)

    def _note(self, model: Integrator, error: float, epochs: int = 1) -> None:
        reached = [f"{error:.1e}"] if math.isfinite(error) else []
        reached += [] if epochs else ["no iteration in its time"]
        line = f"{describe(model)}: {', '.join(reached)} after {self.options.used:.0f} s"
        if self.best is not None and self.best.model is not model and error < self.best.error:
            line += "; not a tenth better, so the model before is kept"
        self.note(line)

    def _keep(self, model: Integrator, history: History) -> None:
        error, best = history.best_validation_error, self.best
        if best is not None and not (self._finished or best.model is model):
            error /= _BETTER
        if best is None or error < best.error:
            self.best = SearchResult(model, history.best_validation_error, history)

    def _shooting_start(self) -> None:
        """Begin with layers that have learned segments of a step one by one."""

        def learn(part: Integrator, data: TrainingData) -> History:
            return self._run(
                part,
                Budget(epochs=self._part(_SEGMENT), target=_NEAR, patience=_PATIENCES[0]),
                method=replace(self.method, initial_scheme="none"),
                execution=replace(self.options.execution, compiled=False),
                data=data,
            )

        if self._ends:
            return
        model = shooting_start(self.make, self.sizes, self.data, learn)
        self.ended = "" if self.ended == "target" else self.ended  # the target of a segment
        if model is not None and not self._ends:
            self._train(model, 2 * _SLICE)

    def _grow(self) -> bool:
        """Whether a larger model does better."""
        assert self.best is not None
        before, error = self.best.model, self.best.error
        if error < _EXACT or self._is_slow:
            return False
        larger = dict(larger_ones(before, self.make, self.sizes))
        small = {way: model for way, model in larger.items() if count(model) <= _LARGE}
        promising = self._compared(small, count(before), error)
        if larger and not small:  # as it grew before, if it can
            way = self.way if self.way in larger else [*larger][-1]
            promising = [(way, larger[way])]
        for way, model in promising:
            if self._train(model, _SLICE) < error / _GAIN:
                self.way = way
                return True
            if self._over():
                break
        return False

    def _compared(
        self, larger: dict[str, Integrator], size: int, error: float
    ) -> list[tuple[str, Integrator]]:
        """Return larger models after a short training, the most promising first."""
        tried: list[tuple[float, str, Integrator]] = []
        for way, model in larger.items():
            history = self._tried(model, _TRIAL)
            if self._finished:
                self._note(model, history.best_validation_error)
                return []
            # orders of magnitude won for orders of magnitude more parameters
            reached = min(max(history.best_validation_error, _TINY), 1 / _TINY)
            won = math.log(error / reached)
            tried.append((won / math.log(count(model) / size), way, model))
            if self._over():
                break
        tried.sort(key=lambda trial: trial[0], reverse=True)
        return [(way, model) for _, way, model in tried]

    def _train_attention(self, any_error: bool = False) -> bool:
        """Let attention learn too, where orbits are the better for it.

        Unless any error will do, only where larger maps of single states stay poor: then states
        are likely to be incomplete.
        """
        assert self.best is not None
        before = self.best.model
        if self._finished or before is self.frozen or not (any_error or self.best.error > _FAR):
            return False
        self.frozen = before

        def train(model: Integrator) -> None:
            limits = Budget(epochs=self._part(_ATTENTION), target=self.budget.target)
            execution = self.options.execution
            history.append(self._run(model, limits, method=self.method, execution=execution))

        history: list[History] = []
        trained = with_trained_attention(before, self.data.dataset, train)
        if not history:
            return False
        error = history[-1].best_validation_error
        if trained is not None:
            self.best = SearchResult(trained, error, history[-1])
            self._note(trained, error)
        elif error < self.best.error:
            self.options.tell(
                f"attention rests: with it {error:.1e}, but orbits no nearer to the data's"
            )
        return trained is not None


def _is_compiler_there() -> bool:
    try:
        return bool(find_compiler())
    except NotCompilable:
        return False
