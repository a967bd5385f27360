"""The residuals of a model and their derivatives, compiled: what training computes."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from vpintegrator.compiled.adjoint_source import AdjointSource, write_adjoint_source
from vpintegrator.compiled.bodies import LoopsSource, loops_of
from vpintegrator.compiled.calling import REALS, in_threads, parts_of, pointer
from vpintegrator.compiled.tracing import trace
from vpintegrator.compiled.verification import verify_residual
from vpintegrator.native import Compilation, NotCompilable

if TYPE_CHECKING:
    from vpintegrator.models import Integrator

T = TypeVar("T")
_JACOBIAN_BYTES = 1 << 23  # of a block of it


class CompiledResidual:
    """Sums of squares, gradients and normal equations of r = weights * (predicted - true states).

    Parameters
    ----------
    model
        On the CPU, in float32 or float64.
    weights
        (dim,), of the components of a state.
    chained
        Whether predictions are also made from predictions.
    threads
        Among which windows are divided; results depend on it to rounding.
    worth
        Says whether compiling is worth some seconds, or whether to use a library in the cache.
    wait
        Whether to wait for the compiler. If not, nothing can be computed until it is ``ready``.

    Attributes
    ----------
    source
        The C++, with the numbers of operations.
    failure
        Why it will never be ready, if the compiler failed while it was not waited for, or what it
        made does not do what PyTorch does.

    Raises
    ------
    NotCompilable
        If there is no C++ compiler, the model uses operations that are not known, it is too
        large, compiling it is not worth the time, or what was made does not do what PyTorch does.

    Examples
    --------
    >>> model = vp.models.ResidualNetwork(dim=2, depth=1)
    >>> vp.compiled.CompiledResidual(model, np.ones(2)).ready
    True
    """

    def __init__(
        self,
        model: Integrator,
        weights: np.ndarray,
        *,
        chained: bool = False,
        threads: int = 1,
        worth: Callable[[float, bool], bool] = lambda seconds, cached: True,
        wait: bool = True,
    ) -> None:
        self.chained, self.threads = chained, threads
        loops = loops_of(model, derivatives=True)
        self.source: AdjointSource | LoopsSource
        if loops is not None:
            self.source = loops
            self._values, self._trained = loops.values, loops.trained
        else:
            traced = trace(model)
            self._values, self._trained = traced.values(model), _trained(model)
            sizes = (model.window, model.prediction_window, model.dim)
            self.source = write_adjoint_source(
                traced, sizes, REALS[self._values.dtype], self._trained.tolist(), chained
            )
        self.dtype = self._values.dtype.type
        self._constants = np.zeros(max(self.source.constants, 1), self.dtype)
        self.weights = weights.astype(self.dtype)
        self._weights = np.tile(self.weights, model.prediction_window)
        self._outputs = len(self._weights)
        self._compilation: Compilation | None = Compilation(self.source.units, worth)
        self.failure: NotCompilable | None = None
        self._model, self._loaded = model, False
        if wait or self._compilation.done:
            self._load(self._compilation)

    @property
    def ready(self) -> bool:
        """Whether the compiler has done its work."""
        if self._compilation is not None and self._compilation.done:
            try:
                self._load(self._compilation)
            except NotCompilable as reason:
                self.failure = reason
        return self._loaded

    def stop(self) -> None:
        """End a compiler that is at work still."""
        if self._compilation is not None:
            self._compilation.stop()
            self._compilation = None

    def _load(self, compilation: Compilation) -> None:
        self._compilation = None
        self._library = compilation.library()
        self._lanes, self._tables = int(self._library.lanes()), None
        if isinstance(self.source, LoopsSource):
            self._tables = self.source.tables(self._lanes)
        self._address = self._tables and self._tables.address
        verify_residual(self, self._model)
        self._loaded = True

    def sums(self, vector: np.ndarray, windows: np.ndarray, targets: np.ndarray) -> np.ndarray:
        """The sums of squares of r and of predicted - true states.

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
        self._set(vector)

        def work(problem: _Problem, part: slice) -> np.ndarray:
            squares = np.zeros(2)
            self._library.sums(ctypes.byref(problem), pointer(squares))
            return squares

        return sum(self._divided(work, windows, targets), np.zeros(2))

    def gradient(
        self, vector: np.ndarray, windows: np.ndarray, targets: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """The same sums of squares, and J^T r: half the gradient of the first of them."""
        self._set(vector)

        def work(problem: _Problem, part: slice) -> tuple[np.ndarray, np.ndarray]:
            squares, total = np.zeros(2), np.zeros(len(self._trained))
            self._library.gradient(ctypes.byref(problem), pointer(squares), pointer(total))
            return squares, total

        squares, total = np.zeros(2), np.zeros(len(self._trained))
        for part in self._divided(work, windows, targets):
            squares += part[0]
            total += part[1]
        return squares, total.astype(self.dtype)

    def normal_equations(
        self, vector: np.ndarray, windows: np.ndarray, targets: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """J^T J (parameter, parameter) and J^T r."""
        matrix = np.zeros((len(self._trained), len(self._trained)), self.dtype)
        gradient = np.zeros(len(self._trained), self.dtype)
        for transposed, residuals in self.jacobians(vector, windows, targets):
            matrix += transposed @ transposed.T  # NumPy sees that half of it is enough
            gradient += transposed @ residuals
        return matrix, gradient

    def jacobian(
        self, vector: np.ndarray, windows: np.ndarray, targets: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """J^T (parameter, component of targets, pair) and r (the same without the first axis)."""
        rows = math.prod(targets.shape[1:])
        whole = np.empty((1 + len(self._trained), rows, len(windows)), self.dtype)
        for block, part, both in self._blocks(vector, windows, targets):
            count = len(windows[block])
            whole[:, part, block] = both.reshape(len(both), part.stop - part.start, -1)[..., :count]
        return whole[1:], whole[0]

    def jacobians(
        self, vector: np.ndarray, windows: np.ndarray, targets: np.ndarray
    ) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """J^T (parameter, row) and r (row), block by block of windows and of their components.

        The arrays are overwritten by the next block.
        """
        for _, _, both in self._blocks(vector, windows, targets):
            yield both[1:], both[0]

    def _blocks(
        self, vector: np.ndarray, windows: np.ndarray, targets: np.ndarray
    ) -> Iterator[tuple[slice, slice, np.ndarray]]:
        """Windows, components of their targets, and r and J^T (1 + parameter, row) of these."""
        self._set(vector)
        lanes, rows = self._lanes, math.prod(targets.shape[1:])
        height = 1 + len(self._trained)  # the residuals come first
        share = max(_JACOBIAN_BYTES // (height * np.dtype(self.dtype).itemsize) // lanes, 1)
        most, together = max(share // rows, 1) * lanes, min(rows, share)
        room = min(most, -(-len(windows) // lanes) * lanes)
        space = np.empty(height * together * room, self.dtype)
        for first in range(0, len(windows), most):
            block = slice(first, min(first + most, len(windows)))
            stride = -(-(block.stop - first) // lanes) * lanes
            for start in range(0, rows, together):
                part = slice(start, min(start + together, rows))
                width = (part.stop - start) * stride
                used = space[: height * width].reshape(height, width)
                self._fill(used, part, windows[block], targets[block])
                yield block, part, used

    def _fill(
        self, used: np.ndarray, rows: slice, windows: np.ndarray, targets: np.ndarray
    ) -> None:
        """Compute r and J^T of some components of some windows."""
        used.fill(0)
        stride = used.shape[1] // (rows.stop - rows.start)

        def work(problem: _Problem, part: slice) -> None:
            self._library.jacobian(
                ctypes.byref(problem),
                ctypes.c_long(rows.start),
                ctypes.c_long(rows.stop),
                ctypes.c_long(stride),
                pointer(used[0, part.start :]),
                pointer(used[1, part.start :]),
            )

        self._divided(work, windows, targets)

    def _set(self, vector: np.ndarray) -> None:
        """Take other parameters."""
        self._values[self._trained] = vector
        self._library.constants(pointer(self._values), pointer(self._constants), self._address)

    def _divided(
        self, work: Callable[[_Problem, slice], T], windows: np.ndarray, targets: np.ndarray
    ) -> list[T]:
        """Some work on parts of the windows at the same time."""
        windows = np.ascontiguousarray(windows, self.dtype)
        targets = np.ascontiguousarray(targets, self.dtype)
        if not len(windows):
            return []

        def one(part: slice) -> T:
            return work(self._problem(windows[part], targets[part]), part)

        parts = parts_of(len(windows), self._lanes, self.threads)
        return in_threads(one, parts, len(parts))

    def _problem(self, windows: np.ndarray, targets: np.ndarray) -> _Problem:
        arrays = (windows, targets, self._weights, self._constants)
        calls = math.prod(targets.shape[1:]) // self._outputs
        return _Problem(*(a.ctypes.data for a in arrays), len(windows), calls, self._address)


class _Problem(ctypes.Structure):
    """As in the C++. The arrays must outlive it."""

    _fields_ = (
        ("windows", ctypes.c_void_p),
        ("targets", ctypes.c_void_p),
        ("weights", ctypes.c_void_p),
        ("constants", ctypes.c_void_p),
        ("count", ctypes.c_long),
        ("calls", ctypes.c_long),
        ("tables", ctypes.c_void_p),
    )


def _trained(model: Integrator) -> np.ndarray:
    """Indices of the trained numbers among all parameters of a model."""
    found: list[int] = []
    first = 0
    for parameter in model.parameters():
        if parameter.requires_grad:
            found += range(first, first + parameter.numel())
        first += parameter.numel()
    return np.array(found, dtype=np.int64)
