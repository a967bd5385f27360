"""Degree of a generating function: raised until the leave-one-out error stops falling."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from vpintegrator.data import Dataset
from vpintegrator.errors import InputError
from vpintegrator.models import Integrator
from vpintegrator.runtime.deadline import ending_of, until
from vpintegrator.training.composed import fit_pairs
from vpintegrator.training.history import History
from vpintegrator.training.linear import (
    MOST,
    PENALTIES,
    LinearFit,
    WholePairs,
    enough_pairs,
    layer_pairs,
)
from vpintegrator.training.search.options import Budget, Make, Method, SearchOptions
from vpintegrator.training.search.result import SearchResult
from vpintegrator.training.search.size_search import SizeSearch
from vpintegrator.training.search.sizes import count
from vpintegrator.training.training_data import FOLDS, TrainingData

FIRST, STEP = 2, 2  # degrees: symmetries often leave only even ones anything to add
_HIGHEST = 64
_COMPARED = 6  # degree at which a fit with a linear map in front is compared with one without
_PATIENCE = 2  # degrees beyond the one that is chosen after which the search ends
_FEW = 200  # coefficients up to which a solve takes a tenth of a second, and the search goes on,
_LONG = 5  # but not for more degrees: a product of even polynomials gains at every second one
_EXACT = 1e-15  # leave-one-out error at rounding: no higher degree can be told to be better
_EXACT_FEW = 1e-14  # the same of few pairs, of which each higher degree takes a ridge penalty


def find_generating_function(
    make: Make,
    dataset: TrainingData | Dataset,
    budget: Budget | None = None,
    *,
    sizes: dict[str, Any] | None = None,
    most: int = MOST,
    seed: int = 0,
    tell: Callable[[str], None] = lambda line: None,
    progress: Callable[[History], None] | None = None,
) -> SearchResult:
    """Return the generating function of the degree that the leave-one-out error chooses.

    The smallest degree is taken whose error is within one standard error of the least (Hastie,
    Tibshirani, Friedman, The Elements of Statistical Learning, 2nd ed., section 7.10). Degrees 2,
    4, 6, ... are solved for until two in a row do not change this choice, or five where there are
    at most 200 coefficients.

    Parameters
    ----------
    make
        The untrained model of some arguments: ``degree``.
    dataset
        Training dataset.
    budget
        Seconds and target that end the search, and how many degrees are solved for at most: its
        epochs. The first degree whose validation error is below the target is taken.
    sizes
        ``degree`` where it is given.
    most
        Coefficients.
    seed
        Seed of the choice of pairs.
    tell
        Called with a line about each degree.
    progress
        Called with the history after each degree.

    Returns
    -------
    SearchResult
        ``error`` is the validation error; the epochs of the history are degrees.

    Raises
    ------
    InputError
        If no model of the given degree can be made, or data do not determine its coefficients.

    Examples
    --------
    >>> dataset = vp.generate("pendulum", "pendulum.h5", count=40, steps=20, overwrite=True)
    >>> def make(arguments):
    ...     return vp.models.build(dataset.system, "sgf", **arguments)
    >>> found = vp.training.find_generating_function(make, dataset)
    >>> found.error < 1e-10
    True
    """
    options = SearchOptions(
        budget or Budget(),
        Method(seed=seed),
        sizes=sizes or {},
        tell=tell,
        progress=progress,
    )
    return find_degree(make, TrainingData.of(dataset), options, most)


def find_degree(
    make: Make, data: TrainingData, options: SearchOptions, most: int = MOST
) -> SearchResult:
    """Return the generating function of the best degree; epochs of the budget are degrees."""
    return _DegreeSearch(make, data, options, most).run()


class _DegreeSearch(SizeSearch):
    def __init__(
        self, make: Make, data: TrainingData, options: SearchOptions, most: int = MOST
    ) -> None:
        super().__init__(make, data, options)
        self.most = most
        self.history = History("linear", options.method.seed, 0)
        self.fits: list[tuple[LinearFit, Integrator]] = []
        self.refusal: InputError | None = None
        self.far: bool | None = None  # whether a linear map is fitted first, once that is known
        known = data.known_pairs if data.is_few else None
        self.folds = None if known is None else known.folds
        self.are_single = known is not None and known.are_single
        if known is not None:
            self.options.tell(known.words)

    def run(self) -> SearchResult:
        """Solve for one degree after the other."""
        ended = ""
        try:
            with until(self.options.end()):
                for degree in self._degrees()[: self.options.budget.epochs]:
                    ended = self._solve(degree)
                    if ended:
                        break
        except KeyboardInterrupt as interruption:
            if not self.fits:
                raise self.options.nothing(interruption) from None
            ended = ending_of(interruption)
        if not self.fits:
            raise self.refusal or InputError("no degree gives a generating function for these data")
        place = len(self.fits) - 1 if ended == "target" else self._place()
        fit, model = self.fits[place]
        history = self.history
        history.parameters = fit.coefficients
        history.best_epoch = 1 + place
        found = self.solved(model, self._judged(fit, model), history, ended)
        found.typical = fit.typical if self.are_single else None
        return found

    def _judged(self, fit: LinearFit, model: Integrator) -> float:
        """Return the error on the validation group; of few data the error by cross-validation."""
        return self.validation_error(model) if self.folds is None else fit.error

    @property
    def _is_given(self) -> bool:
        return "degree" in self.options.sizes

    @property
    def _has_parts_in_time(self) -> bool:
        """Whether the folds are parts in time of few trajectories."""
        return self.folds is not None and len(set(self.folds)) <= FOLDS

    def _degrees(self) -> list[int]:
        if self._is_given:
            return [self.options.sizes["degree"]]
        # where parts in time are left out, a degree too many costs more than it does elsewhere
        return list(range(FIRST, _HIGHEST + 1, 1 if self._has_parts_in_time else STEP))

    def _solve(self, degree: int) -> str:
        """Fit one degree; say why no further one is tried, if so."""
        required = self._is_given
        try:
            model = self.make({"degree": degree})
        except InputError as error:  # too many terms, or none that the symmetries allow
            if required:
                raise
            self.refusal = self.refusal or error
            return "solved" if self.fits else ""
        if count(model) > self.most and self.fits:
            return "solved"
        if self._too_long(model):
            return "seconds"
        self.data.normalise(model)
        pairs = layer_pairs(model, self.data, enough_pairs(model), self.options.method.seed)
        whole = isinstance(pairs, WholePairs)
        try:
            before = self.fits[-1][1] if self.fits else None
            fit = fit_pairs(model, pairs, bool(self.far), before, self.folds)
            # a linear map in front would not respect scaling parameters
            compared = self.far is None and not model.scaling and not whole
            if compared and (required or degree >= _COMPARED):
                other = self.make({"degree": degree})
                self.data.normalise(other)
                far = fit_pairs(other, pairs, far=True, folds=self.folds)
                self.far = far.error < fit.error / 2
                fit, model = (far, other) if self.far else (fit, model)
        except InputError:
            if required or not self.fits:
                raise
            return "solved"  # more coefficients than equations
        self._note(degree, fit, model)
        target = self.options.budget.target
        if target is not None and fit.error <= target and self._judged(fit, model) <= target:
            return "target"
        beyond = len(self.fits) - 1 - self._place()
        stalled = beyond >= (_PATIENCE if fit.coefficients > _FEW else _LONG)
        nothing_new = fit.penalty == PENALTIES[-1] and len(self.fits) > 1
        exact = _EXACT if self.folds is None else _EXACT_FEW
        return "solved" if fit.error < exact or stalled or nothing_new else ""

    def _too_long(self, model: Integrator) -> bool:
        """Whether a solve ends after the budget: its time grows as the cube of its size."""
        seconds = self.options.budget.seconds
        if seconds is None or len(self.fits) < 2:
            return False
        (before, _), (last, _) = self.fits[-2:]
        grown = max(last.seconds - before.seconds, 0.0)
        rate = grown / max(last.coefficients**3 - before.coefficients**3, 1)
        expected = last.seconds + rate * (count(model) ** 3 - last.coefficients**3)
        return self.options.used + expected > seconds

    def _note(self, degree: int, fit: LinearFit, model: Integrator) -> None:
        self.fits.append((fit, model))
        used = self.options.used
        self.history.add(used, fit.error, fit.error)
        self.history.windows = fit.pairs
        ridge = f", ridge {fit.penalty:.0e}" if fit.penalty else ""
        self.note(
            f"degree {degree}: {fit.coefficients} coefficients from {fit.pairs:,} pairs{ridge}, "
            f"leave-one-out error {fit.error:.1e} after {used:.1f} s"
        )
        self.options.show(self.history, self.history.epochs)

    def _place(self) -> int:
        """Return the place of the smallest degree within one standard error of the least error.

        Parts in time of few trajectories are too few for a standard error: the least error counts.
        """
        fits = [fit for fit, _ in self.fits]
        least = min(fits, key=lambda fit: fit.error)
        if self._has_parts_in_time:
            return fits.index(least)
        enough = least.error * math.sqrt(1 + least.deviation)
        return next(place for place, fit in enumerate(fits) if fit.error <= enough)
