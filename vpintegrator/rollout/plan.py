"""Plan of a comparison: what all of its maps share."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, TypeVar

import numpy as np

from vpintegrator.compiled import machine_code
from vpintegrator.compiled.one_step import OneStepTable
from vpintegrator.dynamics import System
from vpintegrator.dynamics.sizes import spread_of
from vpintegrator.dynamics.structure import component_scales
from vpintegrator.maps import Map
from vpintegrator.rollout.reference import Reference, solve_reference
from vpintegrator.rollout.step_costs import step_table

Progress = Callable[[str, int, int], None]
Result = TypeVar("Result")

TANGENT_TRAJECTORIES = 8


@dataclass(frozen=True, kw_only=True)
class Plan:
    """The data that all maps of a comparison share.

    Attributes
    ----------
    system, step, steps
        System, time step and number of steps.
    maps
        Maps by name.
    stored
        Steps at which states are kept, including the first and the last, (time,).
    initial
        Initial states, (trajectory, dim).
    given
        Given states to compare with, (trajectory, time, dim); None if they are solved for.
    known
        Number of steps of the reference.
    section_plane
        Component, value and direction of the Poincare section, or None.
    tangent_steps, tangent_trajectories
        Numbers of steps and of trajectories for which the phase-space volume is followed.
    threshold
        Error at which a method is taken to have failed; 0 before the reference is known.
    bound
        Largest absolute value of components; orbits that pass it end there.
    exact, costs
        Reference, and errors and costs of a step on windows of it. None before it is known.
    reference
        Reference states of the first steps, (time, trajectory, dim); NaN where an orbit's reference
        has ended.
    motion
        The solution from which the reference is taken, also after its end: averages have a meaning.
    """

    system: System
    step: float
    steps: int
    maps: dict[str, Map]
    stored: np.ndarray
    initial: np.ndarray
    given: np.ndarray | None
    known: int
    section_plane: tuple[str, float, int] | None
    tangent_steps: int
    tangent_trajectories: int = TANGENT_TRAJECTORIES
    threshold: float = 0.0
    bound: float = math.inf
    exact: Reference | None = None
    costs: OneStepTable | None = None
    reference: np.ndarray = field(default_factory=lambda: np.empty(0))
    motion: np.ndarray = field(default_factory=lambda: np.empty(0))
    _computed: dict[Any, Any] = field(default_factory=dict, repr=False, compare=False)

    def once(self, function: Callable[[Plan], Result]) -> Result:
        """Return the value of a function of the solved plan, computed once for all maps."""
        if function not in self._computed:
            self._computed[function] = function(self)
        return self._computed[function]

    def compile(self, compiled: bool | None, progress: Progress) -> Plan:
        """Return the plan with maps as machine code, where that is wanted and possible."""
        if compiled is False:
            return self
        maps: dict[str, Map] = {}
        for name, map in self.maps.items():
            progress("compilation", len(maps), len(self.maps))
            maps[name] = machine_code(map, self.initial, compiled)
        progress("compilation", len(maps), len(maps))
        return replace(self, maps=maps)

    def solve(self, progress: Progress, lost: float = 0.1) -> Plan:
        """Return the plan with its reference.

        The reference of an orbit ends where its own error passes ``lost`` thresholds. The default
        threshold is a tenth of the spread of the reference.
        """
        if self.given is not None:
            states = self.given[:, : self.known + 1]
            exact = Reference(states, np.full(len(states), np.nan))
        else:
            times = self.step * np.arange(self.known + 1)
            exact = solve_reference(self.system, self.initial, times, progress, self.bound)
        motion = exact.states[:, : self.steps + 1].transpose(1, 0, 2)
        spread = spread_of(self.system, np.nanstd(motion[..., self.system.moving], axis=(0, 1)))
        threshold = self.threshold or 0.1 * spread
        costs = step_table(self.maps, self.system, exact, spread)
        exact = exact.until(self.system, lost * threshold, self.window)
        reference = exact.states[:, : self.steps + 1].transpose(1, 0, 2)
        return replace(
            self,
            exact=exact,
            costs=costs,
            motion=motion,
            reference=reference,
            threshold=threshold,
        )

    @property
    def window(self) -> int:
        """The longest window of a map."""
        return max(map.window for map in self.maps.values())

    @cached_property
    def scales(self) -> np.ndarray:
        """Scale of each component at up to a thousand times of the reference, (dim,)."""
        every = -(-len(self.motion) // 1000)
        return component_scales(self.motion[::every], self.system.structure)
