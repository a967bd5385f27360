"""Datasets from states that were measured, or computed by other programs."""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from vpintegrator.arguments import one_of, positive
from vpintegrator.data.chains import chains
from vpintegrator.data.dataset import Dataset
from vpintegrator.data.dataset_file import Conditions, fingerprint, write_dataset
from vpintegrator.data.importing.readers import Runs, plain_name, read_runs
from vpintegrator.data.split import GROUPS, Split, consecutive
from vpintegrator.data.variation import STEP
from vpintegrator.dynamics import System, load_system
from vpintegrator.dynamics.conjugate import conjugate_pairs
from vpintegrator.dynamics.expressions import check_name
from vpintegrator.dynamics.solve import solve_varied
from vpintegrator.errors import InputError
from vpintegrator.names import FORMS
from vpintegrator.storage.files import check_output
from vpintegrator.storage.toml import toml_text

_CLAIMS = {
    "symplectic": "symplectic = true\n",
    "volume": "divergence_free = true\n",
    "none": "divergence_free = false\n",
}
_FEW = 5  # runs from which on whole ones are dealt out
_UNEQUAL = 1e-3  # relative difference of steps that are not equal
_ROUNDED = 0.1  # the same where the step is given: times as written are rounded
_CHECKED = 1000  # steps that are solved for
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
    axes
        First axis of arrays of three axes, ``"trajectory"`` or ``"time"``. By default trajectories
        come first, and an array that looks as if times came first is refused.
    parameter_columns
        Names of columns or arrays that are parameters, constant in each run. A parameter that
        differs between runs is one of ``dataset.varied``.
    system, parameters
        System behind the states, by name, file or object, and parameters of it. Without a system,
        what needs equations (classical methods, accurate solutions) is left out later on. Angles
        that stay within one period are continued over their jumps.
    structure
        Structure of a map without known equations: ``"symplectic"``, ``"volume"`` or
        ``"none"``. By default components named as positions and momenta (q1, p1, or x, px) are
        taken for symplectic; for other states ``vp-train`` tries all three. Symplectic states are
        stored as positions, then momenta.
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
    axes = axes and one_of("axes", axes, ("trajectory", "time"))
    runs = read_runs(source, variable, columns, parameter_columns, axes)
    if times is not None or components is not None:
        runs = _with_times_and_names(runs, times, components)
    _check_values(runs)
    runs, in_order = _joined(runs) if split is None else (runs, False)
    steps, first = _steps(runs, None if step is None else positive("step", step))
    notes = [*runs.notes]
    found, order = _system(runs, system, parameters, structure, title, notes)
    states = _with_time(runs.states[..., order], found, runs, steps)
    states, jumped = _continued(states, found.periods)
    if jumped:
        angles = ", ".join(found.components[k] for k in jumped)
        notes.append(f"angles that jumped by their period are continued over it: {angles}")
    count, length, _ = states.shape
    way, groups = _deal(count, length, split, fractions, None if in_order else seed)
    values = {STEP: steps} | _parameters(runs)
    varied = {name: value for name, value in values.items() if np.ptp(value)}
    rows = np.concatenate([groups[name][0] for name in ("test", "train")])
    nominal = {name: float(v[rows[0]]) for name, v in values.items() if name != STEP}
    found = _with_parameters(found, nominal, varied, system is None, runs.where)
    check_output(path, overwrite)
    misses, unsolved = _misses(found, states, steps, varied)
    if axes is None and not varied and runs.rows is None:
        _check_axes(found, states, steps, misses, runs.where)
    if not found.is_measured:
        miss = f"misses the next state by {misses:.2g} of the change in it (median)"
        unknown = f"it cannot be told how well the equations describe the data: {unsolved}"
        notes.append(unknown if unsolved else f"one step of the equations {miss}")
    parts = {name: states[which][:, span] for name, (which, span) in groups.items()}
    step, title = float(np.median(steps)), title or found.title
    counted = np.arange(float(length))
    counted = counted if STEP in varied else first + step * counted
    axis = 0 if way.by == "trajectory" else 1
    recipe: dict[str, Mapping[str, Any]] = {
        "imported": {
            "source": Path(runs.where).name if runs.is_file else "arrays",
            "variable": runs.variable,
            "parameter_columns": [*(runs.parameters or ())],
            "notes": notes,
        },
        "split": {"by": way.by, **{n: parts[n].shape[axis] for n in GROUPS}},
    }
    conditions = None
    if varied:
        ranges = {name: (float(v.min()), float(v.max())) for name, v in varied.items()}
        table = np.stack([*varied.values()], axis=-1)
        conditions = Conditions(ranges, {n: table[which] for n, (which, _) in groups.items()})
    write_dataset(
        path,
        overwrite,
        found,
        step,
        {
            "title": title,
            "recipe": toml_text({"title": title}, recipe),
            "seed": seed,
            "accuracy": json.dumps({}),
            "fingerprint": fingerprint(parts, step, conditions),
            "complete": int(np.isfinite(states).all()),
        },
        {n: (parts[n], counted[span], which) for n, (which, span) in groups.items()},
        conditions=conditions,
    )
    return Dataset(path)


