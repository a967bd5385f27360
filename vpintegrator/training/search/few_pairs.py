"""Couplings from few pairs of states: leave-one-out errors choose their sizes."""

from __future__ import annotations

from collections.abc import Iterator

from vpintegrator.errors import InputError
from vpintegrator.models import Integrator
from vpintegrator.models.growth import prolong, refine
from vpintegrator.nn.linearised import explicit_shears
from vpintegrator.runtime.deadline import ending_of, until
from vpintegrator.training.few_pairs import FewPairsFit, fit_few_pairs
from vpintegrator.training.history import History
from vpintegrator.training.search.options import Arguments, Make, SearchOptions
from vpintegrator.training.search.result import SearchResult
from vpintegrator.training.search.size_search import SizeSearch
from vpintegrator.training.search.sizes import count, describe
from vpintegrator.training.training_data import TrainingData

_FIRST: Arguments = {"functions": "polynomial", "degree": 4, "depth": 2}
_BETTER = 0.9  # times the error before, that a larger model must reach
_LARGEST_DEGREE = 12
_EXACT = 1e-13  # leave-one-out error at rounding
_SHARE = 0.8  # of the seconds, after which no larger model is tried
_TRIED = 40  # iterations of each size
_LAST = 150  # iterations of the chosen size


def is_for_few_pairs(make: Make, data: TrainingData) -> bool:
    """Whether the data are few, and the model consists of shears with derivatives."""
    if not data.is_few:
        return False
    try:
        model = make(_FIRST)
    except InputError:
        return False
    return model.window == 1 and explicit_shears(model.core) is not None


def find_few_pairs(make: Make, data: TrainingData, options: SearchOptions) -> SearchResult:
    """Return the couplings whose leave-one-out error is smallest, fitted to all known pairs."""
    return _FewPairsSearch(make, data, options).run()


class _FewPairsSearch(SizeSearch):
    def __init__(self, make: Make, data: TrainingData, options: SearchOptions) -> None:
        super().__init__(make, data, options)
        self.known = data.known_pairs
        self.history = History("levenberg-marquardt", options.method.seed, 0)
        self.history.windows = len(self.known.before)
        self.best: tuple[Integrator, FewPairsFit] | None = None

    def run(self) -> SearchResult:
        """Enlarge a model in degree or depth as long as its leave-one-out error falls."""
        self.options.tell(self.known.words)
        ended = ""
        try:
            with until(self.options.end()):
                self._grow()
        except KeyboardInterrupt as interruption:
            if self.best is None:
                raise self.options.nothing(interruption) from None
            ended = ending_of(interruption)
        assert self.best is not None
        model, fit = self.best
        self.history.parameters, self.history.best_epoch = count(model), self.history.epochs
        found = self.solved(model, fit.error, self.history, ended)
        found.typical = fit.typical if self.known.are_single else None
        return found

    def _grow(self) -> None:
        first = self.make(_FIRST | self.options.sizes)
        self.data.normalise(first)
        self.best = model, fit = self._fitted(first)
        self._tell(model, fit)
        while fit.typical > _EXACT and not self.options.is_late(_SHARE):
            tried = [self._fitted(larger) for larger in self._larger(model)]
            if not tried:
                break
            best = min(tried, key=lambda each: each[1].typical)
            if not best[1].typical < _BETTER * fit.typical:
                break
            self.best = model, fit = best
            self._tell(model, fit)
        self.best = self._fitted(model, _LAST)

    def _fitted(
        self, model: Integrator, iterations: int = _TRIED
    ) -> tuple[Integrator, FewPairsFit]:
        """Fit a model in place."""
        fit = fit_few_pairs(model, self.known.before, self.known.after, iterations)
        self.history.add(self.options.used, fit.training, fit.typical)
        self.options.show(self.history, self.history.epochs)
        return model, fit

    def _larger(self, model: Integrator) -> Iterator[Integrator]:
        """Yield the larger models that the pairs may determine."""
        degree, depth = model.arguments["degree"], model.arguments["depth"]
        ways = {
            "degree": lambda: prolong(model, degree=degree + 2),
            "depth": lambda: refine(model, depth + max(1, depth // 2)),
        }
        for name, enlarge in ways.items():
            if name in self.options.sizes or (name == "degree" and degree >= _LARGEST_DEGREE):
                continue
            try:
                larger = enlarge()
            except InputError:  # too many terms
                continue
            if count(model) < count(larger) <= self.known.before.numel() // 2:
                yield larger

    def _tell(self, model: Integrator, fit: FewPairsFit) -> None:
        self.note(
            f"{describe(model)}: leave-one-out error {fit.typical:.1e} after "
            f"{self.options.used:.1f} s"
        )
