"""Maps side by side, from the same initial states beside a reference."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from dataclasses import replace
from itertools import chain
from operator import attrgetter
from typing import Any

import numpy as np

from vpintegrator.arguments import positive, whole_number
from vpintegrator.compiled import machine_code
from vpintegrator.dynamics import System
from vpintegrator.dynamics.structure import spread_of
from vpintegrator.errors import InputError
from vpintegrator.maps import Map
from vpintegrator.rollout.diagnostics import work_precision as study
from vpintegrator.rollout.diagnostics.cost import step_table
from vpintegrator.rollout.diagnostics.diagnostic import Diagnostic, Ensemble, Plan
from vpintegrator.rollout.diagnostics.registry import DIAGNOSTICS, with_own
from vpintegrator.rollout.guarded_map import GuardedMap, warn_of_failures
from vpintegrator.rollout.reference import Progress, Reference, outside_bound, solve_reference
from vpintegrator.rollout.report import EPSILONS, WINDOWS, Report, Run, by_name
from vpintegrator.rollout.start import (
    Against,
    Models,
    chosen_maps,
    find_origin,
    lengths,
    observed_dataset,
    section_plane,
    stored_steps,
)
from vpintegrator.runtime.progress import step_bar

# attributes of a map that its run has, too
_DESCRIBED = (
    *("kind", "description", "order", "structure", "remark"),
    *("provenance", "attention_summary"),
)
_CHUNK_VALUES = 500_000  # numbers that are in memory at a time


def compare(
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
    work_precision: bool = False,
    diagnostics: Sequence[type[Diagnostic]] = (),
    compiled: bool | None = None,
    progress: bool | Progress | None = None,
) -> Report:
    """Roll out models and classical methods beside a reference solution.

    Every step is measured; only every ``every``-th state is kept.

    Parameters
    ----------
    model
        A trained model, several, or several by name; None for classical methods alone. Maps of
        your own (:class:`vpintegrator.Map`) stand among them; torch modules that map states to the
        next ones too, where ``system`` or ``dataset`` tells their components and step. A sequence
        of models under one name, such as trainings with several seeds, is one row of the table and
        one curve with a band: ``{"VPT": [first, second, third]}``.
    against
        Names of classical methods, or methods and maps of your own; ``"all"`` for all methods that
        apply to the system. By default the implicit midpoint rule and RK4, and none where the
        equations are not known.
    system
        System; by default that of the models' training.
    initial
        Initial states, (trajectory, dim). By default ``trajectories`` states drawn from the
        distribution that the system suggests.
    dataset
        A dataset, or its file; its first ``trajectories`` test trajectories give the initial
        states. By default that of a model's training, where its states are observed.
    reference
        States to compare with. ``"solution"`` is an accurate solution and needs the equations.
        ``"dataset"`` is the test trajectories of ``dataset``, or of the dataset of a model's
        training. An array (trajectory, time, dim) holds states at the time step of the comparison,
        for example measured ones, NaN where unknown. It also gives the initial states. The default
        is the dataset if one is given and the equations are not known, otherwise a solution. Of
        observed states it is what is observed of the solution from the complete states that the
        dataset keeps; classical methods run in complete states.
    trajectories, seed
        Number of initial states, and the seed that they are drawn with.
    time, steps
        A time, rounded to whole steps, or a number of steps. The default is the length of the given
        reference, otherwise the ``time`` that the system suggests, otherwise 500 steps.
    step
        Time step; by default the step of the models' training, otherwise the step that the system
        suggests.
    every
        Steps between two states that are kept. By default 1, or as many as keep 10,000 times.
    reference_time
        Time at which the reference, and with it the errors of trajectories, end. The default is
        10,000 steps, because an accurate solution costs more than most methods.
    threshold
        Error at which a method is taken to have failed; by default a tenth of the root mean square
        distance of the reference from its mean.
    bound
        Largest absolute value of the components that are no angle and no time. Orbits that pass it
        end there, those of the reference too: an escaping orbit can cost a solver any time.
    section
        Poincare section: a component and its value, ``"q[0] = 0"`` passed upwards, ``"-q[0] = 0"``
        downwards; also as a tuple (component, value, direction); None for none. By default the one
        that the system file names, or the first component at 0 for Hamiltonian systems of two
        degrees of freedom.
    tangent_steps
        Number of steps over which phase-space volume and Lyapunov exponents are followed, for the
        first 8 trajectories; 0 for none.
    work_precision
        Whether to run every method at several steps too, for error against cost.
    diagnostics
        Own diagnostics, subclasses of :class:`~vpintegrator.rollout.diagnostics.Diagnostic`. They
        are measured, stored and tabulated beside those of the package.
    compiled
        Whether maps run as machine code, by default wherever that is possible, see
        :func:`vpintegrator.compiled.machine_code`.
    progress
        Called with the name of a map, steps done, and steps in all; True for a bar, False for none.
        By default a bar appears on a terminal after two seconds.

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
    A map that raises an exception loses no other row: its states are NaN from there on, what was
    not measured is missing, and ``remark`` and a warning say the reason.

    Costs are processor seconds of a step of one of 1,000 states, for all methods in turn.

    Examples
    --------
    >>> import vpintegrator as vp
    >>> report = vp.compare(None, "rk4", system="pendulum", steps=20, trajectories=2)
    >>> report.runs["rk4"].states.shape
    (2, 21, 2)
    """
    measured = with_own(diagnostics) if diagnostics else DIAGNOSTICS
    tangent_steps = whole_number("tangent_steps", tangent_steps)
    if threshold is not None:
        threshold = positive("threshold", threshold)
    if not bound > 0:
        raise InputError(f"bound = {bound!r} must be a positive number")
    dataset = observed_dataset(model, system, initial, dataset, reference)
    choice = chosen_maps(model, against, system, step, dataset)
    maps = choice.maps
    system = choice.system
    step = choice.step
    if work_precision:
        system.require_vector_field("work_precision")
    window = max(map.window for map in maps.values())
    plane = section_plane(system, section)
    origin = find_origin(
        maps, system, window, initial, dataset, reference, trajectories, seed, choice.complete
    )
    first = origin.initial
    given = origin.given
    complete = origin.complete
    steps, known = lengths(
        system, step, time, steps, reference_time, given, is_solved=complete is not None
    )
    stored, every = stored_steps(steps, every, first)
    known = max(known, window - 1)  # also where a window is longer than the rollout
    with step_bar(progress) as show:
        for place, name in enumerate(maps if compiled is not False else ()):
            show("compilation", place, len(maps))
            whole = complete is not None and name in choice.of_complete
            states = complete.initial if complete is not None and whole else first
            maps[name] = machine_code(maps[name], states, compiled)
        guarded = {name: GuardedMap(map) for name, map in maps.items()}
        solution: Reference | None = None
        if given is None:
            solved = system if complete is None else complete.system
            initial = first if complete is None else complete.initial
            solution = solve_reference(solved, initial, step * np.arange(known + 1), show, bound)
            exact = solution
            if complete is not None:
                complete = replace(complete, motion=solution.states.transpose(1, 0, 2))
                exact = solution.observed(system, complete.observe)
        else:
            exact = Reference(given[:, : known + 1], np.full(len(given), np.nan))
        motion = exact.states[:, : steps + 1].transpose(1, 0, 2)
        spread = spread_of(system, np.nanstd(motion[..., system.moving], axis=(0, 1)))
        of_complete = {n: m for n, m in guarded.items() if n in choice.of_complete}
        others = {n: m for n, m in guarded.items() if n not in choice.of_complete}
        costs = step_table(others, system, exact, spread)
        if complete is not None:
            motion_of = solution or Reference(complete.states, np.zeros(len(complete.states)))
            costs = costs.joined(
                step_table(
                    of_complete,
                    complete.system,
                    motion_of,
                    spread,
                    complete.observe,
                    system.moving,
                )
            )
        for map in guarded.values():
            map.failure = ""  # the costs have told it
        threshold = threshold or 0.1 * spread
        # the reference of an orbit ends where its own error passes a tenth of the threshold
        exact = exact.until(system, 0.1 * threshold, window)
        plan = Plan(
            system=system,
            step=step,
            steps=steps,
            stored=stored,
            initial=first,
            section_plane=plane,
            tangent_steps=min(tangent_steps, steps),
            threshold=threshold,
            bound=bound,
            reference=exact.states[:, : steps + 1].transpose(1, 0, 2),
            motion=motion,
            complete=complete,
        )
        if solution is not None:
            warn_of_drift(system if complete is None else complete.system, solution, known)
        members: dict[str, Run] = {}
        for name, map in guarded.items():
            whole = complete is not None and name in choice.of_complete
            source = complete.states if complete is not None and whole else exact.states
            windows = np.ascontiguousarray(source[:, : map.window])
            members[name] = roll_out(name, map, plan, windows, measured, show, whole)
        runs = by_name(members, choice.seeds)
        # of several models of one name the first
        firsts = {name: guarded[run.members[0].name] for name, run in runs.items()}
        studies = study(firsts, first, progress=show) if work_precision else {}
    warn_of_failures(guarded)
    ends = np.searchsorted(stored, len(plan.reference))
    return Report(
        system=system,
        step=step,
        every=every,
        times=step * stored,
        reference=plan.reference[stored[:ends]].transpose(1, 0, 2),
        reference_error=exact.error,
        threshold=threshold,
        step_table=costs,
        runs=runs,
        seed=origin.seed,
        complete=None if complete is None else complete.base,
        section_plane=plane,
        work_precision=studies,
        diagnostics=measured,
    )


def roll_out(
    name: str,
    map: Map,
    plan: Plan,
    first: np.ndarray,
    diagnostics: Sequence[type[Diagnostic]],
    progress: Progress,
    is_complete: bool = False,
) -> Run:
    """Iterate a map, show diagnostics every chunk of states, and return the run of the map.

    Parameters
    ----------
    name, map, plan, first
        The map, its name in the report, the plan of the comparison, and first windows
        (trajectory, window, dim).
    diagnostics
        Diagnostics, which see every step in chunks.
    progress
        Called about a hundred times.
    is_complete
        Whether the states of the map are the complete ones behind those of the plan.
    """
    ensemble = Ensemble(name, map, plan, first, is_complete)
    measuring = [
        diagnostic(ensemble)
        for diagnostic in diagnostics
        if all(attrgetter(attribute)(plan) for attribute in diagnostic.needs)
    ]
    chunk = int(np.clip(_CHUNK_VALUES // plan.initial.size, 1, 4096))
    chunk = min(chunk, max(plan.steps // 100, 1))
    done = 0
    ended = np.zeros(len(first), dtype=bool)
    chunks = map.advance(first, plan.steps + 1 - map.window, chunk=chunk)
    for states in chain([first[:, : plan.steps + 1]], chunks):  # (trajectory, count, dim)
        if math.isfinite(plan.bound):
            seen = ensemble.observe_states(states)
            outside = outside_bound(plan.system, seen, plan.bound) | ended[:, None]
            outside = np.logical_or.accumulate(outside, axis=1)
            states = np.where(outside[..., None], np.nan, states)
            ended = outside[:, -1]
        with np.errstate(all="ignore"):  # diverging states overflow
            seen = ensemble.observe(done, states)
            for diagnostic in measuring:
                diagnostic.observe(done, seen)
        done += states.shape[1]
        progress(name, done - 1, plan.steps)
    results: dict[type[Diagnostic], dict[str, Any]] = {}
    with np.errstate(all="ignore"):
        for diagnostic in measuring:
            results[type(diagnostic)] = diagnostic.result()
    measurements: dict[str, Any] = {}
    for each in diagnostics:
        nothing = {variable.name: None for variable in each.variables}
        measurements |= results.get(each, nothing)
    same = (*_DESCRIBED, *WINDOWS, *EPSILONS)
    said: dict[str, Any] = {key: getattr(map, key) for key in same}
    said |= {"name": name, "method": map.name, "title": map.title or name}
    said["is_complete"] = ensemble.is_complete
    return Run(**said, states=ensemble.states, measurements=measurements)


def warn_of_drift(system: System, exact: Reference, steps: int) -> None:
    """Warn where an invariant drifts along the reference by more than the reference's accuracy.

    Then the file of the system, or the accuracy, is wrong.
    """
    states = exact.states
    for name, invariant in system.invariants.items():
        with np.errstate(all="ignore"):
            values = invariant(states)  # (trajectory, time)
            drift = np.nanmax(np.abs(values - values[:, :1]), axis=1)
            # the change of the invariant under a relative change of each component
            sensitivity = np.zeros(len(states))
            for k in range(system.dim):
                moved = states.copy()
                size = np.nanmax(np.abs(states[..., k])) * 1e-6
                moved[..., k] += size
                sensitivity += np.nanmax(np.abs(invariant(moved) - values), axis=1) * 1e6
            allowed = 10 * sensitivity * (exact.error + 1e-14 * steps)
        worst = int(np.argmax(drift - allowed))
        if drift[worst] > allowed[worst]:
            warnings.warn(
                f"{name} of {system.name} drifts by {drift[worst]:.1e} along the reference, "
                f"whose accuracy explains {allowed[worst]:.1e}: {name} is no invariant, or the "
                "reference is less accurate than estimated",
                stacklevel=3,
            )
