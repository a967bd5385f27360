"""A model compiled: windows in, states out."""

from __future__ import annotations

import ctypes
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from vpintegrator.compiled.regrouping import regrouped
from vpintegrator.compiled.source import write_source
from vpintegrator.compiled.tracing import trace
from vpintegrator.compiled.verification import verify_model
from vpintegrator.native import Compilation

if TYPE_CHECKING:
    from vpintegrator.models import Integrator

_THREAD = 100_000  # numbers predicted from which on another thread pays
_PARTS = 4  # for each thread, so that none waits long for one whose core is busy with else
_REALS = {torch.float64: "double", torch.float32: "float"}


class CompiledModel:
    """The map of a model with the weights that it has now, equal to it up to rounding.

    Parameters
    ----------
    model
        On the CPU, in float32 or float64.
    narrow
        For one trajectory at a time; else for many.
    windows
        Some that it will start from, (trajectory, window, dim), if they are known.

    Attributes
    ----------
    source
        The C++, with the numbers of operations.

    Raises
    ------
    NotCompilable
        If there is no C++ compiler, the model uses operations that are not known, or what was made
        of it does not do what PyTorch does.
    """

    def __init__(self, model: Integrator, narrow: bool = False, windows: Any = None) -> None:
        traced = regrouped(trace(model, frozen=True))
        like = model.scale
        self.dtype = np.float64 if like.dtype == torch.float64 else np.float32
        self.window, self.dim = model.window, model.dim
        self.prediction_window = model.prediction_window
        sizes = (self.window, self.prediction_window, self.dim)
        self.source = source = write_source(traced, sizes, _REALS[like.dtype], narrow)
        self._library = Compilation(source.units).library()
        values = traced.values(model)
        self._constants = np.zeros(max(source.constants, 1), dtype=self.dtype)
        self._library.constants(_pointer(values), _pointer(self._constants))
        verify_model(self, model, windows)

    @property
    def lanes(self) -> int:
        """How many trajectories are stepped at once."""
        return int(self._library.lanes())

    def advance(self, windows: np.ndarray, calls: int) -> tuple[np.ndarray, np.ndarray]:
        """Iterate the model, trajectories shared among as many threads as torch uses.

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
        threads = min(torch.get_num_threads(), states.size // _THREAD)
        blocks = -(-len(windows) // self.lanes)
        parts = min(_PARTS * threads, blocks)
        if threads < 2 or parts < 2:
            self._run(windows, states, calls)
            return states, windows
        edges = [k * blocks // parts * self.lanes for k in range(1, parts)]
        with ThreadPoolExecutor(threads) as pool:
            slices = zip(np.split(windows, edges), np.split(states, edges), strict=True)
            for done in [pool.submit(self._run, *arrays, calls) for arrays in slices]:
                done.result()
        return states, windows

    def _run(self, windows: np.ndarray, states: np.ndarray, calls: int) -> None:
        """Iterate trajectories that lie next to one another; Python goes on meanwhile."""
        self._library.run(
            _pointer(windows),
            _pointer(states),
            _pointer(self._constants),
            ctypes.c_long(len(windows)),
            ctypes.c_long(calls),
        )


def compile_model(model: Integrator, trajectories: int = 0, windows: Any = None) -> CompiledModel:
    """Compile a model for a number of trajectories (0: many), and some windows if there are any."""
    return CompiledModel(model, trajectories == 1, windows)


def _pointer(array: np.ndarray) -> ctypes.c_void_p:
    return array.ctypes.data_as(ctypes.c_void_p)