def _joined(runs: Runs) -> tuple[Runs, bool]:
    """Return runs of pairs of states joined to trajectories, or in the order of time.

    Pairs that follow one another are the same data as their trajectory, and give the same groups.
    Where they make few trajectories of unequal lengths they stay pairs, which are dealt out in the
    order of time: the second value is true.
    """
    count, length, _ = runs.states.shape
    if length != 2 or count < 2 or runs.times is not None or runs.parameters:
        return runs, False
    orbits = chains(runs.states[:, 0], runs.states[:, 1])
    if len({len(orbit) for orbit in orbits}) > 1:
        order = np.concatenate(orbits)
        few = len(orbits) < _FEW
        return (replace(runs, states=runs.states[order]), True) if few else (runs, False)
    if len(orbits) == count:
        return runs, False
    states = np.stack(
        [np.vstack([runs.states[orbit[0], :1], runs.states[orbit, 1]]) for orbit in orbits]
    )
    many = "one trajectory" if len(orbits) == 1 else f"{len(orbits):,} trajectories"
    note = f"the pairs follow one another: they are {many}"
    return replace(runs, states=states, rows=None, notes=(*runs.notes, note)), False


def _deal(
    count: int,
    length: int,
    split: Split | str | None,
    fractions: Sequence[float] | None,
    seed: int | None,
) -> tuple[Split, dict[str, tuple[Any, slice]]]:
    """Return the split, and numbers and times of the runs of each group; in order without seed."""
    split = split or ("trajectory" if count >= _FEW else "time")
    if isinstance(split, str):
        split = Split(split, None if fractions is None else tuple(fractions))
    if not isinstance(split, Split):
        raise InputError(
            f"split = {split!r}: expected 'trajectory', 'time' or a vpintegrator.data.Split; "
            "fractions = (0.7, 0.15, 0.15) gives the parts"
        )
    if split.by == "time":
        cut = consecutive(split.counts(length, fewest=2))
        return split, {group: (np.arange(count), part) for group, part in cut.items()}
    order = np.arange(count) if seed is None else np.random.default_rng(seed).permutation(count)
    cut = consecutive(split.counts(count))
    return split, {group: (np.sort(order[part]), slice(0, length)) for group, part in cut.items()}


def _with_times_and_names(runs: Runs, times: Any, components: Sequence[str] | None) -> Runs:
    """Return runs of arrays with the times and names that are given."""
    if runs.rows is not None:
        raise InputError("times and components are for arrays; a table has columns")
    count, length, dim = runs.states.shape
    if times is not None:
        try:
            found = np.asarray(times, dtype=np.float64)
            times = np.broadcast_to(found, (count, length))
        except (TypeError, ValueError):
            raise InputError(
                f"times must be numbers of the shape ({length},) or ({count}, {length}), those of "
                "the states"
            ) from None
    if components is not None and len(components) != dim:
        raise InputError(f"{len(components)} components are named, but there are {dim}")
    return replace(
        runs,
        times=runs.times if times is None else times,
        names=runs.names if components is None else tuple(components),
    )


