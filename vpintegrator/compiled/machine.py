"""Maps as machine code: maps like any other, whose trajectories a library computes."""

from __future__ import annotations

import numpy as np

from vpintegrator.errors import InputError
from vpintegrator.maps import Map

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

    def map(self, windows: np.ndarray) -> np.ndarray:
        return self.original.map(windows)

    def derivative(self, windows: np.ndarray) -> np.ndarray:
        return self.original.derivative(windows)

    def tangent(self, windows: np.ndarray, vectors: np.ndarray) -> np.ndarray:
        return self.original.tangent(windows, vectors)


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
