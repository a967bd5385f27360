"""Cursors of trajectories, which advance part by part and can be saved and restored."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

import numpy as np


class Cursor(ABC):
    """An ensemble of trajectories that a method moves forward in time.

    The states do not depend on how many are asked for at a time. A cursor made from a snapshot goes
    on as the one it was taken from would have, to the last bit.

    Attributes
    ----------
    remembered
        Names of the attributes, without the underscore, that a snapshot holds.
    """

    remembered: ClassVar[tuple[str, ...]] = ()

    @abstractmethod
    def advance(self, count: int) -> np.ndarray:
        """Return the next ``count`` states, (trajectory, count, dim); NaN after a divergence."""

    def snapshot(self) -> dict[str, np.ndarray]:
        """Return copies of all data needed to continue, as arrays of numbers."""
        return {name: np.array(getattr(self, f"_{name}")) for name in self.remembered}