def _continued(states: np.ndarray, periods: Mapping[int, float]) -> tuple[np.ndarray, list[int]]:
    """Return states with angles continued over their jumps, and the numbers of those that jumped.

    An angle is taken to be reduced to one period if it stays within one, and if every change in a
    step is either a jump by more than 3/4 of the period or less than 1/4.
    """
    jumped = list[int]()
    for component, period in periods.items():
        angle = states[..., component]
        changes = np.diff(angle, axis=-1) / period
        doubtful = ((np.abs(changes) > 1 / 4) & (np.abs(changes) < 3 / 4)).any()
        turns = np.cumsum(-np.nan_to_num(np.round(changes)), axis=-1)
        reduced = np.nanmax(angle) - np.nanmin(angle) <= period * (1 + 1e-6)
        if reduced and not doubtful and turns.any():
            jumped.append(component)
            states = states.copy()
            states[..., 1:, component] += period * turns
    return states, jumped


def _with_time(states: np.ndarray, system: System, runs: Runs, steps: np.ndarray) -> np.ndarray:
    """Return states with the time behind them, where the equations depend on it."""
    if system.explicit_time is None or states.shape[2] == system.dim:
        return states
    times = steps[:, None] * np.arange(states.shape[1]) if runs.times is None else runs.times
    return np.concatenate([states, times[..., None]], axis=-1)


def _check_values(runs: Runs) -> None:
    """Raise InputError where a state before the end of its run is no finite number."""
    lengths = runs.lengths
    inside = np.arange(runs.states.shape[1]) < lengths[:, None]
    if (short := np.flatnonzero(lengths < 2)).size:
        raise InputError(
            f"{runs.where}: a trajectory needs two states or more, but trajectory {short[0]} has "
            f"{lengths[short[0]]}"
        )
    bad = np.argwhere(~np.isfinite(runs.states) & inside[..., None])
    if len(bad):
        run, time, component = (int(k) for k in bad[0])
        value = "infinite" if np.isinf(runs.states[run, time, component]) else "NaN"
        name = component if runs.names is None else runs.names[component]
        raise InputError(
            f"{runs.where}: component {name} at {runs.place(run, time)} is {value}; leave out that "
            "run, or cut it in two there"
        )


def _steps(runs: Runs, given: float | None) -> tuple[np.ndarray, float]:
    """Return the step of each run, (run,), and the first time.

    Steps of all runs are the same number if they are equal but for rounding.

    Raises
    ------
    InputError
        If steps in a run are not equal, or unknown.
    """
    count = len(runs.states)
    if runs.times is None:
        step = runs.step if given is None else given
        if step is None:
            raise InputError(
                f"{runs.where} does not say the time between two states; give it with --step "
                "(step=... in Python), or add a column or an array named time"
            )
        return np.full(count, positive("step", step)), 0.0
    steps, tolerance = np.empty(count), _UNEQUAL if given is None else _ROUNDED
    for run, (times, length) in enumerate(zip(runs.times, runs.lengths, strict=True)):
        differences = np.diff(times[:length])
        usual = float(np.median(differences)) if given is None else given
        wrong = ~(np.abs(differences - usual) <= tolerance * usual) | ~(differences > 0)
        if wrong.any():
            k = int(wrong.argmax())
            raise InputError(
                f"{runs.where}: the time at {runs.place(run, k + 1)} is {times[k + 1]:g}, "
                f"{differences[k]:.6g} after the one before, where steps are {usual:.6g}; states "
                "need equal steps: interpolate them (scipy.interpolate.CubicSpline), or give each "
                "pair of neighbouring states as a run of its own"
            )
        steps[run] = usual if given is not None else (times[length - 1] - times[0]) / (length - 1)
    middle = float(np.median(steps))
    if given is None and np.abs(steps - middle).max() <= _UNEQUAL * middle:
        # over all times, so that rounding of single ones does not add up: 0.05, not 0.0499999999
        weights = runs.lengths - 1
        steps[:] = float(f"{(steps * weights).sum() / weights.sum():.12g}")
    starts = runs.times[:, 0]
    return steps, float(starts[0]) if np.ptp(starts) <= tolerance * middle else 0.0


