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
    step: Callable[[torch.Tensor, torch.Tensor], torch.Tensor],
    windows: torch.Tensor,
    domain: Bounds,
    most: float = np.inf,
    steps: int = 1_000,
) -> np.ndarray:
    """Return the numbers of orbits (map,) that leave a range while several maps are iterated.

    Parameters
    ----------
    step
        Maps of windows (map, orbit, window, dim) to the next ones, for some of the maps, whose
        numbers it gets.
    windows
        First windows, (map, orbit, window, dim).
    domain
        The range; orbits that are not finite have left it.
    most
        Number of lost orbits from which on a map is iterated no more.
    steps
        Calls of the maps.

    Examples
    --------
    >>> from vpintegrator.training.stability import Bounds, lost_orbits
    >>> windows = torch.tensor([[[1.0]], [[1e-3]]])
    >>> factors = torch.tensor([1.0, 2.0])[:, None, None, None]
    >>> maps = lambda z, kept: factors[kept] * z
    >>> lost_orbits(maps, windows.expand(2, 2, 1, 1), Bounds.twice(windows), steps=5)
    array([0, 1])
    """
    inside = torch.ones(windows.shape[:2], dtype=torch.bool)  # (map, orbit)
    kept = torch.arange(len(windows))
    for _ in range(steps):
        check_time()
        windows = step(windows, kept)
        inside[kept] &= domain.holds(windows).all(-1)
        windows = torch.where(inside[kept, :, None, None], windows, 0.0)  # lost ones do not return
        count = (~inside[kept]).sum(1)
        goes_on = (count < most) & (count < inside.shape[1])
        kept = kept[goes_on]
        windows = windows[goes_on]
        if not len(kept):
            break
    return (~inside).sum(1).numpy()


def half_of_digits(error: float) -> float:
    """Return the relative error that keeps half of the digits of another.

    Examples
    --------
    >>> from vpintegrator.training.stability import half_of_digits
    >>> half_of_digits(1e-8)
    0.0001
    """
    return float(np.sqrt(min(max(error, 1e-16), 1.0)))
