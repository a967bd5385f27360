"""Explicit maps from pairs of states: linear maps, polynomials, and stacks of shears.

The leave-one-out error chooses how far their least squares are regularised. Derivatives of a stack
are accumulated shear by shear, and the error is that of the linearised equations.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch

from vpintegrator.data.pairs import Pair
from vpintegrator.errors import InputError
from vpintegrator.models import Model
from vpintegrator.models.discrete_lagrangian import DiscreteLagrangianMap
from vpintegrator.models.hidden_parameter import HiddenParameterMap
from vpintegrator.nn.basis import Terms
from vpintegrator.nn.feed_forward import AffineMap, PolynomialLayer
from vpintegrator.nn.shears import ShearDerivatives
from vpintegrator.runtime.interrupts import check_time
from vpintegrator.runtime.threads import one_blas_thread
from vpintegrator.training.hidden_parameter import solve_hidden
from vpintegrator.training.lagrangian import solve_lagrangian
from vpintegrator.training.least_squares import (
    PENALTIES,
    Choice,
    DampedIteration,
    LeftOut,
    NormalEquations,
    Residual,
    SequentialQR,
    Spectrum,
    trimmed,
)
from vpintegrator.training.linear import (
    LinearFit,
    enough_pairs,
    fit_pairs,
    layer_pairs,
    normalised_pairs,
)
from vpintegrator.training.orbits import StateRange, surviving
from vpintegrator.training.residuals import ParameterVector, reciprocal_spread
from vpintegrator.training.training_data import FOLDS, TrainingData

STEPS = 50  # of orbits by which the penalty of maps of windows is chosen, if they are as long
ORBITS = 100
ITERATED = 30  # of these orbits, for many more steps
MANY = 500
TOGETHER = 8  # penalties whose orbits are iterated at once


def solve(
    model: Model,
    data: TrainingData,
    seed: int = 0,
    number: int | None = None,
    *,
    far: bool = False,
    start: Model | None = None,
    looser: float = 10.0,
) -> LinearFit:
    """Solve for the coefficients of a map that are linear least squares.

    They are those of a generating function, a discrete Lagrangian, a linear map or a polynomial.

    Few data are fitted by all pairs that are not of the test group.

    Parameters
    ----------
    model
        Normalised.
    data
        Training data.
    seed, number
        Seed of the choice of pairs of other data, and their number; by default twenty equations for
        each coefficient.
    far
        Of a generating function: argument of ``fit_pairs``.
    start, looser
        Of a polynomial: arguments of ``fit_polynomial``.
    """
    number = number or enough_pairs(model)
    if isinstance(model, DiscreteLagrangianMap):
        return solve_lagrangian(model, data, seed, number)
    if isinstance(model, HiddenParameterMap):
        return solve_hidden(model, data)
    folds = data.known_pairs.folds if data.is_few else None
    if not isinstance(model.core, AffineMap | PolynomialLayer):
        return fit_pairs(model, layer_pairs(model, data, number, seed), folds=folds, far=far)
    if data.is_few:
        known = data.known_windows(model.window)
        before, after, *_ = known
        folds = None if known.are_single else known.folds
    else:
        pairs = data.pairs(model).sample(number, torch.Generator().manual_seed(seed))
        before = pairs.inputs
        after = pairs.targets[:, -1]
        before = before[:, -1] if model.window == 1 else before
    if isinstance(model.core, AffineMap):
        return fit_linear_map(model, before, after, folds)
    orbits: Pair | None = None
    if model.window > 1:
        longest = data.dataset.shapes["train"][1] - model.window
        horizon = data.pairs(model, horizon=min(STEPS, longest))
        orbits = horizon.sample(ORBITS, torch.Generator().manual_seed(seed))
    return fit_polynomial(
        model, before, after, folds, start, orbits=orbits, bounds=StateRange.of(data), looser=looser
    )


def _pairs_of(
    model: Model, inputs: torch.Tensor, targets: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return normalised states or windows, and the states (pair, dim) after them; or InputError."""
    before = model.coordinates(inputs.double().cpu()).detach()
    newest = before if before.ndim == 2 else before[:, -1]  # (pair, dim)
    after = model.coordinates(targets.double().cpu(), near=newest).detach()
    if len(before) < 2 or not bool(before.isfinite().all() and after.isfinite().all()):
        raise InputError(f"{model.name} needs two or more pairs of finite states; give others")
    return before, after


