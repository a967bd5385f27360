"""Stages of a learned splitting: more of them while the error falls."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

from vpintegrator.data import Dataset
from vpintegrator.dynamics.compositions import FACTORS
from vpintegrator.errors import InputError
from vpintegrator.models import Integrator
from vpintegrator.nn.learned_splitting import LearnedSplitting
from vpintegrator.runtime.deadline import ending_of, until
from vpintegrator.training.history import History
from vpintegrator.training.search.options import Budget, Make, Method, SearchOptions
from vpintegrator.training.search.result import SearchResult
from vpintegrator.training.search.size_search import SizeSearch
from vpintegrator.training.train import run
from vpintegrator.training.training_data import TrainingData

_EPOCHS = 300  # a second or two; 1,000 gain a factor of two at most
_EXACT = 1e-14  # error that no further stage improves
_GAIN = 2.0  # gain that a trial must bring, or the search ends


class _Trial(NamedTuple):
    """Stages, and the method that they begin as, in steps of equal size; Strang's if none."""

    stages: int
    scheme: str = "strang-splitting"

    @property
    def factors(self) -> tuple[float, ...]:
        method = FACTORS[self.scheme]
        steps = 2 * self.stages // len(method)
        return tuple(factor / steps for factor in method) * steps


_TRIALS = [_Trial(10 * k, "blanes-moan-6") for k in (1, 2, 4, 6)]
_FINER = [_Trial(3), _Trial(6, "blanes-moan-4"), *_TRIALS]  # trials if an error is asked for
# with commutators equal stages end below methods with negative ones: Kepler's ten stages at 3e-10
# instead of 2e-9
_WITH_COMMUTATORS = [_Trial(k) for k in (3, 5, 8, 12, 20, 32)]


def find_splitting(
    make: Make,
    dataset: TrainingData | Dataset,
    budget: Budget | None = None,
    *,
    sizes: dict[str, Any] | None = None,
    seed: int = 0,
    tell: Callable[[str], None] = lambda line: None,
    progress: Callable[[History], None] | None = None,
) -> SearchResult:
    """Return the learned splitting of as many stages as bring the error down.

    Splittings begin as a classical method, Strang's or one of Blanes and Moan in steps of equal
    size, and are trained by Levenberg-Marquardt. So none errs more than the method it began as. The
    search ends where twice in a row further stages do not halve the error.

    Parameters
    ----------
    make
        The untrained model of some arguments: ``stages``.
    dataset
        Training dataset.
    budget
        Seconds and target that end the search.
    sizes
        ``stages`` where they are given.
    seed
        Seed of the choice of windows.
    tell
        Called with a line about each number of stages.
    progress
        Called with the history after each epoch.

    Returns
    -------
    SearchResult
        ``error`` is the validation error.

    Raises
    ------
    InputError
        If the equations are not known or no sum of parts with exact flows, or no splitting has a
        finite error.

    Examples
    --------
    >>> dataset = vp.generate("pendulum", "pendulum.h5", count=40, steps=20, overwrite=True)
    >>> def make(arguments):
    ...     return vp.models.build(dataset.system, "split", **arguments)
    >>> vp.training.find_splitting(make, dataset, sizes={"stages": 10}).error < 1e-8
    True
    """
    options = SearchOptions(
        budget or Budget(),
        Method(seed=seed),
        sizes=sizes or {},
        tell=tell,
        progress=progress,
    )
    return find_stages(make, TrainingData.of(dataset), options)


def find_stages(make: Make, data: TrainingData, options: SearchOptions) -> SearchResult:
    """Return the splitting of the best number of stages."""
    return _StageSearch(make, data, options).run()


class _StageSearch(SizeSearch):
    def __init__(self, make: Make, data: TrainingData, options: SearchOptions) -> None:
        super().__init__(make, data, options)
        self.best: SearchResult | None = None

    @property
    def _error(self) -> float:
        return math.inf if self.best is None else self.best.error

    def run(self) -> SearchResult:
        """Train one splitting after the other."""
        vain, ended = 0, ""
        for trial in self._trials():
            before = self._error
            try:
                with until(self.options.end()):
                    ended = self._train(trial)
            except KeyboardInterrupt as interruption:
                if self.best is None:
                    raise self.options.nothing(interruption) from None
                ended = ending_of(interruption)
            vain = 0 if self._error * _GAIN < before else vain + 1
            if ended or self._error < _EXACT or vain == 2 or self.options.is_late():
                break
        if self.best is None:
            raise InputError("no splitting of these equations has a finite error")
        return self.found(self.best, ended)

    def _trials(self) -> list[_Trial]:
        known = _layer(self.make({"stages": 1})).commutators.numel() > 0
        trials = _TRIALS if self.options.budget.target is None else _FINER
        trials = _WITH_COMMUTATORS if known else trials
        given = self.options.sizes.get("stages")
        if given is None:
            return trials
        others = [each for each in (*trials, *_FINER) if each.stages == given]
        return others[:1] or [_Trial(given)]

    def _train(self, trial: _Trial) -> str:
        """Train a splitting, keep it if it is the best, and return why the search ends, if so."""
        model = self.make({"stages": trial.stages})
        _layer(model).begin_as(trial.factors)
        history = run(
            model,
            self.data,
            epochs=_EPOCHS,
            target=self.options.budget.target,
            seed=self.options.method.seed,
            initial_scheme="none",
            progress=self.options.progress,
        )
        history.test_error = self.data.test_error(model)
        error = history.best_validation_error
        self.note(
            f"{trial.stages} stages, begun as {trial.scheme}: {history.parameters} coefficients, "
            f"error {error:.1e} after {self.options.used:.1f} s"
        )
        if error < self._error:
            self.best = SearchResult(model, error, history, epochs=history.epochs)
        return history.stopped_by if history.stopped_by in ("target", "interrupt") else ""


def _layer(model: Integrator) -> LearnedSplitting:
    """Return the splitting of a model, or InputError."""
    if not isinstance(model.core, LearnedSplitting):
        raise InputError(f"{model.name} is no splitting; take the model split")
    return model.core
