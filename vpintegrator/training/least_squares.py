"""Least squares: linear problems of any length, leave-one-out errors, the damped iteration.

``SequentialQR`` solves linear problems to all digits, and a ``Solution`` knows its errors on rows
that are left out. A nonlinear problem is a ``Residual``: its sum of squares and its normal
equations. ``DampedIteration`` minimises it.

What was measured on the rigid body (one step, 384 parameters): the plain norm |delta| does better
than Marquardt's scaling by the diagonal of J^T J, which lingers for a hundred iterations. Nielsen's
rule for the damping gets further in the same time than trying several dampings in an iteration,
and than geodesic acceleration. Steps from J^T J agree with those from a QR factorisation of J to
1e-8 at the dampings that occur (1e-6), at half the cost; fits to few pairs get the same digits by
both. Every damping that is tried has a Cholesky factor of its own: what dampings could share, a
tridiagonal form of J^T J, costs as much as four.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import torch
from scipy import linalg

from vpintegrator.compiled import NotCompilable, SymmetricMatrix
from vpintegrator.errors import InputError
from vpintegrator.runtime.interrupts import check_time

PENALTIES = 10.0 ** np.arange(-30, 3, 0.5)  # ridge penalties, relative to the number of rows


class SequentialQR:
    """The triangular factor of a matrix that comes in blocks of rows.

    Memory is that of a block and of one triangle. Normal equations would lose half of the digits.

    Parameters
    ----------
    columns : int
        Number of columns of the matrix.
    keep
        Whether ridge regressions see the rows themselves, so that leverages near one are known.

    Examples
    --------
    >>> from vpintegrator.training.least_squares import SequentialQR
    >>> A, b = np.random.default_rng(0).normal(size=(50, 3)), np.arange(50.0)
    >>> qr = SequentialQR(3)
    >>> for rows in np.array_split(np.arange(50), 4):
    ...     qr.add(A[rows], b[rows])
    >>> solution = next(qr.solutions([1e-13]))
    >>> bool(np.allclose(solution.coefficients, np.linalg.lstsq(A, b)[0]))
    True
    """

    def __init__(self, columns: int, keep: bool = False) -> None:
        self.columns = columns
        self.rows = 0
        self._kept: list[np.ndarray] | None = [] if keep else None
        self._triangle = np.zeros((0, columns))  # (row, column and right side)
        self._right_sides: tuple[int, ...] = ()

    def add(self, matrix: np.ndarray, right: np.ndarray) -> None:
        """Take further rows (row, column) and their right sides, (row,) or (row, right side)."""
        check_time()
        self._right_sides = right.shape[1:]
        rows = np.column_stack([matrix, right])  # (row, column and right side)
        if self._kept is not None:
            self._kept.append(rows)
        stacked = np.vstack([self._triangle, rows]) if self.rows else rows
        self.rows += len(rows)
        # PyTorch keeps to the threads that it was given
        self._triangle = torch.linalg.qr(torch.from_numpy(stacked), mode="r").R.numpy()

    def system(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the triangle and its right sides."""
        return self._divided(self._triangle)

    def _divided(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        right = rows[:, self.columns :]  # (row, right side)
        return rows[:, : self.columns], right.reshape(len(rows), *self._right_sides)

    def solutions(
        self, tolerances: Sequence[float], first: Sequence[int] = (), pull: float = 1e-9
    ) -> Iterator[Solution]:
        """Yield solutions for several tolerances by one factorisation.

        Parameters
        ----------
        tolerances
            Columns that others give to this relative accuracy get the coefficient zero.
        first
            Columns whose coefficients stay as they are without the others, but for what the others
            cannot make up for.
        pull
            Relative size of the equations that hold the first coefficients where they were.
        """
        R, right = self.system()
        known = np.zeros((self.columns, *self._right_sides))  # (column, right side)
        if held_columns := list(first):
            alone = SequentialQR(len(held_columns))
            alone.add(R[:, held_columns], right)
            known[held_columns] = next(alone.solutions([1e-13])).coefficients
            held = np.diag(pull * np.linalg.norm(R, axis=0))[held_columns]  # (held, column)
            right = np.append(right - R @ known, 0 * known[held_columns], axis=0)
            R = np.vstack([R, held])
        norms = np.linalg.norm(R, axis=0)  # (column,)
        norms = np.where(norms > 0, norms, 1.0)
        Q, upper, order = linalg.qr(R / norms, mode="economic", pivoting=True)  # R P = Q upper
        # (column,), (column, right side)
        pivots = np.abs(np.diag(upper))
        projected = Q.T @ right
        for tolerance in tolerances:
            check_time()
            rank = int((pivots > tolerance * pivots[0]).sum()) if pivots.size and pivots[0] else 0
            kept = order[:rank]
            inverse = linalg.solve_triangular(upper[:rank, :rank], np.eye(rank))
            directions = np.zeros((self.columns, rank))  # (column, rank)
            directions[kept] = inverse / norms[kept, None]
            yield Solution(known + directions @ projected[:rank], directions, np.ones(rank))

    def ridge(self, weights: np.ndarray, penalties: Iterable[float]) -> Iterator[Solution]:
        """Yield the coefficients with a ridge penalty, for several penalties by one factorisation.

        Parameters
        ----------
        weights : (column,)
            Positive factor of each coefficient in the penalty.
        penalties
            Factors of the sum of squares of weighted coefficients, relative to the number of rows.
        """
        equations = self.system() if self._kept is None else self._divided(np.vstack(self._kept))
        spectrum = Spectrum(*equations, weights, self.rows)
        for penalty in penalties:
            check_time()
            yield spectrum.solution(float(penalty), with_rows=self._kept is not None)

    def truncated(self, tolerances: Sequence[float]) -> Iterator[Solution]:
        """Yield the solutions of least norm without singular values below relative tolerances."""
        spectrum = Spectrum(*self.system())
        sizes = spectrum.sizes
        for tolerance in tolerances:
            check_time()
            inverse = np.divide(1.0, sizes, out=0 * sizes, where=sizes > tolerance * sizes[0])
            coefficients = spectrum.directions @ (spectrum.projected.T * inverse).T
            yield Solution(coefficients, spectrum.directions, inverse)


class Spectrum:
    r"""Singular value decomposition of a matrix, of which all ridge regressions follow.

    .. math:: \min_c |A c - b|^2 + \lambda |W c|^2, \qquad A W^{-1} = U S V^T

    Parameters
    ----------
    matrix, right : (row, column), (row,) or (row, right side)
    weights : (column,), optional
        Diagonal of W: factor of each coefficient in the penalty.
    count
        Number of equations that penalties are relative to; by default that of the rows.

    Attributes
    ----------
    left : (row, direction)
        U.
    sizes : (direction,)
        S.
    rotation : (direction, column)
        :math:`V^T`.
    directions : (column, direction)
        :math:`W^{-1} V`.
    projected : (direction,) or (direction, right side)
        :math:`U^T b`.
    """

    def __init__(
        self,
        matrix: np.ndarray,
        right: np.ndarray,
        weights: np.ndarray | None = None,
        count: int | None = None,
    ) -> None:
        check_time()
        weights = np.ones(matrix.shape[1]) if weights is None else weights
        self.left, self.sizes, self.rotation = np.linalg.svd(matrix / weights, full_matrices=False)
        self.weights = weights
        self.directions = self.rotation.T / weights[:, None]
        self.projected = self.left.T @ right
        self.right = right
        self.count = len(matrix) if count is None else count

    def dropped(self, penalties: np.ndarray) -> np.ndarray:
        """Return the part of each direction that penalties take away, (penalty, direction)."""
        damping = np.asarray(penalties)[:, None] * self.count
        return np.asarray(damping / (self.sizes**2 + damping))

    def coefficients(self, penalties: np.ndarray) -> np.ndarray:
        """Return coefficients (penalty, column, right side)."""
        damping = np.asarray(penalties)[:, None] * self.count
        filters = self.sizes / (self.sizes**2 + damping)  # (penalty, direction)
        weighted = self.rotation.T @ (filters[:, :, None] * self.projected)
        return np.asarray(weighted / self.weights[:, None])

    def solution(self, penalty: float, with_rows: bool = True) -> Solution:
        """Return the solution for a penalty, and with the rows their leverages."""
        damped = self.sizes**2 + penalty * self.count  # (direction,)
        coefficients = self.directions @ (self.projected.T * (self.sizes / damped)).T
        solution = Solution(coefficients, self.directions, 1 / np.sqrt(damped), penalty)
        if not with_rows:
            return solution
        (dropped,) = self.dropped(np.array([penalty]))
        return replace(solution, left=self.left, dropped=dropped)

    def left_out(self, penalties: np.ndarray) -> np.ndarray:
        """Return errors (penalty, row, right side) where each row is left out by itself."""
        squares = self.left**2
        # complements of filter and leverage, which rounding would lose near one
        dropped = self.dropped(penalties)  # (penalty, direction)
        residual = self.right - self.left @ self.projected
        residual = residual + self.left @ (dropped[:, :, None] * self.projected)
        determined = np.maximum(1 - squares.sum(1), 0.0) + dropped @ squares.T  # (penalty, row)
        return np.asarray(residual / np.maximum(determined, 1e-300)[:, :, None])


@dataclass(frozen=True)
class Solution:
    r"""Coefficients of least squares, and how each row moves them.

    Attributes
    ----------
    coefficients : (column,) or (column, right side)
    directions : (column, direction)
    sizes : (direction,)
        W, the directions times their sizes, has
        :math:`W W^T = (A^T A + \text{penalty})^{-1}` on the columns that determine the fit. The
        directions are the same for every penalty.
    penalty
        Ridge penalty, see ``SequentialQR.ridge``.
    left, dropped : (row, direction), (direction,), optional
        Orthonormal directions of the rows, and the part of each that the penalty takes away, where
        all rows are known.
    """

    coefficients: np.ndarray
    directions: np.ndarray
    sizes: np.ndarray
    penalty: float = 0.0
    left: np.ndarray | None = None
    dropped: np.ndarray | None = None

    @property
    def rank(self) -> int:
        """Number of coefficients that the equations determine."""
        return int(np.count_nonzero(self.sizes))


class Choice(NamedTuple):
    """A solution, and its error on rows that are left out of the fit.

    Attributes
    ----------
    square
        Mean square; infinite where other rows do not determine the coefficients that a row reads.
    deviation
        Standard error of ``typical``, relative to it.
    typical
        Mean square without the largest twentieth, see ``trimmed``.
    solution
    """

    square: float
    deviation: float
    typical: float
    solution: Solution


class LeftOut:
    r"""Errors of groups of rows that are left out of fits, without further fits.

    .. math:: (I - H_{ii})^{-1} r_i, \qquad H_{ii} = A_i (A^T A)^{-1} A_i^T

    with the residuals r of the fit to all rows. Infinite where :math:`H_{ii}`, the leverage, has an
    eigenvalue of one. Of ridge regressions on rows that were kept, :math:`I - H_{ii}` is a sum of
    complements, see :meth:`Spectrum.left_out`.

    Parameters
    ----------
    rows : (group, row, column)
        Rows as the fits use them, the first ones of these.
    matrix, right : (group, row, column), (group, row) or (group, row, right side)
        The same equations in the units of the error.
    folds : (group,), optional
        Number of the fold of each group: groups of a fold are left out together, those of number
        -1 never.
    """

    def __init__(
        self,
        rows: np.ndarray,
        matrix: np.ndarray,
        right: np.ndarray,
        folds: np.ndarray | None = None,
    ) -> None:
        self.rows = rows
        self.matrix = matrix
        self.right = right
        self._directions = self._projected = np.zeros(0)
        # distance of a leverage from one: rounding leaves 1e-12 of what one group determines alone;
        # of folds, penalties determine all coefficients
        self._least = 1e-10 if folds is None else 1e-14
        numbers = np.arange(len(right)) if folds is None else folds
        kept = np.flatnonzero(numbers >= 0)
        _, members, counts = np.unique(numbers[kept], return_inverse=True, return_counts=True)
        order = kept[np.argsort(members, kind="stable")]
        begins = np.cumsum(counts) - counts
        # groups (fold, group) of the folds of equal sizes
        self._places = [order[begins[counts == n, None] + np.arange(n)] for n in np.unique(counts)]

    def choice(self, solution: Solution) -> Choice:
        """Return a solution with its error."""
        hats = self._hats(solution)  # (group, row, direction)
        residual = self.right - self.matrix @ solution.coefficients  # (group, row[, right side])
        residual = residual.reshape(*residual.shape[:2], -1)  # (group, row, right side)
        parts = []
        for places in self._places:
            H, rest = (x[places].reshape(len(places), -1, x.shape[2]) for x in (hats, residual))
            one = np.eye(H.shape[1])  # (row, row), rows of a fold
            matrices = one - H @ H.transpose(0, 2, 1)  # (fold, row, row)
            if solution.dropped is not None:
                matrices += (H * solution.dropped) @ H.transpose(0, 2, 1)
            alone = np.linalg.eigvalsh(matrices)[:, 0] < self._least  # (fold,)
            matrices[alone] = one
            left_out = np.linalg.solve(matrices, rest)  # (fold, row, right side)
            left_out[alone] = np.inf
            # of a single fold each group counts
            count = len(places) if len(places) > 1 or len(self._places) > 1 else places.size
            parts.append((left_out**2).reshape(count, -1).mean(1))
        squares = np.concatenate(parts)  # (fold,)
        typical, deviation = trimmed(squares)
        return Choice(float(squares.mean()), deviation, typical, solution)

    def _hats(self, solution: Solution) -> np.ndarray:
        """Return H (group, row, direction) with I - H H^T, or with it plus what is dropped."""
        if solution.left is not None:  # complements, which rounding would lose near one
            count = self.rows.shape[0] * self.rows.shape[1]
            return solution.left[:count].reshape(*self.rows.shape[:2], -1)
        if solution.directions is not self._directions:  # once: the largest part of the work
            self._directions = solution.directions
            self._projected = self.rows @ solution.directions  # (group, row, direction)
        return np.asarray(self._projected * solution.sizes)


def trimmed(squares: np.ndarray, part: float = 0.05) -> tuple[float, float]:
    """Return the mean without the largest part of the squares, and its relative standard error.

    These are of pairs at the edge of the data, which linear equations extrapolate too far.
    """
    kept = np.sort(squares)[: math.ceil((1 - part) * len(squares))]
    mean = float(kept.mean())
    if not math.isfinite(mean):
        return math.inf, 0.0
    return mean, float(kept.std()) / math.sqrt(len(kept)) / max(mean, 1e-300)


class NormalEquations:
    """J^T J and the gradient J^T r of residuals r (row,) with the Jacobian J (row, parameter).

    Parameters
    ----------
    like
        A vector of parameters.
    compiled
        Whether residuals are machine code, so that there is a compiler. Machine code takes the
        memory of one matrix and half of the arithmetic; PyTorch takes three matrices, two of them
        only during the solution.
    scaled
        Whether damping is in units of the diagonal of J^T J (Marquardt), or plain (Levenberg).
    most
        Largest number of parameters, whose matrix takes 3.2 GB.
    large
        Parameters from which on the products of PyTorch take longer than the rest: machine code
        takes their place where that is possible.

    Raises
    ------
    InputError
        If there are too many parameters.
    """

    def __init__(
        self,
        like: torch.Tensor,
        compiled: bool = False,
        *,
        scaled: bool = False,
        most: int = 20_000,
        large: int = 1_000,
    ) -> None:
        self.scaled = scaled
        self.gradient = torch.zeros_like(like)
        count = len(like)
        self._machine: SymmetricMatrix | None = None
        if count > most:
            raise InputError(
                f"levenberg-marquardt trains up to {most:,} parameters, and these are {count:,}; "
                "use the optimizer adam, which needs no matrix"
            )
        if not scaled and (compiled or (like.device.type == "cpu" and count >= large)):
            with suppress(NotCompilable):
                dtype = like.numpy().dtype.type
                threads = torch.get_num_threads()
                self._machine = SymmetricMatrix(count, dtype, threads)
        machine = self._machine
        self._matrix = torch.from_numpy(machine.array) if machine else like.new_zeros(count, count)

    def clear(self) -> None:
        """Set matrix and gradient to zero."""
        self._matrix.zero_()
        self.gradient.zero_()

    def add(self, jacobian: torch.Tensor, residual: torch.Tensor) -> None:
        """Add some rows; to machine code also in the order of ``CompiledResidual``."""
        if self._machine:
            self._machine.add(jacobian.numpy(), residual.numpy(), self.gradient.numpy())
        else:
            self._matrix.addmm_(jacobian.mT, jacobian)  # (parameter, parameter)
            self.gradient.addmv_(jacobian.mT, residual)  # (parameter,)

    def add_penalty(self, penalty: float, change: torch.Tensor) -> None:
        """Add the equations of a ridge penalty on a change (parameter,)."""
        self._matrix.diagonal().add_(penalty)
        self.gradient.add_(change, alpha=penalty)

    @property
    def units(self) -> torch.Tensor | float:
        """Damping of each parameter (parameter,), in units of the damping."""
        return self._matrix.diagonal().clamp_min(1e-300) if self.scaled else 1.0

    def largest(self) -> float:
        """Return the largest element of J^T J, which is on the diagonal, in these units."""
        return 1.0 if self.scaled else self._matrix.diagonal().max().item()

    def solve(self, damping: float) -> torch.Tensor | None:
        """Return -(J^T J + damping D)^-1 J^T r with the units D; None if there is no factor."""
        if self._machine:
            solvable = self._machine.factor(damping)
            right = (-self.gradient).numpy()
            return torch.from_numpy(self._machine.solve(right)) if solvable else None
        damped = self._matrix.clone()  # (parameter, parameter)
        damped.diagonal().add_(damping * self.units)
        factor, failed = torch.linalg.cholesky_ex(damped)
        delta = torch.cholesky_solve(-self.gradient[:, None], factor)[:, 0]  # (parameter,)
        return None if failed.item() else delta


class Residual(ABC):
    """A nonlinear least-squares problem: the residuals of a vector of parameters.

    Plain damping is best where equal changes of all parameters are equally likely: windows of many
    states end lower than with scaled damping. Few pairs of smooth maps, whose high degrees hardly
    matter, end at a hundredth of the error with scaled damping.
    """

    @abstractmethod
    def cost(self, parameters: torch.Tensor) -> float:
        """Return the sum of squares, nan or infinite outside the domain."""

    @abstractmethod
    def linearise(self, parameters: torch.Tensor) -> NormalEquations:
        """Return normal equations, which the next call may overwrite.

        The parameters are those of the last call of ``cost``.
        """


class DampedIteration:
    r"""Levenberg-Marquardt: repeated minimisation of |r + J delta|^2 + damping |delta|^2.

    The damping follows Nielsen's rule (Madsen, Nielsen, Tingleff, Methods for non-linear least
    squares problems, 2nd ed., 2004, sections 2.2 and 3.2). With the ratio :math:`\varrho` of the
    gain to the gain that the linear model predicts, a step that lowers the cost multiplies the
    damping by :math:`\max(1/3, 1 - (2 \varrho - 1)^3)`. Failing steps multiply it by 2, 4, 8, ...

    Parameters
    ----------
    problem
        Residual to minimise.
    parameters
        First parameters.
    damping
        First damping, in units of the largest element of J^T J.

    Attributes
    ----------
    parameters, cost
        Best parameters so far, and their sum of squares.
    damping
        Damping of the next step, zero where none is chosen yet.

    Examples
    --------
    >>> class Rosenbrock(Residual):
    ...     def cost(self, x):
    ...         return float((1 - x[0]) ** 2 + 100 * (x[1] - x[0] ** 2) ** 2)
    ...     def linearise(self, x):
    ...         J = torch.tensor([[-1.0, 0.0], [-20 * float(x[0]), 10.0]], dtype=x.dtype)
    ...         equations = NormalEquations(x)
    ...         equations.add(J, torch.stack([1 - x[0], 10 * (x[1] - x[0] ** 2)]))
    ...         return equations
    >>> iteration = DampedIteration(Rosenbrock(), torch.tensor([-1.2, 1.0]).double())
    >>> iteration.run(100).round(decimals=6)
    tensor([1., 1.], dtype=torch.float64)
    """

    def __init__(self, problem: Residual, parameters: torch.Tensor, damping: float = 1e-3) -> None:
        self.problem = problem
        self.first = damping
        self.parameters = parameters
        self.cost = problem.cost(parameters)
        self.damping = 0.0

    def step(self) -> bool:
        """Lower the cost; return False where no damping does."""
        equations = self.problem.linearise(self.parameters)
        curvature = equations.largest()
        damping = self.damping or self.first * curvature
        growth = 2.0
        # rounding of J^T J hides any damping smaller than this
        least = torch.finfo(self.parameters.dtype).eps * curvature
        # beyond this damping steps are too short to change anything; false where it is zero or nan
        while damping < 1e12 * curvature:
            if self._lowers(equations, max(damping, least)):
                return True
            damping *= growth
            growth *= 2
        self.damping = 0.0
        return False

    def _lowers(self, equations: NormalEquations, damping: float) -> bool:
        delta = equations.solve(damping)  # (parameter,)
        if delta is None:
            return False
        cost = self.problem.cost(self.parameters + delta)
        if not cost < self.cost:  # true for nan
            return False
        # both at once, as each number that is looked at makes a GPU wait
        length = delta.dot(equations.units * delta)
        length, slope = torch.stack([length, equations.gradient.dot(delta)]).tolist()
        foretold = damping * length - slope
        gain = (self.cost - cost) / foretold if foretold > 0 else 0.0
        self.damping = damping * max(1 / 3, 1 - (2 * gain - 1) ** 3)
        self.cost = cost
        self.parameters = self.parameters + delta
        return True

    def run(
        self, iterations: int, *, exact: float = 0.0, settled: float = 0.95, patience: int = 10
    ) -> torch.Tensor:
        """Return the parameters of the least cost.

        Parameters
        ----------
        iterations
            Largest number of steps.
        exact
            Cost at rounding, which ends the iteration.
        settled, patience
            The iteration ends where ``patience`` steps leave more than this part of the cost.
        """
        costs = [self.cost]
        try:
            while len(costs) <= iterations and self.cost > exact:
                check_time()
                if not self.step():
                    break
                costs.append(self.cost)
                if len(costs) > patience and self.cost > settled * costs[-1 - patience]:
                    break
        finally:  # an interruption may come at a trial
            self.problem.cost(self.parameters)
        return self.parameters
