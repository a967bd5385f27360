"""Plan of a comparison: maps, start, steps and reference, checked before anything is computed."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, TypeVar

import numpy as np

from vpintegrator.arguments import whole_number
from vpintegrator.compiled import machine_code
from vpintegrator.compiled.one_step import OneStepTable
from vpintegrator.dynamics import System
from vpintegrator.dynamics.sizes import spread_of
from vpintegrator.dynamics.structure import component_scales
from vpintegrator.errors import InputError
from vpintegrator.maps import Map
from vpintegrator.rollout.methods import Against, Models, chosen_maps
from vpintegrator.rollout.reference import Reference, solve_reference
from vpintegrator.rollout.start import (
    check_memory,
    find_origin,
    number_of_steps,
    reference_steps,
    section_plane,
    stored_steps,
)
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
    maps, seeds
        Maps by name, and the names of models that share one.
    stored, every
        Steps at which states are kept, including the first and the last, (time,), and the distance
        between them.
    initial, seed
        Initial states, (trajectory, dim), and the seed that they were drawn with; None where they
        were given.
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
    seeds: dict[str, list[str]]
    stored: np.ndarray
    every: int
    initial: np.ndarray
    seed: int | None
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

    def compile(self, compiled: bool | None, progress: Progress | None = None) -> Plan:
        """Return the plan with maps as machine code, where that is wanted and possible."""
        if compiled is False:
            return self
        maps: dict[str, Map] = {}
        for name, map in self.maps.items():
            if progress:
                progress("compilation", len(maps), len(self.maps))
            maps[name] = machine_code(map, self.initial, compiled)
        if progress:
            progress("compilation", len(maps), len(maps))
        return replace(self, maps=maps)

    def solve(self, progress: Progress | None = None, lost: float = 0.1) -> Plan:
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

    @property
    def times(self) -> np.ndarray:
        """Stored times, (time,)."""
        return self.step * self.stored

    @cached_property
    def scales(self) -> np.ndarray:
        """Scale of each component at up to a thousand times of the reference, (dim,)."""
        every = -(-len(self.motion) // 1000)
        return component_scales(self.motion[::every], self.system.structure)

    @property
    def stored_reference(self) -> np.ndarray:
        """Reference states at the stored times up to its end, (trajectory, time, dim)."""
        return self.reference[self.stored[: self.reference_stored]].transpose(1, 0, 2)

    @property
    def reference_stored(self) -> int:
        """Number of stored times that the reference reaches."""
        return int(np.searchsorted(self.stored, len(self.reference)))


def plan_comparison(
    model: Models,
    against: Against | None = None,
    *,
    system: System | str | None = None,
    initial: Any = None,
    dataset: Any = None,
    reference: Any = None,
    trajectories: int = 8,
    seed: int = 0,
    time: float | None = None,
    steps: int | None = None,
    step: float | None = None,
    every: int | None = None,
    reference_time: float | None = None,
    threshold: float | None = None,
    bound: float = math.inf,
    section: str | tuple[str, float, int] | None = "auto",
    tangent_steps: int = 200,
) -> Plan:
    """Check the arguments of :func:`compare`, and find what they leave open.

    Raises
    ------
    InputError
        If an argument is wrong, does not fit the others, or needs too much memory.
    """
    if threshold is not None and not (math.isfinite(threshold) and threshold > 0):
        raise InputError(f"threshold = {threshold!r} must be a positive number")
    if not bound > 0:
        raise InputError(f"bound = {bound!r} must be a positive number")
    tangent_steps = whole_number("tangent_steps", tangent_steps)
    maps, seeds, system, step = chosen_maps(model, against, system, step, dataset)
    window = max(map.window for map in maps.values())
    plane = section_plane(system, section)
    start = {"initial": initial, "dataset": dataset, "reference": reference}
    count = {"trajectories": trajectories, "seed": seed}
    first, given, own_seed = find_origin(maps, system, window, **start, **count)
    if given is not None and time is None and steps is None:
        steps = given.shape[1] - 1
    steps = number_of_steps(system, step, time, steps)
    stored, every = stored_steps(steps, every, first)
    if given is None and system.is_measured:
        reference_time = 0.0  # nothing is known
    known = reference_steps(step, steps, reference_time)
    if given is not None:
        known = min(steps if reference_time is None else known, given.shape[1] - 1)
    # first windows come from the reference even where a window is longer than the rollout
    known = max(known, window - 1)
    tangent_steps = min(tangent_steps, steps)
    # the reference is at hand as a whole, and the spread about its mean computed from copies
    values = 4 * (known + 1) * first.size
    check_memory(f"a reference of {known:,} steps", values, "end it earlier (--reference-time)")
    values = 4 * tangent_steps * min(len(first), TANGENT_TRAJECTORIES)
    check_memory(f"{tangent_steps:,} tangent steps", values, "take fewer (tangent_steps)")
    measured = len(stored) * len(first) * (system.dim + 1 + len(system.invariants))
    values = (known + 1) * first.size * (given is None) + len(maps) * measured
    fewer = "keep fewer states (a larger every), or take fewer trajectories (--trajectories)"
    check_memory("the states and what is measured on them", values, fewer)
    return Plan(
        system=system,
        step=step,
        steps=steps,
        maps=maps,
        seeds=seeds,
        stored=stored,
        every=every,
        initial=first,
        seed=own_seed,
        given=given,
        known=known,
        section_plane=plane,
        tangent_steps=tangent_steps,
        threshold=threshold or 0.0,
        bound=bound,
    )