def fit_linear_map(
    model: Model,
    inputs: torch.Tensor,
    targets: torch.Tensor,
    folds: np.ndarray | None = None,
    most: int = 1 << 22,
) -> LinearFit:
    """Set matrix and offset of a linear map by least squares.

    Directions that the pairs do not determine stay as the identity has them. The leave-one-out
    error chooses how many these are, by the tolerance of singular values.

    Parameters
    ----------
    model
        A linear map, normalised.
    inputs, targets : (pair, dim)
        States before and after the step.
    folds : (pair,), optional
        Number of the fold of each pair: the pairs of a fold are left out together.
    most
        Numbers of the equations, by default 32 MB.

    Returns
    -------
    LinearFit
        Its ``error`` is the leave-one-out error.

    Raises
    ------
    InputError
        If states are not finite.
    """
    layer = model.core
    assert isinstance(layer, AffineMap)
    z, y = _pairs_of(model, inputs, targets)
    some = slice(max(most // (layer.dim + 1), 2))
    weight = reciprocal_spread(y).numpy()
    rows = torch.cat([z, torch.ones_like(z[:, :1])], 1)[some].numpy()
    right = (y - z)[some].numpy() * weight
    qr = SequentialQR(layer.dim + 1)
    qr.add(rows, right)
    left_out = LeftOut(rows[:, None], rows[:, None], right[:, None], folds)
    solutions = qr.truncated([1e-14, 1e-13, 1e-12, 1e-10, 1e-8, 1e-6, 1e-4, 1e-2])
    choice = min(map(left_out.choice, solutions), key=lambda each: each.square)
    change = torch.from_numpy(choice.solution.coefficients[:-1] / weight)  # transposed
    with torch.no_grad():
        layer.matrix.copy_(torch.eye(layer.dim).double() + change.mT)
        layer.offset.copy_((y - z @ layer.matrix.mT).mean(0))
    return LinearFit.of(choice, len(z))


def fit_polynomial(
    model: Model,
    inputs: torch.Tensor,
    targets: torch.Tensor,
    folds: np.ndarray | None = None,
    start: Model | None = None,
    searched: float = 2e9,
    most: int = 1 << 24,
    orbits: Pair | None = None,
    bounds: StateRange | None = None,
    looser: float = 10.0,
) -> LinearFit:
    r"""Set the coefficients of a polynomial map by ridge regression.

    .. math:: \min_c \sum_n \Big\| z_n' - o_n - \sum_e c_e \varphi_e(x_n) \Big\|^2
        + \lambda \sum_e \prod_k r_k^{2 e_k} \|c_e\|^2

    Variables x are the components of a state, or those of a window of states. The polynomial adds
    to the newest state o, or to the oldest one of a leapfrog.

    The penalty :math:`\lambda` and the decays r are those of the least error of pairs that are left
    out. Coefficients of analytic functions decay geometrically with the degree, at a rate of their
    own in each component: a field that does not depend on a component is found by its infinite
    decay, and an orbit that drifts along it is followed.

    True windows fill a surface in the space of windows. Across it the pairs say nothing, and the
    penalty decides where windows beside it go. So windows have no decays, as these favour low
    degrees, with which orbits leave the surface. Where orbits are given the penalty is that of the
    least error after many steps, or a larger one that loses fewer orbits.

    Parameters
    ----------
    model
        A polynomial map, normalised and, of states, adapted to them; of windows it is adapted here.
    inputs : (pair, dim) or (pair, window, dim)
        States or windows before the step.
    targets : (pair, dim)
        States after the step.
    folds : (pair,), optional
        Number of the fold of each pair; the pairs of a fold are left out together, those of number
        -1 never. Of more than five, each fifth one is of the same. By default each pair is left out
        alone.
    start
        Fitted model of a lower degree, at whose decays the search for them begins; they are taken
        where the solve is too large for a search.
    searched
        Product of the sizes of singular value decompositions, and of their number, up to which
        decays are searched for: some seconds.
    most
        Values of the terms at all pairs, by default 128 MB; further pairs are left out.
    orbits
        Windows, and the states of several steps after them.
    bounds
        Range outside of which an orbit is lost; by default twice that of the targets.
    looser
        Error of pairs that are left out, relative to the least one, up to which a penalty may be
        chosen by orbits.

    Raises
    ------
    InputError
        If states are not finite.
    """
    layer = model.core
    assert isinstance(layer, PolynomialLayer)
    some = slice(max(most // len(layer.orders), 2))
    before, after = _pairs_of(model, inputs[some], targets[some])
    origin = layer.origin(before)  # (pair, dim)
    with torch.no_grad():
        if layer.window > 1:
            layer.adapt_to(before)
        values = layer.values(before).numpy()
    if folds is not None:
        folds = np.where(folds < 0, -1, folds % FOLDS)
    change = (after - origin).numpy()
    weight = reciprocal_spread(after).numpy()
    # of windows more, as orbits are lost from a penalty on
    tried = PENALTIES[::3] if layer.window == 1 else PENALTIES
    ridge = _Ridge(values, change, layer.orders.numpy(), weight, folds, tried)
    begins = [np.full(layer.size, 8.0)]
    if start is not None:
        assert isinstance(start.core, PolynomialLayer)
        begins.append(np.array(start.core.decays))
    rates = begins[-1] if layer.window == 1 else np.ones(layer.size)
    with one_blas_thread():
        size = len(values) * values.shape[1] * min(values.shape)
        tried_rates = int(searched / size / len(begins))
        if layer.window == 1 and tried_rates >= 4 * layer.size:
            found = [descend(ridge.least_error, r, evaluations=tried_rates) for r in begins]
            rates = min(found, key=ridge.least_error)
        squares = ridge.squares(rates)  # (penalty, pair that is left out)
        means = squares.mean(1)
        best = int(means.argmin())
        solutions = ridge.coefficients(rates)  # (penalty, term, dim)
        if orbits is not None:
            known = bounds or StateRange(targets[:, None].double().cpu().numpy(), layer.angles)
            best = _stable_penalty(model, solutions, means, orbits, known, looser)
        coefficients = solutions[best]
    with torch.no_grad():
        layer.coefficients.copy_(torch.from_numpy(coefficients))
    layer.decays = tuple(rates.tolist())
    typical, deviation = trimmed(squares[best])
    sizes = coefficients.size, coefficients.size, len(before)
    error = math.sqrt(squares[best].mean())
    penalty = float(tried[best])
    return LinearFit(*sizes, error, math.sqrt(typical), deviation, penalty)


def _stable_penalty(
    model: Model,
    solutions: np.ndarray,
    means: np.ndarray,
    orbits: Pair,
    bounds: StateRange,
    looser: float,
) -> int:
    """Return the number of the penalty whose map follows orbits best and loses none.

    The penalty of the least error after the known steps comes first, then larger ones with at least
    half of the digits of one step, up to the first that loses no orbit; or the one that loses
    fewest.
    """
    layer = model.core
    assert isinstance(layer, PolynomialLayer)
    best = int(means.argmin())
    near = np.flatnonzero(means <= looser**2 * means[best])
    first = int(near[_most_accurate(model, torch.from_numpy(solutions[near]), orbits)])
    error = math.sqrt(means[best])
    limit = max(min(max(error, 1e-16), 1.0), means[first])  # half of the digits: squares of errors
    larger = [k for k in range(first, len(means)) if means[k] <= limit]
    windows = model.coordinates(orbits.inputs[:ITERATED].double().cpu()).detach()

    def chunks(C: torch.Tensor, length: int = 10) -> Iterator[np.ndarray]:
        """Yield states (solution * orbit, length, dim) of maps with coefficients C."""
        z = windows.expand(len(C), *windows.shape)  # (solution, orbit, window, dim)
        for _ in range(MANY // length):
            states = []
            for _ in range(length):
                z = layer.shifted(z, layer.values(z) @ C)
                states.append(z[..., -1, :])
            yield model.coordinates.inverse(torch.stack(states, 2).flatten(0, 1)).numpy()

    @torch.no_grad()
    def lost(numbers: Sequence[int], most: float) -> np.ndarray:
        counts = np.zeros(len(numbers), dtype=int)
        for _, alive in surviving(chunks(torch.from_numpy(solutions[numbers])), bounds):
            counts = (~alive.reshape(len(numbers), -1)).sum(1)
            if (counts >= min(most, len(windows))).all():
                break
        return counts

    parts = [larger[first : first + TOGETHER] for first in range(0, len(larger), TOGETHER)]
    for part in parts:
        stable = np.flatnonzero(lost(part, 1) == 0)
        if len(stable):
            return part[stable[0]]
    # all lose orbits
    return larger[int(np.concatenate([lost(part, math.inf) for part in parts]).argmin())]


@torch.no_grad()
def _most_accurate(model: Model, solutions: torch.Tensor, orbits: Pair) -> int:
    """Return the number of the coefficients (solution, term, dim) that follow orbits best.

    Errors of an orbit count up to its spread, so that few lost orbits do not decide alone. Among
    errors that differ by a tenth the largest penalty is taken.
    """
    layer = model.core
    assert isinstance(layer, PolynomialLayer)
    z = model.coordinates(orbits.inputs.double().cpu())
    windows = z.expand(len(solutions), *z.shape)  # (solution, orbit, window, dim)
    true = model.coordinates(orbits.targets.double().cpu(), near=z[:, -1:])  # (orbit, time, dim)
    steps = true.shape[1] - layer.window + 1
    weight = reciprocal_spread(true.flatten(0, 1))
    squares = torch.zeros(windows.shape[:2], dtype=torch.float64)
    for time in range(layer.window - 1, layer.window - 1 + steps):
        check_time()
        newest = layer.origin(windows) + layer.values(windows) @ solutions  # (solution, orbit, dim)
        wrong = ((newest - true[:, time]) * weight).square().mean(-1)
        squares = torch.maximum(squares, wrong.nan_to_num(1.0, 1.0).clamp(max=1.0))
        newest = newest.nan_to_num(0.0, 0.0, 0.0).clamp(-1e3, 1e3)  # lost: its error stays
        windows = torch.cat([windows[..., 1:, :], newest.unsqueeze(-2)], -2)
    errors = squares.mean(1)
    return int(torch.nonzero(errors <= 1.2 * errors.min()).max())


def descend(
    error: Callable[[np.ndarray], float],
    rates: np.ndarray,
    factor: float = 4.0,
    most: float = 1e4,
    gain: float = 0.98,
    evaluations: float = math.inf,
) -> np.ndarray:
    """Return rates (component,) between 1 and ``most`` that minimise an error, one by one.

    A rate is multiplied or divided by the factor as long as the error falls to ``gain`` times what
    it was; when no rate changes any more, the factor is replaced by its root, down to the fourth.
    After so many evaluations of the error no further round begins.
    """
    least = error(rates)
    step = factor
    count = 1
    while step >= factor**0.25 and count < evaluations:
        before = least
        for k in range(len(rates)):
            for change in (step, 1 / step):
                while True:
                    trial = rates.copy()
                    trial[k] = min(max(rates[k] * change, 1.0), most)
                    count += 1
                    if trial[k] == rates[k] or not (value := error(trial)) < gain * least:
                        break
                    rates = trial
                    least = value
        if least == before:
            step = math.sqrt(step)
    return rates


@dataclass(frozen=True)
class _Ridge:
    """Errors of ridge regressions, of all penalties at once.

    Attributes
    ----------
    values : (pair, term)
        Values of the terms.
    right : (pair, dim)
        Changes of the states.
    orders : (term, variable)
        Degrees of the terms.
    weight : (dim,)
        Reciprocal size of errors of each component.
    folds
        Argument of ``fit_polynomial``.
    tried : (penalty,)
        Penalties relative to the number of pairs.
    spectra
        Spectrum of all pairs at the rates that were asked for last.
    """

    values: np.ndarray
    right: np.ndarray
    orders: np.ndarray
    weight: np.ndarray
    folds: np.ndarray | None
    tried: np.ndarray
    spectra: dict[bytes, Spectrum] = field(default_factory=dict)

    def least_error(self, rates: np.ndarray) -> float:
        """Return the mean square error of pairs that are left out, with the best penalty."""
        return float(self.squares(rates).mean(1).min())

    def squares(self, rates: np.ndarray) -> np.ndarray:
        """Return mean squares of the errors (penalty, pair) of pairs that are left out."""
        if self.folds is None:
            errors = self._spectrum(rates).left_out(self.tried)
        else:
            members = [self.folds == number for number in sorted({*self.folds.tolist()} - {-1})]
            errors = np.concatenate([self._without(rates, each) for each in members], 1)
        return ((errors * self.weight) ** 2).mean(2)

    def coefficients(self, rates: np.ndarray) -> np.ndarray:
        """Return the coefficients (penalty, term, dim) from all pairs."""
        return self._spectrum(rates).coefficients(self.tried)

    def _decay(self, rates: np.ndarray) -> np.ndarray:
        """Return the weights of the coefficients (term,) in the penalty."""
        return np.asarray(np.prod(rates**self.orders, 1))

    def _without(self, rates: np.ndarray, fold: np.ndarray) -> np.ndarray:
        """Return errors (penalty, pair, dim) of the pairs of a fold by a fit to all others."""
        count = len(self.values)
        rest = ~fold
        spectrum = Spectrum(self.values[rest], self.right[rest], self._decay(rates), count)
        return np.asarray(self.right[fold] - self.values[fold] @ spectrum.coefficients(self.tried))

    def _spectrum(self, rates: np.ndarray) -> Spectrum:
        """Return the spectrum of all pairs; the last one is kept."""
        key = rates.tobytes()
        if key not in self.spectra:
            self.spectra.clear()
            self.spectra[key] = Spectrum(self.values, self.right, self._decay(rates))
        return self.spectra[key]


def fit_few_pairs(
    model: Model, pair: Pair, folds: np.ndarray | None = None, iterations: int = 150
) -> LinearFit:
    """Fit an explicit map to few pairs of states, in place.

    Parameters
    ----------
    model
        Normalised, and made of shears with derivatives.
    pair
        States before and after a step, the last ones of windows.
    folds : (pair,), optional
        Number of the fold of each pair: pairs of a fold are left out together.
    iterations
        Largest number of iterations.

    Returns
    -------
    LinearFit
        The last linear solve. Its errors are by the equations linearised there, and infinite where
        the map overflows at the first parameters.

    Raises
    ------
    InputError
        If states are not finite, coincide, or there are fewer equations than parameters need.
    """
    before, after, folds = normalised_pairs(model, pair, folds)
    images = ShearImages(model, before, after)
    fit = DampedIteration(images, images.units * images.vector.read().double(), damping=1e-2)
    if not math.isfinite(fit.cost):
        count = len(images.units)
        return LinearFit(count, count, len(before), math.inf, math.inf, 0.0, 0.0)
    with one_blas_thread():
        fit.run(iterations, exact=1e-30 * images.after.numel(), settled=0.98)
        return LinearFit.of(images.left_out(folds), len(before))


class ShearImages(Residual):
    """Normalised images of states, with a ridge penalty on coefficients times squared degrees.

    Parameters
    ----------
    model
        Model made of shears.
    before, after : (pair, dim)
        Normalised states.
    ridge
        Penalty relative to the number of pairs.
    """

    def __init__(
        self, model: Model, before: torch.Tensor, after: torch.Tensor, ridge: float = 1e-12
    ) -> None:
        self.before = before
        self.after = after
        self.map = ShearDerivatives(model.core)
        self.vector = ParameterVector(model)
        self.weight = reciprocal_spread(after)
        degrees = [each.degrees for each in model.modules() if isinstance(each, Terms)]
        self.units = torch.cat(degrees).clamp(min=1).double() ** 2
        self.penalty = ridge * len(after)

    def cost(self, parameters: torch.Tensor) -> float:
        """Return the sum of squares with the penalty, and set the model's parameters."""
        self.vector.write(parameters / self.units)
        images, self.jets = self.map.images(self.before)
        self.residual = (images - self.after) * self.weight  # (pair, dim)
        return float(self.residual.square().sum() + self.penalty * parameters.square().sum())

    def _jacobian(self) -> torch.Tensor:
        """Return derivatives (pair, dim, parameter) of the residuals."""
        return self.map.derivatives(self.jets) * self.weight[:, None] / self.units

    def linearise(self, parameters: torch.Tensor) -> NormalEquations:
        """Return normal equations at the model's parameters."""
        equations = NormalEquations(parameters, scaled=True)
        equations.add(self._jacobian().flatten(0, 1), self.residual.flatten())
        equations.add_penalty(self.penalty, parameters)
        return equations

    def left_out(self, folds: np.ndarray | None = None) -> Choice:
        """Return the error of pairs or folds that are left out, by the linearised equations."""
        J = self._jacobian().numpy()
        count = J.shape[2]
        qr = SequentialQR(count, keep=True)
        qr.add(J.reshape(-1, count), self.residual.flatten().numpy())
        (solution,) = qr.ridge(torch.ones(count).numpy(), [self.penalty / qr.rows])
        return LeftOut(J, J, self.residual.numpy(), folds).choice(solution)
