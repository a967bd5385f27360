"""Trainer of ``vp.fit``: it trains the maps that a kind proposes, and keeps a record of each."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import ClassVar, Protocol

from vpintegrator.maps import Map
from vpintegrator.models import Model
from vpintegrator.models.stored import History
from vpintegrator.runtime.interrupts import TimeIsUp, check_time
from vpintegrator.training.linear import LinearFit
from vpintegrator.training.options import Budget, TrainingOptions
from vpintegrator.training.regression import solve
from vpintegrator.training.results import Fit, Show, keeps
from vpintegrator.training.train import optimise
from vpintegrator.training.training_data import TrainingData


class Traits(Protocol):
    """Traits of a kind of maps that its fits have, see :class:`vpintegrator.training.Kind`."""

    name: ClassVar[str]
    explicit: ClassVar[bool]
    structured: ClassVar[bool]


class Trainer:
    """Trains maps of one kind within a budget, and records each training.

    :meth:`Kind.search` gets one. A training ends the search by an exception when the time is up, or
    at Ctrl-C; :func:`vpintegrator.fit` catches it, and the fits so far count.

    Parameters
    ----------
    kind
        Kind of the maps.
    data
        Training data.
    budget
        Limits of the kind: its clock is the only one.
    fits
        List to which the fits are added; that of other kinds comes first.
    seed
        Seed of weights and of the choice of windows.
    form
        Form that a map must keep; None where the error decides.
    show
        Called after each iteration of a training.
    report
        Called with each fit.

    Examples
    --------
    >>> from vpintegrator.training import Budget, LinearMaps, Trainer
    >>> from vpintegrator.training.training_data import TrainingData
    >>> turn = np.array([[0.8, -0.6], [0.6, 0.8]])
    >>> before = np.random.default_rng(0).normal(size=(50, 2))
    >>> dataset = vp.import_dataset((before, before @ turn), "turn.h5", pairs=True, overwrite=True)
    >>> data = TrainingData(dataset)
    >>> train = Trainer(LinearMaps(), data, Budget(seconds=10))
    >>> fit = train.solve(vp.models.LinearMap(dim=2), "4 coefficients")
    >>> fit.error < 1e-14, train.fits == [fit]
    (True, True)
    """

    def __init__(
        self,
        kind: Traits,
        data: TrainingData,
        budget: Budget,
        fits: list[Fit] | None = None,
        *,
        seed: int = 0,
        form: str | None = None,
        show: Show | None = None,
        report: Callable[[Fit], object] | None = None,
    ) -> None:
        self.kind = kind
        self.data = data
        self.budget = budget
        self.fits: list[Fit] = [] if fits is None else fits
        self.seed = seed
        self.form = form
        self.show = show
        self.report = report

    def __call__(
        self,
        model: Model,
        size: str,
        *,
        epochs: int | None = None,
        patience: int | None = None,
        options: TrainingOptions | None = None,
    ) -> Fit:
        """Train a model in place, and return its fit.

        Parameters
        ----------
        model
            The model.
        size
            Its size in words: "degree 8, 240 coefficients".
        epochs, patience
            Iterations of this training, and those without progress after which it ends.
        options
            How the model is trained.

        Raises
        ------
        InputError
            If the options do not suit the model.
        KeyboardInterrupt
            At Ctrl-C, and where the time of the kind is up.
        """
        history = self._optimise(model, self.data, epochs, patience, options)
        error, deviation = self.data.held_out_error(model)
        return self.record(model, size, error, deviation, history)

    def segment(
        self,
        model: Model,
        data: TrainingData,
        size: str,
        *,
        epochs: int | None = None,
        patience: int | None = None,
        target: float = 0.0,
        options: TrainingOptions | None = None,
    ) -> Fit:
        """Train the map of a segment of a step on its data, and return its fit.

        ``target`` is the error at which the training ends; the other arguments are those of a call.
        """
        history = self._optimise(model, data, epochs, patience, options, target)
        error = history.best_validation_error
        return self.record(model, size, error, 0.0, history, segment=True)

    def solve(
        self, model: Model, size: str, *, far: bool = False, start: Model | None = None
    ) -> Fit:
        """Solve for the coefficients of a model by linear least squares, and return its fit.

        Parameters
        ----------
        model, size
            The model and its size in words.
        far
            Of a generating function: whether a linear map is fitted first.
        start
            Of a polynomial: the fitted model of a lower degree.
        """
        begin = time.perf_counter()
        self.data.normalise(model)
        result = solve(model, self.data, self.seed, far=far, start=start)
        return self.solved(model, size, result, begin)

    def solved(
        self, model: Model, size: str, result: LinearFit, start: float, optimizer: str = "linear"
    ) -> Fit:
        """Record a linear solve that began at ``start``; left-out pairs judge few data.

        Parameters
        ----------
        model, size
            The solved model and its size in words.
        result
            Result of the solve.
        start
            Value of ``time.perf_counter`` at its beginning.
        optimizer
            Name of the method.
        """
        data = self.data
        history = History(optimizer, self.seed, result.coefficients, stopped_by="solved")
        history.windows = result.pairs
        seconds = time.perf_counter() - start
        judged_by = "held out"
        if not data.is_few:
            error, deviation = data.held_out_error(model)
        else:
            known = data.known_windows(model.window)
            judged_by = "left out" if known.are_single else "blocks"
            error = result.typical if judged_by == "left out" else result.error
            # linear equations may promise more than the map keeps, and implicit ones may not solve
            error = max(error, data.known_error(model))
            deviation = error * result.deviation / 2
        history.add(seconds, result.error, error)
        model.record = replace(model.record, history=history)
        return self.record(model, size, error, deviation, history, judged_by)

    def judge(self, map: Map, size: str, seconds: float = 0.0) -> Fit:
        """Judge a map that needs no training here by the held-out windows, and return its fit.

        Parameters
        ----------
        map
            Any map of the step of the data.
        size
            Its size in words.
        seconds
            Seconds that it took to make.
        """
        start = time.perf_counter()
        error, deviation = self.data.held_out_error(map)
        history = History("none", self.seed, 0, stopped_by="solved")
        history.add(seconds + time.perf_counter() - start, error, error)
        if isinstance(map, Model):
            map.record = replace(map.record, history=history)
        return self.record(map, size, error, deviation, history)

    def record(
        self,
        map: Map,
        size: str,
        error: float,
        deviation: float,
        history: History,
        judged_by: str = "held out",
        *,
        segment: bool = False,
    ) -> Fit:
        """Add the fit of a map to the record, and return it.

        Raises
        ------
        KeyboardInterrupt
            At Ctrl-C, and where the time of the kind is up.
        """
        form = "symplectic" if self.data.system.is_canonical else "volume"
        claimed = map.structure.keeps_volume or keeps(map, form)
        claimed = claimed or (isinstance(map, Model) and map.measure_preserving)
        # the volume of windows is no structure of a system of which a part is observed
        of_windows = map.structure.space == "windows" and map.structure.form != "lagrangian"
        is_empty = of_windows and self.data.may_be_incomplete
        structured = (self.kind.structured or claimed) and not is_empty
        if self.form is not None:
            structured = keeps(map, self.form)
        fit = Fit(
            model=map,
            kind=self.kind.name,
            size=size,
            error=error if math.isfinite(error) else math.inf,
            deviation=deviation if math.isfinite(error) else 0.0,
            judged_by=judged_by,
            seconds=history.used,
            explicit=self.kind.explicit,
            structured=structured,
            history=history,
            stopped_by=history.stopped_by,
            provenance=self.data.provenance_of(map),
            segment=segment,
        )
        self.fits.append(fit)
        if self.report is not None:
            self.report(fit)
        check_time()
        if fit.stopped_by == "seconds":
            raise TimeIsUp
        return fit

    def supersede(self, fits: Sequence[Fit]) -> None:
        """Let fits not be chosen: another fit of the kind is better over several steps.

        Parameters
        ----------
        fits
            Fits that were recorded here.
        """
        places = [place for place, fit in enumerate(self.fits) if fit in fits]
        for place in places:
            self.fits[place] = replace(self.fits[place], superseded=True)

    def _optimise(
        self,
        model: Model,
        data: TrainingData,
        epochs: int | None,
        patience: int | None,
        options: TrainingOptions | None,
        target: float = 0.0,
    ) -> History:
        budget = self.budget.part(epochs=epochs)
        budget.target = max(budget.target, target)
        return optimise(
            model,
            data,
            budget,
            options or TrainingOptions(),
            patience=patience,
            seed=self.seed,
            progress=self.show or False,
        )
