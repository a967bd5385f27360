"""Datasets from states that were measured, or computed by other programs."""

from __future__ import annotations

import json
import math
import os
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import combinations_with_replacement
from pathlib import Path
from typing import Any, Literal

import numpy as np

from vpintegrator.arguments import one_of, positive
from vpintegrator.data.dataset import Dataset
from vpintegrator.data.dataset_file import write_dataset
from vpintegrator.data.importing.readers import Runs, plain_name, read_pairs, read_runs
from vpintegrator.data.split import Split, consecutive
from vpintegrator.data.variation import STEP
from vpintegrator.data.windows import chains
from vpintegrator.dynamics import System, load_system
from vpintegrator.dynamics.conjugate import conjugate_pairs
from vpintegrator.dynamics.expressions.parsing import check_name
from vpintegrator.dynamics.solve import solve_varied
from vpintegrator.errors import InputError
from vpintegrator.names import FORMS
from vpintegrator.storage.files import check_output
from vpintegrator.storage.toml import toml_text

_CLAIMS = {
    "symplectic": {"symplectic": True},
    "volume": {"divergence_free": True},
    "none": {"divergence_free": False},
    "lagrangian": {"lagrangian": True},
    None: {},
}
_FEW = 5  # runs from which on whole ones are dealt out
_UNEQUAL = 1e-3  # relative difference of steps that are not equal
_ROUNDED = 0.1  # the same where the step is given: times as written are rounded
_CHECKED = 1000  # steps that are solved for
_NEARLY = 1.25  # periods that angles reduced to one may span, if noise is added to them
_RARE = 0.1  # part of the steps that jump, up to which jumps are no fast turns
_PERIODS = {"2*pi": 2 * np.pi, "360": 360.0, "pi": np.pi, "180": 180.0, "1": 1.0}
_SMOOTH = 0.05  # roughness of an axis along which states follow one another
_NO_MAP = 1e-2  # error of polynomials, relative to the change, of states that follow no map
_DEGREE = 4  # of these polynomials
_MISSED = 0.1  # of the change in a step, by which equations miss the states of another order


