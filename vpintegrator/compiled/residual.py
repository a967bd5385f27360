"""The residuals of a model and their derivatives, compiled: what training computes."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from vpintegrator.compiled.library import REALS, Compilation, aligned, in_threads, parts_of, pointer
from vpintegrator.compiled.source import write_adjoint_source
from vpintegrator.compiled.tracing import trace, trained_numbers
from vpintegrator.compiled.verification import verify_residual

if TYPE_CHECKING:
    from vpintegrator.models import Model

T = TypeVar("T")
_JACOBIAN_BYTES = 1 << 20  # bytes of a block, which stays in the cache until it is multiplied,
_FEWEST_ROWS = 256  # unless it has so few rows: the normal matrix is read for each block
_PART = 2048  # windows summed up by one thread; however many threads, sums are the same


class CompiledResidual:
    """Sums of squares, gradients and normal equations of r = weights * (predicted - true states).

    Parameters
    ----------
    model
        Model on the CPU, in float32 or float64.
    weights
        Weights (dim,) of the components of a state.
    chained
        Whether predictions are also made from predictions.
    threads
        Number of threads that share the windows; results do not depend on it.
    worth
        Function of the seconds of a compilation, and of whether the library is cached, that decides
        whether to use machine code.

    Attributes
    ----------
    source
        The C++, with the numbers of operations.

    Raises
    ------
    NotCompilable
        If there is no C++ compiler, the model uses unknown operations or is too large, compilation
        is not worth the time, or results differ from PyTorch's.

    Examples
    --------
    >>> model = vp.models.ResidualNetwork(dim=2, depth=1)
    >>> vp.compiled.CompiledResidual(model, np.ones(2)).dtype
    <class 'numpy.float64'>
    """

    def __init__(
        self,
        model: Model,
        weights: np.ndarray,
        *,
        chained: bool = False,
        threads: int = 1,
        worth: Callable[[float, bool], bool] = lambda seconds, cached: True,
    ) -> None:
        self.chained = chained
        self.threads = threads
        traced = trace(model)
        self._values = traced.values(model)
        self._trained = trained_numbers(model)
        sizes = (model.window, model.prediction_window, model.dim)
        self.source = write_adjoint_source(
            traced, sizes, REALS[self._values.dtype], self._trained.tolist(), chained
        )
        self.dtype = self._values.dtype.type
        self._constants = np.zeros(max(self.source.constants, 1), self.dtype)
        self.weights = weights.astype(self.dtype)
        self._weights = np.tile(self.weights, model.prediction_window)
        self._library = Compilation(self.source.units, worth).library()
        self._lanes = int(self._library.lanes())
        verify_residual(self, model)

    def sums(self, vector: np.ndarray, windows: np.ndarray, targets: np.ndarray) -> np.ndarray:
        """Return the sums of squares of r and of predicted - true states.

        Parameters
        ----------
        vector
            The trained parameters, flattened one after another.
        windows, targets
            (pair, window, dim) and (pair, calls * prediction_window, dim); a call after the first
            predicts from what was predicted before.

        Returns
        -------
        (2,)
        """
        return self._summed("sums", vector, windows, targets, 2)[0]

    def first_squares(self, vector: np.ndarray, windows: np.ndarray, targets: np.ndarray) -> float:
        """Return the sum of squares of predicted - true states over the first new states alone."""
        first = np.zeros_like(self._weights)
        first[: len(self.weights)] = 1
        return float(self._summed("sums", vector, windows, targets, 2, weights=first)[0][0])

    def gradient(
        self,
        vector: np.ndarray,
        windows: np.ndarray,
        targets: np.ndarray,
        rows: np.ndarray | None = None,
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the same sums of squares, and :math:`J^T r`: half the gradient of the first.

        Parameters
        ----------
        vector, windows, targets
            See :meth:`sums`. The last two may be overlapping views of states.
        rows
            Numbers of the pairs in use, integers (pair,); by default all. They are read where they
            are, so that a batch is not copied.
        """
        sizes = 2, len(self._trained)
        squares, total = self._summed("gradient", vector, windows, targets, *sizes, rows=rows)
        return squares, total.astype(self.dtype)

    def jacobian(
        self, vector: np.ndarray, windows: np.ndarray, targets: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """J^T (parameter, component of targets, pair) and r (the same without the first axis)."""
        rows = math.prod(targets.shape[1:])
        count = len(windows)
        lanes = self._lanes
        residuals = np.empty((rows, -(-count // lanes), lanes), self.dtype)
        whole = np.empty((len(self._trained), *residuals.shape), self.dtype)
        for block, part, jacobian, some in self._blocks(vector, windows, targets):
            residuals[part, block] = some.swapaxes(0, 1)
            whole[:, part, block] = jacobian.transpose(2, 1, 0, 3)
        slopes = whole.reshape(len(whole), rows, -1)[..., :count]
        return slopes, residuals.reshape(rows, -1)[:, :count]

    def jacobians(
        self, vector: np.ndarray, windows: np.ndarray, targets: np.ndarray
    ) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """J (group, parameter, lane) and r (group, lane), block by block; see ``SymmetricMatrix``.

        The arrays are overwritten by the next block.
        """
        for _, _, jacobian, residuals in self._blocks(vector, windows, targets):
            yield jacobian.reshape(-1, *jacobian.shape[2:]), residuals.reshape(-1, self._lanes)

    def _summed(
        self,
        name: str,
        vector: np.ndarray,
        windows: np.ndarray,
        targets: np.ndarray,
        *sizes: int,
        weights: np.ndarray | None = None,
        rows: np.ndarray | None = None,
    ) -> list[np.ndarray]:
        """Return what a function of the library sums up over all windows, arrays of these sizes."""
        self._set(vector)
        total = [np.zeros(size) for size in sizes]

        def work(problem: _Problem, part: slice) -> list[np.ndarray]:
            arrays = [np.zeros(size) for size in sizes]
            getattr(self._library, name)(ctypes.byref(problem), *map(pointer, arrays))
            return arrays

        for arrays in self._divided(work, windows, targets, weights, rows):
            for sums, part in zip(total, arrays, strict=True):
                sums += part
        return total

    def _blocks(
        self, vector: np.ndarray, windows: np.ndarray, targets: np.ndarray
    ) -> Iterator[tuple[slice, slice, np.ndarray, np.ndarray]]:
        """Yield blocks of J (vector of windows, component of targets, parameter, lane), and r.

        The first two entries tell the block: vectors of windows, and components of their targets.
        """
        self._set(vector)
        lanes = self._lanes
        rows = math.prod(targets.shape[1:])
        count = len(self._trained)
        share = _JACOBIAN_BYTES // (max(count, 1) * np.dtype(self.dtype).itemsize)
        share = max(max(share, _FEWEST_ROWS) // lanes, 1)
        together = min(rows, share)
        groups = -(-len(windows) // lanes)
        most = min(max(share // rows, 1), groups)
        space = aligned(most * together * count * lanes, self.dtype)
        residuals = aligned(most * together * lanes, self.dtype)
        for first in range(0, groups, max(most, 1)):
            block = slice(first, min(first + most, groups))
            pairs = slice(first * lanes, block.stop * lanes)
            for start in range(0, rows, together):
                part = slice(start, min(start + together, rows))
                shape = block.stop - first, part.stop - start
                size = math.prod(shape) * lanes
                used = space[: size * count].reshape(*shape, count, lanes)
                values = residuals[:size].reshape(*shape, lanes)

                def work(
                    problem: _Problem,
                    share: slice,
                    bounds: tuple[int, int] = (part.start, part.stop),
                    arrays: tuple[np.ndarray, np.ndarray] = (values, used),
                ) -> None:
                    k = share.start // lanes
                    places = (pointer(array[k:]) for array in arrays)
                    numbers = map(ctypes.c_long, bounds)
                    self._library.jacobian(ctypes.byref(problem), *numbers, *places)

                self._divided(work, windows[pairs], targets[pairs])
                yield block, part, used, values

    def _set(self, vector: np.ndarray) -> None:
        """Take other parameters."""
        self._values[self._trained] = vector
        self._library.constants(pointer(self._values), pointer(self._constants))

    def _divided(
        self,
        work: Callable[[_Problem, slice], T],
        windows: np.ndarray,
        targets: np.ndarray,
        weights: np.ndarray | None = None,
        rows: np.ndarray | None = None,
    ) -> list[T]:
        """Return the results of ``work`` for parts of the windows, computed in parallel."""
        rows = np.arange(len(windows)) if rows is None else rows
        rows = np.ascontiguousarray(rows, np.dtype(ctypes.c_long))  # as C++ reads them
        if not len(rows):
            return []
        weights = self._weights if weights is None else weights
        windows = self._in_rows(windows)
        targets = self._in_rows(targets)
        calls = math.prod(targets.shape[1:]) // len(self._weights)
        strides = [array.strides[0] // array.itemsize for array in (windows, targets)]

        arrays = (windows, targets, weights, self._constants)
        shared = [array.ctypes.data for array in arrays]
        first = rows.ctypes.data

        def one(part: slice) -> T:
            own = first + part.start * rows.itemsize
            count = part.stop - part.start
            return work(_Problem(*shared, own, count, calls, *strides), part)

        parts = parts_of(len(rows), self._lanes, -(-len(rows) // _PART))
        return in_threads(one, parts, min(self.threads, len(parts)))

    def _in_rows(self, array: np.ndarray) -> np.ndarray:
        """Return an array of the library's numbers, those of each window one after another."""
        array = np.asarray(array, self.dtype)
        return array if array[0].flags.c_contiguous else np.ascontiguousarray(array)


class _Problem(ctypes.Structure):
    """Structure of the C++ code, which does not own the arrays."""

    _fields_ = (
        ("windows", ctypes.c_void_p),
        ("targets", ctypes.c_void_p),
        ("weights", ctypes.c_void_p),
        ("constants", ctypes.c_void_p),
        ("rows", ctypes.c_void_p),
        ("count", ctypes.c_long),
        ("calls", ctypes.c_long),
        ("window_stride", ctypes.c_long),
        ("target_stride", ctypes.c_long),
    )
