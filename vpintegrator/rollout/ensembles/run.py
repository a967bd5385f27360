"""Statistics of very many trajectories of one map, without storing their states."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from vpintegrator.arguments import whole_number
from vpintegrator.dynamics import System
from vpintegrator.errors import InputError
from vpintegrator.rollout.ensembles.escape import Escape
from vpintegrator.rollout.ensembles.mover import Move, Mover, move_model, of_single_states
from vpintegrator.rollout.ensembles.plan import (
    EnsemblePlan,
    find_plane,
    is_canonical_plane,
    read_resolution,
    read_view,
    usual_view,
)
from vpintegrator.rollout.ensembles.result import EnsembleStatistics
from vpintegrator.rollout.ensembles.shard import (
    EnsembleShard,
    EnsembleTask,
    make_shard,
    read_counts,
    rows_of,
)
from vpintegrator.rollout.flow import LearnedFlow, NumericalFlow, learned_flow, trained_step
from vpintegrator.rollout.map_flows import ExactMap
from vpintegrator.rollout.periodic_points import elliptic_point
from vpintegrator.rollout.start import find_system, initial_states
from vpintegrator.runtime.workers import check_workers, cluster, process_pool, versions
from vpintegrator.storage.files import check_output, publish, safe_name
from vpintegrator.storage.shard_folder import ShardFolder, remove_shards

if TYPE_CHECKING:
    from distributed import Client

    from vpintegrator.models import Integrator

_TRIAL = 256  # trajectories and steps that show where states go
_MODEL = "model.safetensors"
_FEW = 64  # states by whose images functions are told apart
_BESIDE, _PARTS = 1e-3, 64  # relative distance from a centre; samples of a flow in a step


@dataclass(frozen=True)
class EnsembleMeasures:
    r"""Measurements of an ensemble.

    Attributes
    ----------
    plane
        Components on the axes of the density, ``"q,p"``. The default is a canonical pair, or the
        first two components.
    view
        Visible part of that plane, ``"q=-1:1,p=-2:2"``, or a mapping of names to (least, largest).
        The default is the extent of a trial run, and a whole period of an angle.
    resolution
        Cells of the view on a side, or (columns, rows).
    escape
        A comparison of a state that has escaped; escaped trajectories are not followed any more.
        Example: ``"q**2 + p**2 > 0.1"``; ``"never"`` stops only trajectories that are no longer
        finite. A trajectory of a model escapes by default if it is out of the training domain by
        more than a tenth of the width.
    rotation
        Definition of the rotation number, the mean growth in a step of an angle :math:`\theta` over
        :math:`2\pi`. ``(x, y)`` takes angles about this point of the plane. A name takes the
        component of that name, which must be an angle. ``"auto"`` takes a component of the plane
        that is an angle, if there is one. Otherwise it takes angles about the elliptic fixed point
        nearest to the mean of the states, or about that mean if there is no such point. In a plane
        that is not canonical it measures nothing. None measures no rotation numbers.

    Examples
    --------
    >>> vp.rollout.EnsembleMeasures(escape="q**2 + p**2 > 0.1").resolution
    1024
    """

    plane: str | tuple[str, str] | None = None
    view: Any = None
    resolution: int | tuple[int, int] = 1024
    escape: str | None = None
    rotation: str | tuple[float, float] | None = "auto"


def ensemble(
    flow: Integrator | NumericalFlow,
    path: str | os.PathLike[str],
    *,
    initial: Any = 100_000,
    steps: int = 1000,
    seed: int = 0,
    measures: EnsembleMeasures | None = None,
    workers: int = 1,
    scheduler: str | os.PathLike[str] | Client | None = None,
    resume: bool = False,
    overwrite: bool = False,
    compiled: bool | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> EnsembleStatistics:
    """Iterate a map from very many states, and write statistics of them to a file.

    The trajectories are made in shards, consecutive ones, whose statistics are kept in the folder
    ``path`` + ``.shards`` until all are there. They follow from the arguments alone, so that
    neither the number of workers nor an interruption changes a number.

    Parameters
    ----------
    flow
        A trained model that reads one state, a function that maps states to the next ones, or any
        other flow, see :func:`vpintegrator.rollout.as_flow`. A model moves states where it is, on a
        GPU for instance; statistics are made on the CPU.
    path
        The HDF5 file to write.
    initial
        Initial states (trajectory, dim), or how many to draw from the distribution that the system
        suggests.
    steps
        Number of steps of each trajectory.
    seed
        Seed of initial states that are drawn.
    measures
        Measurements: plane, view, escape and rotation.
    workers
        Processes on this machine.
    scheduler
        Address or file of a dask scheduler whose workers make the shards, or its
        ``distributed.Client``. The folder of ``path`` must be shared by all machines.
    resume
        Whether to keep the shards that an interrupted call left.
    overwrite
        Whether a file of that name, and the shards beside it, may be replaced.
    compiled
        Whether a model, or an explicit or splitting method, runs as machine code; by default where
        that is possible.
    progress
        Called with the numbers of states found and wanted.

    Raises
    ------
    InputError
        If an argument is wrong.
    OSError
        If the disk is full or the workers are lost; ``resume`` then goes on.

    Examples
    --------
    >>> flow = vp.rollout.as_flow("stoermer-verlet", vp.load_system("pendulum"), 0.2)
    >>> found = vp.rollout.ensemble(flow, "ensemble.h5", initial=100, steps=50, overwrite=True)
    >>> found.density.shape, int(found.density.sum()) + found.off
    ((1024, 1024), 5100)
    """
    workers, steps = check_workers(workers, scheduler), whole_number("steps", steps, 1)
    if steps >= 2**31:
        raise InputError(f"steps = {steps:,} are more than 2^31")
    flow, model = _as_flow(flow, None if isinstance(initial, int | np.integer) else initial)
    system = flow.system
    assert system is not None
    drawn = isinstance(initial, int | np.integer) and not isinstance(initial, bool)
    count = whole_number("initial", initial, 1) if drawn else 0
    states, given = initial_states(system, None if drawn else initial, count, seed)
    move = _here(flow, model, compiled)
    plan = make_plan(flow, move, states, steps, measures or EnsembleMeasures())
    path = check_output(path, overwrite)
    depends = _depends(flow, model, plan, states, compiled)
    folder = ShardFolder(path, "ensemble", "run", depends)
    total, done = len(states) * steps, 0

    def advance(new: int) -> None:
        nonlocal done
        done += new
        if progress:
            progress(done, total)

    advance(0)
    with folder.open(resume, overwrite):
        mover = _mover(flow, model, folder.folder, compiled)
        tasks = list(_tasks(folder, mover, plan, states, resume))
        apart = scheduler is not None or workers > 1
        with _run(min(workers, len(tasks)), scheduler, folder.folder, advance) as run:
            for shard in run(tasks):
                if apart or shard.reused:
                    advance(shard.trajectories * steps)
        found = _gather(flow, tasks, plan, states, given)
        new = folder.folder / ".ensemble.part"
        found.save(new, overwrite=True)
        folder.complete = True
        publish(new, path, overwrite)
        remove_shards(path)
    return found


def _as_flow(flow: Any, initial: Any) -> tuple[NumericalFlow, Integrator | None]:
    """Return a flow of single states with its system, and the model if it can be saved.

    The initial states determine the number of components of a function.
    """
    from vpintegrator.models.wrapped import WrappedModel, check_model, is_own

    model = None
    if isinstance(flow, System) and flow.is_discrete:
        flow = ExactMap(flow)
    if is_own(flow) or isinstance(flow, WrappedModel):
        flow = _of_function(flow, initial)
    if isinstance(flow, LearnedFlow) and not isinstance(flow.model, WrappedModel):
        model, system, name = flow.model, flow.system, flow.name
    elif not isinstance(flow, NumericalFlow):
        check_model(flow, "flow")
        model, system, name = flow, None, flow.name
    if model is not None:
        alone = of_single_states(model)
        system = system or find_system({name: model}, None)
        flow, model = LearnedFlow(alone, system, name), alone
    assert isinstance(flow, NumericalFlow)
    if flow.system is None or flow.dim != flow.system.dim:
        raise InputError(f"{flow.name} needs a system with {flow.dim} components")
    if flow.window != 1:
        raise InputError(
            f"{flow.name} reads {flow.window} states; an ensemble needs a map of single states"
        )
    return flow, model


def _of_function(function: Any, initial: Any) -> NumericalFlow:
    """Return the flow of a function, with a system without equations."""
    from vpintegrator.models.wrapped import name_of, wrap

    shape = np.shape(initial)
    if len(shape) != 2:
        raise InputError(
            f"{name_of(function)} says nothing of its states: give initial states (trajectory, dim)"
        )
    names = json.dumps([f"z{k + 1}" for k in range(shape[1])])
    title = json.dumps(f"Iterates of {name_of(function)}")
    system = System(f"title = {title}\nmeasured = true\nstate = {names}\n", name_of(function))
    model = wrap(function, shape[1])
    return learned_flow(model, system, step=trained_step(model, model.name) or 1.0)


def _here(flow: NumericalFlow, model: Integrator | None, compiled: bool | None) -> Move:
    if model is None:
        return Mover(flow, compiled=compiled).move()
    return move_model(model, flow.system, flow.step, compiled)


def _mover(
    flow: NumericalFlow, model: Integrator | None, folder: Path, compiled: bool | None
) -> Mover:
    """Return the mover for other processes; write a model to the folder of the shards."""
    if model is None:
        return Mover(flow, compiled=compiled)
    from vpintegrator.models import save

    path = folder.resolve() / _MODEL
    save(model, path, overwrite=True)
    return Mover(None, path, flow.system, flow.step, compiled, str(model.scale.device))


def make_plan(
    flow: NumericalFlow, move: Move, states: np.ndarray, steps: int, measures: EnsembleMeasures
) -> EnsemblePlan:
    """Return the plan for the measures, completed by a trial run of states (trajectory, dim).

    Raises
    ------
    InputError
        If the measures are wrong.
    """
    system = flow.system
    assert system is not None
    pair = find_plane(system, measures.plane)
    domain = None if flow.domain is None else flow.domain.within(system)
    if measures.escape is None:
        escape = Escape(domain=domain)
    else:
        escape = Escape(None if measures.escape.strip() == "never" else measures.escape)
    escape.check(system)
    columns, rows = read_resolution(measures.resolution)
    chosen = np.linspace(0, len(states) - 1, min(_TRIAL, len(states))).astype(int)
    with np.errstate(all="ignore"):
        trial = move(states[chosen], min(steps, _TRIAL)).astype(np.float64)
    seen = _inside(escape, system, np.concatenate([states[chosen][:, None], trial], axis=1))
    view = read_view(system, pair, measures.view) or usual_view(pair, system, seen, domain, states)
    turns = _turning(flow, pair, measures.rotation, seen)
    if "centre" in turns:
        turns["near"] = turns_between_returns(system, pair, turns["centre"])
    return EnsemblePlan(system, steps, pair, view, columns, rows, escape, domain=domain, **turns)


def turns_between_returns(
    system: System, pair: tuple[int, int], centre: tuple[float, float]
) -> float:
    """Return the turns per step beside the centre of a return map, including whole turns.

    The flow of the return map is followed from the centre and from a state beside it, between two
    returns. Other maps give 0, because their revolutions between two steps are not defined.
    """
    if system.flow is None or system.dim != 2:
        return 0.0
    states = np.zeros((2, 2))
    states[:, list(pair)] = centre
    states[1] += _BESIDE * np.maximum(np.abs(states[1]), 1.0)
    way = system.states_between(states, _PARTS)
    if way is None or not np.isfinite(way).all():
        return 0.0
    offset = (way[:, 1] - way[:, 0])[:, list(pair)]
    angles = np.unwrap(np.arctan2(offset[:, 1], offset[:, 0]))
    return float((angles[-1] - angles[0]) / (2 * np.pi))


def _inside(escape: Escape, system: System, states: np.ndarray) -> np.ndarray:
    """Return the states (state, dim) of trajectories (trajectory, time, dim) before they leave."""
    return states[np.cumsum(escape.mask(system, states), axis=1) == 0]


def _turning(
    flow: NumericalFlow, pair: tuple[int, int], asked: Any, seen: np.ndarray
) -> dict[str, Any]:
    """Return the fields of the plan on rotation numbers: ``turning``, ``centre``, ``angle``."""
    system = flow.system
    assert system is not None
    if asked is None or asked == "none":
        return {"turning": False}
    if asked == "auto":
        if angles := [k for k in pair if k in system.periods]:
            return {"angle": angles[0]}
        if not len(seen) or not is_canonical_plane(system, pair):
            return {"turning": False}
        found = elliptic_point(flow, seen)
        point, about = (seen.mean(axis=0), "mean") if found is None else (found, "elliptic")
        return {"centre": (float(point[pair[0]]), float(point[pair[1]])), "about": about}
    if isinstance(asked, str) and asked in system.components:
        angle = system.components.index(asked)
        if angle not in system.periods:
            raise InputError(f"rotation = {asked!r}: this component of {system.name} is no angle")
        return {"angle": angle}
    try:
        parts = asked.split(",") if isinstance(asked, str) else asked
        x, y = (float(part) for part in parts)
        if not np.isfinite([x, y]).all():
            raise ValueError
    except (TypeError, ValueError):
        raise InputError(
            f"rotation = {asked!r}: expected a point of the plane, as in '0.1,0', the name of an "
            "angle, 'auto' or 'none'"
        ) from None
    return {"centre": (x, y)}


def _depends(
    flow: NumericalFlow,
    model: Integrator | None,
    plan: EnsemblePlan,
    states: np.ndarray,
    compiled: bool | None,
) -> dict[str, Any]:
    """Return all inputs that the statistics depend on, as JSON."""
    digest = hashlib.sha256()
    if model is not None:
        digest.update(json.dumps(dict(model.metadata), sort_keys=True).encode())
        for name, values in sorted(model.state_dict().items()):
            digest.update(name.encode())
            digest.update(np.ascontiguousarray(values.detach().cpu().numpy()).tobytes())
    elif isinstance(flow, LearnedFlow):  # a function is known by what it does
        digest.update(flow.map(states[:_FEW, None]).tobytes())
    assert flow.system is not None
    there = [] if model is None or model.scale.device.type == "cpu" else [model.scale.device.type]
    return {
        "method": [flow.method_name, flow.step, digest.hexdigest(), compiled, *there],
        "system": flow.system.text,
        "parameters": flow.system.definitions,
        "plan": plan.as_json(),
        "initial": hashlib.sha256(states.tobytes()).hexdigest(),
        **versions(),
    }


def _tasks(
    folder: ShardFolder, mover: Mover, plan: EnsemblePlan, states: np.ndarray, reuse: bool
) -> Iterator[EnsembleTask]:
    rows, place = rows_of(plan.steps), folder.folder.resolve()
    for number, first in enumerate(range(0, len(states), rows)):
        yield EnsembleTask(
            mover=mover,
            plan=plan,
            initial=states[first : first + rows],
            path=place / f"{number:06d}.h5",
            identity=folder.identity,
            number=number,
            versions=versions(),
            reuse=reuse,
        )


def _run(
    workers: int,
    scheduler: str | os.PathLike[str] | Client | None,
    folder: Path,
    advance: Callable[[int], None],
) -> AbstractContextManager[Callable[[Iterable[EnsembleTask]], Iterator[EnsembleShard]]]:
    if scheduler is not None:
        return cluster(scheduler, folder, make_shard)
    if workers > 1:
        return process_pool(workers, make_shard)
    return nullcontext(partial(map, partial(make_shard, progress=advance)))


def _gather(
    flow: NumericalFlow,
    tasks: list[EnsembleTask],
    plan: EnsemblePlan,
    states: np.ndarray,
    seed: int | None,
) -> EnsembleStatistics:
    """Return the sum of the statistics in the shards."""
    density, off = np.zeros((plan.rows, plan.columns), np.int64), 0
    parts: dict[str, list[np.ndarray]] = {
        name: [] for name in ("left", "left_domain", "rotation", "change")
    }
    for task in tasks:
        counts = read_counts(task.path, task.identity, task.number)
        if counts is None:
            raise OSError(f"{task.path} was damaged or deleted meanwhile: go on with --resume")
        density += counts.density
        off += counts.off
        for name, found in parts.items():
            if (values := getattr(counts, name)) is not None:
                found.append(values)
    whole: dict[str, Any] = {
        name: np.concatenate(found) if found else None for name, found in parts.items()
    }
    return EnsembleStatistics(
        plan=plan,
        step=flow.step,
        name=safe_name(flow.name),
        kind=flow.kind,
        title=flow.title,
        seed=seed,
        initial=states,
        density=density,
        off=off,
        **whole,
    )