def import_dataset(
    source: Any,
    path: str | os.PathLike[str],
    *,
    step: float | None = None,
    times: Any = None,
    components: Sequence[str] | None = None,
    variable: str | None = None,
    columns: Sequence[str] | None = None,
    pairs: Sequence[str] | Literal[True] | None = None,
    axes: str | None = None,
    parameter_columns: Sequence[str] = (),
    system: System | str | os.PathLike[str] | None = None,
    parameters: Mapping[str, Any] | None = None,
    structure: str | None = None,
    title: str | None = None,
    split: Split | str | None = None,
    fractions: Sequence[float] | None = None,
    seed: int = 0,
    overwrite: bool = False,
) -> Dataset:
    """Make a dataset of runs that exist already, each with states at equal steps.

    Parameters
    ----------
    source
        An array (trajectory, time, dim), or (time, dim) for one trajectory; a list of arrays (time,
        dim) of any lengths; a dictionary of arrays; a pandas table; or the path of a file .npz,
        .npy, .h5, .mat or .csv. A table has a column for each component, and if wanted one named
        ``time`` and one named ``run``. Shorter runs of an array end with NaN.
    path
        The HDF5 file to write.
    step
        Time between two states; by default as the times, or the number ``step``, of the source say.
    times
        Times (time,) or (trajectory, time), for arrays.
    components
        Names of the components, for arrays.
    variable
        Name of the array that holds the states; or, separated by commas, names of arrays or columns
        that are the components, or of arrays (trajectory, time, d) that are joined.
    columns
        Names of all columns of a text table.
    pairs
        Names of the arrays (pair, dim) of states before and after a map; in a table the endings of
        their columns, as in ``x_before`` or ``x``, and ``x_after``. ``True`` for a ``source`` of
        two arrays or files, before and after, row by row. Their step is 1 by default. Pairs in
        which a number is NaN or infinite (lost particles) are left out and counted.
    axes
        First axis of arrays of three axes, ``"trajectory"`` or ``"time"``; or ``"particles"`` for
        arrays (time, particle, d), or (trajectory, time, particle, d), whose states hold all
        particles. By default trajectories come first, and an array that looks as if times came
        first is refused.
    parameter_columns
        Names of columns or arrays that are parameters, constant in each run. A parameter that
        differs between runs is one of ``dataset.varied``.
    system, parameters
        System behind the states, by name, file or object, and parameters of it. Without a system,
        what needs equations (classical methods, accurate solutions) is left out later on. Angles
        that stay within one period are continued over their jumps, each step by the nearer side.
    structure
        Structure of a map without known equations: ``"symplectic"``, ``"volume"`` or ``"none"``;
        or ``"lagrangian"`` where states are positions of a mechanical system, without velocities:
        two of them determine the next. By default components named as positions and momenta (q1,
        p1, or x, px) are taken for symplectic; for other states ``vp-train`` tries all three.
        Symplectic states are stored as positions, then momenta.
    title
        Title; by default the system's, or the file's name.
    split, fractions, seed
        ``"trajectory"`` deals out trajectories at random; ``"time"`` cuts each into a first, a
        middle and a last part. Fractions are the parts of train, validation and test, 0.7, 0.15 and
        0.15 by default. By default by trajectory if there are at least five. Pairs of states that
        follow one another, in whatever order, are first joined to trajectories.
    overwrite
        Whether a file of that name may be replaced.

    Returns
    -------
    Dataset
        Opened. What was assumed about the source stands in its recipe, ``notes`` in ``[imported]``.

    Raises
    ------
    InputError
        If the source is not what it should be, or something is unclear: steps that are not equal,
        or an order of axes in which the states fit neither the equations nor smooth trajectories.

    Examples
    --------
    >>> states = np.random.default_rng(0).normal(size=(10, 50, 2))
    >>> dataset = vp.import_dataset(states, "measured.h5", step=0.02, overwrite=True)
    >>> dataset.system.is_measured
    True
    """
    axes = axes and one_of("axes", axes, ("trajectory", "time", "particles"))
    notes = list[str]()
    if pairs is None:
        runs = read_runs(source, variable, columns, parameter_columns, axes, times)
    elif times is not None or axes or parameter_columns:
        raise InputError("pairs of states have no times, axes and columns of parameters")
    else:
        runs = _complete(read_pairs(source, pairs, variable, columns), notes)
    if components is not None:
        runs = replace(runs, names=tuple(components))
        if len(components) != (dim := runs.states.shape[2]):
            raise InputError(f"{len(components)} components are named, but there are {dim}")
    runs = _checked(runs, notes)
    in_order = False
    if split is None:
        runs, in_order = _joined(runs, notes)
    steps, first = _steps(runs, None if step is None else positive("step", step))
    way, groups = _deal(runs.states.shape, split, fractions, None if in_order else seed)
    values = {STEP: steps, **runs.parameters}
    varied = {name: value for name, value in values.items() if np.ptp(value)}
    nominal = np.concatenate([groups[name][0] for name in ("test", "train")])[0]
    known = {name: float(value[nominal]) for name, value in values.items() if name != STEP}
    if system is None:
        if parameters:
            raise InputError("parameters are those of a system; give one with --system")
        source_system, order = _measured(runs, known, structure, title, notes)
    else:
        if structure is not None:
            raise InputError("structure is claimed of states without a system; leave one out")
        if not isinstance(system, System):
            system = load_system(system, **(parameters or {}))
        order = _order(runs, system)
        # a parameter that varies has the value of the first test trajectory
        constants = {
            n: value for n, value in known.items() if n in varied or n in system.parameters
        }
        source_system = system.with_parameters(constants) if constants else system
    states = runs.states[..., order]
    if source_system.explicit_time is not None and states.shape[2] < source_system.dim:
        of_runs = steps[:, None] * np.arange(states.shape[1]) if runs.times is None else runs.times
        states = np.concatenate([states, of_runs[..., None]], axis=-1)
    states = _continued(states, source_system, notes)
    check_output(path, overwrite)
    misses = _misses(source_system, states, steps, varied, notes)
    is_array = axes is None and pairs is None and not runs.is_table
    if is_array and not varied and not misses < _MISSED:
        _check_axes(_on_circles(states, source_system), runs.where, notes)
    step = float(np.median(steps))
    title = title or source_system.title
    counted = np.arange(float(states.shape[1]))
    counted = counted if STEP in varied else first + step * counted
    conditions = np.array([*varied.values()]).reshape(len(varied), len(states)).T
    parts = {
        name: (states[which][:, span], counted[span], which, conditions[which])
        for name, (which, span) in groups.items()
    }
    axis = 0 if way.by == "trajectory" else 1
    recipe: dict[str, Mapping[str, Any]] = {
        "imported": {
            "source": Path(runs.where).name if Path(runs.where).is_file() else "arrays",
            "variable": runs.variable,
            "parameter_columns": [*runs.parameters],
            "notes": notes,
        },
        "split": {"by": way.by, **{name: each[0].shape[axis] for name, each in parts.items()}},
    }
    attributes = {
        "title": title,
        "recipe": toml_text({"title": title}, recipe),
        "seed": seed,
        "accuracy": json.dumps({}),
        "complete": int(np.isfinite(states).all()),
    }
    ranges = {name: (float(each.min()), float(each.max())) for name, each in varied.items()}
    write_dataset(path, overwrite, source_system, step, attributes, parts, ranges)
    return Dataset(path)


