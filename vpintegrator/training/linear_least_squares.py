"""Linear least squares with any number of rows: sequential QR, rank, ridge, leave-one-out error."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from scipy import linalg

from vpintegrator.runtime.deadline import check_time

PULL = 1e-9  # relative size of the equations that hold coefficients where they were
TOLERANCE = 1e-13  # relative size of a pivot below which a column counts as dependent
_TINY = 1e-300
_FOLD = 1e-14  # the same of folds, whose penalties determine all coefficients
_UNDETERMINED = 1e-10  # distance of a leverage from one; where it is zero, rounding leaves 1e-12
_TRIMMED = 0.05  # fraction of the squares that do not count in comparisons


class SequentialQR:
    """The triangular factor of a matrix that comes in blocks of rows.

    Memory is that of a block and of one triangle. Normal equations would lose half of the digits.

    Parameters
    ----------
    columns : int
        Number of columns of the matrix.

    Examples
    --------
    >>> from vpintegrator.training.linear_least_squares import SequentialQR
    >>> A, b = np.random.default_rng(0).normal(size=(50, 3)), np.arange(50.0)
    >>> qr = SequentialQR(3)
    >>> for rows in np.array_split(np.arange(50), 4):
    ...     qr.add(A[rows], b[rows])
    >>> bool(np.allclose(qr.solve().coefficients, np.linalg.lstsq(A, b)[0]))
    True
    """

    def __init__(self, columns: int) -> None:
        self.columns, self.rows = columns, 0
        self._triangle = np.zeros((0, columns + 1))

    def add(self, matrix: np.ndarray, right: np.ndarray) -> None:
        """Take further rows (row, column) and their right sides (row,)."""
        check_time()
        stacked = np.vstack([self._triangle, np.column_stack([matrix, right])])
        self.rows += len(matrix)
        # PyTorch keeps to the threads that it was given
        self._triangle = torch.linalg.qr(torch.from_numpy(stacked), mode="r").R.numpy()

    def solve(self, tolerance: float = TOLERANCE, first: Sequence[int] = ()) -> Solution:
        """Return the coefficients of least squares.

        Parameters
        ----------
        tolerance
            Columns that others give to this relative accuracy get the coefficient zero.
        first
            Columns whose coefficients stay as they are without the others, but for what the others
            cannot make up for.
        """
        return next(self.solutions([tolerance], first))

    def solutions(
        self, tolerances: Sequence[float], first: Sequence[int] = ()
    ) -> Iterator[Solution]:
        """Yield solutions for several tolerances by one factorisation."""
        if len(first):
            yield from self._solutions_near(tolerances, list(first))
            return
        R, right = self._triangle[:, :-1], self._triangle[:, -1]
        norms = np.linalg.norm(R, axis=0)
        norms = np.where(norms > 0, norms, 1.0)
        Q, upper, order = linalg.qr(R / norms, mode="economic", pivoting=True)
        pivots, projected = np.abs(np.diag(upper)), Q.T @ right
        for tolerance in tolerances:
            check_time()
            rank = int((pivots > tolerance * pivots[0]).sum()) if pivots.size and pivots[0] else 0
            kept, inverse = order[:rank], linalg.solve_triangular(upper[:rank, :rank], np.eye(rank))
            coefficients, whitening = np.zeros(self.columns), np.zeros((self.columns, rank))
            whitening[kept] = inverse / norms[kept, None]
            coefficients[kept] = inverse @ projected[:rank] / norms[kept]
            yield Solution(coefficients, whitening, np.ones(rank))

    def _solutions_near(self, tolerances: Sequence[float], first: list[int]) -> Iterator[Solution]:
        """Yield solutions with the ``first`` coefficients near those that they have alone."""
        R, right = self._triangle[:, :-1], self._triangle[:, -1]
        alone = SequentialQR(len(first))
        alone._triangle = np.column_stack([R[:, first], right])
        known = alone.solve().coefficients
        pull = np.zeros((len(first), self.columns + 1))
        pull[np.arange(len(first)), first] = PULL * np.linalg.norm(R[:, first], axis=0)
        part = SequentialQR(self.columns)
        part._triangle = np.vstack([np.column_stack([R, right - R[:, first] @ known]), pull])
        for found in part.solutions(tolerances):
            found.coefficients[first] += known
            yield found

    def ridge(self, weights: np.ndarray, penalties: np.ndarray) -> Iterator[Solution]:
        """Yield the coefficients with a ridge penalty, for several penalties by one factorisation.

        Parameters
        ----------
        weights : (column,)
            Positive factor of each coefficient in the penalty.
        penalties
            Factors of the sum of squares of weighted coefficients.
        """
        R, right = self._triangle[:, :-1] / weights, self._triangle[:, -1]
        U, sizes, V = (part.numpy() for part in torch.linalg.svd(torch.from_numpy(R), False))
        projected, V = U.T @ right, V.T / weights[:, None]
        for penalty in penalties:
            check_time()
            damped = sizes**2 + penalty
            yield Solution(V @ (sizes / damped * projected), V, 1 / np.sqrt(damped))


@dataclass(frozen=True)
class Solution:
    r"""Coefficients of least squares, and how each row moves them.

    Attributes
    ----------
    coefficients : (column,)
    directions : (column, rank)
    sizes : (rank,)
        W, the directions times their sizes, has
        :math:`W W^T = (A^T A + \text{penalty})^{-1}` on the columns that determine the fit. The
        directions are the same for every penalty.
    """

    coefficients: np.ndarray
    directions: np.ndarray
    sizes: np.ndarray

    @property
    def rank(self) -> int:
        """Number of coefficients that the equations determine."""
        return len(self.sizes)

    def left_out(
        self, projected: np.ndarray, residual: np.ndarray, least: float = _UNDETERMINED
    ) -> np.ndarray:
        r"""Return residuals of groups of rows if each group is left out of the fit.

        .. math:: (I - H_{ii})^{-1} r_i, \qquad H_{ii} = A_i (A^T A)^{-1} A_i^T

        Infinite where other rows do not determine the coefficients that a group reads: where
        :math:`H_{ii}`, the leverage, has an eigenvalue of one.

        Parameters
        ----------
        projected : (group, row, rank)
            Rows that the fit has used, times ``directions``.
        residual : (group, row)
            Residuals of the rows.
        least
            Distance of a leverage from one below which it counts as one.

        Returns
        -------
        (group, row)
        """
        own, one = projected * self.sizes, np.eye(projected.shape[1])
        matrices = one - own @ own.transpose(0, 2, 1)
        alone = np.linalg.eigvalsh(matrices)[:, 0] < least
        matrices[alone] = one
        found = np.linalg.solve(matrices, residual[:, :, None])[:, :, 0]
        found[alone] = np.inf
        return found

    def _folds_left_out(self, projected: np.ndarray, residual: np.ndarray) -> np.ndarray:
        """Return ``left_out`` (fold, row) of folds of equally many groups (fold, group, ...)."""
        count, rank = len(projected), projected.shape[-1]
        return self.left_out(projected.reshape(count, -1, rank), residual.reshape(count, -1), _FOLD)

    def left_out_error(
        self, projected: np.ndarray, residual: np.ndarray, folds: np.ndarray | None = None
    ) -> tuple[float, float, float]:
        """Return the mean square of these residuals, its relative standard error, and ``trimmed``.

        The mean is infinite, and the error zero, where other rows do not determine the
        coefficients.

        Parameters
        ----------
        projected, residual
            Arguments of ``left_out``.
        folds : (group,), optional
            Number of the fold of each group: groups of a fold are left out together.
        """
        if folds is None:
            squares = (self.left_out(projected, residual) ** 2).mean(1)
        else:
            squares = np.concatenate(
                [
                    (self._folds_left_out(projected[places], residual[places]) ** 2).mean(1)
                    for places in _places_of_folds(folds)
                ]
            )
        mean, typical = float(squares.mean()), trimmed(squares)
        if not math.isfinite(mean):
            return math.inf, 0.0, typical
        return mean, float(squares.std()) / math.sqrt(len(squares)) / max(mean, _TINY), typical


def trimmed(squares: np.ndarray) -> float:
    """Return the mean without the largest twentieth of the squares.

    These are of pairs at the edge of the data, which linear equations extrapolate too far.
    """
    return float(np.sort(squares)[: math.ceil((1 - _TRIMMED) * len(squares))].mean())


def _places_of_folds(folds: np.ndarray) -> list[np.ndarray]:
    """Return the places of the groups of each fold (fold, place), folds of equal sizes together."""
    _, members, counts = np.unique(folds, return_inverse=True, return_counts=True)
    order, begins = np.argsort(members, kind="stable"), np.cumsum(counts) - counts
    return [order[begins[counts == n, None] + np.arange(n)] for n in np.unique(counts)]
