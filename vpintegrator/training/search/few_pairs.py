"""Explicit maps from few pairs of states: all are fitted, and leave-one-out errors choose sizes.

Levenberg-Marquardt with derivatives that are accumulated shear by shear. The leave-one-out error
of the linearised equations takes the place of a validation error.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch

from vpintegrator.errors import InputError
from vpintegrator.models import Integrator
from vpintegrator.models.growth import prolong, refine
from vpintegrator.nn.basis import Terms
from vpintegrator.nn.linearised import Jet, ShearDerivatives, explicit_shears
from vpintegrator.runtime.deadline import check_time, ending_of, until
from vpintegrator.runtime.threads import one_blas_thread
from vpintegrator.training.history import History
from vpintegrator.training.linear import normalised_pairs, weights
from vpintegrator.training.linear_least_squares import SequentialQR, trimmed
from vpintegrator.training.residuals import ParameterVector
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
_TRIED = 40  # iterations of each size; the chosen one gets 150 in the end
RIDGE = 1e-12  # ridge penalty relative to the equations, on coefficients times squared degrees
_FIRST_DAMPING, _LEAST, _LARGEST = 1e-2, 1e-15, 1e8  # damping
_ITERATIONS = 150
_SETTLED = 0.95  # times the cost ten iterations before, above which a fit has settled
_ROUNDING = 1e-15


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
        self.best = self._fitted(model, _ITERATIONS)

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


@dataclass(frozen=True)
class FewPairsFit:
    """Result of a fit to few pairs.

    All errors are infinite where the map overflows at the first parameters.

    Attributes
    ----------
    training
        Root mean square of the images' errors in units of the spread of each component.
    error
        Leave-one-out error of the same kind, by the equations linearised at the fit.
    typical
        Leave-one-out error without the largest twentieth of the errors: pairs at the edge of the
        data, which the linearised equations extrapolate too far.
    """

    training: float
    error: float
    typical: float


def fit_few_pairs(
    model: Integrator,
    inputs: torch.Tensor,
    targets: torch.Tensor,
    iterations: int = _ITERATIONS,
) -> FewPairsFit:
    """Fit an explicit map to few pairs of states, in place.

    Parameters
    ----------
    model
        Normalised, and made of shears with derivatives.
    inputs, targets : (pair, dim)
        States before and after a step.
    iterations
        Largest number of iterations.

    Raises
    ------
    InputError
        If states are not finite, coincide, or there are fewer equations than parameters need.
    """
    fit = _ShearFit(model, *normalised_pairs(model, inputs, targets))
    if math.isinf(fit.cost):
        return FewPairsFit(math.inf, math.inf, math.inf)
    with one_blas_thread():
        try:
            fit.iterate(iterations)
        finally:  # an interruption may come at a trial
            fit.vector.write(fit.theta)
        left_out = (fit.left_out() ** 2).mean(1)
    return FewPairsFit(
        training=float(fit.residual.square().mean().sqrt()),
        error=float(np.sqrt(left_out.mean())),
        typical=math.sqrt(trimmed(left_out)),
    )


class _ShearFit:
    """Normalised pairs, and the parameters that map the first states to the second ones."""

    def __init__(self, model: Integrator, before: torch.Tensor, after: torch.Tensor) -> None:
        self.before, self.after = before, after
        self.map = ShearDerivatives(model.core)
        self.vector = ParameterVector(model)
        self.theta = self.vector.read().double()
        self.weight = weights(after)
        self.rough = degrees(model) ** 2
        self.penalty = RIDGE * len(after) * self.rough**2
        self.cost, self.residual, self.jets = self._at(self.theta)

    def _at(self, theta: torch.Tensor) -> tuple[float, torch.Tensor, list[Jet]]:
        """Return cost, residuals (pair, component) and jets at some parameters."""
        self.vector.write(theta)
        images, jets = self.map.images(self.before)
        residual = (self.after - images) * self.weight
        cost = float(residual.square().sum() + (self.penalty * theta.square()).sum())
        return cost if math.isfinite(cost) else math.inf, residual, jets

    def _rows(self) -> torch.Tensor:
        """Return derivatives of the images by the parameters, in units of the residuals."""
        return self.map.derivatives(self.jets) * self.weight[:, None]

    def iterate(self, iterations: int) -> None:
        """Change the parameters as long as the cost falls."""
        damping, costs = _FIRST_DAMPING, [self.cost]
        enough = _ROUNDING**2 * self.after.numel()
        while len(costs) <= iterations and self.cost > enough:
            check_time()
            J = self._rows().flatten(0, 1)
            matrix = J.mT @ J + torch.diag(self.penalty)
            right = J.mT @ self.residual.flatten() - self.penalty * self.theta
            diagonal = matrix.diagonal().clamp(min=1e-300)
            while damping < _LARGEST:
                damped = matrix + damping * torch.diag(diagonal)
                factor, failed = torch.linalg.cholesky_ex(damped)
                change = torch.cholesky_solve(right[:, None], factor)[:, 0]
                if not failed and (new := self._at(self.theta + change))[0] < self.cost:
                    break
                damping = max(4 * damping, _LEAST)
            else:
                break
            self.theta = self.theta + change
            self.cost, self.residual, self.jets = new
            damping = max(damping / 5, _LEAST)
            costs.append(self.cost)
            if len(costs) > 10 and self.cost > _SETTLED * costs[-11]:
                break

    def left_out(self) -> np.ndarray:
        """Return leave-one-out residuals (pair, component) of the equations linearised here."""
        matrix = self._rows()
        pairs, size, count = matrix.shape
        rows = matrix.numpy().reshape(-1, count)
        qr = SequentialQR(count)
        qr.add(rows, self.residual.flatten().numpy())
        solution = next(qr.ridge(self.rough.numpy(), np.array([RIDGE * pairs])))
        projected = (rows @ solution.directions).reshape(pairs, size, -1)
        return solution.left_out(projected, self.residual.numpy())


def degrees(model: Integrator) -> torch.Tensor:
    """Return the degree of what each parameter multiplies, at least 1."""
    found = torch.cat([each.degrees for each in model.modules() if isinstance(each, Terms)])
    return found.clamp(min=1).double()
