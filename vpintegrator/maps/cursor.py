"""Cursors of trajectories, which advance part by part."""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np


class Cursor(ABC):
    """Trajectories that a method moves forward in time.

    The states do not depend on how many are asked for at a time.
    """

    @abstractmethod
    def advance(self, count: int) -> np.ndarray:
        """Return the next ``count`` states, (trajectory, count, dim); NaN after a divergence."""
