"""Data of a baseline, and the base class of baselines."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import ClassVar

import numpy as np
import torch

from vpintegrator.nn.canonical import canonical_form, canonical_scale
from vpintegrator.nn.implicit import jacobians, newton

Step = Callable[[np.ndarray], np.ndarray]
_BLOCK = 256  # states of which Jacobians are computed at once


@dataclass(frozen=True)
class BaselineData:
    """Trajectories that a baseline is fitted to.

    Attributes
    ----------
    states : (trajectory, time, dim)
        States at equal steps; not a number where a state was not observed.
    step
        Time between two states.
    periods
        Period of each component that is an angle, by its number.
    is_canonical
        Whether states are positions and momenta (q, p).
    is_discrete
        Whether the states are iterates of a map.

    Examples
    --------
    >>> data = vp.baselines.BaselineData(np.zeros((3, 5, 2)), step=0.1)
    >>> data.before.shape
    (12, 2)
    """

    states: np.ndarray
    step: float
    periods: Mapping[int, float] = field(default_factory=dict)
    is_canonical: bool = False
    is_discrete: bool = False

    @cached_property
    def _pairs(self) -> tuple[np.ndarray, np.ndarray]:
        dim = self.states.shape[-1]
        before, after = (
            part.reshape(-1, dim) for part in (self.states[:, :-1], self.states[:, 1:])
        )
        seen = np.isfinite(before).all(1) & np.isfinite(after).all(1)
        before, after = before[seen], after[seen]
        return before, before + self.difference(after, before)

    @property
    def before(self) -> np.ndarray:
        """States that have a successor (pair, dim)."""
        return self._pairs[0]

    @property
    def after(self) -> np.ndarray:
        """Successors (pair, dim), continued over the jumps of angles."""
        return self._pairs[1]

    def difference(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        """Return a - b (..., dim), of angles the shortest one."""
        found = a - b
        for k, period in self.periods.items():
            found[..., k] -= period * np.round(found[..., k] / period)
        return found


class Baseline(ABC):
    """A learned map of the literature.

    Attributes
    ----------
    name
        Name in tables.
    structure
        Structure that the map keeps by construction.
    """

    name: ClassVar[str]
    structure: ClassVar[str] = "none"

    def unsuited(self, data: BaselineData) -> str:
        """Return the reason why the baseline cannot be fitted to such data; empty if it can."""
        return ""

    @abstractmethod
    def fit(self, data: BaselineData, seconds: float = 60.0, seed: int = 0) -> Step:
        """Return the map of states (state, dim) to their successors.

        Parameters
        ----------
        data
            Training data.
        seconds
            Limit after which an iteration ends early.
        seed
            Seed of all random numbers.
        """


class GeneratingBaseline(Baseline):
    """Baselines with a scalar function S, stepped by z' = z + J grad S((z + z')/2)."""

    structure = "symplectic"

    def unsuited(self, data: BaselineData) -> str:
        """Return the reason why the baseline cannot be fitted to such data."""
        return "" if data.is_canonical else "states are not (q, p)"

    def fit(self, data: BaselineData, seconds: float = 60.0, seed: int = 0) -> Step:
        """Return the map, see ``Baseline.fit``."""
        shift, scale = data.before.mean(0), data.before.std(0)
        scale = canonical_scale(torch.from_numpy(np.where(scale > 0, scale, 1.0))).numpy()
        shift[list(data.periods)] = 0.0
        before, after = (
            torch.from_numpy((states - shift) / scale) for states in (data.before, data.after)
        )
        J = canonical_form(len(scale))
        periods = {k: period / scale[k] for k, period in data.periods.items()}
        pulled = (after - before) @ J  # J^-1 (z' - z), for each pair
        slope = self.gradient(
            (before + after) / 2, pulled, periods, time.perf_counter() + seconds, seed
        )

        def step(states: np.ndarray) -> np.ndarray:
            z = torch.from_numpy((states - shift) / scale)
            parts = [_stepped(part, slope, J) for part in z.split(_BLOCK)]
            return np.asarray(torch.cat(parts).numpy() * scale + shift)

        return step

    @abstractmethod
    def gradient(
        self,
        middle: torch.Tensor,
        slopes: torch.Tensor,
        periods: Mapping[int, float],
        end: float,
        seed: int,
    ) -> Callable[[torch.Tensor], torch.Tensor]:
        """Return the gradient (state, dim) of S as a function of states (state, dim).

        Parameters
        ----------
        middle : (pair, dim)
            Midpoints of pairs in units of the spread.
        slopes : (pair, dim)
            Observed gradients of S there.
        periods
            Periods of angles.
        end
            Value of ``time.perf_counter`` after which an iteration ends.
        seed
            Seed of all random numbers.
        """


def _stepped(
    z: torch.Tensor,
    slope: Callable[[torch.Tensor], torch.Tensor],
    J: torch.Tensor,
) -> torch.Tensor:
    """Return images of normalised states by Newton's method."""
    one = torch.eye(len(J), dtype=z.dtype)

    def correction(image: torch.Tensor) -> torch.Tensor:
        middle = (z + image) / 2
        defect = z - image + slope(middle) @ J.mT
        (slopes,) = jacobians(slope, middle)
        matrix = one - J @ slopes / 2
        return torch.linalg.solve(matrix, defect.unsqueeze(-1)).squeeze(-1)

    with torch.no_grad():
        return newton(z, correction, torch.ones(len(J), dtype=z.dtype), 0)
