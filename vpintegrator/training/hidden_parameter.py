r"""Parameters of orbits that nobody wrote down, found with the map by variable projection.

.. math:: \min_{\theta, c} \sum_i \sum_t |\Delta z_{i,t} - A(z_{i,t}, \theta_i)\, c|^2

For given parameters :math:`\theta` of the orbits i the coefficients c are linear least squares.
What is left is a function of :math:`\theta` alone, which is minimised by steps of Gauss and Newton
in the form of Kaufman: the derivative by :math:`\theta_i` is projected off the range of A (Golub,
Pereyra, SIAM J. Numer. Anal. 10, 1973; Kaufman, BIT 15, 1975). On rigid bodies with a hidden moment
of inertia they end at 6e-10, where solving in turn for c and for :math:`\theta` still errs by 4e-6.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch

from vpintegrator.errors import InputError
from vpintegrator.models.hidden_parameter import HiddenParameterMap, usual_order
from vpintegrator.nn.feed_forward import WindowPolynomials
from vpintegrator.nn.hidden_parameter import HiddenParameterLayer
from vpintegrator.runtime.interrupts import check_time
from vpintegrator.runtime.threads import one_blas_thread
from vpintegrator.training.least_squares import trimmed
from vpintegrator.training.linear import LinearFit
from vpintegrator.training.training_data import TrainingData

FEWEST = 10  # orbits that show how a parameter varies
SHORTEST = 4  # states of an orbit
_ORBITS = 500  # whose parameters are unknowns of the solve
_PAIRS = 20_000  # of states, in all of them
_TERMS = 200  # of the polynomials of each orbit, at the beginning
_PULL = 1e-2  # of these towards those of all orbits, relative to their matrix
_DAMPINGS = 5  # that are tried in a step, each ten times the one before
_RANK = 1e-13  # singular values below this part of the largest one are rounding


@dataclass(frozen=True)
class HiddenParameters:
    """Parameters of the training orbits, and how well the map with them fits.

    Attributes
    ----------
    values : (orbit,)
        Parameters between -1 and 1.
    fit
        Result of the solve.
    without
        The error of the same polynomials without a parameter.
    """

    values: np.ndarray
    fit: LinearFit
    without: float


def solve_hidden(model: HiddenParameterMap, data: TrainingData) -> LinearFit:
    """Set the coefficients of a map with a hidden parameter by the training orbits.

    Polynomials of lower degrees come first, each of which begins with the parameters of the one
    before.

    Parameters
    ----------
    model
        The model, which is normalised here.
    data
        Training data.

    Raises
    ------
    InputError
        As :func:`find_hidden`.
    """
    data.normalise(model)
    degree = model.core.degree
    found: HiddenParameters | None = None
    for lower in range(2, degree):
        arguments = {**model.arguments, "degree": lower}
        arguments["order"] = min(usual_order(lower), model.core.order)
        before = HiddenParameterMap(**arguments)
        data.normalise(before)
        found = find_hidden(before, data, found)
    return find_hidden(model, data, found).fit


def find_hidden(
    model: HiddenParameterMap, data: TrainingData, start: HiddenParameters | None = None
) -> HiddenParameters:
    """Set the coefficients of a normalised model, and return the parameters of the orbits.

    Parameters
    ----------
    model
        Normalised, and adapted to the states.
    data
        Training data.
    start
        Result for a model of a lower degree.

    Raises
    ------
    InputError
        If there are fewer than ten complete orbits of four states, or too few for the coefficients.
    """
    layer = model.core
    states = data.held("train")
    states = states[np.isfinite(states).all((1, 2))]
    count, times, dim = states.shape
    if count < FEWEST or times < SHORTEST:
        raise InputError(
            f"a hidden parameter is found in {FEWEST} or more complete orbits of {SHORTEST} states "
            f"or more, and these are {count} of {times}"
        )
    columns = (layer.order + 1) * len(layer.terms.chosen)
    with torch.no_grad(), one_blas_thread():
        before, change = _pairs(model, states)
        if before.shape[0] * before.shape[1] < 2 * columns:
            raise InputError(
                f"{count:,} orbits of {times:,} states are too few for {columns:,} coefficients of "
                "each component; give more orbits, or a lower degree"
            )
        terms = layer.terms.values(before).numpy()
        problem = _ProjectedProblem(terms, change.numpy(), layer.order)
        first = _first_values(layer, before, change) if start is None else start.values
        solution = problem.minimised(first)
        layer.coefficients.copy_(torch.from_numpy(solution.coefficients))
    squares = solution.residuals**2
    pairs = squares.shape[0] * squares.shape[1]
    free = columns + len(squares) / dim
    corrected = squares.mean(2).ravel() * pairs / (pairs - free)
    typical, deviation = trimmed(corrected)
    error = math.sqrt(corrected.mean())
    size = columns * dim
    fit = LinearFit(size, size, pairs, error, math.sqrt(typical), deviation, 0.0)
    return HiddenParameters(solution.values, fit, problem.error_without())


def _pairs(model: HiddenParameterMap, states: np.ndarray) -> tuple[torch.Tensor, torch.Tensor]:
    """Return normalised states (orbit, pair, dim) and their changes: some, evenly spaced."""
    count, times, _ = states.shape
    orbits = _evenly(count, _ORBITS)
    places = _evenly(times - 1, max(_PAIRS // len(orbits), 1))
    x = model.coordinates(torch.from_numpy(states[orbits]).to(model.scale)).double()
    return x[:, places], model.core.changes(x)[:, places]


def _evenly(count: int, most: int) -> np.ndarray:
    """Return at most so many of the numbers from zero, evenly spaced."""
    return np.unique(np.linspace(0, count - 1, min(count, most)).round().astype(int))


def _first_values(
    layer: HiddenParameterLayer, before: torch.Tensor, change: torch.Tensor
) -> np.ndarray:
    """Return the first guess of the parameters (orbit,), of pairs (orbit, pair, dim).

    Polynomials of each orbit, pulled towards those of all orbits, differ mostly along one
    direction: that of the largest singular value.
    """
    degree = 2 if math.comb(layer.dim + 2, 2) <= _TERMS else 1
    low = WindowPolynomials(layer.dim, degree, periodic=layer.terms.angles, dtype=torch.float64)
    low.adapt_to(before.flatten(0, 1))
    values = low.values(before).numpy()  # (orbit, pair, term)
    changes = change.numpy()
    size = values.shape[2]
    shared = np.linalg.lstsq(values.reshape(-1, size), changes.reshape(-1, layer.dim), rcond=None)[
        0
    ]
    matrix = values.mT @ values  # (orbit, term, term)
    right = values.mT @ (changes - values @ shared)  # (orbit, term, dim)
    pull = _PULL * np.trace(matrix.mean(0)) / size
    own = np.linalg.solve(matrix + pull * np.eye(size), right).reshape(len(values), -1)
    left, _, _ = np.linalg.svd(own - own.mean(0), full_matrices=False)
    return _in_range(left[:, 0])


def _in_range(values: np.ndarray) -> np.ndarray:
    """Return parameters (orbit,) moved and scaled to [-1, 1]."""
    low = values.min()
    high = values.max()
    return (2 * values - low - high) / (high - low) if high > low else 0 * values


@dataclass(frozen=True)
class _ProjectedSolution:
    """Coefficients at some parameters.

    Attributes
    ----------
    values : (orbit,)
    coefficients : (power, term, dim)
    residuals : (orbit, pair, dim)
    basis : (orbit, pair, direction)
        Orthonormal columns that span the range of A.
    """

    values: np.ndarray
    coefficients: np.ndarray
    residuals: np.ndarray
    basis: np.ndarray

    @property
    def cost(self) -> float:
        return float((self.residuals**2).sum())


@dataclass(frozen=True)
class _ProjectedProblem:
    """Variable projection: the parameters of orbits are the unknowns.

    Attributes
    ----------
    terms : (orbit, pair, term)
    changes : (orbit, pair, dim)
    order
        Largest power of the parameter.
    """

    terms: np.ndarray
    changes: np.ndarray
    order: int

    def solution(self, values: np.ndarray) -> _ProjectedSolution:
        """Solve for the coefficients at given parameters."""
        check_time()
        count, pairs, size = self.terms.shape
        dim = self.changes.shape[2]
        powers = values[:, None] ** np.arange(self.order + 1)  # (orbit, power)
        matrix = powers[:, None, :, None] * self.terms[:, :, None, :]
        rows = matrix.reshape(count * pairs, -1)
        Q, R = (part.numpy() for part in torch.linalg.qr(torch.from_numpy(rows)))
        left, sizes, rotation = np.linalg.svd(R)
        kept = sizes > _RANK * sizes[0]
        basis = Q @ left[:, kept]  # (row, direction)
        right = self.changes.reshape(-1, dim)
        projected = basis.T @ right  # (direction, dim)
        residuals = (right - basis @ projected).reshape(self.changes.shape)
        coefficients = rotation[kept].T @ (projected / sizes[kept, None])
        return _ProjectedSolution(
            values,
            coefficients.reshape(self.order + 1, size, dim),
            residuals,
            basis.reshape(count, pairs, -1),
        )

    def error_without(self) -> float:
        """Return the root mean square of the residuals of polynomials without a parameter."""
        flat = self.terms.reshape(-1, self.terms.shape[2])
        right = self.changes.reshape(len(flat), -1)
        Q = torch.linalg.qr(torch.from_numpy(flat)).Q.numpy()
        return float(np.sqrt(((right - Q @ (Q.T @ right)) ** 2).mean()))

    def minimised(
        self, values: np.ndarray, most: int = 12, gain: float = 0.9
    ) -> _ProjectedSolution:
        """Return the best solution near some parameters.

        Parameters
        ----------
        values : (orbit,)
            The first parameters.
        most
            Largest number of steps.
        gain
            Part of the cost below which a step must take it, or the iteration ends.
        """
        best = self.solution(values)
        damping = 1e-3
        for _ in range(most):
            before = best.cost
            matrix, gradient = self._equations(best)
            for tried in damping * 10.0 ** np.arange(_DAMPINGS):
                damped = matrix + tried * np.diag(np.diag(matrix))
                moved = _in_range(best.values - np.linalg.solve(damped, gradient))
                trial = self.solution(moved)
                if trial.cost < before:
                    best = trial
                    damping = max(tried / 10, 1e-12)
                    break
            if not best.cost < gain * before:
                break
        return best

    def _equations(self, at: _ProjectedSolution) -> tuple[np.ndarray, np.ndarray]:
        """Return matrix (orbit, orbit) and gradient (orbit,) of a step of Gauss and Newton."""
        orders = np.arange(1, self.order + 1)
        slopes = orders * at.values[:, None] ** (orders - 1)  # (orbit, power)
        moved = np.einsum("ok,ktd->otd", slopes, at.coefficients[1:])  # (orbit, term, dim)
        derivative = -(self.terms @ moved)  # (orbit, pair, dim) of the residuals
        within = np.einsum("opq,opd->dqo", at.basis, derivative)  # (dim, direction, orbit)
        flat = within.reshape(-1, within.shape[2])
        matrix = np.diag((derivative**2).sum((1, 2))) - flat.T @ flat
        return matrix, (derivative * at.residuals).sum((1, 2))
