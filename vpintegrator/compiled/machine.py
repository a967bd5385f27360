"""Maps as machine code: maps like any other, whose trajectories a library computes."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from typing import Any

import numpy as np

from vpintegrator.errors import InputError
from vpintegrator.maps import Map
from vpintegrator.maps.map import optional

_SAME = (
    *("name", "title", "description", "kind", "order", "dim", "window", "prediction_window"),
    *("remark", "differentiable", "system", "structure", "domain"),
)


class Machine(Map):
    """A map as machine code; single steps and derivatives are those of the original.

    Parameters
    ----------
    original
        The map.
    """

    def __init__(self, original: Map) -> None:
        self.original = original
        for name in _SAME:
            setattr(self, name, getattr(original, name))

    @property
    def step(self) -> float:
        """Time step of the original."""
        return float(self.original.step)

    def map(self, windows: np.ndarray, parameters: Any = None) -> np.ndarray:
        return self.original.map(windows, *optional(parameters))

    def derivative(self, windows: np.ndarray, parameters: Any = None) -> np.ndarray:
        return self.original.derivative(windows, *optional(parameters))

    def tangent(
        self, windows: np.ndarray, vectors: np.ndarray, parameters: Any = None
    ) -> np.ndarray:
        return self.original.tangent(windows, vectors, *optional(parameters))

    def advance(
        self, windows: np.ndarray, steps: int, *, chunk: int = 1000, parameters: Any = None
    ) -> Iterator[np.ndarray]:
        """Yield the next states; with ``parameters`` those of the original."""
        if parameters is None:
            return self._advance(windows, steps, chunk)
        return self.original.advance(windows, steps, chunk=chunk, parameters=parameters)

    @abstractmethod
    def _advance(self, windows: np.ndarray, steps: int, chunk: int) -> Iterator[np.ndarray]:
        """Yield the next states by the library, see :meth:`vpintegrator.maps.Map.advance`."""


def wanted_on(device: str, compiled: bool | None) -> bool | None:
    """Return whether machine code is wanted on a device: True, False, or None where it pays.

    Parameters
    ----------
    device
        Type of the device of a model, such as ``cpu`` or ``cuda``.
    compiled
        True, False or None, as users give it.

    Raises
    ------
    InputError
        If another value is given, or True for another device than the CPU.
    """
    if compiled not in (True, False, None):
        raise InputError(f"compiled must be True, False or None, not {compiled!r}")
    if device == "cpu":
        return compiled
    if compiled:
        raise InputError(f"on {device} models run in PyTorch; machine code is for the CPU")
    return False
