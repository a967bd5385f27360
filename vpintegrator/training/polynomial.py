"""Training of polynomial maps: ridge regression, its penalty by pairs that are left out."""

from __future__ import annotations

import math
import time
from collections.abc import Callable

import numpy as np
import torch

from vpintegrator.data.pairs import Pairs
from vpintegrator.errors import InputError
from vpintegrator.models import Model
from vpintegrator.nn.polynomial_layer import PolynomialLayer
from vpintegrator.runtime.deadline import check_time
from vpintegrator.runtime.threads import one_blas_thread
from vpintegrator.training.least_squares import trimmed
from vpintegrator.training.linear import FEWEST, ROWS, LinearFit
from vpintegrator.training.residuals import reciprocal_spread
from vpintegrator.training.training_data import FOLDS, TrainingData

BYTES = 1 << 27  # bytes of the values of the terms
PENALTIES = 10.0 ** np.arange(-30, 3, 1.5)  # relative to the number of pairs


def polynomial_layer(model: Model) -> PolynomialLayer | None:
    """Return the layer of a polynomial map, None for other models."""
    return model.core if isinstance(model.core, PolynomialLayer) else None


class FoldedPairs(Pairs):
    """Pairs of states with the number of the fold of each.

    Attributes
    ----------
    folds
        Argument of ``fit_polynomial``.
    """

    folds: np.ndarray | None = None


