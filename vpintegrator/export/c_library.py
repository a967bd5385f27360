"""Exported C, compiled by the compiler of the machine and compared with PyTorch."""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING

import numpy as np
import torch

from vpintegrator.compiled.calling import pointer
from vpintegrator.compiled.verification import verify_model
from vpintegrator.native import Compilation, NotCompilable
from vpintegrator.runtime.threads import torch_threads

if TYPE_CHECKING:
    from vpintegrator.export.c_source import CSource
    from vpintegrator.models import Model

_WINDOWS = 3  # at which derivatives are compared


class CLibrary:
    """The functions of an exported file.

    Parameters
    ----------
    source
        The file.
    model
        Model that was exported.

    Attributes
    ----------
    together
        Whether trajectories are stepped by the function for many of them.

    Raises
    ------
    NotCompilable
        If there is no compiler, or it fails.
    """

    def __init__(self, source: CSource, model: Model) -> None:
        self.window, self.dim = model.window, model.dim
        self.prediction_window = model.prediction_window
        self.dtype = model.scale.numpy().dtype.type
        self._library, self._prefix = Compilation([source.text]).library(), source.prefix
        self.together = False

    def predict(self, windows: np.ndarray, calls: int) -> tuple[np.ndarray, np.ndarray]:
        """Iterate the map, as ``CompiledModel.predict`` does."""
        windows = np.array(windows, dtype=self.dtype, order="C")
        shape = len(windows), calls * self.prediction_window, self.dim
        states = np.empty(shape, dtype=self.dtype)
        if self.together:
            many = getattr(self._library, f"{self._prefix}_rollout_many")
            counts = ctypes.c_long(len(windows)), ctypes.c_long(calls)
            many(pointer(windows), pointer(states), *counts)
            return states, windows
        rollout = getattr(self._library, f"{self._prefix}_rollout")
        for window, predicted in zip(windows, states, strict=True):
            rollout(pointer(window), pointer(predicted), ctypes.c_long(calls))
        return states, windows

    def jacobian(self, windows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return new states of windows (trajectory, window, dim), and their derivatives."""
        windows = np.array(windows, dtype=self.dtype, order="C")
        shape = self.prediction_window, self.dim, self.window, self.dim
        states = np.empty((len(windows), *shape[:2]), dtype=self.dtype)
        derivatives = np.empty((len(windows), *shape), dtype=self.dtype)
        function = getattr(self._library, f"{self._prefix}_step_jacobian")
        for each in zip(windows, states, derivatives, strict=True):
            function(*map(pointer, each))
        return states, derivatives


def verify(library: CLibrary, model: Model, jacobian: bool, many: bool) -> None:
    """Compare an exported file with PyTorch at random windows.

    Raises
    ------
    NotCompilable
        If they differ by more than rounding.
    """
    for together in {False, many}:
        library.together = together
        verify_model(library, model)
    if not jacobian:
        return
    generator = np.random.default_rng(2)
    shape = _WINDOWS, model.window, model.dim
    states = torch.from_numpy(generator.normal(size=shape)).to(model.scale)
    windows = model.coordinates.inverse(0.5 * states).detach()
    with torch_threads(1), torch.no_grad():
        expected = torch.func.vmap(torch.func.jacrev(model.predict))(windows).numpy()
    found = library.jacobian(windows.numpy())[1]
    size = np.abs(expected).max(initial=0.0)
    error = np.abs(found - expected).max(initial=0.0)
    if not error <= np.sqrt(np.finfo(library.dtype).eps) * max(size, 1.0):
        raise NotCompilable(f"its derivatives differ from PyTorch's by {error:.1e}")
