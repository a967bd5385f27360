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

from vpintegrator.arguments import grouped
from vpintegrator.data.dataset import Dataset
from vpintegrator.data.dataset_file import fingerprint, write_dataset
from vpintegrator.data.importing.arguments import Identification, Partial, Reading, Sharing
from vpintegrator.data.importing.array_files import read_arrays
from vpintegrator.data.importing.arrays import Arrays, choose, each_state, numbers
from vpintegrator.data.importing.columns import in_radians, plain_name
from vpintegrator.data.importing.identification import judge
from vpintegrator.data.importing.partial import complete
from vpintegrator.data.importing.questions import questions
from vpintegrator.data.importing.samples import Samples, arrange, step_of, times_of
from vpintegrator.data.importing.structure import find_structure, in_a_row
from vpintegrator.data.split import GROUPS
from vpintegrator.data.variation import STEP
from vpintegrator.dynamics import System, load_system
from vpintegrator.dynamics.angles import unwrapped
from vpintegrator.dynamics.expressions import check_name
from vpintegrator.errors import InputError, printable
from vpintegrator.storage.files import check_output
from vpintegrator.storage.toml import toml_text


@grouped(reading=Reading, identification=Identification, partial=Partial, sharing=Sharing)
def import_dataset(
    source: Any,
    path: str | os.PathLike[str],
    *,
    reading: Reading,
    identification: Identification,
    partial: Partial,
    sharing: Sharing,
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
    reading, identification, partial, sharing
        Options for reading the states, for their equations, for observations of some components
        only, and for sharing out trajectories. The
        attributes of :class:`~vpintegrator.data.importing.arguments.Reading`,
        :class:`~vpintegrator.data.importing.arguments.Identification`,
        :class:`~vpintegrator.data.importing.arguments.Partial` and
        :class:`~vpintegrator.data.importing.arguments.Sharing` are given as keywords: ``step``,
        ``times``, ``components``, ``variable``, ``decimal``, ``columns``, ``missing``,
        ``irregular``, ``longest_step``, ``parameter_columns``; ``system``,
        ``parameters``, ``fit``, ``noise``, ``structure``, ``topology``; ``observed``,
        ``positions_only``, ``angles``, ``masses``, ``potential_degree``; ``split``, ``fractions``,
        ``seed``.
    title
        Title; by default the system's, or the file's name.
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

    Examples
    --------
    >>> states = np.random.default_rng(0).normal(size=(10, 50, 2))
    >>> dataset = vp.import_dataset(states, "measured.h5", step=0.02, overwrite=True)
    >>> dataset.system.is_measured
    True
    """
    where = _file_of(source) or "the array given"
    arrays = _shaped(_arrays(source, reading), reading.missing, where)
    made = complete(arrays, reading, identification, partial, sharing, title, where)
    if made is not None:
        arrays, identification = made.arrays, Identification(made.system)
    known, order, assumed = _system(identification, arrays, title, where)
    names = _parameter_names(reading.parameter_columns, where)
    arrays = _ordered(arrays, known, order, reading, where)
    arrays, turned = in_radians(arrays, known.periods)
    states, continued = unwrapped(arrays.states, known.periods)
    equations = not known.is_measured
    samples = arrange(replace(arrays, states=states), names, reading, sharing, where, equations)
    check_output(path, overwrite)
    states, step = samples.states, samples.step
    told = [*(made.told if made else ()), *samples.told, *turned, *questions(arrays)]
    if continued:
        angles = ", ".join(known.components[k] for k in continued)
        told.append(f"angles that jumped by their period are continued over it: {angles}")
    known = _with_parameters(known, samples, identification.system is None, told, where)
    parts = {name: states[which][:, span] for name, (which, span) in samples.groups.items()}
    known, found = judge(known, identification, samples, parts["train"])
    found = made.table if made else found
    axis = 0 if samples.split.by == "trajectory" or samples.origins is not None else 1
    record = _record(source, arrays, names)
    tables: dict[str, Mapping[str, Any]] = {
        "imported": record
        | {
            "guessed": [*arrays.guessed, *told],
            "structure": assumed,
            "step": step,
            "seed": sharing.seed,
            "sha256": hashlib.sha256(np.ascontiguousarray(states).tobytes()).hexdigest(),
        },
        "split": {"by": samples.split.by, **{n: parts[n].shape[axis] for n in GROUPS}},
        "equations": found,
    }
    title, conditions = title or known.title, samples.as_stored
    write_dataset(
        path,
        overwrite,
        known,
        step,
        {
            "title": title,
            "recipe": toml_text({"title": title}, tables),
            "seed": sharing.seed,
            "accuracy": json.dumps({}),
            "fingerprint": fingerprint(parts, step, conditions),
            "complete": int(np.isfinite(states).all()),
        },
        {n: (parts[n], samples.times[span], which) for n, (which, span) in samples.groups.items()},
        units=record["units"] or None,
        time_unit=arrays.time_unit or "1",
        conditions=conditions,
    )
    if found.get("fits") == "no":
        warnings.warn(f"the equations of {known.name}: {found['said']}", stacklevel=3)
    for question in questions(arrays):
        warnings.warn(question, stacklevel=3)
    return Dataset(path)


def _file_of(source: Any) -> str:
    """Return the name of the file that is read, empty for arrays."""
    path = source.source if isinstance(source, Arrays) else source
    return str(path) if isinstance(path, str | os.PathLike) else ""


def _record(source: Any, arrays: Arrays, parameter_columns: list[str]) -> dict[str, Any]:
    """Return the entry of the recipe that describes the source of the states."""
    return {
        "source": Path(_file_of(source)).name or "arrays",
        "variable": arrays.variable,
        "columns": list(arrays.names or ()),
        "parameter_columns": parameter_columns,
        "units": list(arrays.units) if any(arrays.units) else [],
        "time_unit": arrays.time_unit,
    }


def _with_parameters(
    system: System, samples: Samples, generated: bool, told: list[str], where: str
) -> System:
    """Return the system with values of the parameters that were read.

    A parameter that varies has the value of the first test trajectory. The text of a generated
    system is given the parameters; another system has to declare those that vary.

    Raises
    ------
    InputError
        If a system that was given has no parameter of this name.
    """
    for name, value in samples.constant.items():
        told.append(f"{name} is {value:g} everywhere, so it is nothing that varies")
    own = {name: v for name, v in samples.constant.items() if name in system.parameters}
    rows = np.concatenate([samples.groups[name][0] for name in ("test", "train")])
    first = samples.conditions[rows[0]].tolist() if samples.varied else []
    varied = dict(zip(samples.varied, first, strict=True))
    varied.pop(STEP, None)
    if generated and varied:
        text = system.text + toml_text({}, {"parameters": varied})
        return System(text, system.name)
    if missing := [name for name in varied if name not in system.parameters]:
        raise InputError(
            f"{where}: {', '.join(missing)} varies, but {system.name} has no such parameter; "
            "declare it in its table [parameters], or leave out the column"
        )
    if not own | varied:
        return system
    return System(system.text, system.name, {**system.definitions, **own, **varied})


def _arrays(source: Any, given: Reading) -> Arrays:
    """Return the arrays given, in one form."""
    if isinstance(source, Arrays):
        return source
    if isinstance(source, str | os.PathLike):
        if given.times is not None or given.components is not None:
            raise InputError("times and components are for arrays; a file holds its own")
        return read_arrays(
            source,
            given.variable,
            given.decimal,
            given.columns,
            given.step,
            given.parameter_columns,
        )
    if given.decimal is not None or given.columns is not None:
        raise InputError("decimal and columns are for text files; components names those of arrays")
    if isinstance(source, Mapping):
        if given.times is not None:
            source = {**source, "time": given.times}
        held = given.parameter_columns
        found = choose(source, "the dictionary given", given.variable, parameters=held)
    else:
        if given.parameter_columns:
            raise InputError(
                "parameter_columns names columns of a file, or arrays of a dictionary; give a "
                'dictionary, as in {"states": ..., "time": ..., "g": ...}'
            )
        times = None if given.times is None else numbers(given.times, "times")
        found = Arrays(numbers(source, "the array given"), times)
    if given.components is None:
        return found
    return replace(
        Arrays(found.states, found.times, found.step, tuple(given.components)),
        parameters=found.parameters,
    )


def _shaped(arrays: Arrays, missing: bool, where: str) -> Arrays:
    """Return the arrays with states (trajectory, time, dim), whose values are checked."""
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
    parameters = _parameters(arrays.parameters, lengths, states.shape, where)
    return replace(arrays, states=states, lengths=lengths, parameters=parameters)


def _parameter_names(columns: Sequence[str], where: str) -> list[str]:
    """Return the names of the parameters in these columns."""
    names = [plain_name(column) for column in columns]
    for k, (name, column) in enumerate(zip(names, columns, strict=True)):
        if check_name(name, f"{where}, column {printable(column)}") in (STEP, *names[:k]):
            raise InputError(f"{where}: two things that vary would be named '{name}'; rename one")
    return names


def _parameters(given: Any, lengths: np.ndarray, shape: tuple[int, ...], where: str) -> np.ndarray:
    """Return parameters (trajectory, time, name), whose values are checked."""
    count, length, _ = shape
    if given is None:
        return np.empty((count, length, 0))
    values = each_state(given, count, length, where) if isinstance(given, Mapping) else given
    known = np.arange(length) < lengths[:, None]
    bad = np.argwhere(~np.isfinite(values) & known[..., None])
    if len(bad):
        row, time, _ = (int(k) for k in bad[0])
        trajectory = f" of trajectory {row}" if count > 1 else ""
        raise InputError(f"{where}: a parameter at time {time}{trajectory} is no finite number")
    return values


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
    given: Identification, arrays: Arrays, title: str | None, where: str
) -> tuple[System, list[int], list[str]]:
    """The system, or one without equations, the order of columns that fits its state, and notes.

    Where its equations depend on time, the states need not hold it: it is known.
    """
    system, names, dim = given.system, arrays.names, arrays.states.shape[2]
    if system is None:
        if given.parameters:
            raise InputError("parameters are those of a system; give one with --system")
        title = title or (Path(where).stem if names is not None or "." in where else "Measured")
        found = find_structure(given.structure, names, dim, where)
        ordered = names and tuple(names[k] for k in found.order)
        state = f"state = {json.dumps(_valid(ordered, dim))}\n"
        if given.topology is not None:
            found, state = in_a_row(given.topology, found, names, dim, where)
        text = f"title = {json.dumps(title)}\nmeasured = true\n{found.claim}{state}"
        return System(text, _short(title)), found.order, found.told
    for name in ("structure", "topology"):
        if getattr(given, name) is not None:
            raise InputError(f"{name} is claimed of states without a system; leave out one of both")
    if not isinstance(system, System):
        system = load_system(system, **(given.parameters or {}))
    components = system.components[: min(dim, system.dim)]
    if dim not in (system.dim, system.phase_dim):
        raise InputError(
            f"{system.name} has {system.dim} components ({', '.join(system.components)}), but "
            f"{where} holds states of {dim}"
            + (f" ({', '.join(names)})" if names is not None else "")
        )
    plain = [] if names is None else [plain_name(name) for name in names]
    # a system may call them with their units, too
    for own in (list(components), [plain_name(name) for name in components]):
        for written in ([] if names is None else list(names), plain):
            if sorted(written) == sorted(own):
                return system, [written.index(name) for name in own], []
    return system, list(range(dim)), []


def _ordered(
    arrays: Arrays, system: System, order: list[int], given: Reading, where: str
) -> Arrays:
    """Return the arrays with components in the order of the system's, and the time if it is one."""
    states = arrays.states[..., order]
    names = arrays.names and tuple(arrays.names[k] for k in order)
    units = tuple(arrays.units[k] for k in order) if arrays.units else ()
    if system.explicit_time is not None and len(order) < system.dim:
        count, length, _ = states.shape
        times = times_of(arrays, given, where)
        if times is None:
            times = np.broadcast_to(step_of(arrays, given, where) * np.arange(length), (1, length))
        times = np.broadcast_to(times, (count, length))
        states = np.concatenate([states, times[..., None]], axis=-1)
        names = names and (*names, system.components[system.explicit_time])
        units = (*units, arrays.time_unit) if units else ()
    return replace(arrays, states=states, names=names, units=units)


def _valid(names: Sequence[str] | None, dim: int) -> list[str]:
    """Return names of components that a system file may use."""
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