def _complete(runs: Runs, notes: list[str]) -> Runs:
    """Return the pairs of finite states, and note how many were left out."""
    kept = np.isfinite(runs.states).all(axis=(1, 2))
    if lost := int((~kept).sum()):
        many = "1 pair" if lost == 1 else f"{lost:,} pairs"
        notes.append(f"left out, as states are NaN or infinite (lost): {many} of {len(kept):,}")
    return replace(runs, states=runs.states[kept])


def _joined(runs: Runs, notes: list[str]) -> tuple[Runs, bool]:
    """Return runs of pairs of states joined to trajectories, or in the order of time.

    Pairs that follow one another are the same data as their trajectory, and give the same groups.
    Where they make few trajectories of unequal lengths they stay pairs, which are dealt out in the
    order of time: the second value is true.
    """
    count, length, _ = runs.states.shape
    is_whole = np.isfinite(runs.states).all()
    if length != 2 or count < 2 or not is_whole or runs.times is not None or runs.parameters:
        return runs, False
    orbits = chains(runs.states[:, 0], runs.states[:, 1])
    if len(orbits) == count:
        return runs, False
    if len({len(orbit) for orbit in orbits}) > 1:
        in_order = len(orbits) < _FEW
        order = np.concatenate(orbits) if in_order else slice(None)
        return replace(runs, states=runs.states[order]), in_order
    states = [np.vstack([runs.states[orbit[0], :1], runs.states[orbit, 1]]) for orbit in orbits]
    many = "one trajectory" if len(orbits) == 1 else f"{len(orbits):,} trajectories"
    notes.append(f"the pairs follow one another: they are {many}")
    return replace(runs, states=np.stack(states)), False


def _deal(
    shape: tuple[int, ...],
    split: Split | str | None,
    fractions: Sequence[float] | None,
    seed: int | None,
) -> tuple[Split, dict[str, tuple[Any, slice]]]:
    """Return the split, and numbers and times of the runs of each group; in order without seed."""
    count, length, _ = shape
    if not isinstance(split, Split):
        way = split or ("trajectory" if count >= _FEW else "time")
        split = Split(way, None if fractions is None else tuple(fractions))
    if split.by == "time":
        cut = consecutive(split.counts(length, fewest=2))
        return split, {group: (np.arange(count), part) for group, part in cut.items()}
    order = np.arange(count) if seed is None else np.random.default_rng(seed).permutation(count)
    cut = consecutive(split.counts(count))
    return split, {group: (np.sort(order[part]), slice(0, length)) for group, part in cut.items()}


