"""Stages of a learned splitting: more of them while the error falls."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

from vpintegrator.data import Dataset
from vpintegrator.dynamics.compositions import FACTORS
from vpintegrator.errors import InputError
from vpintegrator.models import Integrator
from vpintegrator.nn.learned_splitting import LearnedSplitting
from vpintegrator.training.found import Found
from vpintegrator.training.history import Budget, History, NothingLearned
from vpintegrator.training.making import Make, making
from vpintegrator.training.train import train
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
) -> Found:
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
    Found
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
    make = making(make)
    search = _StageSearch(make, TrainingData.of(dataset), budget or Budget(), seed, tell, progress)
    return search.run(sizes or {})


class _StageSearch:
    def __init__(
        self,
        make: Make,
        data: TrainingData,
        budget: Budget,
        seed: int,
        tell: Callable[[str], None],
        progress: Callable[[History], None] | None,
    ) -> None:
        self.make, self.data, self.budget, self.seed = make, data, budget, seed
        self.tell, self.progress = tell, progress
        self.start = time.perf_counter()
        self.found: Found | None = None
        self.tried: list[str] = []

    def run(self, sizes: dict[str, Any]) -> Found:
        """Train one splitting after the other."""
        vain, ended, last = 0, "", (0, 0.0)
        for trial in self._trials(sizes):
            if self._too_long(trial, *last):
                break
            before = math.inf if self.found is None else self.found.error
            begin = time.perf_counter()
            try:
                ended = self._train(trial)
            except KeyboardInterrupt:
                if self.found is None:
                    raise
                ended = "interrupt"
            last = trial.stages, time.perf_counter() - begin
            error = math.inf if self.found is None else self.found.error
            vain = 0 if error * _GAIN < before else vain + 1
            if ended or error < _EXACT or vain == 2:
                break
        if self.found is None:
            raise InputError("no splitting of these equations has a finite error")
        found = self.found
        found.model.metadata["search"] = json.dumps(self.tried)
        seconds = time.perf_counter() - self.start
        ended = ended if ended in ("interrupt", "target") else ""
        return replace(found, tried=self.tried, seconds=seconds, ended=ended, complete=True)

    def _too_long(self, trial: _Trial, stages: int, spent: float) -> bool:
        """Whether a trial takes more than half of what is left, as one of fewer stages tells."""
        if self.budget.seconds is None or not stages:
            return False
        left = self.budget.seconds - (time.perf_counter() - self.start)
        return 2 * spent * trial.stages / stages > left

    def _trials(self, sizes: dict[str, Any]) -> list[_Trial]:
        known = _layer(self.make({"stages": 1})).commutators.numel() > 0
        trials = _TRIALS if self.budget.target is None else _FINER
        trials = _WITH_COMMUTATORS if known else trials
        if "stages" not in sizes:
            return trials
        others = [each for each in (*trials, *_FINER) if each.stages == sizes["stages"]]
        return others[:1] or [_Trial(sizes["stages"])]

    def _train(self, trial: _Trial) -> str:
        """Train one, and keep it if it is the best; say why no further one is tried, if so."""
        used = time.perf_counter() - self.start
        seconds = self.budget.seconds and self.budget.seconds - used
        if seconds is not None and seconds <= 0:
            return "seconds"
        model = self.make({"stages": trial.stages})
        _layer(model).begin_as(trial.factors)
        try:
            history = train(
                model,
                self.data,
                seconds=seconds,
                epochs=_EPOCHS,
                target=self.budget.target,
                seed=self.seed,
                kernel="none",
                progress=self.progress or False,
            )
        except NothingLearned as failure:
            history = failure.history
        error = history.best_validation_error
        line = (
            f"{trial.stages} stages, begun as {trial.scheme}: {history.parameters} coefficients, "
            f"error {error:.1e} after {time.perf_counter() - self.start:.1f} s"
        )
        self.tell(line)
        self.tried.append(line)
        if math.isfinite(error) and (self.found is None or error < self.found.error):
            self.found = Found(model, error, history, epochs=history.epochs)
        return history.stopped_by if history.stopped_by in ("target", "interrupt") else ""


def _layer(model: Integrator) -> LearnedSplitting:
    """Return the splitting of a model, or InputError."""
    if not isinstance(model.core, LearnedSplitting):
        raise InputError(f"{model.name} is no splitting; take the model split")
    return model.core