def _parameters(runs: Runs) -> dict[str, np.ndarray]:
    """Return the parameters of each run, (run,), by name, whose names and values are checked."""
    found = dict(runs.parameters or {})
    for name, values in found.items():
        if check_name(name, f"{runs.where}, parameter {name}") == STEP:
            raise InputError(f"{runs.where}: a parameter cannot be named '{STEP}'; rename it")
        if not np.isfinite(values).all():
            raise InputError(f"{runs.where}: the parameter {name} of a run is no finite number")
    return found


def _with_parameters(
    system: System,
    nominal: Mapping[str, float],
    varied: Collection[str],
    generated: bool,
    where: str,
) -> System:
    """Return the system with values of the parameters that were read.

    A parameter that varies has the value of the first test trajectory. The text of a generated
    system is given the parameters; another system has to declare those that vary.

    Raises
    ------
    InputError
        If a system that was given has no parameter of this name.
    """
    if generated:
        return System(system.text + toml_text({}, {"parameters": nominal}), system.name)
    if missing := [n for n in nominal if n in varied and n not in system.parameters]:
        raise InputError(
            f"{where}: {', '.join(missing)} varies, but {system.name} has no such parameter; "
            "declare it in its table [parameters], or leave out the column"
        )
    own = {name: value for name, value in nominal.items() if name in system.parameters}
    return System(system.text, system.name, {**system.definitions, **own}) if own else system


def _system(
    runs: Runs,
    system: System | str | os.PathLike[str] | None,
    parameters: Mapping[str, Any] | None,
    structure: str | None,
    title: str | None,
    notes: list[str],
) -> tuple[System, list[int]]:
    """Return the system, or one without equations, and the columns in the order of its state."""
    names, dim = runs.names, runs.states.shape[2]
    if system is None:
        if parameters:
            raise InputError("parameters are those of a system; give one with --system")
        title = title or (Path(runs.where).stem if runs.is_file else "Measured")
        claim, order, told = _claimed(structure, names, dim, runs.where)
        notes += told
        state = json.dumps(_valid([names[k] for k in order] if names else [], dim))
        text = f"title = {json.dumps(title)}\nmeasured = true\n{claim}state = {state}\n"
        return System(text, "-".join(title.lower().split()) or "measured"), order
    if structure is not None:
        raise InputError("structure is claimed of states without a system; leave out one of both")
    if not isinstance(system, System):
        system = load_system(system, **(parameters or {}))
    if dim not in (system.dim, system.phase_dim):
        held = f" ({', '.join(names)})" if names is not None else ""
        raise InputError(
            f"{system.name} has {system.dim} components ({', '.join(system.components)}), but "
            f"{runs.where} holds states of {dim}{held}"
        )
    own = [plain_name(name) for name in system.components[:dim]]
    plain = [plain_name(name) for name in names or ()]
    if sorted(plain) == sorted(own):
        return system, [plain.index(name) for name in own]
    return system, list(range(dim))


