"""Generating a dataset: initial states, their trajectories by SciPy, and how accurate they are."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import tempfile
import warnings
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vpintegrator.data.dataset import Dataset
from vpintegrator.data.dataset_file import folder_of, write_dataset
from vpintegrator.data.generation.plan import ShardPlan, known_steps, measure_accuracy
from vpintegrator.data.generation.shards import Shards, make_shard, remove_shards, save
from vpintegrator.data.observation import Observation
from vpintegrator.data.recipe import Recipe, load_recipe
from vpintegrator.data.split import Split
from vpintegrator.data.variation import STEP, Variation
from vpintegrator.dynamics import System
from vpintegrator.errors import InputError
from vpintegrator.runtime import pool
from vpintegrator.storage.files import check_output, locked
from vpintegrator.storage.reading import StoredGroup, open_any
from vpintegrator.storage.toml import read_toml

if TYPE_CHECKING:
    from distributed import Client

_DRIFT = 100.0  # drift of an invariant, relative to the error of states, that is too large
_LEAST_DRIFT = 1e-8  # a smaller one is rounding
_LARGEST_SINGLE = 2**30  # bytes of states up to which a dataset is one file


def generate(
    source: str | os.PathLike[str] | Recipe | System,
    path: str | os.PathLike[str],
    *,
    overwrite: bool = False,
    resume: bool = False,
    workers: int = 1,
    scheduler: str | os.PathLike[str] | Client | None = None,
    single_file: bool | None = None,
    progress: Callable[[int, int], None] | None = None,
    count: int | None = None,
    step: float | None = None,
    steps: int | None = None,
    trajectories: Mapping[str, int] | None = None,
    initial_conditions: Mapping[str, Any] | None = None,
    split: Split | Mapping[str, Any] | None = None,
    vary: Variation | Mapping[str, Any] | None = None,
    observe: Observation | Mapping[str, Any] | None = None,
    parameters: Mapping[str, Any] | None = None,
    method: str | None = None,
    rtol: float | None = None,
    atol: float | None = None,
    seed: int | None = None,
) -> Dataset:
    """Generate a dataset and write it to a file.

    In chaos a solution is lost after some time: its error grows above a hundredth of the spread of
    the states. All trajectories of the dataset then end before, and a warning says when.

    A small dataset is made in this process. One of more than some 20 MiB is made in shards:
    consecutive trajectories, each in a file of its own in the folder ``path`` + ``.shards``. They
    are the same whoever makes them, so that neither the number of workers nor an interruption
    changes a bit of the states. A shard for each worker is in memory, besides the initial states,
    and a single file while it is written.

    Parameters
    ----------
    source
        A recipe or a system: a name in the catalogue, a path, TOML text, a :class:`Recipe` or a
        :class:`System`.
    path
        The HDF5 file to write.
    overwrite
        Whether a file of that name, and the shards beside it, may be replaced.
    resume
        Whether to keep the shards that an interrupted call left, or that an incomplete dataset
        still has: each is read and checked, and what is missing or damaged is made anew.
    workers
        Processes on this machine.
    scheduler
        Address or file of a dask scheduler whose workers make the shards, or its
        ``distributed.Client``. The folder of ``path`` must be shared by all machines.
    single_file
        Whether the shards are copied to one file in the end and deleted, or the file is a view of
        them (an HDF5 virtual dataset) that needs the folder beside it. By default one file up to
        1 GiB.
    progress
        Called with the numbers of states found and wanted.
    count, step, steps, trajectories, initial_conditions, split, vary, observe, parameters, \
    method, rtol, atol, seed
        Changes of the recipe, see :func:`load_recipe`. With ``observe`` the dataset holds what is
        observed (:class:`vpintegrator.data.Observation`), and the states beside, which no training
        reads.

    Returns
    -------
    Dataset
        Opened. Its ``accuracy`` holds, as measured: ``invariant_drift``, for each invariant the
        largest change along a trajectory divided by the largest value of the invariant anywhere;
        ``estimated_error``, the largest difference in any component, relative to the size of the
        component, from a sample of trajectories of each shard integrated again, more tightly;
        ``sample``, their number. The last two are absent for maps by formula and for classical
        methods, whose states are exact.
        ``steps_asked``, the steps of the recipe, is there if the solution was lost before.

    Raises
    ------
    InputError
        If the input is wrong, or a solution does not reach the last time.
    OSError
        If the disk is full or the workers are lost; ``resume`` then goes on.

    Examples
    --------
    >>> dataset = generate("rigid-body", "rigid-body.h5", count=100)  # doctest: +SKIP
    >>> dataset = generate(  # doctest: +SKIP
    ...     "rigid-body", "large.h5", count=10**6, steps=100, workers=8, resume=True
    ... )
    """
    workers = pool.check_workers(workers, scheduler)
    recipe = load_recipe(
        source,
        count=count,
        step=step,
        steps=steps,
        trajectories=trajectories,
        initial_conditions=initial_conditions,
        split=split,
        vary=vary,
        observe=observe,
        parameters=parameters,
        method=method,
        rtol=rtol,
        atol=atol,
        seed=seed,
    )
    plan = ShardPlan.of(recipe)
    wanted = recipe.steps
    done = 0
    if recipe.observe.table:
        if resume or single_file is False:
            raise InputError("observed data are made at once, in one file; leave out the other")
        options = {"workers": workers, "scheduler": scheduler, "progress": progress}
        return _observe(recipe, check_output(path, overwrite), overwrite, options)
    layout = _layout(path, recipe) if resume else None
    path = check_output(path, overwrite or layout is not None)
    if layout == "file":
        with locked(path):
            remove_shards(path)  # if it was stopped just before that
        return _opened(path, recipe)
    if single_file is None:
        size = 8 * recipe.count * (recipe.steps + 1) * recipe.system.dim
        single_file = layout != "view" and size <= _LARGEST_SINGLE

    def count_states(states: int) -> None:
        nonlocal done
        done += states
        if progress:
            progress(done, recipe.count * (recipe.steps + 1))

    count_states(0)
    if plan.shards == 1 and not folder_of(path).exists():
        states = plan.integrate(count_states)
        measured = measure_accuracy(plan, states)
        if measured.steps < wanted:
            recipe = _shortened(recipe, measured.steps)
            plan = dataclasses.replace(plan, recipe=recipe)
            states = states[:, : recipe.steps + 1]
            measured = measure_accuracy(plan, states)
        groups = {group: states[part] for group, part in recipe.parts().items()}
        accuracy = measured.summary() | _asked(recipe, wanted)
        save(path, plan, groups, accuracy, overwrite=overwrite)
        return _opened(path, recipe)
    if (known := known_steps(plan)) < wanted:
        recipe = _shortened(recipe, known)
        plan = ShardPlan.of(recipe)
    shards = Shards(path, plan)
    made = []
    alone = scheduler is None and (workers == 1 or plan.shards == 1)
    make = partial(make_shard, progress=count_states) if alone else make_shard
    workers = min(workers, plan.shards)
    results = pool.map(make, shards.tasks(resume), workers=workers, scheduler=scheduler)
    with shards.open(resume, overwrite), contextlib.closing(results):
        for shard in results:
            made.append(shard)
            if not alone or shard.reused:
                count_states(shard.trajectories * (recipe.steps + 1))
        overwrite = overwrite or layout == "view"
        shards.bind(made, _asked(recipe, wanted), single=single_file, overwrite=overwrite)
    return _opened(path, recipe)


def _observe(recipe: Recipe, path: Path, overwrite: bool, options: dict[str, Any]) -> Dataset:
    """Generate complete states beside a file, and write what is observed of them to it."""
    observation = recipe.observe
    hidden = recipe.observe.hide
    with tempfile.TemporaryDirectory(prefix=".observed-", dir=path.parent) as folder:
        whole = dataclasses.replace(recipe, observe=Observation())
        full = generate(whole, Path(folder, "complete.h5"), single_file=True, **options)
        recipe = dataclasses.replace(recipe, steps=read_toml(full.recipe, "")["steps"])
        states = {group: full.states(group) for group in full.shapes}
        conditions = {group: full.conditions(group) for group in full.shapes}
        times = {group: full.times(group) for group in full.shapes}
    parameters = {group: recipe.parameters(values) for group, values in conditions.items()}
    exact = observation.states(recipe.varied, states, parameters)
    observed = observation.noisy(exact, recipe.seed)
    first = {group: which.start for group, (which, _) in recipe.parts().items()}
    # where a step is hidden, times are those of the middle one
    unit = recipe.step if STEP in hidden else 1.0
    told = [name for name in recipe.vary.ranges if name not in hidden]
    columns = [[*recipe.vary.ranges].index(name) for name in told]
    attributes = {key: full.attributes[key] for key in ("title", "seed", "accuracy")}
    write_dataset(
        path,
        overwrite,
        observation.system(recipe.system, recipe.vary),
        recipe.step,
        attributes | {"recipe": recipe.text},
        {g: (observed[g], unit * times[g], first[g], conditions[g][:, columns]) for g in states},
        {name: recipe.vary.bounds[name] for name in told},
        complete=(
            recipe.system,
            {g: (states[g], times[g], first[g], conditions[g]) for g in states},
            recipe.vary.bounds,
        ),
    )
    return Dataset(path)


def _asked(recipe: Recipe, steps: int) -> dict[str, int]:
    return {} if recipe.steps == steps else {"steps_asked": steps}


def _shortened(recipe: Recipe, steps: int) -> Recipe:
    """Return the recipe for so many steps, and warn of it.

    Raises
    ------
    InputError
        If not even a step is known.
    """
    name = recipe.system.name
    if not steps:
        timed = recipe.system.explicit_time is not None
        reason = " (a force shorter than the steps of the solver does that)" if timed else ""
        raise InputError(
            f"the solution of {name} is lost within the first steps: at a tenth of the tolerance "
            f"it is another one{reason}; give a smaller rtol and atol, or a shorter step"
        )
    warnings.warn(
        f"trajectories end after {steps:,} of {recipe.steps:,} steps, at t = "
        f"{recipe.duration * steps / recipe.steps:.6g}: beyond, the error of the solution grows "
        "above a hundredth of the spread of the states",
        stacklevel=3,
    )
    return dataclasses.replace(recipe, steps=steps)


def _opened(path: Path, recipe: Recipe) -> Dataset:
    """Return the dataset, with a system that no file holds beside it; warn of drifts."""
    dataset = Dataset(path)
    error = dataset.accuracy.get("estimated_error", 0.0)
    if not recipe.is_classical:
        drifts = dataset.accuracy.get("invariant_drift", {}).items()
        allowed = max(_DRIFT * error, _LEAST_DRIFT)
        large = [f"{name} by {drift:.2g}" for name, drift in drifts if drift > allowed]
        if large:
            warnings.warn(
                f"{path}: relative to their size, invariants drift by more than the error "
                f"{error:.2g} of the states: {', '.join(large)}; they are not constant at these "
                "states, or the tolerance is too large",
                stacklevel=3,
            )
    return dataset if recipe.system.has_formulas else dataset.attached(recipe.system)


def _layout(path: str | os.PathLike[str], recipe: Recipe) -> str | None:
    """Return ``file`` or ``view`` if there is a dataset of this recipe, else None."""
    with contextlib.suppress(InputError), open_any(path) as file:
        f = StoredGroup(file, path)
        if f.json("accuracy", dict).get("steps_asked") == recipe.steps:  # lost earlier
            steps = read_toml(f.text("recipe"), str(path))["steps"]
            recipe = dataclasses.replace(recipe, steps=steps)
        if (f.text("recipe"), f.text("system")) == (recipe.text, recipe.system.text):
            return "view" if f.has("shards") else "file"
    return None
