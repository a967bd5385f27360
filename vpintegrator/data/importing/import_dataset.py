"""Datasets from trajectories that were measured, or computed by other programs."""

from __future__ import annotations

import hashlib
import json
import os
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from vpintegrator.data.dataset import Dataset
from vpintegrator.data.dataset_file import FORMAT, FORMAT_VERSION, fingerprint
from vpintegrator.data.importing.array_files import read_arrays
from vpintegrator.data.importing.arrays import Arrays, choose, numbers
from vpintegrator.data.importing.cells import plain_name
from vpintegrator.data.importing.identification import judge
from vpintegrator.data.importing.resampling import resample as resample_states
from vpintegrator.data.importing.times import place_on_grid
from vpintegrator.data.recipe import toml
from vpintegrator.data.split import GROUPS, Split, consecutive
from vpintegrator.dynamics import System, load_system
from vpintegrator.dynamics.angles import unwrapped
from vpintegrator.dynamics.expression import check_name
from vpintegrator.dynamics.state_file import write_header, write_overview, write_states
from vpintegrator.errors import InputError
from vpintegrator.files import check_output
from vpintegrator.hdf5 import create_hdf5

_FEW = 5  # trajectories from which on whole ones are dealt out, and not cut in time


def import_dataset(
    source: Any,
    path: str | os.PathLike[str],
    *,
    step: float | None = None,
    times: Any = None,
    components: Sequence[str] | None = None,
    variable: str | None = None,
    decimal: str | None = None,
    columns: Sequence[str] | None = None,
    system: System | str | os.PathLike[str] | None = None,
    parameters: Mapping[str, Any] | None = None,
    split: Split | str | None = None,
    fractions: Sequence[float] | None = None,
    fit: Sequence[str] | None = None,
    noise: float | Sequence[float] | None = None,
    missing: bool = False,
    resample: bool = False,
    seed: int = 0,
    title: str | None = None,
    overwrite: bool = False,
) -> Dataset:
    """Make a dataset of trajectories that exist already.

    Parameters
    ----------
    source
        An array (trajectory, time, dim), or (time, dim) for one trajectory; a dictionary of arrays;
        or the path of a file .npz, .npy, .csv, .h5 or .nc that holds them. A table has a column for
        each component and, if wanted, one named ``time`` and one named ``trajectory``. What is
        guessed about it stands in the recipe of the dataset, ``guessed`` in ``[imported]``.
    path
        The HDF5 file to write.
    step
        Time between two states. By default as the file says it, by its times or as a number.
    times
        (time,) or (trajectory, time), instead of a step, for arrays.
    components
        Names of the components, for arrays.
    variable
        Which array is meant, where a file holds several; or, with commas between, which arrays or
        columns are the components.
    decimal
        The decimal mark of a text file, ``"."`` or ``","``; found out by default.
    columns
        Names of the columns of a text file without a header, ``["time", "q", "p"]``.
    system
        The system that is thought to be behind the data: its name or file. Without one, what needs
        equations (classical methods, accurate solutions) is left out later on. How well the
        equations describe the data is found out, and a warning says so if they do not; the figures
        are in ``[equations]`` of the recipe. Where it declares angles that stay within one period
        in the data, they are continued over their jumps.
    parameters
        Of the system.
    fit
        Names of its parameters to be estimated from what is trained on; the search begins at their
        values. The dataset's system has the values found, ``[equations.fitted]`` of the recipe
        values and standard errors.
    noise
        Standard deviation of the noise on the states, one number or one for each component of the
        system; estimated from the data by default.
    split, fractions
        By ``"trajectory"``, dealt out at random, or by ``"time"``, each cut into a first, a middle
        and a last part; and the parts of train, validation and test. By default by trajectory if
        there are at least five, and 0.7, 0.15, 0.15.
    missing
        Whether states may be missing: NaN, or times left out. No window that lacks a state is used.
        Trajectories of a table may differ in length in any case.
    resample
        Whether states at irregular times are brought to equal steps by cubic splines; what that
        changes is estimated, and told in ``guessed`` of the recipe.
    seed
        Of the dealing out.
    title
        By default the system's, or the file's name.
    overwrite
        Whether a file of that name may be replaced.

    Returns
    -------
    Dataset
        Opened.

    Raises
    ------
    InputError
        If the arrays are not what they should be, or something is unclear.
    """
    check_output(path, overwrite)
    where = str(source) if isinstance(source, str | os.PathLike) else "the array given"
    if step is not None and not (np.isfinite(step) and step > 0):
        raise InputError(f"step = {step!r} must be a positive number")
    arrays = _arrays(source, times, components, variable, decimal, columns, step)
    arrays = _shaped(arrays, missing, where)
    dim = arrays.states.shape[2]
    known, order = _system(system, parameters, arrays.names, dim, title, where)
    states, continued = unwrapped(arrays.states[..., order], known.periods)
    arrays = replace(arrays, states=states)
    states, step, first, told = _regular(arrays, step, missing, resample, where)
    if continued:
        names = ", ".join(known.components[k] for k in continued)
        told.append(f"angles that jumped by their period are continued over it: {names}")
    units = [arrays.units[k] for k in order] if any(arrays.units) else []
    if split is None:
        split = "trajectory" if len(states) >= _FEW else "time"
    if isinstance(split, str):
        split = Split(split, None if fractions is None else tuple(fractions))
    groups = _deal(len(states), states.shape[1], split, seed)
    for name, value in (("fit", fit), ("noise", noise)):
        if value is not None and known.is_measured:
            raise InputError(f"{name} needs equations; give a system with --system")
    judged: dict[str, Any] = {}
    if not known.is_measured:
        which, span = groups["train"]
        given = None if noise is None else _noise(noise, known.dim)
        known, judged = judge(known, states, states[which][:, span], step, given, fit)
    record = {
        "source": Path(source).name if isinstance(source, str | os.PathLike) else "arrays",
        "variable": arrays.variable,
        "columns": [] if arrays.names is None else [arrays.names[k] for k in order],
        "units": units,
        "time_unit": arrays.time_unit,
        "guessed": [*arrays.guessed, *told],
        "step": step,
        "seed": seed,
        "sha256": hashlib.sha256(np.ascontiguousarray(states).tobytes()).hexdigest(),
    }
    title = title or known.title
    _write(path, overwrite, title, known, states, step, first, groups, split, record, judged)
    if judged.get("fits") == "no":
        warnings.warn(f"the equations of {known.name}: {judged['said']}", stacklevel=2)
    return Dataset(path)