def _claimed(
    claim: str | None, names: Sequence[str] | None, dim: int, where: str
) -> tuple[str, list[int], list[str]]:
    """Return lines on the structure for a system file, the order of components, and notes.

    Names such as q1, p1 or x, px propose symplectic. Symplectic states are positions and then
    momenta, by the names of the components, or else by their order.
    """
    order = list(range(dim))
    if claim is not None:
        one_of("structure", claim, FORMS)
    plain = [plain_name(name) for name in names or ()]
    pairs = conjugate_pairs(plain, velocities=claim == "symplectic")
    if claim not in (None, "symplectic") or (claim is None and pairs is None):
        return _CLAIMS.get(claim or "", ""), order, []
    if dim % 2:
        raise InputError(
            f"{where}: symplectic states are positions and as many momenta, but there are {dim} "
            "components"
        )
    notes, listed = [], list(names or [f"z{k + 1}" for k in order])
    if claim is None:
        notes.append(
            f"the components {', '.join(listed)} are named as positions and momenta: the map is "
            "taken for symplectic (--structure says another)"
        )
    if (
        pairs is not None
        and (told := [k for side in zip(*pairs, strict=True) for k in side]) != order
    ):
        order = told
        moved = ", ".join(listed[k] for k in order)
        notes.append(f"the components are stored as {moved}: positions, then momenta")
    elif pairs is None and dim > 2:
        half = dim // 2
        notes.append(
            f"positions are {', '.join(listed[:half])}, momenta {', '.join(listed[half:])}, by "
            "their order (names such as x, px tell another)"
        )
    return _CLAIMS["symplectic"], order, notes


def _valid(names: Sequence[str], dim: int) -> list[str]:
    """Return names of components that a system file may use."""
    try:
        found = [check_name(plain_name(name), "") for name in names]
    except InputError:
        found = []
    return found if len(set(found)) == dim else [f"z{k + 1}" for k in range(dim)]


def _misses(
    system: System, states: np.ndarray, steps: np.ndarray, varied: Mapping[str, np.ndarray]
) -> tuple[float, str]:
    """Return how far one step of the equations is from the next states, and why it is not known.

    The first value is the median relative to the change in the step, NaN if it is not known.
    """
    if system.is_measured:
        return np.nan, "there are none"
    names, (_, length, dim) = [name for name in varied if name != STEP], states.shape
    pairs = np.stack([states[:, :-1], states[:, 1:]], axis=2).reshape(-1, 2, dim)
    seen = np.flatnonzero(np.isfinite(pairs).all(axis=(1, 2)))
    chosen = seen[np.unique(np.linspace(0, len(seen) - 1, _CHECKED).astype(int))]
    pairs, runs = pairs[chosen], chosen // (length - 1)
    own = np.stack([steps, *(varied[name] for name in names)], axis=-1)[runs]
    try:
        reached = solve_varied(
            system.with_open(names), pairs[:, 0], own[:, 0], own[:, 1:], np.arange(2), rtol=1e-10
        )[:, 1]
    except InputError as error:
        return np.nan, str(error)
    size = np.abs(pairs[:, 1] - pairs[:, 0]).max(axis=1)
    misses = np.abs(reached - pairs[:, 1]).max(axis=1) / np.where(size > 0, size, 1.0)
    return float(np.median(misses)), ""


def _check_axes(
    system: System, states: np.ndarray, steps: np.ndarray, misses: float, where: str
) -> None:
    """Raise InputError where the axes of states (trajectory, time, dim) look exchanged.

    The equations decide where they are known: they miss the next states, and with the axes
    exchanged they do not. Otherwise neighbours along the second axis are as far apart as any two
    states, and those along the first are close.
    """
    count, length, _ = states.shape
    swapped, is_swapped = states.swapaxes(0, 1), False
    if count < 2 or not np.isfinite(states).all():
        return
    if not system.is_measured and not misses < _MISSED:
        exchanged, _ = _misses(system, swapped, np.full(length, steps[0]), {})
        is_swapped = exchanged < 0.2 * np.fmin(misses, 1.0)
    elif system.is_measured and min(count, length) > 3 and max(count, length) >= 20:
        is_swapped = _roughness(states) > 0.5 and _roughness(swapped) < 0.05
    if is_swapped:
        raise InputError(
            f"{where}: the array of shape {states.shape} looks like (time, trajectory, dim); say "
            "--axes time (axes='time' in Python), or --axes trajectory if that is what it is"
        )


def _roughness(states: np.ndarray) -> float:
    """Return the mean square of changes along time by that of differences of any two states."""
    with np.errstate(all="ignore"):
        changes, spread = np.diff(states, axis=1).var((0, 1)), 2 * states.var((0, 1))
        return float(np.mean(changes[spread > 0] / spread[spread > 0])) if spread.any() else 0.0
