"""The residuals of a model on a GPU and their derivatives, compiled: what training computes."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from vpintegrator.compiled.calling import REALS
from vpintegrator.compiled.gpu import kernels
from vpintegrator.compiled.gpu.kernels import BLOCK
from vpintegrator.compiled.gpu.source import write_residual
from vpintegrator.compiled.tracing import trace, trained_numbers
from vpintegrator.compiled.verification import verify_residual
from vpintegrator.native import NotCompilable
from vpintegrator.native.cuda_driver import CudaError

if TYPE_CHECKING:
    from vpintegrator.models import Integrator

_THREADS = 1 << 16  # threads of sums: about as many as large GPUs run at once
_SUMMED_BYTES = 1 << 28  # bytes of sums of derivatives
_JACOBIAN_BYTES = 1 << 29  # bytes of a block of J
_WANTED = 1 << 14  # threads of a block of J: rows are divided among more where there are few pairs


class GpuResidual:
    """Sums of squares, gradients and Jacobians of r = weights * (predicted - true states).

    What :class:`vpintegrator.compiled.CompiledResidual` is on the CPU. Tensors on the device give
    tensors, without waiting for the GPU; arrays give arrays.

    Parameters
    ----------
    model
        Model on a GPU, in float32 or float64.
    weights
        (dim,), of the components of a state.
    chained
        Whether predictions are also made from predictions.
    worth
        Says whether compiling is worth some seconds, or whether to use what is in the cache.

    Attributes
    ----------
    source
        The CUDA, with the numbers of operations.

    Raises
    ------
    NotCompilable
        If there is no NVRTC, the model uses operations that are not known, it is too large,
        compiling it is not worth the time, or what was made does not do what PyTorch does.

    Examples
    --------
    >>> if torch.cuda.is_available():
    ...     model = vp.models.ResidualNetwork(dim=2, depth=1).cuda()
    ...     machine = vp.compiled.compile_residual(model, np.ones(2))
    """

    def __init__(
        self,
        model: Integrator,
        weights: np.ndarray,
        *,
        chained: bool = False,
        worth: Callable[[float, bool], bool] = lambda seconds, cached: True,
    ) -> None:
        self.chained, self.device = chained, model.scale.device
        on_cpu = copy.deepcopy(model).cpu()
        traced = trace(on_cpu)
        values, trained = traced.values(on_cpu), trained_numbers(on_cpu)
        sizes = (model.window, model.prediction_window, model.dim)
        real = REALS[values.dtype]
        self.source = write_residual(traced, sizes, real, trained.tolist(), chained)
        self.dtype = values.dtype.type
        self.weights = weights.astype(self.dtype)
        self._values = torch.from_numpy(values).to(self.device)
        self._trained = torch.from_numpy(trained).to(self.device)
        self._order = torch.tensor(self.source.order, dtype=torch.int64).to(self.device)
        self._constants = self._values.new_zeros(max(self.source.constants, 1))
        tiled = np.tile(self.weights, model.prediction_window)
        self._weights = torch.from_numpy(tiled).to(self.device)
        self._kernels = kernels.kernels_for(self.device, self.source, worth)
        self._kernels.load()
        try:
            verify_residual(self, on_cpu)
        except CudaError as error:
            raise NotCompilable(str(error)) from error

    def sums(self, vector: Any, windows: Any, targets: Any) -> Any:
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
        (2,), in float64
        """
        if isinstance(vector, np.ndarray):
            return self.sums(*self._tensors(vector, windows, targets)).cpu().numpy()
        self._set(vector)
        given = self._given(windows, targets)
        return self._squares(given, min(_THREADS, given.count))[0]

    def gradient(self, vector: Any, windows: Any, targets: Any) -> tuple[Any, Any]:
        """Return the same sums of squares, and J^T r: half the gradient of the first sum."""
        if isinstance(vector, np.ndarray):
            found = self.gradient(*self._tensors(vector, windows, targets))
            return found[0].cpu().numpy(), found[1].cpu().numpy()
        self._set(vector)
        given, count = self._given(windows, targets), len(self._trained)
        warp = self._kernels.warp
        most = max(_SUMMED_BYTES // (8 * max(count, 1)) * warp, BLOCK)
        threads = _whole_blocks(min(_THREADS, most, given.count))
        squares = self._constants.new_zeros(2, threads, dtype=torch.float64)
        totals = squares.new_zeros(threads // warp, count)
        path = given.path(threads)
        arrays = (*given.arrays, self._constants, path, squares, totals)
        self._kernels.launch("gradient", threads, *arrays, given.count, given.calls)
        gradient = torch.empty_like(totals[0] if threads else squares.new_empty(count))
        gradient[self._order] = totals.sum(0)
        return squares.sum(1), gradient.to(self._constants.dtype)

    def normal_equations(
        self, vector: Any, windows: Any, targets: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Return J^T J (parameter, parameter) and J^T r, as tensors."""
        vector, windows, targets = self._tensors(vector, windows, targets)
        matrix = vector.new_zeros(len(vector), len(vector))
        gradient = vector.new_zeros(len(vector))
        for jacobian, residual in self.jacobians(vector, windows, targets):
            matrix.addmm_(jacobian.mT, jacobian)
            gradient.addmv_(jacobian.mT, residual)
        return matrix, gradient

    def jacobian(self, vector: Any, windows: Any, targets: Any) -> tuple[Any, Any]:
        """J^T (parameter, component of targets, pair) and r (the same without the first axis)."""
        if isinstance(vector, np.ndarray):
            found = self.jacobian(*self._tensors(vector, windows, targets))
            return found[0].cpu().numpy(), found[1].cpu().numpy()
        self._set(vector)
        return self._block(self._given(windows, targets), slice(0, math.prod(targets.shape[1:])))

    def jacobians(
        self, vector: Any, windows: Any, targets: Any
    ) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        """J (row, parameter) and r (row,), block by block: rows are components of some windows."""
        vector, windows, targets = self._tensors(vector, windows, targets)
        self._set(vector)
        rows, count = math.prod(targets.shape[1:]), len(self._trained)
        size = max(count, 1) * self._constants.element_size()
        share = max(_JACOBIAN_BYTES // size, 1)
        together, most = min(rows, share), max(share // max(rows, 1), 1)
        for first in range(0, len(windows), most):
            given = self._given(windows[first : first + most], targets[first : first + most])
            for start in range(0, rows, max(together, 1)):
                part = slice(start, min(start + together, rows))
                jacobian, residual = self._block(given, part)
                yield jacobian.reshape(count, -1).mT, residual.reshape(-1)

    def _block(self, given: Given, rows: slice) -> tuple[torch.Tensor, torch.Tensor]:
        """Return J^T (parameter, row, pair) and r (row, pair) of some rows."""
        number, count = rows.stop - rows.start, given.count
        residuals = self._constants.new_empty(number, count)
        jacobian = self._constants.new_empty(len(self._trained), number, count)
        path = given.path(0)
        if given.calls > 1:  # predictions that others are made from
            path = self._squares(given, count)[1]
        columns = path.shape[1] if given.calls > 1 else _whole_blocks(count)
        parts = min(max(_WANTED // max(columns, 1), 1), number)
        share = -(-number // max(parts, 1))
        numbers = (count, given.calls, columns, rows.start, rows.stop, share)
        arrays = (*given.arrays, self._constants, path, residuals, jacobian)
        threads = columns * -(-number // max(share, 1)) if count else 0
        self._kernels.launch("jacobian", threads, *arrays, *numbers)
        return jacobian, residuals

    def _squares(self, given: Given, threads: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the sums of squares, and the chained predictions of the threads."""
        threads = _whole_blocks(threads)
        squares = self._constants.new_zeros(2, threads, dtype=torch.float64)
        path = given.path(threads)
        arrays = (*given.arrays, self._constants, path, squares)
        self._kernels.launch("sums", threads, *arrays, given.count, given.calls)
        return squares.sum(1), path

    def _set(self, vector: torch.Tensor) -> None:
        """Take other parameters."""
        self._values[self._trained] = vector.detach()
        self._kernels.compute_constants(self._values, self._constants)

    def _given(self, windows: torch.Tensor, targets: torch.Tensor) -> Given:
        dtype = self._constants.dtype
        arrays = [x.detach().to(dtype).flatten(1).mT.contiguous() for x in (windows, targets)]
        return Given(arrays[0], arrays[1], self._weights)

    def _tensors(self, *arrays: Any) -> tuple[torch.Tensor, ...]:
        """Return arrays as tensors on the device; tensors as they are."""
        return tuple(
            torch.from_numpy(np.asarray(array, self.dtype)).to(self.device)
            if isinstance(array, np.ndarray)
            else array
            for array in arrays
        )


class Given:
    """Windows (window * dim, pair) and targets (calls * outputs, pair), and weights (outputs,)."""

    def __init__(self, windows: torch.Tensor, targets: torch.Tensor, weights: torch.Tensor) -> None:
        self.arrays = (windows, targets, weights)
        self.count = windows.shape[1]
        self.calls = len(targets) // len(weights)

    def path(self, threads: int) -> torch.Tensor:
        """Return workspace for chained predictions of threads, (component, thread)."""
        targets = self.arrays[1]
        return targets.new_empty(len(targets) if self.calls > 1 else 0, threads)


def _whole_blocks(threads: int) -> int:
    return -(-threads // BLOCK) * BLOCK