def _noise(noise: Any, dim: int) -> np.ndarray:
    """The noise given, (dim,)."""
    found = numbers(noise, "noise").ravel()
    if len(found) not in (1, dim) or not (np.isfinite(found) & (found > 0)).all():
        raise InputError(
            f"noise = {noise}: expected a positive standard deviation, or one for each of the "
            f"{dim} components"
        )
    return np.broadcast_to(found, (dim,)).copy()


def _arrays(
    source: Any,
    times: Any,
    components: Sequence[str] | None,
    variable: Any,
    decimal: str | None,
    columns: Sequence[str] | None,
    step: float | None,
) -> Arrays:
    """The arrays given, in one form."""
    if isinstance(source, str | os.PathLike):
        if times is not None or components is not None:
            raise InputError("times and components are for arrays; a file holds its own")
        return read_arrays(source, variable, decimal, columns, step)
    if decimal is not None or columns is not None:
        raise InputError("decimal and columns are for text files; components names those of arrays")
    if isinstance(source, Mapping):
        if times is not None:
            source = {**source, "time": times}
        found = choose(source, "the dictionary given", variable)
    else:
        found = Arrays(
            numbers(source, "the array given"), None if times is None else numbers(times, "times")
        )
    if components is None:
        return found
    return Arrays(found.states, found.times, found.step, tuple(components))


def _shaped(arrays: Arrays, missing: bool, where: str) -> Arrays:
    """The arrays with states (trajectory, time, dim), whose values are checked."""
    states = arrays.states
    if states.ndim == 2:
        states = states[None]
    if states.ndim != 3 or 0 in states.shape:
        raise InputError(
            f"{where}: expected states of shape (trajectory, time, dim) or (time, dim), found "
            f"{arrays.states.shape}"
        )
    count, length, _ = states.shape
    if length < 2:
        raise InputError(f"{where}: a trajectory needs two times or more, but these have {length}")
    lengths = np.full(count, length) if arrays.lengths is None else arrays.lengths
    _check_values(states, lengths, missing, where)
    return replace(arrays, states=states, lengths=lengths)


def _regular(
    arrays: Arrays, step: float | None, missing: bool, resampled: bool, where: str
) -> tuple[np.ndarray, float, float, list[str]]:
    """States (trajectory, time, dim) at equal steps, the step, the first time, what was done."""
    states, lengths = arrays.states, arrays.lengths
    assert lengths is not None
    count, length, _ = states.shape
    if arrays.times is None:
        if resampled:
            raise InputError(f"{where}: resample needs times, and none are known")
        step = arrays.step if step is None else step
        if step is None:
            raise InputError(
                f"{where} does not say the time between two states; give it with --step "
                "(step=... in Python), or add a column or an array named time"
            )
        if not (np.isfinite(step) and step > 0):
            raise InputError(f"{where}: the step {step!r} is not a positive number")
        return states, float(step), 0.0, []
    times = arrays.times
    if times.shape not in ((length,), (count, length)):
        raise InputError(
            f"{where}: times of shape {times.shape} do not fit states of shape {states.shape}; "
            f"expected ({length},)"
        )
    times = np.broadcast_to(times, (count, length))
    told = []
    if resampled:
        states, times, lengths, said = resample_states(states, times, lengths, step, where)
        told.append(said)
    return *place_on_grid(states, times, lengths, step, missing, where), told


