"""Learned and classical methods side by side, from the same initial states."""

from __future__ import annotations

import hashlib
import math
import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from vpintegrator.dynamics import System
from vpintegrator.errors import InputError
from vpintegrator.rollout.arguments import (
    classical_methods,
    find_step,
    find_system,
    given_reference,
    initial_of_measured,
    initial_states,
    named_models,
    number_of_steps,
    reference_steps,
    section_plane,
    stored_steps,
    whole,
)
from vpintegrator.rollout.classical import integrate
from vpintegrator.rollout.comparison import Comparison
from vpintegrator.rollout.diagnostics import work_precision as study_work_precision
from vpintegrator.rollout.diagnostics.registry import DIAGNOSTICS
from vpintegrator.rollout.flow import ClassicalFlow, LearnedFlow, NumericalFlow
from vpintegrator.rollout.measure import Execution, Progress
from vpintegrator.rollout.memory import check_memory
from vpintegrator.rollout.neural import compile_for
from vpintegrator.rollout.recording import FolderRecording, Recording
from vpintegrator.rollout.reference import Reference, solve_reference
from vpintegrator.rollout.report import Report

if TYPE_CHECKING:
    from vpintegrator.models import Integrator

_USUAL_METHODS = ("implicit-midpoint", "rk4")
_THRESHOLD = 0.1  # of the reference's spread
_TANGENT_STEPS = 200
TRAJECTORIES = 8  # unless told otherwise, here and by vp-rollout
_TANGENT_TRAJECTORIES = 8


