"""A model compiled: windows in, states out."""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING

import numpy as np
import torch

from vpintegrator.compiled.compiler import load_library
from vpintegrator.compiled.source import write_source
from vpintegrator.compiled.tracing import trace

if TYPE_CHECKING:
    from vpintegrator.models import Integrator

_REALS = {torch.float64: "double", torch.float32: "float"}


class CompiledModel:
    """The map of a model with the weights that it has now, equal to it up to rounding.

    Parameters
    ----------
    model
        On the CPU, in float32 or float64.
    narrow
        For one trajectory at a time; else for many.

    Raises
    ------
    NotCompilable
        If there is no C++ compiler, or the model uses operations that are not known.
    """

    def __init__(self, model: Integrator, narrow: bool = False) -> None:
        traced = trace(model)
        like = next(iter([*model.parameters(), *model.buffers()]))
        self.dtype = np.float64 if like.dtype == torch.float64 else np.float32
        self.window, self.dim = model.window, model.dim
        self.prediction_window = model.prediction_window
        sizes = (self.window, self.prediction_window, self.dim)
        source = write_source(traced, sizes, _REALS[like.dtype], narrow)
        self._library = load_library(source.text)
        weights = [p.detach().reshape(-1).numpy() for p in model.parameters()]
        values = np.concatenate([np.empty(0), *weights]).astype(self.dtype)
        self._constants = np.zeros(max(source.constants, 1), dtype=self.dtype)
        self._library.constants(_pointer(values), _pointer(self._constants))

    @property
    def lanes(self) -> int:
        """How many trajectories are stepped at once."""
        return int(self._library.lanes())

    def advance(self, windows: np.ndarray, calls: int) -> tuple[np.ndarray, np.ndarray]:
        """Iterate the model.

        Parameters
        ----------
        windows
            (trajectory, window, dim).
        calls
            How often.

        Returns
        -------
        states
            All that was predicted, (trajectory, calls * prediction_window, dim).
        windows
            The last windows.
        """
        windows = np.array(windows, dtype=self.dtype, order="C")
        states = np.empty(
            (len(windows), calls * self.prediction_window, self.dim), dtype=self.dtype
        )
        self._library.run(
            _pointer(windows),
            _pointer(states),
            _pointer(self._constants),
            ctypes.c_long(len(windows)),
            ctypes.c_long(calls),
        )
        return states, windows


def compile_model(model: Integrator, trajectories: int = 0) -> CompiledModel:
    """Compile a model for a number of trajectories (0: many)."""
    return CompiledModel(model, narrow=trajectories == 1)


def _pointer(array: np.ndarray) -> ctypes.c_void_p:
    return array.ctypes.data_as(ctypes.c_void_p)
