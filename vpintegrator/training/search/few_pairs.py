"""Explicit maps from few pairs: sizes and reversing symmetries by leave-one-out errors."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import product
from typing import Any

import torch

from vpintegrator.errors import InputError
from vpintegrator.models import Integrator
from vpintegrator.models.growth import prolong, refine
from vpintegrator.runtime.deadline import ending_of, until
from vpintegrator.training.few_data import FEW_WORDS, KnownPairs, cross_validated, known_pairs
from vpintegrator.training.few_pairs import FewPairsFit, fit_few_pairs, fits_few_pairs
from vpintegrator.training.history import History
from vpintegrator.training.search.making import Arguments, Make
from vpintegrator.training.search.options import SearchOptions
from vpintegrator.training.search.result import SearchResult
from vpintegrator.training.search.size_search import SizeSearch
from vpintegrator.training.search.sizes import count, describe
from vpintegrator.training.training_data import TrainingData

_FIRST: Arguments = {"functions": "polynomial", "degree": 4, "depth": 2}
_BETTER = 0.9  # times the error before, that a larger model must reach
_LARGEST_DEGREE = 12
_EXACT = 1e-13  # leave-one-out error at rounding
_SHARE = 0.8  # of the seconds, after which no larger model is tried
_TRIED = 40  # iterations of each size; the chosen one gets 150 in the end
_ALIKE = 3.0  # times the error of the model, up to which a symmetry is worth a trial
_COMPONENTS = 6  # above, too many reflections would be tried


def is_for_few_pairs(make: Make, data: TrainingData) -> bool:
    """Whether the data are few, and the model consists of shears with derivatives."""
    if not data.is_few:
        return False
    try:
        return fits_few_pairs(make(_FIRST))
    except InputError:
        return False


def find_few_pairs(make: Make, data: TrainingData, options: SearchOptions) -> SearchResult:
    """Return the couplings whose leave-one-out error is smallest, fitted to all known pairs."""
    return _FewPairsSearch(make, data, options).run()


class _FewPairsSearch(SizeSearch):
    def __init__(self, make: Make, data: TrainingData, options: SearchOptions) -> None:
        super().__init__(make, data, options)
        self.known: KnownPairs = known_pairs(data)
        self.equations = self.known.before.numel()
        self.history = History("levenberg-marquardt", options.method.seed, 0)
        self.history.windows = len(self.known.before)
        self.best: tuple[Integrator, FewPairsFit] | None = None

    def run(self) -> SearchResult:
        """Grow a model, try the reflections that it nearly has, and keep the better of both."""
        self.options.tell(FEW_WORDS.format(len(self.known.before)))
        ended, error = "", math.inf
        try:
            with until(self.options.end()):
                model, fit = self._first({})
                model, fit = self._grown(model, fit)
                rhos = self._supported(model, fit)
                if rhos:
                    model, fit = self._symmetric(rhos, model, fit)
                model, fit = self._fitted(model, None)
                error = cross_validated(model, self.known, _fit_in_short)
        except KeyboardInterrupt as interruption:
            if self.best is None:
                raise self.options.nothing(interruption) from None
            ended = ending_of(interruption)
            model, fit = self.best
        error = error if math.isfinite(error) else fit.error
        self.history.parameters, self.history.best_epoch = count(model), self.history.epochs
        found = self.solved(model, error, self.history, ended)
        found.typical = fit.typical if self.known.are_single else None
        return found

    def _first(self, arguments: Arguments) -> tuple[Integrator, FewPairsFit]:
        """Fit the smallest model."""
        model = self.make(_FIRST | arguments | self.options.sizes)
        self.data.normalise(model)
        return self._fitted(model)

    def _fitted(
        self, model: Integrator, iterations: int | None = _TRIED
    ) -> tuple[Integrator, FewPairsFit]:
        """Fit a model in place; without a number of iterations, as far as it goes."""
        limits = {} if iterations is None else {"iterations": iterations}
        fit = fit_few_pairs(model, self.known.before, self.known.after, **limits)
        self.history.add(self.options.used, fit.training, fit.typical)
        self.options.show(self.history, self.history.epochs)
        return model, fit

    def _grown(self, model: Integrator, fit: FewPairsFit) -> tuple[Integrator, FewPairsFit]:
        """Enlarge a model in degree or depth as long as its leave-one-out error falls."""
        self._tell(model, fit)
        while fit.typical > _EXACT and not self.options.is_late(_SHARE):
            tried = [self._fitted(larger) for larger in self._larger(model)]
            if not tried:
                break
            best = min(tried, key=lambda each: each[1].typical)
            if not best[1].typical < _BETTER * fit.typical:
                break
            model, fit = best
            self._tell(model, fit)
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
            if count(model) < count(larger) <= self.equations // 2:
                yield larger

    def _tell(self, model: Integrator, fit: FewPairsFit) -> None:
        if self.best is None or fit.typical <= self.best[1].typical:
            self.best = model, fit
        rhos = len(model.reversing_symmetries)
        symmetric = f", {rhos} reversing symmetries" if rhos else ""
        self.note(
            f"{describe(model)}{symmetric}: leave-one-out error {fit.typical:.1e} after "
            f"{self.options.used:.1f} s"
        )

    def _supported(self, model: Integrator, fit: FewPairsFit) -> list[list[list[float]]]:
        r"""Return reflections :math:`\rho` with :math:`\rho \Phi \rho \Phi = 1` about the data.

        The defect is compared with the leave-one-out error, at states whose images have their
        reflection within the range of the data.
        """
        dim, known = model.dim, self.known
        declared = model.reversing_symmetries
        if len(declared) or model.periods or model.conserved or dim > _COMPONENTS:
            return []
        after = known.after
        low, high = (f(torch.cat([known.before, after])) for f in (_least, _largest))
        spread = after.std(0)
        found = []
        for signs in product((1.0, -1.0), repeat=dim):
            rho = torch.tensor(signs, dtype=torch.float64)
            half = dim // 2
            fits = not model.symplectic or bool((rho[:half] == -rho[half:]).all())
            if len(set(signs)) == 1 or not fits:
                continue
            own = model.state_order(rho)
            turned = after * own
            inside = ((turned >= low) & (turned <= high)).all(1)
            if int(inside.sum()) < dim + 2:
                continue
            with torch.no_grad():
                back = model(turned[inside][:, None])[:, 0] * own
            defect = ((back - known.before[inside]) / spread).square().mean(1)
            if float(defect.median().sqrt()) <= _ALIKE * fit.typical:
                found.append(torch.diag(rho).tolist())
        return found

    def _symmetric(
        self, rhos: list[Any], model: Integrator, fit: FewPairsFit
    ) -> tuple[Integrator, FewPairsFit]:
        """Return the better of a model and one that has reflections, grown anew."""
        try:
            first = self._first({"reversing_symmetries": rhos})
        except InputError:  # symmetries that the layers cannot respect
            return model, fit
        other, new = self._grown(*first)
        signs = [", ".join(f"{rho[k][k]:+g}" for k in range(len(rho))) for rho in rhos]
        names = " and ".join(f"diag({each})" for each in signs)
        if new.typical <= fit.typical:
            self.note(f"the pairs support the reversing symmetries {names}: they are built in")
            return other, new
        return model, fit


def _fit_in_short(model: Integrator, before: torch.Tensor, after: torch.Tensor) -> FewPairsFit:
    return fit_few_pairs(model, before, after, iterations=_TRIED)


def _least(states: torch.Tensor) -> torch.Tensor:
    return states.min(0).values


def _largest(states: torch.Tensor) -> torch.Tensor:
    return states.max(0).values