def _continued(states: np.ndarray, system: System, notes: list[str]) -> np.ndarray:
    """Return states with angles continued over their jumps, and note what was assumed.

    An angle is taken to be reduced to one period if it stays within one, or nearly. Then each step
    goes by the nearer side.
    """
    states = states.copy()
    for component, period in system.periods.items():
        name = system.components[component]
        angle = states[..., component]
        changes = _changes(angle) / period
        far = np.abs(changes) > 1 / 2
        if np.nanmax(angle) - np.nanmin(angle) > _NEARLY * period:
            if 0 < far.sum() < _RARE * far.size:
                notes.append(
                    f"{name} jumps by its period at {_places(far)}, but does not stay within one "
                    "period: it is left as it is"
                )
            continue
        turns = -np.round(np.nan_to_num(changes))
        if turns.any():
            notes.append(f"angles that jumped by their period are continued over it: {name}")
            states[:, 1:, component] += period * np.cumsum(turns, axis=1)
        if (doubtful := np.abs(changes + turns) > 1 / 4).any():
            notes.append(
                f"{name} moves by more than a quarter of its period at {_places(doubtful)}: the "
                "nearer side is taken, which is wrong where the angle turned by more than half"
            )
    for component in {*range(system.phase_dim)} - {*system.periods}:
        _hint_at_period(states[..., component], system.components[component], notes)
    return states


def _changes(values: np.ndarray) -> np.ndarray:
    """Return changes (run, time - 1) since the last value that is not NaN; NaN where it is one."""
    places = np.where(np.isnan(values), 0, np.arange(values.shape[1]))
    last = np.take_along_axis(values, np.maximum.accumulate(places, axis=1), axis=1)
    changes: np.ndarray = values[:, 1:] - last[:, :-1]
    return changes


def _places(marked: np.ndarray) -> str:
    """Return in words how many steps (run, time - 1) are marked, and which is the first."""
    run, time = np.argwhere(marked)[0]
    many = "a step" if marked.sum() == 1 else f"{marked.sum():,} steps"
    first = "" if marked.sum() == 1 else "first "
    return f"{many} ({first}to time {time + 1} of trajectory {run})"


def _hint_at_period(values: np.ndarray, name: str, notes: list[str]) -> None:
    """Note a component that no system calls an angle, but that jumps by a usual period."""
    spread = np.nanmax(values) - np.nanmin(values)
    for text, period in _PERIODS.items():
        changes = np.abs(_changes(values)) / period
        jumps = changes > 3 / 4
        moves = changes[changes < 3 / 4]
        if not (3 / 4 < spread / period <= 1 + 1e-6 and jumps.any() and len(moves)):
            continue
        # between its jumps an angle moves, but slowly; a switch rests
        if np.median(moves) > 0 and np.quantile(moves, 0.95) < 1 / 4:
            notes.append(
                f"{name} jumps by nearly {text} at {_places(jumps)}: if it is an angle, say so in "
                f"a system file, by {name} = '{text}' below [periodic], and it is continued"
            )
            return


