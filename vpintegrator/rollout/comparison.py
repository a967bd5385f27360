"""Data shared by all methods of a comparison, and the trajectories of one method."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeVar

import numpy as np

from vpintegrator.dynamics import System
from vpintegrator.dynamics.structure import component_scales
from vpintegrator.rollout.flow import NumericalFlow
from vpintegrator.rollout.observer import WindowSampler

TANGENT_TRAJECTORIES = 8
_SAMPLES = 60  # times at which windows are sampled, for derivatives
_SAMPLED_TRAJECTORIES = 40
_SCALED = 1000  # times of the reference that show the scales of the components

Result = TypeVar("Result")


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """Data shared by all methods of a comparison.

    Attributes
    ----------
    system, step, steps
        System, time step and number of steps.
    stored
        Steps at which states are kept, including the first and the last, (time,).
    initial
        Initial states, (trajectory, dim).
    reference
        Reference states of the first steps, (time, trajectory, dim); NaN where an orbit's reference
        has ended.
    motion
        The solution from which the reference is taken, also after its end: averages have a meaning.
    threshold
        Error at which a method is taken to have failed.
    section_plane
        Component, value and direction of the Poincare section, or None.
    tangent_steps, tangent_trajectories
        Numbers of steps and of trajectories for which the phase-space volume is followed.
    """

    system: System
    step: float
    steps: int
    stored: np.ndarray
    initial: np.ndarray
    reference: np.ndarray
    motion: np.ndarray
    threshold: float
    section_plane: tuple[str, float, int] | None
    tangent_steps: int
    tangent_trajectories: int = TANGENT_TRAJECTORIES

    @cached_property
    def times(self) -> np.ndarray:
        """Stored times, (time,)."""
        return self.step * self.stored

    @cached_property
    def scales(self) -> np.ndarray:
        """Scale of each component along the reference, (dim,)."""
        every = -(-len(self.motion) // _SCALED)
        return component_scales(self.motion[::every], self.system.structure)

    @property
    def stored_reference(self) -> np.ndarray:
        """Reference states at the stored times up to its end, (trajectory, time, dim)."""
        return self.reference[self.stored[: self.reference_stored]].transpose(1, 0, 2)

    @property
    def reference_stored(self) -> int:
        """Number of stored times that the reference reaches."""
        return int(np.searchsorted(self.stored, len(self.reference)))


@dataclass
class Ensemble:
    """Trajectories of one method in a comparison, as input of the diagnostics.

    Attributes
    ----------
    flow
        The method.
    comparison
        Data that the methods share.
    first
        First windows, (trajectory, window, dim).
    series
        Arrays (time, trajectory) by name, zero until observers fill them.
    states
        States at the stored times, (trajectory, time, dim), zero until the rollout reaches them.
    observers
        Observers of all diagnostics by name; each has seen every step.
    """

    flow: NumericalFlow
    comparison: Comparison
    first: np.ndarray
    series: dict[str, np.ndarray]
    states: np.ndarray
    observers: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        window, trajectories = self.flow.window, len(self.first)
        count = max(self.comparison.steps + 2 - window, 0)
        chosen = np.linspace(0, count - 1, min(_SAMPLES, count)).round().astype(int)
        self._ends = window - 1 + chosen
        self.sampler = WindowSampler(
            self._ends, window, min(trajectories, _SAMPLED_TRAJECTORIES), self.flow.dim
        )
        self._computed: dict[Any, Any] = {}

    @property
    def steps(self) -> int:
        """Number of steps that the method computes; the states of its first window are given."""
        return self.comparison.steps + 1 - self.flow.window

    @property
    def windows(self) -> np.ndarray:
        """Windows met at times spread over the rollout, (sample, trajectory, window, dim)."""
        return self.sampler.windows

    @property
    def sample_times(self) -> np.ndarray:
        """The ends of these, (sample,)."""
        return self.comparison.step * self._ends

    @cached_property
    def sample(self) -> np.ndarray:
        """A few of these, (n, window, dim), the first ones among them; all are finite."""
        met = self.windows[:: _SAMPLES // 4].reshape(-1, *self.first.shape[1:])
        met = met[np.isfinite(met).all(axis=(1, 2))]
        return met if len(met) else self.first[:_SAMPLED_TRAJECTORIES]

    def time_of(self, index: np.ndarray) -> np.ndarray:
        """Return the times of steps, NaN for -1."""
        return np.where(index >= 0, self.comparison.step * index, np.nan)

    def once(self, function: Callable[[Ensemble], Result]) -> Result:
        """Return the value of a function of this ensemble, computed once for all diagnostics."""
        if function not in self._computed:
            self._computed[function] = function(self)
        return self._computed[function]
