"""Learned and classical methods side by side, from the same initial states."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from vpintegrator.arguments import grouped
from vpintegrator.dynamics import System
from vpintegrator.dynamics.sizes import spread_of
from vpintegrator.errors import InputError
from vpintegrator.maps import ClassicalMethod
from vpintegrator.rollout.arguments import Duration, Measures, Start
from vpintegrator.rollout.comparison import TANGENT_TRAJECTORIES, Comparison
from vpintegrator.rollout.diagnostics import work_precision
from vpintegrator.rollout.diagnostics.diagnostic import Diagnostic
from vpintegrator.rollout.diagnostics.poincare import section_plane
from vpintegrator.rollout.diagnostics.registry import with_own
from vpintegrator.rollout.flow import NumericalFlow
from vpintegrator.rollout.measure import Progress, Propagation
from vpintegrator.rollout.methods import (
    Models,
    as_models,
    chosen_flows,
    named_models,
    single_models,
)
from vpintegrator.rollout.reference import Reference, solve_reference
from vpintegrator.rollout.report import Report
from vpintegrator.rollout.results import by_name
from vpintegrator.rollout.start import Origin, Schedule, check_memory, find_origin, make_schedule
from vpintegrator.rollout.step_costs import step_table

_THRESHOLD = 0.1  # relative to the spread of the reference
_LOST = 0.1  # error of the reference at which it ends, relative to the threshold


@grouped(start=Start, duration=Duration, measures=Measures)
def compare(
    model: Models,
    against: str | Sequence[str | ClassicalMethod] | None = None,
    *,
    system: System | str | None = None,
    start: Start,
    duration: Duration,
    measures: Measures,
    compiled: bool | None = None,
    progress: Progress | None = None,
) -> Report:
    """Roll out models and classical methods beside a reference solution.

    Every step is measured; only every ``every``-th state is kept.

    Parameters
    ----------
    model
        A trained model, several, or several by name; None for classical methods alone. Torch
        modules that map states to the next ones are models, too, where ``system`` or
        ``dataset`` tells their components and step; see :func:`vpintegrator.wrap`. A sequence of
        models under one name, such as trainings with several seeds, is one row of the table and
        one curve with a band: ``{"VPT": [first, second, third]}``.
    against
        Names of classical methods, or methods of one's own; ``"all"`` for all that apply to the
        system. By default the implicit midpoint rule and RK4, and none where the equations are not
        known.
    system
        System; by default that of the models' training.
    start, duration, measures
        Start, duration and measurements. The attributes of
        :class:`~vpintegrator.rollout.arguments.Start`,
        :class:`~vpintegrator.rollout.arguments.Duration` and
        :class:`~vpintegrator.rollout.arguments.Measures` are given as keywords: ``initial``,
        ``dataset``, ``reference``, ``trajectories``, ``seed``; ``time``, ``steps``, ``step``,
        ``every``, ``reference_time``; ``threshold``, ``section``, ``tangent_steps``,
        ``work_precision``, ``diagnostics``.
    compiled
        Whether models, explicit and splitting methods run as machine code, by default wherever that
        is possible. See :func:`vpintegrator.rollout.rollout` and :func:`vpintegrator.integrate`.
    progress
        Called with a method's name (``"reference"`` first), steps done, and steps in all; before
        that with ``"compilation"``, methods and models done, and in all.

    Returns
    -------
    Report
        States of each method and the reference, with errors, invariants, volumes and cost.

    Raises
    ------
    InputError
        If an argument is wrong, models belong to different systems, a classical method does not
        apply, or the memory is too small.

    Notes
    -----
    Costs are processor seconds of a step of one of 1,000 states, for all methods in turn.

    Examples
    --------
    >>> import vpintegrator as vp
    >>> report = vp.compare(None, "rk4", system="pendulum", steps=20, trajectories=2)
    >>> report.runs["rk4"].states.shape
    (2, 21, 2)
    """
    prepared = prepare_comparison(
        model, against, system=system, start=start, duration=duration, measures=measures
    )
    system, step, flows = prepared.system, prepared.step, prepared.flows
    origin, schedule, plane = prepared.origin, prepared.schedule, prepared.plane
    initial, tangent_steps = origin.initial, min(int(measures.tangent_steps), schedule.steps)
    prepared.check_memory()
    flows = prepared.compile(compiled, progress)
    exact = prepared.find_reference(progress)
    motion = exact.states[:, : schedule.steps + 1].transpose(1, 0, 2)
    spread = spread_of(system, np.nanstd(motion[..., system.moving], axis=(0, 1)))
    threshold = measures.threshold or _THRESHOLD * spread
    costs = step_table(flows, system, exact, spread)
    longest = max(flow.window for flow in flows)
    exact = exact.until(system, _LOST * threshold, longest)
    comparison = Comparison(
        system=system,
        step=step,
        steps=schedule.steps,
        stored=schedule.stored,
        initial=initial,
        reference=exact.states[:, : schedule.steps + 1].transpose(1, 0, 2),
        motion=motion,
        threshold=threshold,
        section_plane=plane,
        tangent_steps=tangent_steps,
    )
    first = exact.states[:, :longest]
    runs = {
        flow.name: Propagation(flow, first, comparison, prepared.diagnostics).run(progress)
        for flow in flows
    }
    studied = {}
    runs = by_name(runs, prepared.seeds)
    if measures.work_precision:  # of several models of one name, the first
        first_of = {each.members[0].name: name for name, each in runs.items()}
        chosen = [flow for flow in flows if flow.name in first_of]
        studied = work_precision(chosen, initial, progress=progress)
        studied = {first_of[name]: study for name, study in studied.items()}
    return Report(
        system=system,
        step=step,
        every=schedule.every,
        times=comparison.times,
        reference=comparison.stored_reference,
        reference_error=exact.error,
        threshold=comparison.threshold,
        step_table=costs,
        runs=runs,
        seed=origin.seed,
        section_plane=plane,
        work_precision=studied,
        diagnostics=prepared.diagnostics,
    )


@grouped(start=Start, duration=Duration, measures=Measures)
def prepare_comparison(
    model: Models,
    against: str | Sequence[str | ClassicalMethod] | None = None,
    *,
    system: System | str | None = None,
    start: Start,
    duration: Duration,
    measures: Measures,
) -> PreparedComparison:
    """Check the arguments of :func:`compare`, and find what they leave open.

    Raises
    ------
    InputError
        If an argument is wrong, or does not fit the others.
    """
    single, seeds = single_models(model)
    models, system, step = as_models(named_models(single), system, start, duration.step)
    flows = chosen_flows(models, against, system, step)
    for flow in flows:
        if flow.name in seeds:
            raise InputError(f"'{flow.name}' names several models, and another one; rename one")
    window = max(flow.window for flow in flows)
    plane = section_plane(system, measures.section)
    if measures.work_precision:
        system.require_vector_field("work_precision")
    origin = find_origin(start, models, system, window)
    schedule = make_schedule(duration, system, step, origin, window)
    known, tangent_steps = schedule.known, min(int(measures.tangent_steps), schedule.steps)
    # the reference is at hand as a whole, and the spread about its mean computed from copies
    values = 4 * (known + 1) * origin.initial.size
    check_memory(f"a reference of {known:,} steps", values, "end it earlier (--reference-time)")
    values = 4 * tangent_steps * min(len(origin.initial), TANGENT_TRAJECTORIES)
    check_memory(f"{tangent_steps:,} tangent steps", values, "take fewer (--tangent-steps)")
    diagnostics = with_own(measures.diagnostics)
    return PreparedComparison(system, step, flows, origin, schedule, plane, diagnostics, seeds)


@dataclass(frozen=True)
class PreparedComparison:
    """A comparison before anything is computed.

    Attributes
    ----------
    system, step, flows, origin, schedule
        The methods, from where they start, and how long they run.
    plane
        The Poincare section, None for none.
    diagnostics
        Diagnostics that measure the methods.
    seeds
        Names of the models that share a name.
    """

    system: System
    step: float
    flows: list[NumericalFlow]
    origin: Origin
    schedule: Schedule
    plane: tuple[str, float, int] | None
    diagnostics: tuple[Diagnostic, ...]
    seeds: dict[str, list[str]]

    def check_memory(self) -> None:
        """Check that the states and the measurements on them have room."""
        initial, stored = self.origin.initial, self.schedule.stored
        series = sum(len(diagnostic.series(self.system)) for diagnostic in self.diagnostics)
        measured = len(stored) * len(initial) * (self.system.dim + series)
        solved = (self.schedule.known + 1) * initial.size * (self.origin.reference is None)
        fewer = "keep fewer states (--every), or take fewer trajectories (--trajectories)"
        values = solved + len(self.flows) * measured
        check_memory("the states and what is measured on them", values, fewer)

    def compile(self, compiled: bool | None, progress: Progress | None) -> list[NumericalFlow]:
        """Return the flows as machine code, where that is wanted and possible."""
        flows: list[NumericalFlow] = []
        for flow in self.flows if compiled is not False else ():
            if progress:
                progress("compilation", len(flows), len(self.flows))
            flows.append(flow.compile(self.origin.initial, compiled))
        if progress and flows:
            progress("compilation", len(flows), len(flows))
        return flows or self.flows

    def find_reference(self, progress: Progress | None) -> Reference:
        known, initial, given = self.schedule.known, self.origin.initial, self.origin.reference
        if given is not None:
            return Reference(given[:, : known + 1], np.full(len(given), np.nan))
        times = self.step * np.arange(known + 1)
        return solve_reference(self.system, initial, times, progress)