def _checked(runs: Runs, notes: list[str]) -> Runs:
    """Return the runs up to the end of the longest, and note states that are missing.

    Raises
    ------
    InputError
        If a run has less than two states, a state is infinite, or no two neighbouring states are
        known in full.
    """
    lengths = runs.lengths
    if (short := np.flatnonzero(lengths < 2)).size:
        raise InputError(
            f"{runs.where}: a trajectory needs two states or more, but trajectory {short[0]} has "
            f"{lengths[short[0]]}"
        )
    if not len(lengths):
        return runs
    longest = int(lengths.max())
    times = runs.times if runs.times is None else runs.times[:, :longest]
    runs = replace(runs, states=runs.states[:, :longest], times=times)
    inside = np.arange(longest) < lengths[:, None]
    bad = np.argwhere(np.isinf(runs.states))
    if len(bad):
        run, time, component = (int(k) for k in bad[0])
        name = component if runs.names is None else runs.names[component]
        raise InputError(
            f"{runs.where}: component {name} at time {time} of trajectory {run} is "
            f"{runs.states[run, time, component]}; leave out that run, or cut it in two there"
        )
    missing = np.isnan(runs.states) & inside[..., None]  # (run, time, dim)
    seen = inside & ~missing.any(axis=-1)
    if not (seen[:, 1:] & seen[:, :-1]).any():
        component = int(missing.sum(axis=(0, 1)).argmax())
        name = component if runs.names is None else runs.names[component]
        raise InputError(
            f"{runs.where}: no two neighbouring states are known in full; component {name} is NaN "
            f"or masked in {missing[..., component].sum():,} of {inside.sum():,} states"
        )
    if missing.any():
        many = f"{(inside & ~seen).sum():,} of {inside.sum():,} states"
        notes.append(f"missing (NaN or masked): {many}; windows that hold one are left out")
    return runs


def _steps(runs: Runs, given: float | None) -> tuple[np.ndarray, float]:
    """Return the step of each run, (run,), and the first time.

    Steps of all runs are the same number if they are equal but for rounding.

    Raises
    ------
    InputError
        If steps in a run are not equal, or unknown.
    """
    count = len(runs.states)
    lengths = runs.lengths
    if runs.times is None:
        step = runs.step if given is None else given
        if step is None:
            raise InputError(
                f"{runs.where} does not say the time between two states; give it with --step "
                "(step=... in Python), or add a column or an array named time"
            )
        return np.full(count, positive("step", step)), 0.0
    tolerance = _UNEQUAL if given is None else _ROUNDED
    inside = np.arange(1, runs.times.shape[1]) < lengths[:, None]
    differences = np.where(inside, np.diff(runs.times, axis=1), np.nan)
    usual = np.nanmedian(differences, axis=1) if given is None else np.full(count, given)
    even = np.abs(differences - usual[:, None]) <= tolerance * usual[:, None]
    sound = even & (differences > 0)
    if len(wrong := np.argwhere(inside & ~sound)):
        run, k = wrong[0]
        raise InputError(
            f"{runs.where}: time {k + 1} of trajectory {run} is {runs.times[run, k + 1]:g}, "
            f"{differences[run, k]:.6g} after the one before, where steps are {usual[run]:.6g}; "
            "states need equal steps: interpolate them (scipy.interpolate.CubicSpline), or give "
            "each pair of neighbouring states as a run of its own"
        )
    starts = runs.times[:, 0]
    steps = usual
    if given is None:
        weights = lengths - 1
        steps = (runs.times[np.arange(count), weights] - starts) / weights
        middle = np.median(steps)
        if np.abs(steps - middle).max() <= _UNEQUAL * middle:
            # over all times, so that rounding of single ones does not add up: 0.05, not 0.04999999
            steps[:] = float(f"{(steps * weights).sum() / weights.sum():.12g}")
    together = np.ptp(starts) <= tolerance * np.median(steps)
    return steps, float(starts[0]) if together else 0.0


def _order(runs: Runs, system: System) -> list[int]:
    """Return the columns in the order of the system's state."""
    dim = runs.states.shape[2]
    names = [plain_name(name) for name in runs.names or ()]
    if dim not in (system.dim, system.phase_dim):
        raise InputError(
            f"{system.name} has {system.dim} components ({', '.join(system.components)}), but "
            f"{runs.where} holds states of {dim} ({', '.join(names)})"
        )
    ordered = [plain_name(name) for name in system.components[:dim]]
    return (
        [names.index(name) for name in ordered]
        if sorted(names) == sorted(ordered)
        else [*range(dim)]
    )


