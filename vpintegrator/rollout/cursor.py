"""Cursors of trajectories, which advance part by part and can be saved and restored."""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np


class Cursor(ABC):
    """An ensemble of trajectories that a method moves forward in time.

    The states do not depend on how many are asked for at a time, and a cursor made from a snapshot
    goes on as the one it was taken from would have, to the last bit.
    """

    @abstractmethod
    def advance(self, count: int) -> np.ndarray:
        """Return the next ``count`` states, (trajectory, count, dim); NaN after a divergence."""

    @abstractmethod
    def snapshot(self) -> dict[str, np.ndarray]:
        """Return all data needed to continue, as arrays of numbers."""
