"""Sums of J^T J, and Cholesky factors of them, in machine code."""

from __future__ import annotations

import ctypes
import functools

import numpy as np

from vpintegrator.compiled.library import REALS, load_library, pointer
from vpintegrator.compiled.source import header, prelude

_WORTH = 256  # rows of a matrix from which on another thread pays


class SymmetricMatrix:
    r"""The matrix of damped normal equations, summed up, and its Cholesky factor, in one array.

    .. math:: A = J^T J, \qquad A + \mu I = U^T U

    for a damping :math:`\mu`.

    Half as much arithmetic as a product of matrices, which does not know that the result is
    symmetric, and with the widest vectors of the machine, which not every BLAS knows. The array is
    all the memory that it takes: the matrix is its lower triangle, and U is above the diagonal.

    Parameters
    ----------
    count
        Rows.
    dtype
        Type of the numbers: float64 or float32.
    threads
        Among which rows are divided; results do not depend on it.

    Attributes
    ----------
    array
        (count, count). What is above the diagonal is no part of the matrix.

    Raises
    ------
    NotCompilable
        If there is no C++ compiler.

    Examples
    --------
    >>> matrix, gradient = vp.compiled.SymmetricMatrix(2), np.zeros(2)
    >>> matrix.add(np.array([[1.0, 2.0], [0.0, 1.0]]), np.ones(2), gradient)
    >>> matrix.whole()
    array([[1., 2.],
           [2., 5.]])
    >>> matrix.factor(damping=1.0), np.abs(matrix.solve(gradient)).round(12)
    (True, array([0. , 0.5]))
    """

    def __init__(self, count: int, dtype: type = np.float64, threads: int = 1) -> None:
        self._library = _library(REALS[np.dtype(dtype)])
        self._threads = threads if count >= _WORTH else 1
        self.array: np.ndarray = np.zeros((count, count), dtype)
        self._reciprocals: np.ndarray = np.empty(count, dtype)  # reciprocals of the diagonal of U

    def clear(self) -> None:
        """Make the matrix zero."""
        self.array.fill(0)

    def add(self, jacobian: np.ndarray, residuals: np.ndarray, gradient: np.ndarray) -> None:
        """Add :math:`J^T J` to the matrix, and :math:`J^T r` to a gradient.

        Parameters
        ----------
        jacobian, residuals
            J (row, count) and r (row,); or J (group, count, lanes) as compiled residuals give it,
            so many rows side by side as a vector of the machine holds, and r (group, lanes).
        gradient
            (count,).
        """
        work = self._library.add_rows if jacobian.ndim == 2 else self._library.add_groups
        jacobian = np.ascontiguousarray(jacobian)
        residuals = np.ascontiguousarray(residuals)
        work(
            *map(pointer, (self.array, gradient, jacobian, residuals)),
            *map(ctypes.c_long, (len(self.array), len(jacobian), self._threads)),
        )

    def factor(self, damping: float) -> bool:
        """Find U for a damping; False where rounding leaves none, or a number is not finite."""
        return bool(
            self._library.factor(
                pointer(self.array),
                pointer(self._reciprocals),
                ctypes.c_double(damping),
                ctypes.c_long(len(self.array)),
                ctypes.c_long(self._threads),
            )
        )

    def solve(self, right: np.ndarray) -> np.ndarray:
        r""":math:`(J^T J + \mu I)^{-1}` times a vector (count,), with the last factor found."""
        solution = right.copy()
        self._library.solve(
            pointer(self.array),
            pointer(self._reciprocals),
            ctypes.c_long(len(self.array)),
            pointer(solution),
        )
        return solution

    def whole(self) -> np.ndarray:
        """Return the matrix with both triangles, (count, count), as a new array."""
        return np.tril(self.array) + np.tril(self.array, -1).T


@functools.cache
def _library(real: str) -> ctypes.CDLL:
    return load_library("\n".join([prelude(real, narrow=False), header("symmetric.h")]))