def _measured(
    runs: Runs,
    parameters: Mapping[str, float],
    claim: str | None,
    title: str | None,
    notes: list[str],
) -> tuple[System, list[int]]:
    """Return a system without equations, and the columns in the order of its state.

    Names such as q1, p1 or x, px propose symplectic. Symplectic states are positions and then
    momenta, by the names of the components, or else by their order.
    """
    dim = runs.states.shape[2]
    numbered = [f"z{k + 1}" for k in range(dim)]
    names = [plain_name(name) for name in runs.names or numbered]
    order = [*range(dim)]
    claim = claim and one_of("structure", claim, (*FORMS, "lagrangian"))
    pairs = conjugate_pairs(names, velocities=claim in ("symplectic", "lagrangian"))
    if claim == "lagrangian":
        _check_positions(runs, names, pairs)
        notes.append(
            "the states are taken for positions of a mechanical system, without velocities: two of "
            "them determine the next"
        )
    if claim == "symplectic" or (claim is None and pairs is not None):
        claim = "symplectic"
        if dim % 2:
            raise InputError(
                f"symplectic states are positions and as many momenta, not {dim} components"
            )
        if pairs is not None:
            order = [k for side in zip(*pairs, strict=True) for k in side]
        listed = [names[k] for k in order]
        notes.append(
            f"the map is taken for symplectic (--structure says another): the states are stored as "
            f"{', '.join(listed)}, where {', '.join(listed[: dim // 2])} are positions"
        )
    try:
        state = [check_name(names[k], "") for k in order]
    except InputError:
        state = []
    title = title or (Path(runs.where).stem if Path(runs.where).is_file() else "Measured")
    entries = {"title": title, "measured": True, **_CLAIMS[claim]}
    entries["state"] = state if len({*state}) == dim else numbered
    text = toml_text(entries, {"parameters": parameters})
    return System(text, "-".join(title.lower().split()) or "measured"), order


def _check_positions(runs: Runs, names: Sequence[str], pairs: Any) -> None:
    """Raise InputError where states have momenta, or no three of them follow one another."""
    if pairs is not None:
        momenta = ", ".join(names[p] for _, p in pairs)
        raise InputError(
            f"structure 'lagrangian' says that states are positions alone, but {momenta} are named "
            "as momenta; choose the positions with --variable, or say symplectic"
        )
    seen = np.isfinite(runs.states).all(axis=-1)
    if not (seen[:, 2:] & seen[:, 1:-1] & seen[:, :-2]).any():
        raise InputError(
            f"{runs.where}: positions need three states that follow one another in a run, two of "
            f"which determine the next, but the longest run has {runs.lengths.max()}"
        )


def _misses(
    system: System,
    states: np.ndarray,
    steps: np.ndarray,
    varied: Mapping[str, np.ndarray],
    notes: list[str],
) -> float:
    """Return, and note, how far one step of the equations is from the next states.

    It is the median relative to the change in the step, NaN if it is not known.
    """
    if system.is_measured:
        return np.nan
    names = [name for name in varied if name != STEP]
    (_, length, dim) = states.shape
    pairs = np.stack([states[:, :-1], states[:, 1:]], axis=2).reshape(-1, 2, dim)
    seen = np.flatnonzero(np.isfinite(pairs).all(axis=(1, 2)))
    places = seen[np.unique(np.linspace(0, len(seen) - 1, _CHECKED).astype(int))]
    pairs = pairs[places]
    runs = places // (length - 1)
    conditions = np.stack([steps, *(varied[name] for name in names)], axis=-1)[runs]
    try:
        flow = system.with_open(names)
        first = pairs[:, 0]
        counts = np.arange(2)
        reached = solve_varied(
            flow, first, conditions[:, 0], conditions[:, 1:], counts, rtol=1e-10
        )[:, 1]
    except InputError as error:
        notes.append(f"it cannot be told how well the equations describe the data: {error}")
        return np.nan
    size = np.abs(pairs[:, 1] - pairs[:, 0]).max(axis=1)
    misses = np.abs(reached - pairs[:, 1]).max(axis=1) / np.where(size > 0, size, 1.0)
    miss = f"misses the next state by {np.median(misses):.2g} of the change in it (median)"
    notes.append(f"one step of the equations {miss}")
    return float(np.median(misses))