def polynomial_pairs(model: Model, data: TrainingData, seed: int = 0) -> FoldedPairs:
    """Return the known pairs of few data with their folds; of others as many as suit the model."""
    if data.is_few:
        before, after, folds = data.known_pairs
        pairs = FoldedPairs.of_tensors(before[:, None], after[:, None])
        if not data.known_pairs.are_single:
            pairs.folds = np.where(folds < 0, -1, folds % FOLDS)
        return pairs
    terms = sum(p.numel() for p in model.parameters()) // model.dim
    count = min(max(ROWS * terms, FEWEST), max(BYTES // (8 * terms), 2))
    generator = torch.Generator().manual_seed(seed)
    return FoldedPairs.of_tensors(*data.pairs(model).sample(count, generator))


def fit_polynomial(
    model: Model,
    inputs: torch.Tensor,
    targets: torch.Tensor,
    folds: np.ndarray | None = None,
    start: Model | None = None,
    searched: float = 5e7,
) -> LinearFit:
    r"""Set the coefficients of a polynomial map by ridge regression.

    .. math:: \min_c \sum_n \Big\| z_n' - z_n - \sum_e c_e \varphi_e(z_n) \Big\|^2
        + \lambda \sum_e \prod_k r_k^{2 e_k} \|c_e\|^2

    The penalty :math:`\lambda` and the decays r are those of the least error of pairs that are left
    out. Coefficients of analytic functions decay geometrically with the degree, at a rate of their
    own in each component: a field that does not depend on a component is found by its infinite
    decay, and an orbit that drifts along it is followed.

    Parameters
    ----------
    model
        A polynomial map, normalised and adapted to its states.
    inputs, targets : (pair, dim)
        States before and after the step.
    folds : (pair,), optional
        Number of the fold of each pair; the pairs of a fold are left out together, those of number
        -1 never. By default each pair is left out alone.
    start
        Fitted model of a lower degree, at whose decays the search for them begins; they are taken
        where the solve is too large for a search.
    searched
        Product of the sizes of a singular value decomposition, up to which decays are searched for.

    Raises
    ------
    InputError
        If the model is no polynomial map, or states are not finite.
    """
    began = time.perf_counter()
    layer = polynomial_layer(model)
    if layer is None:
        raise InputError(f"{model.name} is no polynomial map")
    before = model.coordinates(inputs.double().cpu())
    after = model.coordinates(targets.double().cpu(), near=before)
    if len(before) < 2 or not bool(before.isfinite().all() and after.isfinite().all()):
        raise InputError("a polynomial map needs two or more pairs of finite states; give others")
    with torch.no_grad():
        values = layer.values(before).numpy()
    ridge = _Ridge(
        values,
        (after - before).numpy(),
        layer.orders.numpy(),
        reciprocal_spread(after).numpy(),
        folds,
    )
    known = None if start is None else polynomial_layer(start)
    begins = [np.full(layer.dim, 8.0)] + ([np.array(known.decays)] if known is not None else [])
    rates = begins[-1]
    with one_blas_thread():
        if len(values) * values.shape[1] * min(values.shape) <= searched:
            rates = min((descend(ridge.least_error, r) for r in begins), key=ridge.least_error)
        squares = ridge.squares(rates)  # (penalty, pair that is left out)
        best = int(squares.mean(1).argmin())
        coefficients = ridge.solve(rates, PENALTIES[best])
    with torch.no_grad():
        layer.coefficients.copy_(torch.from_numpy(coefficients))
    layer.decays = tuple(rates.tolist())
    chosen = squares[best]
    typical, deviation = trimmed(chosen)
    return LinearFit(
        coefficients=layer.coefficients.numel(),
        rank=layer.coefficients.numel(),
        pairs=len(before),
        error=math.sqrt(float(chosen.mean())),
        penalty=float(PENALTIES[best]),
        deviation=deviation,
        seconds=time.perf_counter() - began,
        typical=math.sqrt(typical),
    )


def descend(
    error: Callable[[np.ndarray], float],
    rates: np.ndarray,
    factor: float = 4.0,
    most: float = 1e4,
    gain: float = 0.98,
) -> np.ndarray:
    """Return rates (component,) between 1 and ``most`` that minimise an error, one by one.

    A rate is multiplied or divided by the factor as long as the error falls to ``gain`` times what
    it was; when no rate changes any more, the factor is replaced by its root, down to the fourth.
    """
    least, step = error(rates), factor
    while step >= factor**0.25:
        before = least
        for k in range(len(rates)):
            for change in (step, 1 / step):
                while True:
                    trial = rates.copy()
                    trial[k] = min(max(rates[k] * change, 1.0), most)
                    if trial[k] == rates[k] or not (value := error(trial)) < gain * least:
                        break
                    rates, least = trial, value
        if least == before:
            step = math.sqrt(step)
    return rates


class _Ridge:
    """Ridge regressions with several penalties.

    Parameters
    ----------
    values : (pair, term)
        Values of the terms.
    right : (pair, dim)
        Changes of the states.
    orders : (term, dim)
        Degrees of the terms.
    weight : (dim,)
        Reciprocal size of errors of each component.
    folds
        Argument of ``fit_polynomial``.
    """

    def __init__(
        self,
        values: np.ndarray,
        right: np.ndarray,
        orders: np.ndarray,
        weight: np.ndarray,
        folds: np.ndarray | None,
    ) -> None:
        self.values, self.right, self.orders, self.weight = values, right, orders, weight
        numbers = [] if folds is None else sorted({*folds.tolist()} - {-1})
        self.folds = [folds == number for number in numbers]

    def least_error(self, rates: np.ndarray) -> float:
        """Return the mean square error of pairs that are left out, with the best penalty."""
        return float(self.squares(rates).mean(1).min())

    def squares(self, rates: np.ndarray) -> np.ndarray:
        """Return mean squares of the errors (penalty, pair) of pairs that are left out."""
        weighted = self.values / self._weights(rates)
        if not self.folds:
            return self._one_by_one(weighted)
        parts = []
        for fold in self.folds:
            U, sizes, V = _decomposed(weighted[~fold])
            projected, own = U.T @ self.right[~fold], weighted[fold] @ V.T
            penalties = PENALTIES * len(weighted)
            errors = [self.right[fold] - own @ (_filter(sizes, p) * projected) for p in penalties]
            parts.append(self._mean_squares(np.stack(errors)))
        return np.concatenate(parts, 1)

    def solve(self, rates: np.ndarray, penalty: float) -> np.ndarray:
        """Return the coefficients (term, dim) from all pairs."""
        weights = self._weights(rates)
        U, sizes, V = _decomposed(self.values / weights)
        kept = _filter(sizes, penalty * len(self.values))
        return V.T @ (kept * (U.T @ self.right)) / weights.T

    def _weights(self, rates: np.ndarray) -> np.ndarray:
        return np.prod(rates**self.orders, 1)[None]  # (1, term)

    def _one_by_one(self, weighted: np.ndarray) -> np.ndarray:
        """Return the squares where each pair is left out alone, by its leverage."""
        U, sizes, _ = _decomposed(weighted)
        projected = U.T @ self.right
        rest = self.right - U @ projected
        outside = np.maximum(1 - (U**2).sum(1), 0.0)
        errors = []
        for penalty in PENALTIES * len(weighted):
            # complements of filter and leverage, which rounding would lose near one
            dropped = penalty / (sizes**2 + penalty)
            residual = rest + U @ (dropped[:, None] * projected)
            determined = outside + U**2 @ dropped
            errors.append(residual / np.maximum(determined, 1e-300)[:, None])
        return self._mean_squares(np.stack(errors))

    def _mean_squares(self, errors: np.ndarray) -> np.ndarray:
        """Return (penalty, pair) of errors (penalty, pair, dim)."""
        return ((errors * self.weight) ** 2).mean(2)


def _decomposed(matrix: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    check_time()
    return np.linalg.svd(matrix, full_matrices=False)


def _filter(sizes: np.ndarray, penalty: float) -> np.ndarray:
    """Return what becomes of projections on the singular vectors (rank, 1)."""
    return (sizes / (sizes**2 + penalty))[:, None]