def compare(
    model: Integrator | Sequence[Integrator] | Mapping[str, Integrator] | None,
    against: str | Sequence[str] | None = None,
    *,
    initial: Any = None,
    reference: Any = None,
    time: float | None = None,
    steps: int | None = None,
    step: float | None = None,
    every: int | None = None,
    seed: int = 0,
    trajectories: int = TRAJECTORIES,
    system: System | str | None = None,
    reference_time: float | None = None,
    first_window: str = "reference",
    threshold: float | None = None,
    section: str | tuple[str, float, int] | None = "auto",
    tangent_steps: int = _TANGENT_STEPS,
    work_precision: bool = False,
    compiled: bool | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
    resume: bool = False,
    progress: Progress | None = None,
) -> Report:
    """Roll out models and classical methods beside a reference solution.

    Every step is measured; only every ``every``-th state is kept.

    Parameters
    ----------
    model
        A trained model, several, or several by name; None for classical methods alone.
    against
        Names of classical methods; ``"all"`` for all that apply to the system. By default the
        implicit midpoint rule and RK4, and none where the equations are not known.
    initial
        Initial states, (trajectory, dim). By default ``trajectories`` states are drawn from the
        distribution that the system suggests.
    reference
        States to start from and to compare with, (trajectory, time, dim), measured for example, at
        the time step of the comparison; NaN where nothing is known. By default an accurate
        solution, for which the equations must be known.
    time, steps
        How long: a time, rounded to whole steps, or a number of steps. By default as long as the
        reference that was given, else the ``time`` that the system suggests, else 500 steps.
    step
        Time step; by default the one the models were trained for, else the one the system suggests.
    every
        Steps between two states that are kept. By default 1, or so many that 10,000 times are kept.
    seed, trajectories
        Seed and number of initial states.
    system
        By default the one that the models were trained on.
    reference_time
        Where the reference ends, and with it the errors of trajectories. By default after 10,000
        steps: an accurate solution costs more than most methods.
    first_window
        Where a model with ``window`` > 1 starts from: ``"reference"``, or the name of a classical
        method that makes the first states with the step of the comparison.
    threshold
        Error at which a method is taken to have failed; by default a tenth of the root mean square
        distance of the reference from its mean.
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
    compiled
        Whether models run as machine code, see :func:`vpintegrator.rollout.rollout`; by default
        wherever that is possible, since it is the time of a step that is compared.
    checkpoint
        A folder, made here, in which an interrupted comparison stays. One comparison at a time may
        work in it, until :meth:`Report.discard_checkpoint` deletes it; nothing else does.
    resume
        Go on from there; where nothing is recorded yet, begin anew.
    progress
        Called with a method's name (``"reference"`` first), steps done, and steps in all; before
        that with ``"compilation"``, models done, and models in all.

    Returns
    -------
    Report
        States of each method and the reference, with errors, invariants, volumes and cost.

    Raises
    ------
    InputError
        If an argument is wrong, the models do not belong together, a classical method does not
        apply to the system, or what is asked for does not fit into the memory or on the disk.

    Notes
    -----
    Wall times are those of one batch of all trajectories after a first step that is not counted.
    """
    models = named_models(model)
    system = find_system(models, system)
    step = find_step(models, system, step)
    if against is None:
        against = () if system.is_measured else _USUAL_METHODS
    methods = classical_methods(against, models, system)
    if not models and not methods:
        raise InputError("there is nothing to compare: give a model or the name of a method")
    longest = max([1, *(m.window for m in models.values())])
    if reference is not None:
        if initial is not None or first_window != "reference":
            raise InputError("a reference that is given holds the first states; leave out initial")
        reference = given_reference(system, reference, longest)
        initial = reference[:, 0]
        if time is None and steps is None:
            steps = reference.shape[1] - 1
    elif system.is_measured:
        initial, reference_time = initial_of_measured(system, initial, longest), 0.0
    count = number_of_steps(system, step, time, steps)
    for name, m in models.items():
        if m.dim != system.dim:
            raise InputError(
                f"the model {name} has dim = {m.dim}, but {system.name} has {system.dim} components"
            )
    if threshold is not None and not (math.isfinite(threshold) and threshold > 0):
        raise InputError(f"threshold = {threshold!r} must be a positive number")
    tangent_steps = min(whole("tangent_steps", tangent_steps, 0), count)
    initial, drawn = initial_states(system, initial, trajectories, seed)
    stored, every = stored_steps(count, every, initial)
    known = reference_steps(step, count, reference_time)
    if reference is not None:
        end = count if reference_time is None else known
        known = min(end, reference.shape[1] - 1)
    plane = section_plane(system, section)
    flows: list[NumericalFlow] = [
        *(LearnedFlow(m, system, name, step) for name, m in models.items()),
        *(ClassicalFlow(method, system, step) for method in methods.values()),
    ]
    if work_precision:
        system.require_equations("work_precision")
    starts = None
    if first_window != "reference":
        starts = integrate(system, first_window, initial, step, longest - 1)
    else:
        # first windows come from the reference even where a window is longer than the rollout
        known = max(known, longest - 1)

    # the whole of the reference is at hand, and the spread about its mean is computed from copies
    values = 3 * (known + 1) * initial.size
    check_memory(f"a reference of {known:,} steps", values, "end it earlier (--reference-time)")
    values = 4 * tangent_steps * min(len(initial), _TANGENT_TRAJECTORIES)
    check_memory(f"{tangent_steps:,} tangent steps", values, "take fewer (--tangent-steps)")

    recording: Recording = Recording()
    if checkpoint is not None:
        identity = {
            "system": system.text,
            "parameters": system.definitions,
            "step": step,
            "steps": count,
            "every": every,
            "initial states": _digest(initial),
            "reference": known if reference is None else _digest(reference),
            "first window": first_window,
            "threshold": threshold,
            "section": plane,
            "methods": {flow.name: _fingerprint(flow) for flow in flows},
        }
        recording = FolderRecording(checkpoint, identity, resume)
    elif resume:
        raise InputError("resume needs the name of the checkpoint")

    try:
        series = sum(len(diagnostic.series(system)) for diagnostic in DIAGNOSTICS)
        measured = len(stored) * len(initial) * (system.dim + series)
        recording.reserve((known + 1) * initial.size * (reference is None) + len(flows) * measured)
        _compile([f for f in flows if isinstance(f, LearnedFlow)], len(initial), compiled, progress)
        if reference is None:
            times = step * np.arange(known + 1)
            exact = solve_reference(system, initial, times, progress, recording)
        else:
            exact = Reference(reference[:, : known + 1], np.full(len(initial), np.nan))
        if starts is None:
            starts = exact.states[:, :longest]
        aligned = exact.states[:, : count + 1].transpose(1, 0, 2)
        if threshold is None:
            centre = np.nanmean(aligned, axis=(0, 1))
            spread = np.sqrt(np.nanmean(np.sum((aligned - centre) ** 2, axis=-1)))
            threshold = _THRESHOLD * float(spread)
        comparison = Comparison(
            system=system,
            step=step,
            steps=count,
            stored=stored,
            initial=initial,
            reference=aligned,
            threshold=threshold,
            section_plane=plane,
            tangent_steps=tangent_steps,
            tangent_trajectories=_TANGENT_TRAJECTORIES,
        )
        runs = {}
        for number, flow in enumerate(flows):
            first = np.ascontiguousarray(starts[:, : flow.window])
            execution = Execution(flow, first, comparison, recording, str(number))
            execution.run(progress)
            runs[flow.name] = execution.result()
        studied = {}
        if work_precision:
            studied = study_work_precision(flows, initial, progress=progress)
        kept = stored[stored < len(aligned)]
        return Report(
            system=system,
            step=step,
            every=every,
            times=comparison.times,
            reference=aligned[kept].transpose(1, 0, 2),
            reference_error=exact.error,
            threshold=threshold,
            runs=runs,
            seed=drawn,
            section_plane=plane,
            work_precision=studied,
            _recording=recording,
        )
    except BaseException:
        recording.close()  # what is recorded stays, whatever went wrong
        raise


def _compile(
    flows: Sequence[LearnedFlow],
    trajectories: int,
    compiled: bool | None,
    progress: Progress | None,
) -> None:
    """Have the models run as machine code, where that is wanted and possible."""
    if compiled is False:
        return
    for number, flow in enumerate(flows):
        if progress:
            progress("compilation", number, len(flows))
        flow.compiled = compile_for(flow.model, trajectories, compiled)
    if progress and flows:
        progress("compilation", len(flows), len(flows))


def _digest(array: np.ndarray) -> str:
    return hashlib.sha256(np.ascontiguousarray(array).tobytes()).hexdigest()


def _fingerprint(flow: NumericalFlow) -> str:
    """What tells two methods of one name apart."""
    if not isinstance(flow, LearnedFlow):
        return flow.name
    digest = hashlib.sha256(repr(flow.model.arguments).encode())
    for name, tensor in flow.model.state_dict().items():
        digest.update(name.encode())
        digest.update(tensor.detach().cpu().numpy().tobytes())
    return digest.hexdigest()