def _on_circles(states: np.ndarray, system: System) -> np.ndarray:
    """Return states with cosine and sine in place of each angle, which have no jumps."""
    angles = [2 * np.pi * states[..., [k]] / period for k, period in system.periods.items()]
    circles = [function(angle) for angle in angles for function in (np.cos, np.sin)]
    return np.concatenate([np.delete(states, [*system.periods], axis=-1), *circles], axis=-1)


def _check_axes(states: np.ndarray, where: str, notes: list[str]) -> None:
    """Raise InputError where the axes of states (trajectory, time, dim) look exchanged.

    Neighbours along the second axis are then as far apart as any two states, and those along the
    first are close. Both axes are smooth where orbits begin at neighbouring states. That is noted,
    and refused where states follow a map along the first axis, but not along the second.
    """
    count, length = states.shape[:2]
    other = states.swapaxes(0, 1)
    if max(count, length) < 20 or count < 4 or _roughness(other) > _SMOOTH:
        return
    shape = f"({count}, {length}, dim)"
    say = "say --axes time (axes='time' of vp.import_dataset)"
    is_exchanged = length > 3 and _roughness(states) > 0.5
    if not is_exchanged and min(count, length) >= 10:
        miss = _miss_of_a_map(states)
        is_exchanged = miss > _NO_MAP and _miss_of_a_map(other) < miss / 10
    if is_exchanged:
        raise InputError(
            f"{where}: the array of shape {shape} looks like (time, trajectory, dim); {say}, or "
            "--axes trajectory if that is what it is"
        )
    notes.append(
        f"the array of shape {shape} is taken for (trajectory, time, dim), but neighbours are "
        f"close along both axes; if times come first, {say}"
    )


def _roughness(states: np.ndarray) -> float:
    """Return the mean square of changes along time by that of differences of any two states."""
    changes = np.diff(states, axis=1)
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore", RuntimeWarning)
        spread = 2 * np.nanvar(states, axis=(0, 1))
        squares = np.nanmean(changes**2, axis=(0, 1))
        return float(np.mean(squares[spread > 0] / spread[spread > 0])) if spread.any() else 0.0


def _miss_of_a_map(states: np.ndarray) -> float:
    """Return by how much polynomials of a state miss the next one along time.

    The error at every second trajectory of a fit to the others, relative to the changes; infinite
    where there are too few states.
    """
    moving = np.nanstd(states, axis=(0, 1)) > 0
    z = states[..., moving]
    z = (z - np.nanmean(z, axis=(0, 1))) / np.nanstd(z, axis=(0, 1))  # (trajectory, time, dim)
    pairs = np.stack([z[:, :-1], np.diff(z, axis=1)], axis=2)  # (trajectory, time - 1, 2, dim)
    parts = []
    for half in (pairs[::2], pairs[1::2]):
        flat = half[np.isfinite(half).all(axis=(2, 3))]  # (pair, 2, dim)
        parts.append(flat[:: max(len(flat) // _CHECKED, 1)])
    (first, change), (other, expected) = (part.swapaxes(0, 1) for part in parts)
    misses = []
    for degree in range(1, _DEGREE + 1):
        features = _monomials(first, degree)
        if 2 * features.shape[1] > len(first) or not len(other):
            break
        weights = np.linalg.lstsq(features, change, rcond=None)[0]
        misses.append(np.square(_monomials(other, degree) @ weights - expected).mean())
    size = np.square(expected).mean() if len(other) else 0.0
    return math.sqrt(min(misses) / size) if misses and size > 0 else math.inf


def _monomials(states: np.ndarray, degree: int) -> np.ndarray:
    """Return all products of at most ``degree`` components, (state, product)."""
    dim = states.shape[1]
    factors = [k for n in range(degree + 1) for k in combinations_with_replacement(range(dim), n)]
    return np.stack([states[:, k].prod(axis=1) for k in factors], axis=-1)