def _check_values(states: np.ndarray, lengths: np.ndarray, missing: bool, where: str) -> None:
    usable = np.isnan(states) if missing else np.zeros(states.shape, dtype=bool)
    usable |= (np.arange(states.shape[1]) >= lengths[:, None])[..., None]
    bad = np.argwhere(~np.isfinite(states) & ~usable)
    if len(bad):
        row, time, component = (int(k) for k in bad[0])
        value = "infinite" if np.isinf(states[row, time, component]) else "NaN"
        trajectory = f" of trajectory {row}" if len(states) > 1 else ""
        many = f" ({len(bad)} such values in all)" if len(bad) > 1 else ""
        advice = "" if value == "infinite" else ", or allow missing states with --missing"
        raise InputError(
            f"{where}: component {component} at time {time}{trajectory} is {value}{many}; remove "
            f"it{advice}{'' if value == 'infinite' else ' (missing=True in Python)'}"
        )


def _system(
    system: System | str | os.PathLike[str] | None,
    parameters: Mapping[str, Any] | None,
    names: Sequence[str] | None,
    dim: int,
    title: str | None,
    where: str,
) -> tuple[System, list[int]]:
    """The system, or one without equations, and the order of columns that fits its state."""
    if system is None:
        if parameters:
            raise InputError("parameters are those of a system; give one with --system")
        title = title or (Path(where).stem if names is not None or "." in where else "Measured")
        text = f"title = {json.dumps(title)}\nmeasured = true\nstate = "
        return System(text + json.dumps(_valid(names, dim)) + "\n", _short(title)), list(range(dim))
    if not isinstance(system, System):
        system = load_system(system, **(parameters or {}))
    if system.dim != dim:
        raise InputError(
            f"{system.name} has {system.dim} components ({', '.join(system.components)}), but "
            f"{where} holds states of {dim}"
            + (f" ({', '.join(names)})" if names is not None else "")
        )
    plain = [] if names is None else [plain_name(name) for name in names]
    for given in ([] if names is None else list(names), plain):
        if sorted(given) == sorted(system.components):
            return system, [given.index(name) for name in system.components]
    return system, list(range(dim))


def _valid(names: Sequence[str] | None, dim: int) -> list[str]:
    """Names of components that a system file may use."""
    found: list[str] = []
    for k in range(dim):
        name = "" if names is None or k >= len(names) else plain_name(names[k])
        try:
            check_name(name, "")
        except InputError:
            name = f"z{k + 1}"
        found.append(name)
    usual = [f"z{k + 1}" for k in range(dim)]
    return found if len(set(found)) == dim else usual


def _short(title: str) -> str:
    return "-".join(title.lower().split()) or "measured"


def _deal(count: int, length: int, split: Split, seed: int) -> dict[str, tuple[Any, slice]]:
    """Numbers of the trajectories, and the times, of each group."""
    if split.by == "time":
        cut = consecutive(split.counts(length, fewest=2))
        return {group: (np.arange(count), part) for group, part in cut.items()}
    order = np.random.default_rng(seed).permutation(count)
    cut = consecutive(split.counts(count))
    return {group: (np.sort(order[part]), slice(0, length)) for group, part in cut.items()}


def _write(
    path: str | os.PathLike[str],
    overwrite: bool,
    title: str,
    system: System,
    states: np.ndarray,
    step: float,
    first: float,
    groups: Mapping[str, tuple[Any, slice]],
    split: Split,
    record: Mapping[str, Any],
    judged: Mapping[str, Any],
) -> None:
    times = first + step * np.arange(states.shape[1])
    parts = {name: states[which][:, span] for name, (which, span) in groups.items()}
    tables = {
        "imported": record,
        "split": {"by": split.by, **{name: len(parts[name]) for name in GROUPS}}
        if split.by == "trajectory"
        else {"by": split.by, **{name: parts[name].shape[1] for name in GROUPS}},
    }
    if judged:
        tables["equations"] = judged
    lines = [f"title = {toml(title)}"]
    for name, table in tables.items():
        lines += [
            "",
            f"[{name}]",
            *(f"{key} = {toml(value)}" for key, value in table.items()),
        ]
    with create_hdf5(path, overwrite) as f:
        write_header(f, FORMAT, FORMAT_VERSION, system, step)
        f.attrs["title"] = title
        f.attrs["recipe"] = "\n".join(lines) + "\n"
        f.attrs["seed"] = record["seed"]
        f.attrs["accuracy"] = json.dumps({})
        f.attrs["fingerprint"] = fingerprint(parts, step)
        f.attrs["complete"] = int(np.isfinite(states).all())
        for name, (which, span) in groups.items():
            group = f.create_group(name, track_order=True)
            units, time_unit = record["units"] or None, record["time_unit"] or "1"
            write_states(group, parts[name], times[span], system, which, units, time_unit)
        write_overview(f, system)
