"""Maps as machine code: maps like any other, whose trajectories a library computes."""

from __future__ import annotations

import numpy as np

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
