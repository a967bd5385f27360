"""Runs of states in arrays (NumPy, HDF5, MATLAB) and in tables (CSV, pandas).

Nothing in a file is executed or unpickled.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import h5py
import numpy as np

from vpintegrator.errors import InputError, nearest, printable
from vpintegrator.storage.files import check_input
from vpintegrator.storage.reading import check_dataset, check_kind, open_any, reading

if TYPE_CHECKING:
    import pandas

_TIMES, _STEPS, _RUNS = ("t", "time", "times"), ("step", "dt", "h"), ("run", "trajectory")
_STATES = ("state", "states", "trajectory", "trajectories", "data", "z", "x")
_SEPARATORS = {".csv": ",", ".tsv": "\t", ".txt": r"\s+", ".dat": r"\s+"}
_ENDINGS = ".npz, .npy, .h5, .mat or .csv"


@dataclass(frozen=True)
class Runs:
    """Runs as they stand in a source.

    Attributes
    ----------
    where
        Source in words, for messages.
    states
        (run, time, dim), NaN behind the end of shorter runs.
    times
        (run, time); None if they are not known.
    step
        Step that the source gives, or None.
    names
        Names of the components; None if they are not known.
    parameters
        Parameters of each run, (run,), by name.
    variable
        Names of the arrays or columns that hold the states.
    rows
        Number of the row of each state in a table, (run, time); None for arrays.
    notes
        Assumptions about the source, a sentence each.
    """

    where: str
    states: np.ndarray
    times: np.ndarray | None = None
    step: float | None = None
    names: tuple[str, ...] | None = None
    parameters: Mapping[str, np.ndarray] | None = None
    variable: str = ""
    rows: np.ndarray | None = None
    notes: tuple[str, ...] = ()

    @property
    def lengths(self) -> np.ndarray:
        """Number of states of each run, (run,): those behind the last that is not NaN are none."""
        there = ~np.isnan(self.states).all(axis=-1)
        return np.where(there.any(1), there.shape[1] - there[:, ::-1].argmax(1), 0)

    @property
    def is_file(self) -> bool:
        """Whether the source is a file."""
        return Path(self.where).is_file()

    def place(self, run: int, time: int) -> str:
        """Return words for the place of a state: its row in a table, or its indices."""
        if self.rows is not None:
            return f"row {int(self.rows[run, time])}"
        return f"time {time}" + (f" of trajectory {run}" if len(self.states) > 1 else "")


def plain_name(name: str) -> str:
    """Return a name with letters, digits and _ only, and without a unit in brackets.

    Examples
    --------
    >>> [plain_name(name) for name in ("v [m/s]", "x-position", "q1")]
    ['v', 'x_position', 'q1']
    """
    return re.sub(r"\W+", "_", re.sub(r"[\[(].*", "", name).strip()).strip("_")


@contextmanager
def opened(
    path: str | os.PathLike[str], columns: Sequence[str] | None = None
) -> Iterator[Mapping[str, Any] | pandas.DataFrame]:
    """Arrays of a file by name, or its table, by the ending of the file's name.

    Parameters
    ----------
    path
        A file .npz, .npy, .h5 (.hdf5, .nc), .mat, .csv, .tsv, .txt or .dat; texts may be packed.
    columns
        Names of all columns of a text table.

    Raises
    ------
    InputError
        If the file cannot be read.
    """
    path = check_input(path, "a file of arrays")
    ending = path.suffix.lower()
    text = Path(path.stem).suffix.lower() if ending in (".gz", ".zip", ".bz2", ".xz") else ending
    if text in _SEPARATORS:
        yield _read_table(path, _SEPARATORS[text], columns)
        return
    if columns is not None:
        raise InputError(f"{path}: columns names those of a text table, and this file is none")
    hdf5 = ending in (".h5", ".hdf5", ".nc") or (ending == ".mat" and h5py.is_hdf5(path))
    if not hdf5 and ending not in (".npz", ".npy", ".mat"):
        raise InputError(f"{path}: cannot tell what a file '{ending}' is; give {_ENDINGS}")
    if hdf5:
        with open_any(path) as file:
            yield _hdf5_arrays(file, str(path))
        return
    with reading(str(path), said="cannot be read, it may be damaged"):
        arrays = _matlab_arrays(path) if ending == ".mat" else _numpy_arrays(path)
    yield arrays


def _numpy_arrays(path: Path) -> dict[str, Any]:
    found = np.load(path, allow_pickle=False)  # with pickles a file could execute anything
    return {"array": found} if isinstance(found, np.ndarray) else dict(found)


def _matlab_arrays(path: Path) -> dict[str, Any]:
    from scipy.io import loadmat

    arrays = {name: v for name, v in loadmat(path).items() if isinstance(v, np.ndarray)}
    return {name: values for name, values in arrays.items() if values.dtype.kind in "fiu"}


def _hdf5_arrays(file: h5py.File, where: str) -> dict[str, Any]:
    """Return all arrays of real numbers by name; links to other files are not followed."""
    arrays: dict[str, Any] = {}

    def visit(name: str, item: Any) -> None:
        if isinstance(item, h5py.Dataset) and item.shape is not None and item.dtype.kind in "fiu":
            kind = item.attrs.get("MATLAB_class")
            if kind is None:
                arrays[name] = item
            elif kind not in (b"char", b"logical") and not name.startswith("#"):
                arrays[name] = _numbers(item, f"{where}, {name}").T  # MATLAB stores by columns

    with reading(where):
        file.visititems(visit)
    return arrays


def _read_table(path: Path, separator: str, columns: Sequence[str] | None) -> pandas.DataFrame:
    import pandas  # slow to load

    options: dict[str, Any] = {"sep": separator, "comment": "#", "skipinitialspace": True}
    said = "cannot be read as a table, it may be damaged"
    with reading(str(path), said=said):
        head = pandas.read_csv(path, header=None, nrows=1, **options)
    first = pandas.to_numeric(head.iloc[0], errors="coerce")
    named = bool(first.isna().all())
    if not named and columns is None:
        raise InputError(
            f"{path}: the first row holds numbers, not names of columns; name them with --columns, "
            "as in time,q,p (columns=[...] in Python)"
        )
    if columns is not None:
        if len(columns) != head.shape[1]:
            raise InputError(f"{path} has {head.shape[1]} columns, but {len(columns)} are named")
        options["names"] = list(columns)
    with reading(str(path), said=said):
        return pandas.read_csv(path, header=0 if named else None, **options)


def from_arrays(
    arrays: Mapping[str, Any],
    where: str,
    variable: str | None,
    parameters: Sequence[str],
    axes: str | None = None,
) -> Runs:
    """Find states, times, step and parameters among named arrays.

    Parameters
    ----------
    arrays
        Arrays by name.
    where
        The source's name, for messages.
    variable
        Name of the states, or names of several arrays, with commas between. Arrays (trajectory,
        time, d) are joined along their last axis; arrays (trajectory, time), or (time,), are
        components.
    parameters
        Names of arrays that are parameters, a number or one for each trajectory.
    axes
        First of the two axes of trajectories and times, ``"trajectory"`` by default, or ``"time"``.

    Raises
    ------
    InputError
        If it is not clear which array is meant, or shapes do not fit.
    """
    held = {plain_name(name): _named(arrays, name, where) for name in parameters}
    others = {name: value for name, value in arrays.items() if name not in parameters}
    if variable is None:
        chosen = [_only_states(others, where)]
    else:
        chosen = [name.strip() for name in variable.split(",")]
    found = [_named(others, name, where) for name in chosen]
    times = _usual(others, _TIMES, chosen, where)
    step = _usual(others, _STEPS, chosen, where)
    states, names = _joined(found, chosen, times, where)
    if axes == "time":
        states = states.swapaxes(0, 1)
    count, length = states.shape[:2]
    if times is not None and times.size > 1:
        if times.size == length:
            times = times.reshape(1, length)
        if times.shape not in ((1, length), (count, length)):
            raise InputError(
                f"{where}: times of shape {times.shape} do not fit states of shape {states.shape}"
            )
        times = np.broadcast_to(times, (count, length))
    for name, values in held.items():
        if values.size not in (1, count):
            raise InputError(
                f"{where}, {name}: a parameter is one number, or one for each of {count} "
                f"trajectories, not an array of shape {values.shape}"
            )
        held[name] = np.broadcast_to(values.ravel(), (count,))
    return Runs(
        where,
        states,
        times if times is not None and times.size > 1 else None,
        float(step.ravel()[0]) if step is not None and step.size == 1 else None,
        names,
        held,
        ",".join(chosen),
    )


def _only_states(arrays: Mapping[str, Any], where: str) -> str:
    """Return the name of the one array that can be states."""
    possible = [name for name, value in arrays.items() if np.ndim(value) in (2, 3)]
    usual = [name for name in possible if name.rpartition("/")[2].lower() in _STATES]
    if len(possible) == 1 or len(usual) == 1:
        return (usual if len(usual) == 1 else possible)[0]
    shapes = ", ".join(f"{name} {np.shape(value)}" for name, value in arrays.items()) or "nothing"
    if not possible:
        raise InputError(
            f"{where} holds no array of shape (trajectory, time, dim) or (time, dim), but {shapes}"
        )
    raise InputError(
        f"{where} holds several arrays that may be the states, {', '.join(possible)}; name one "
        "with --variable (variable=... in Python), or name states before and after with --pairs"
    )


def _usual(
    arrays: Mapping[str, Any], names: Sequence[str], chosen: Sequence[str], where: str
) -> np.ndarray | None:
    """Return the array of a usual name, in the folder of the states or above."""
    folder = chosen[0].rpartition("/")[0]
    for place in dict.fromkeys((folder, "")):
        for name in arrays:
            parent, _, last = name.rpartition("/")
            if parent == place and last.lower() in names and name not in chosen:
                return _named(arrays, name, where)
    return None


def _named(arrays: Mapping[str, Any], name: str, where: str) -> np.ndarray:
    """Return the numbers of the array of this name."""
    if name not in arrays:
        hint = nearest(name, arrays) or f" (it has: {', '.join(arrays) or 'none'})"
        raise InputError(f"{where} has no variable '{name}'{hint}")
    return _numbers(arrays[name], f"{where}, {name}")


def _numbers(values: Any, where: str) -> np.ndarray:
    """Return the values as float64."""
    with reading(where, said="cannot be read as an array"):
        if isinstance(values, h5py.Dataset):
            check_dataset(values, where)
            values = values[...]
        found = np.asarray(values)
    if found.dtype.kind not in "fiu":
        raise InputError(f"{where}: expected an array of real numbers, found {found.dtype}")
    return found.astype(np.float64)


def _joined(
    arrays: Sequence[np.ndarray], chosen: Sequence[str], times: np.ndarray | None, where: str
) -> tuple[np.ndarray, tuple[str, ...] | None]:
    """Return states (run, time, dim) of one or several arrays, and names of the components."""
    if len(arrays) > 1:  # MATLAB's vectors are matrices
        arrays = [a.ravel() if a.ndim == 2 and 1 in a.shape else a for a in arrays]
    first = arrays[0]
    alone = len(arrays) == 1 or (  # (time, d) of a single trajectory
        first.ndim == 2 and times is not None and times.size == len(first) != first.shape[1]
    )
    parts = [a[None] if (alone and a.ndim == 2) or a.ndim == 1 else a for a in arrays]
    if not alone:
        parts = [a if first.ndim == 3 else a[..., None] for a in parts]
    fits = all(a.ndim == 3 and 0 not in a.shape for a in parts)
    if not fits and len(arrays) == 1:
        raise InputError(
            f"{where}: expected states of shape (trajectory, time, dim) or (time, dim), found "
            f"{first.shape}"
        )
    if not fits or len({a.shape[:2] for a in parts}) > 1:
        shapes = ", ".join(f"{name} {a.shape}" for name, a in zip(chosen, arrays, strict=True))
        raise InputError(
            f"{where}: arrays that are joined need the same trajectories and times, but their "
            f"shapes are {shapes}"
        )
    if len(arrays) == 1:
        return parts[0], None
    names = [
        name.rpartition("/")[2] + (str(k + 1) if a.shape[2] > 1 else "")
        for name, a in zip(chosen, parts, strict=True)
        for k in range(a.shape[2])
    ]
    return np.concatenate(parts, axis=-1), tuple(names)


def from_table(
    table: pandas.DataFrame, where: str, variable: str | None, parameters: Sequence[str]
) -> Runs:
    """Find the columns of the components, and of time, run and parameters if there are any.

    Parameters
    ----------
    table
        A row for each state.
    where, variable, parameters
        As for :func:`from_arrays`; all columns without another role are components by default.

    Raises
    ------
    InputError
        If a column is missing, a cell is no number, or a parameter changes in a run.
    """
    names = [str(name) for name in table.columns]
    plain = [plain_name(name).lower() for name in names]
    time = next((k for k, name in enumerate(plain) if name in _TIMES), None)
    run = next((k for k, name in enumerate(plain) if name in _RUNS), None)
    held = {plain_name(name): _column(names, name, where) for name in parameters}
    if variable is None:
        others = (time, run, *held.values())
        # pandas writes the numbers of the rows into a first column without a name
        chosen = [k for k, name in enumerate(names) if k not in others and "Unnamed" not in name]
    else:
        chosen = [_column(names, name.strip(), where) for name in variable.split(",")]
        time = None if time in chosen else time
    if not chosen or not len(table):
        raise InputError(f"{where} has no {'column for the states' if len(table) else 'rows'}")
    states = np.stack([_cells(table, k, where) for k in chosen], axis=-1)
    groups = [np.arange(len(table))]
    if run is not None:
        found = table.groupby(table.columns[run], sort=False, dropna=False)
        groups = list(found.indices.values())
    values = {}
    for name, k in held.items():
        column = _cells(table, k, where)
        for rows in groups:
            if (change := np.flatnonzero(column[rows] != column[rows[0]])).size:
                raise InputError(
                    f"{where}: the parameter {name} changes in row {rows[change[0]] + 1}; a "
                    "parameter is constant in each run"
                )
        values[name] = column[[rows[0] for rows in groups]]
    times = None if time is None else _cells(table, time, where)
    return Runs(
        where,
        _padded([states[rows] for rows in groups]),
        None if times is None else _padded([times[rows] for rows in groups]),
        None,
        tuple(plain_name(names[k]) or names[k] for k in chosen),
        values,
        ",".join(names[k] for k in chosen),
        _padded([rows + 1.0 for rows in groups]),
    )


def _column(names: Sequence[str], name: str, where: str) -> int:
    """Return the number of a column."""
    for known in (names, [plain_name(each) for each in names]):
        if name in known:
            return list(known).index(name)
    hint = nearest(name, names) or f" (it has: {', '.join(names)})"
    raise InputError(f"{where} has no column '{name}'{hint}")


def _cells(table: pandas.DataFrame, number: int, where: str) -> np.ndarray:
    """Return the numbers of a column, NaN where a cell is empty."""
    import pandas

    column = table.iloc[:, number]
    found = pandas.to_numeric(column, errors="coerce")
    if (bad := np.flatnonzero(found.isna() & column.notna())).size:
        text = printable(str(column.iloc[bad[0]]))[:60]
        raise InputError(
            f"{where}, row {bad[0] + 1}, column {table.columns[number]}: '{text}' is no number; "
            "other texts than comma-separated ones are read by pandas.read_csv, whose table "
            "vp.import_dataset takes; --variable chooses columns"
        )
    return found.to_numpy(dtype=np.float64)


def _padded(rows: Sequence[np.ndarray]) -> np.ndarray:
    """Return arrays of different lengths as one, (row, length, ...), NaN behind their ends."""
    result = np.full((len(rows), max(map(len, rows)), *rows[0].shape[1:]), np.nan)
    for row, values in zip(result, rows, strict=True):
        row[: len(values)] = values
    return result


def read_runs(
    source: Any,
    variable: str | None = None,
    columns: Sequence[str] | None = None,
    parameters: Sequence[str] = (),
    axes: str | None = None,
) -> Runs:
    """Return the runs of a path, a table, named arrays or an array.

    ``axes`` is that of :func:`vpintegrator.import_dataset`.
    """
    if isinstance(source, Runs):
        return source
    if isinstance(source, str | os.PathLike):
        where = str(source)
        if variable is None:
            check_kind(source, "arrays", "hdf5")
        with opened(source, columns) as found:
            if not isinstance(found, Mapping):
                return from_table(found, where, variable, parameters)
            # a .npy file has no names
            variable = None if [*found] == ["array"] else variable
            return from_arrays(found, where, variable, parameters, axes)
    if columns is not None:
        raise InputError("columns names those of a text table; components names those of arrays")
    if hasattr(source, "iloc"):
        return from_table(source, "the table given", variable, parameters)
    listed = isinstance(source, list | tuple) and all(isinstance(run, np.ndarray) for run in source)
    if listed and [len(shape) for shape in {run.shape[1:] for run in source}] == [1]:
        source = _padded([_numbers(run, "the arrays given") for run in source])
    arrays = source if isinstance(source, Mapping) else {"array": source}
    return from_arrays(arrays, "the arrays given", variable, parameters, axes)
