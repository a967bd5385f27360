"""Orbits of windows that leave a range while a map is iterated."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import torch

from vpintegrator.runtime.interrupts import check_time


class Bounds(NamedTuple):
    """Least and largest values (dim,) of components; infinite where there is no limit."""

    low: torch.Tensor
    high: torch.Tensor

    @classmethod
    def twice(cls, states: torch.Tensor, angles: Sequence[int] = ()) -> Bounds:
        """Return twice the range of states (..., dim); angles have no limit."""
        flat = states.flatten(0, -2)
        flat = flat[flat.isfinite().all(1)]
        low = flat.amin(0)
        high = flat.amax(0)
        room = (high - low) / 2
        room[list(angles)] = torch.inf
        return cls(low - room, high + room)

    def holds(self, states: torch.Tensor) -> torch.Tensor:
        """Whether states (..., dim) are finite and inside, (...)."""
        return ((states >= self.low) & (states <= self.high)).all(-1)


@torch.no_grad()
def lost_orbits(
    step: Callable[[torch.Tensor], torch.Tensor],
    windows: torch.Tensor,
    domain: Bounds,
    most: float = np.inf,
    steps: int = 1_000,
) -> int:
    """Return the number of orbits that are not finite, or leave a range, while a map is iterated.

    Parameters
    ----------
    step
        Map of windows (orbit, window, dim) to the next ones.
    windows
        First windows, (orbit, window, dim).
    domain
        The range.
    most
        Number of lost orbits from which on the iteration ends.
    steps
        Calls of the map.

    Examples
    --------
    >>> from vpintegrator.training.stability import Bounds, lost_orbits
    >>> windows = torch.tensor([[[1.0]], [[1e-3]]])
    >>> lost_orbits(lambda z: 2 * z, windows, Bounds.twice(windows), steps=5)
    1
    """
    count = len(windows)
    for _ in range(steps):
        check_time()
        windows = step(windows)
        windows = windows[domain.holds(windows).all(-1)]
        if not len(windows) or count - len(windows) >= most:
            break
    return count - len(windows)


def half_of_digits(error: float) -> float:
    """Return the relative error that keeps half of the digits of another.

    Examples
    --------
    >>> from vpintegrator.training.stability import half_of_digits
    >>> half_of_digits(1e-8)
    0.0001
    """
    return float(np.sqrt(min(max(error, 1e-16), 1.0)))
