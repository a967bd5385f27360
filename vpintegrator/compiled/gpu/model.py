"""A model compiled for a GPU: windows in, states out."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from vpintegrator.compiled.calling import REALS
from vpintegrator.compiled.gpu import kernels
from vpintegrator.compiled.gpu.source import write_rollout
from vpintegrator.compiled.powers import simplest
from vpintegrator.compiled.verification import verify_model
from vpintegrator.errors import InputError
from vpintegrator.native import NotCompilable
from vpintegrator.native.cuda_driver import CudaError

if TYPE_CHECKING:
    from vpintegrator.models import Integrator


class GpuModel:
    """The map of a model on a GPU with the weights that it has now, equal to it up to rounding.

    Parameters
    ----------
    model
        Model on a GPU, in float32 or float64.
    windows
        Some that it will start from, (trajectory, window, dim), if they are known.

    Attributes
    ----------
    source
        The CUDA, with the numbers of operations.
    device, dtype
        Device of the model, and type of its arrays.
    marks_divergence
        Whether a state that is not finite, and all after it or after such a window, are NaN.

    Raises
    ------
    NotCompilable
        If there is no NVRTC, the model uses operations that are not known, or what was made of it
        does not do what PyTorch does.

    Examples
    --------
    >>> machine = None
    >>> if torch.cuda.is_available():
    ...     model = vp.models.ResidualNetwork(dim=2, depth=1).cuda()
    ...     machine = vp.compiled.compile_model(model)
    """

    marks_divergence = True

    def __init__(self, model: Integrator, windows: Any = None) -> None:
        self.window, self.dim = model.window, model.dim
        self.prediction_window = model.prediction_window
        self.device = model.scale.device
        on_cpu = copy.deepcopy(model).cpu()
        traced, values = simplest(on_cpu)
        sizes = (self.window, self.prediction_window, self.dim)
        self.source = write_rollout(traced, sizes, REALS[values.dtype])
        self.dtype = values.dtype.type
        self._kernels = kernels.kernels_for(self.device, self.source)
        self._kernels.load()
        weights = torch.from_numpy(values).to(self.device)
        self._constants = weights.new_zeros(max(self.source.constants, 1))
        own = None if windows is None else torch.as_tensor(windows[:16]).detach().cpu().numpy()
        try:
            self._kernels.compute_constants(weights, self._constants)
            verify_model(self, on_cpu, own)
        except CudaError as error:
            raise NotCompilable(str(error)) from error

    def advance(self, windows: Any, calls: int) -> tuple[Any, Any]:
        """Iterate the model.

        Parameters
        ----------
        windows
            (trajectory, window, dim), an array, or a tensor on the device.
        calls
            Number of calls of the model.

        Returns
        -------
        states
            All that was predicted, (trajectory, calls * prediction_window, dim), an array for an
            array and else a tensor, whose trajectories are side by side in memory: no other memory
            is needed.
        windows
            The last windows.

        Raises
        ------
        InputError
            If the GPU has no memory for the states.
        """
        if isinstance(windows, np.ndarray):
            given = torch.from_numpy(np.asarray(windows, self.dtype)).to(self.device)
            states, last = self.advance(given, calls)
            return states.cpu().numpy(), last.cpu().numpy()
        count, size = len(windows), self.prediction_window * self.dim
        flat = windows.to(self._constants.dtype).reshape(count, self.window * self.dim).mT
        try:
            # a copy in any case, which is written to
            last = flat.clone(memory_format=torch.contiguous_format)
            states = last.new_empty(calls * size, count)
            self._kernels.launch("rollout", count, last, states, self._constants, count, calls)
        except torch.OutOfMemoryError:
            gigabytes = calls * size * count * self._constants.element_size() / 1e9
            raise InputError(
                f"the GPU has no memory for {count:,} trajectories of {calls:,} predictions "
                f"({gigabytes:.1f} GB): take fewer at once"
            ) from None
        shape = (count, calls * self.prediction_window, self.dim)
        return states.mT.reshape(shape), last.mT.reshape(count, self.window, self.dim)
