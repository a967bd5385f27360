"""A model compiled: windows in, states out."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from vpintegrator.compiled.library import REALS, Compilation, NotWorthIt, pointer, shared
from vpintegrator.compiled.method import Machine
from vpintegrator.compiled.powers import operations, simplest
from vpintegrator.compiled.source import write_source
from vpintegrator.compiled.tape import Tape
from vpintegrator.compiled.verification import verify_model
from vpintegrator.models.iteration import as_windows, evaluating, trajectories
from vpintegrator.nn.implicit import once

if TYPE_CHECKING:
    from vpintegrator.compiled.tracing import Trace
    from vpintegrator.models import Model

_THREAD = 100_000  # numbers predicted from which on another thread pays
_FEW = 16  # trajectories
_SMALL = 1000  # operations of a map
_CODE = 10_000  # operations beyond which a map is a tape
_LARGEST = 1_000_000  # operations of a tape, which take half a minute to follow in PyTorch


class CompiledModel(Machine):
    """The map of a model with the weights that it has now, equal to it up to rounding.

    Parameters
    ----------
    model
        Model on the CPU, in float32 or float64.
    trajectories
        Number of trajectories, 0 for many: the code for one has vectors of functions, that for few
        only as many vectors side by side as hold them.
    windows
        Some that it will start from, (trajectory, window, dim), if they are known.
    most
        Operations of a step, beyond which it is not compiled.

    Attributes
    ----------
    source
        The C++, with the numbers of operations.
    lanes
        Number of trajectories that are stepped together.

    Raises
    ------
    NotCompilable
        If there is no C++ compiler, the model uses operations that are not known, or what was made
        of it does not do what PyTorch does; NotWorthIt if it has more than ``most`` operations.

    Examples
    --------
    >>> model = vp.models.VolumePreservingFeedForward(dim=2, depth=1)
    >>> states, last = vp.compiled.CompiledModel(model).predict(np.zeros((8, 1, 2)), calls=5)
    >>> states.shape
    (8, 5, 2)
    """

    def __init__(
        self, model: Model, trajectories: int = 0, windows: Any = None, most: int | None = None
    ) -> None:
        super().__init__(model)
        self.model = model
        with evaluating(model):
            with once(model.core) as self._repeats:  # maps that are one call
                trace, values = simplest(model, limit=_LARGEST)
            size = operations(trace)
            if most is not None and size > most:
                raise NotWorthIt(f"a step has {size} operations, more than {most}")
            self.dtype = values.dtype.type
            if size > _CODE:
                self._follow(trace.folded(values), narrow=trajectories == 1)
            else:
                # small maps wait for one operation after another; values of large ones go to memory
                two = 1 < trajectories <= _FEW or size > _SMALL
                self._compile(trace, values, 0 if trajectories == 1 else 2 if two else 4)
            self.lanes = int(self._library.lanes())
            verify_model(self, model, windows)

    def _compile(self, trace: Trace, values: np.ndarray, unroll: int) -> None:
        """Make code of the map."""
        self.source = write_source(trace, self._sizes, REALS[values.dtype], unroll)
        self._library = Compilation(self.source.units).library()
        self._data = np.zeros(max(self.source.constants, 1), dtype=self.dtype)
        self._library.constants(pointer(values), pointer(self._data))

    def _follow(self, trace: Trace, narrow: bool) -> None:
        """Make a tape of the map, and the code that follows it."""
        inputs = [trace.graph.input(i) for i in range(self.window * self.dim)]
        new = self.prediction_window * self.dim
        tape = Tape(trace.graph, trace.outputs[-new:], inputs)
        self.source = tape.source(self._sizes, REALS[np.dtype(self.dtype)], narrow)
        self._library = Compilation(self.source.units).library()
        self._tape = tape.code, tape.numbers.astype(self.dtype)
        self._data = np.array([each.ctypes.data for each in self._tape], dtype=np.uintp)

    @property
    def _sizes(self) -> tuple[int, int, int]:
        return self.window, self.prediction_window, self.dim

    def _advance(self, windows: np.ndarray, steps: int, chunk: int) -> Iterator[np.ndarray]:

        def predict(windows: torch.Tensor, calls: int) -> torch.Tensor:
            return torch.from_numpy(self.predict(windows.numpy(), calls)[0])

        first = as_windows(self.model, windows)
        for states in trajectories(self.model, first, steps, chunk, predict):
            yield states.double().numpy()

    def predict(self, windows: np.ndarray, calls: int) -> tuple[np.ndarray, np.ndarray]:
        """Call the model several times, trajectories shared among as many threads as torch uses.

        Parameters
        ----------
        windows
            (trajectory, window, dim).
        calls
            Number of calls of the model.

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

        def run(part: slice) -> None:
            self._library.run(
                pointer(windows[part]),
                pointer(states[part]),
                pointer(self._data),
                ctypes.c_long(part.stop - part.start),
                ctypes.c_long(calls),
                ctypes.c_long(self._repeats),
            )

        shared(run, len(windows), self.lanes, threads)
        return states, windows
