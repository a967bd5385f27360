"""Linear maps within patterns: any matrix, neighbours only, or the same at all sites of a ring."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import torch

from vpintegrator.data import Dataset
from vpintegrator.errors import InputError
from vpintegrator.models import Integrator
from vpintegrator.runtime.deadline import check_time, until
from vpintegrator.training.few_data import cross_validated, known_pairs
from vpintegrator.training.history import Budget, History
from vpintegrator.training.linear import FEWEST, ROWS
from vpintegrator.training.linear_map import Pattern, PatternFit, fit_linear_map, fit_pattern
from vpintegrator.training.method import Method
from vpintegrator.training.search.making import Make
from vpintegrator.training.search.options import SearchOptions
from vpintegrator.training.search.result import SearchResult
from vpintegrator.training.search.size_search import SizeSearch
from vpintegrator.training.training_data import TrainingData

_SMALLEST_RING = 5  # sites: matrices of fewer have few coefficients anyway
_REACHES = (1, 2, 3, 5, 8)
_ROUNDING = 1e-14  # leave-one-out error that is as good as any
_LINEAR = 1e-10  # leave-one-out error up to which a map is linear but for rounding
_WHOLE = Pattern()


def find_linear_map(
    make: Make,
    dataset: TrainingData | Dataset,
    budget: Budget | None = None,
    *,
    sizes: dict[str, Any] | None = None,
    seed: int = 0,
    tell: Callable[[str], None] = lambda line: None,
    progress: Callable[[History], None] | None = None,
) -> SearchResult:
    """Return the linear map within the pattern that the leave-one-out error chooses.

    Patterns are: any matrix; sites of a ring with neighbours up to some distance; and the same at
    all sites of a ring. The one of fewest coefficients is taken whose error is within one standard
    error of the least. For symplectic states (q, p) each site has a position and a momentum.

    Parameters
    ----------
    make
        The untrained model of some arguments: ``sites``.
    dataset
        Training dataset. A ring or chain that its system declares replaces the ring that is tried.
    budget
        Not used but for progress: the search takes a second.
    sizes
        ``sites`` where they are given.
    seed
        Seed of the choice of pairs.
    tell
        Called with a line about each kind of pattern.
    progress
        Called with the history at the end.

    Returns
    -------
    SearchResult
        ``error`` is the validation error, of few data that of cross-validation.

    Raises
    ------
    InputError
        If no model can be made, or the training states are not finite.

    Examples
    --------
    >>> before = np.random.default_rng(0).normal(size=(30, 12))
    >>> after = np.roll(before, 1, axis=1)
    >>> data = vp.import_pairs(before, after, "ring.h5", overwrite=True)
    >>> def make(arguments):
    ...     return vp.models.build(data.system, "linear", **arguments)
    >>> found = vp.training.find_linear_map(make, data)
    >>> found.model.arguments["sites"], found.error < 1e-12
    (12, True)
    """
    options = SearchOptions(
        budget or Budget(), Method(seed=seed), sizes=sizes or {}, tell=tell, progress=progress
    )
    return find_pattern(make, TrainingData.of(dataset), options)


def find_pattern(make: Make, data: TrainingData, options: SearchOptions) -> SearchResult:
    """Return the linear map of the best pattern."""
    return _PatternSearch(make, data, options).run()


class _PatternSearch(SizeSearch):
    def __init__(self, make: Make, data: TrainingData, options: SearchOptions) -> None:
        super().__init__(make, data, options)
        self.history = History("linear", options.method.seed, 0)
        self.models: dict[int, Integrator] = {}
        self.fits: list[tuple[Pattern, PatternFit]] = []

    def run(self) -> SearchResult:
        """Fit all patterns, and the map of the best one."""
        try:
            with until(self.options.end()):
                for pattern in self._patterns():
                    check_time()
                    z, y = self._pairs(self._model(pattern))
                    self.fits.append((pattern, fit_pattern(z, y, pattern)))
        except KeyboardInterrupt as interruption:
            if not self.fits:
                raise self.options.nothing(interruption) from None
        for kind in dict.fromkeys(_kind(pattern) for pattern, _ in self.fits):
            pattern, fit = self._best([each for each in self.fits if _kind(each[0]) == kind])
            self.note(
                f"{pattern.words}: {pattern.coefficients(self._dim)} coefficients from "
                f"{self.history.windows:,} pairs, leave-one-out error {fit.error:.1e}"
            )
        pattern, fit = self._best(self.fits)
        if not math.isfinite(fit.error):
            raise InputError(
                "there are too few pairs for a linear map: some components are determined by one "
                "pair alone"
            )
        model = self._model(pattern)
        linear = fit_linear_map(model, *self._tensors(model), pattern)
        self.history.parameters = linear.coefficients
        self.history.add(self.options.used, fit.error, fit.error)
        self.history.best_epoch = 1
        self.options.show(self.history, 1)
        found = self.solved(model, self._error(model, pattern), self.history, "")
        return replace(found, summary=self._words(pattern, fit))

    def _error(self, model: Integrator, pattern: Pattern) -> float:
        """Return the error on the validation group; of few data the error by cross-validation."""
        if not self.data.is_few:
            return self.validation_error(model)
        return cross_validated(
            model, known_pairs(self.data), partial(fit_linear_map, pattern=pattern)
        )

    @property
    def _dim(self) -> int:
        return self.data.dataset.dim

    def _patterns(self) -> Iterator[Pattern]:
        """Yield the patterns to fit."""
        if "sites" in self.options.sizes:
            sites = self.options.sizes["sites"]
            yield Pattern(sites, is_alike=sites > 1)
            return
        yield _WHOLE
        sites, is_ring, is_alike = self._shape()
        if sites < _SMALLEST_RING:
            return
        for reach in (each for each in _REACHES if 2 * each + 1 < sites):
            yield Pattern(sites, reach, is_ring)
            if is_alike:
                yield Pattern(sites, reach, is_alike=True)
        if is_alike:
            yield Pattern(sites, is_alike=True)

    def _shape(self) -> tuple[int, bool, bool]:
        """Return the number of sites, whether they are a ring, and whether all may be alike."""
        declared = self.data.dataset.system.sites
        if declared is not None:
            is_ring = declared.topology == "ring"
            return declared.count, is_ring, is_ring
        fields = 2 if self._model(_WHOLE).symplectic else 1
        return self._dim // fields, True, True

    def _model(self, pattern: Pattern) -> Integrator:
        """Return the normalised model for a pattern."""
        sites = pattern.sites if pattern.is_alike else 1
        if sites not in self.models:
            model = self.make({"sites": sites})
            self.data.normalise(model)
            self.models[sites] = model
        return self.models[sites]

    def _tensors(self, model: Integrator) -> tuple[torch.Tensor, torch.Tensor]:
        """Return states before and after a step (pair, dim)."""
        if self.data.is_few:
            known = known_pairs(self.data)
            self.history.windows = len(known.before)
            return known.before, known.after
        generator = torch.Generator().manual_seed(self.options.method.seed)
        count = max(FEWEST, ROWS * (self._dim + 1))
        inputs, targets = self.data.pairs(model).sample(count, generator)
        self.history.windows = len(inputs)
        return inputs[:, -1], targets[:, -1]

    def _pairs(self, model: Integrator) -> tuple[Any, Any]:
        z, y = self._tensors(model)
        if not bool(z.isfinite().all() and y.isfinite().all()):
            raise InputError("some states of the training pairs are not finite; leave these out")
        return model.normalised(z).numpy(force=True), model.normalised(y).numpy(force=True)

    def _best(self, fits: list[tuple[Pattern, PatternFit]]) -> tuple[Pattern, PatternFit]:
        """Return the fit of fewest coefficients within one standard error of the least error."""
        least = min((fit for _, fit in fits), key=lambda fit: fit.error)
        enough = max(least.error * math.sqrt(1 + least.deviation), _ROUNDING)
        within = [each for each in fits if each[1].error <= enough]
        return min(within, key=lambda each: each[0].coefficients(self._dim))

    def _words(self, pattern: Pattern, fit: PatternFit) -> str:
        """Return that a ring or chain was found, with both errors; empty where none was."""
        if pattern.sites == 1 or "sites" in self.options.sizes:
            return ""
        whole = next(other for each, other in self.fits if each == _WHOLE)
        shape = "ring" if pattern.is_ring else "chain"
        told = (
            f"linear with any matrix {whole.error:.1e}, with that of a {shape} {fit.error:.1e} "
            f"(leave-one-out), so the components are taken for those of a {shape}"
        )
        if fit.error > _LINEAR and self.data.dataset.system.sites is None:
            told += f"; vp-gen --topology {shape} tells other models, too"
        return told


def _kind(pattern: Pattern) -> tuple[bool, bool]:
    return pattern.is_alike, pattern.sites > 1
