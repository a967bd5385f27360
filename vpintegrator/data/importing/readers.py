"""Runs of states in arrays (NumPy, HDF5, MATLAB) and in tables (CSV, pandas).

Every source becomes arrays by name, a table one for each column. Nothing in a file is executed or
unpickled.
"""

from __future__ import annotations

import os
import re
import warnings
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from decimal import Decimal
from numbers import Real
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import h5py
import numpy as np

from vpintegrator.arguments import as_numpy
from vpintegrator.dynamics.expressions.parsing import check_name
from vpintegrator.dynamics.family import STEP
from vpintegrator.errors import InputError, nearest, printable
from vpintegrator.storage.files import check_input
from vpintegrator.storage.reading import (
    check_dataset,
    check_kind,
    fixed_attribute,
    open_any,
    reading,
)

if TYPE_CHECKING:
    import pandas

_TIMES = ("t", "time", "times")
_STEPS = ("step", "dt", "h")
_RUNS = ("run", "trajectory")
_REAL = (Real, Decimal, type(None))
_EXACT = 2**53  # whole numbers up to this one are exact in double precision
_STATES = ("state", "states", "trajectory", "trajectories", "data", "z", "x")
_AXES = (
    ", whose first axis they fit; say --axes time (axes='time' in Python) where the second axis is "
    "trajectories, or --axes particles where it is atoms or bodies, which are one state together"
)
SEPARATORS = {".csv": ",", ".tsv": "\t", ".txt": r"\s+", ".dat": r"\s+"}
_PACKING = ("_FillValue", "missing_value", "scale_factor", "add_offset")  # attributes of netCDF


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
    is_table
        Whether the source is a table, whose runs and times cannot be confused.
    """

    where: str
    states: np.ndarray
    times: np.ndarray | None
    step: float | None
    names: tuple[str, ...] | None
    parameters: Mapping[str, np.ndarray]
    variable: str
    is_table: bool = False

    @property
    def lengths(self) -> np.ndarray:
        """Number of states of each run, (run,): those behind the last that is not NaN are none."""
        there = ~np.isnan(self.states).all(axis=-1)
        return np.where(there.any(1), there.shape[1] - there[:, ::-1].argmax(1), 0)


@dataclass(frozen=True)
class _Source:
    """Arrays by name, those of a table of the shape (run, time, 1)."""

    where: str
    arrays: Mapping[str, Any]
    is_table: bool = False

    def numbers(self, name: str, are_times: bool = False) -> np.ndarray:
        """Return the numbers of an array, whose name may be given without a unit.

        Dates are ``are_times``, in seconds since the first; other arrays must not hold any.
        """
        names = {plain_name(each): each for each in self.arrays} | {n: n for n in self.arrays}
        if name not in names:
            hint = nearest(name, self.arrays) or f" (it has: {', '.join(self.arrays) or 'none'})"
            raise InputError(f"{self.where} has no variable '{name}'{hint}")
        values = self.arrays[names[name]]
        where = f"{self.where}, {name}"
        return _times(values, where) if are_times else _numbers(values, where)

    def usual(self, names: Sequence[str], folder: str = "") -> str | None:
        """Return the array of a usual name, in the folder of the states or above."""
        for place in dict.fromkeys((folder, "")):
            for name in self.arrays:
                parent, _, last = name.rpartition("/")
                if parent == place and plain_name(last).lower() in names:
                    return name
        return None


def plain_name(name: str) -> str:
    """Return a name with letters, digits and _ only, and without a unit in brackets.

    Examples
    --------
    >>> [plain_name(name) for name in ("v [m/s]", "x-position", "q1")]
    ['v', 'x_position', 'q1']
    """
    return re.sub(r"\W+", "_", re.sub(r"[\[(].*", "", name).strip()).strip("_")


def read_runs(
    source: Any,
    variable: str | None = None,
    columns: Sequence[str] | None = None,
    parameters: Sequence[str] = (),
    axes: str | None = None,
    times: Any = None,
) -> Runs:
    """Return the runs of a path, a table, named arrays or an array.

    The arguments are those of :func:`vpintegrator.import_dataset`.
    """
    if variable is None and isinstance(source, str | os.PathLike):
        check_kind(source, "arrays", "hdf5")
    with _opened(source, columns) as arrays:
        return _find_runs(arrays, variable, parameters, axes, times)


def read_pairs(
    source: Any,
    pairs: Sequence[str] | Literal[True],
    variable: str | None = None,
    columns: Sequence[str] | None = None,
) -> Runs:
    """Return pairs of states as runs of two states, whose step is 1.

    The arguments are those of :func:`vpintegrator.import_dataset`.
    """
    if pairs is True and isinstance(source, tuple | list) and len(source) == 2:
        first, second = (read_runs(each, variable, columns) for each in source)
    elif pairs is True or variable is not None or isinstance(pairs, str) or len(pairs) != 2:
        raise InputError(
            "pairs are two names or endings, --pairs BEFORE,AFTER (pairs=[before, after]), or True "
            "for a source of two arrays or files, before and after"
        )
    else:
        with _opened(source, columns) as arrays:
            columns_of_both = _paired_columns(arrays, *pairs) if arrays.is_table else pairs
            first, second = (_find_runs(arrays, names) for names in columns_of_both)
    before = first.states
    after = second.states
    names = first.names
    count, length, dim = before.shape
    if count > 1 or before.shape != after.shape or dim > length:
        raise InputError(
            f"{first.where}: expected states (pair, component), more pairs than components, which "
            f"go together row by row, found {before.shape} before and {after.shape} after; lost "
            "particles are rows of NaN, and --variable (variable=...) chooses components of two "
            "files"
        )
    if names is not None and sorted(names) == sorted(second.names or ()):
        after = after[..., [(second.names or ()).index(name) for name in names]]
    if names is not None and pairs is not True:
        names = tuple(name.removesuffix(f"_{pairs[0].strip('_')}") for name in names)
    states = np.stack([before[0], after[0]], axis=1)
    variable = ",".join(names or ())
    return Runs(first.where, states, None, 1.0, names, {}, variable, first.is_table)


def _paired_columns(table: _Source, before: str, after: str) -> tuple[str, str]:
    """Return the columns ``x`` or ``x_before`` of a table, and ``x_after``, with commas between."""
    before, after = (f"_{mark.strip('_')}" for mark in (before, after))
    names = [name.removesuffix(after) for name in table.arrays if name.endswith(after)]
    first = [name + before if name + before in table.arrays else name for name in names]
    if not names or not {*first} <= table.arrays.keys():
        raise InputError(
            f"{table.where}: expected columns such as x and x{after}, or x{before} and x{after}, "
            f"for each component, found {', '.join(table.arrays)}"
        )
    return ",".join(first), ",".join(name + after for name in names)


def ending_of(path: Path) -> str:
    """Return the ending of a file, or of the file that is packed in it."""
    packed = path.suffix.lower() in (".gz", ".zip", ".bz2", ".xz")
    return Path(path.stem if packed else path).suffix.lower()


@contextmanager
def _opened(source: Any, columns: Sequence[str] | None) -> Iterator[_Source]:
    """Give the arrays of a source by name; those of an HDF5 file are not read yet."""
    where = "the arrays given"
    if isinstance(source, str | os.PathLike):
        where = str(source)
        path = check_input(source, "a file of arrays")
        ending = ending_of(path)
        if ending in (".h5", ".hdf5", ".nc") or (ending == ".mat" and h5py.is_hdf5(path)):
            with open_any(path) as file:
                yield _Source(where, _hdf5_arrays(file, where))
            return
        if ending not in (".npz", ".npy", ".mat", *SEPARATORS):
            raise InputError(
                f"{path}: cannot tell what a file '{ending}' is; give .npz, .npy, .h5, .mat or .csv"
            )
        with reading(where, said="cannot be read, it may be damaged"):
            if ending in SEPARATORS:
                source = _read_table(path, SEPARATORS[ending], columns)
                columns = None
            elif ending == ".mat":
                from scipy.io import loadmat

                source = {n: a for n, a in loadmat(path).items() if isinstance(a, np.ndarray)}
                source = {n: a for n, a in source.items() if a.dtype.kind in "fiuc" or _is_list(a)}
            else:  # with pickles a file could execute anything
                content = np.load(path, allow_pickle=False)
                source = content if isinstance(content, np.ndarray) else dict(content)
    if columns is not None:
        raise InputError("columns names those of a text table; components names those of arrays")
    if isinstance(source, list | tuple) and source and all(map(_is_table, source)):
        source = _joined_tables(source, where)
    if hasattr(source, "to_dataset"):  # an array of xarray
        source = source.to_dataset(name=source.name or "array")
    if hasattr(source, "data_vars"):
        source = {name: variable.values for name, variable in source.variables.items()}
    if _is_table(source):
        yield _Source(where, _columns_of_table(source, where), is_table=True)
        return
    if isinstance(source, Mapping):
        named = {str(name): _of_runs(a, f"{where}, {name}", 1) for name, a in source.items()}
        yield _Source(where, named)
    else:
        yield _Source(where, {"array": _of_runs(source, where, 2)})


def _of_runs(values: Any, where: str, axes: int) -> Any:
    """Return a list of runs, arrays of any lengths, as one array; anything else as it is.

    Runs that differ in length have so many ``axes`` or more.
    """
    if not _is_list(values):
        return values
    is_array = isinstance(values, np.ndarray)
    with reading(where, said="cannot be read as an array"):
        arrays = [as_numpy(run) for run in (values.flat if is_array else values)]
        if len({run.shape for run in arrays}) < 2:
            return np.stack(arrays) if is_array and arrays else as_numpy(values)
    lengths = {len(run) if run.ndim else 0 for run in arrays}
    if len({run.shape[1:] for run in arrays}) > 1 or 0 in lengths or arrays[0].ndim < axes:
        shapes = ", ".join(str(run.shape) for run in arrays[:4])
        raise InputError(
            f"{where}: expected runs of shape {'(time, dim)' if axes == 2 else '(time,)'}, which "
            f"differ in their lengths alone, found {shapes}{', ...' if len(arrays) > 4 else ''}"
        )
    return _padded([_numbers(run, where) for run in arrays])


def _joined_tables(tables: Sequence[Any], where: str) -> Any:
    """Return tables of the same columns, each of a run or several, as one with a column ``run``."""
    import pandas

    columns = [str(name) for name in tables[0].columns]
    parts = []
    for k, table in enumerate(tables):
        table = table.rename(columns=str)
        if sorted(table.columns) != sorted(columns):
            raise InputError(
                f"{where}: table {k} has the columns {', '.join(table.columns)}, but table 0 has "
                f"{', '.join(columns)}; give all runs the same columns"
            )
        run = next((name for name in columns if plain_name(name).lower() in _RUNS), None)
        labels = [0] * len(table) if run is None else table[run]
        table = table[[name for name in columns if name != run]]
        parts.append(table.assign(run=[f"{k} {value}" for value in labels]))
    return pandas.concat(parts, ignore_index=True)


def _is_list(values: Any) -> bool:
    """Whether values are a list, or an array of objects that holds arrays (a cell of MATLAB)."""
    if isinstance(values, np.ndarray) and values.dtype.kind == "O":
        return all(isinstance(each, np.ndarray | list | tuple) for each in values.flat)
    return isinstance(values, list | tuple)


def _is_table(source: Any) -> bool:
    return hasattr(source, "iloc") and hasattr(source, "columns")


def _hdf5_arrays(file: h5py.File, where: str) -> dict[str, Any]:
    """Return all arrays of real numbers by name; links to other files are not followed."""
    arrays: dict[str, Any] = {}

    def visit(name: str, item: Any) -> None:
        is_array = isinstance(item, h5py.Dataset) and item.shape is not None
        if is_array and (item.dtype.kind in "fiuc" or item.dtype.names == ("real", "imag")):
            kind = fixed_attribute(item, "MATLAB_class")
            if kind is None:
                arrays[name] = item
            elif kind not in (b"char", b"logical") and not name.startswith("#"):
                arrays[name] = _array(item, f"{where}, {name}").T  # MATLAB stores by columns

    with reading(where):
        file.visititems(visit)
    return arrays


def _read_table(path: Path, separator: str, columns: Sequence[str] | None) -> pandas.DataFrame:
    import pandas  # slow to load

    options: dict[str, Any] = {"sep": separator, "comment": "#", "skipinitialspace": True}
    options["index_col"] = False  # the first column is no name of rows
    first = pandas.read_csv(path, header=None, nrows=1, **options).iloc[0]
    header = 0 if pandas.to_numeric(first, errors="coerce").isna().all() else None
    if len(columns or first) != len(first) or (header is None and columns is None):
        raise InputError(
            f"{path}: name all {len(first)} columns with --columns, as in time,q,p (columns=[...] "
            "in Python), as a table has them in its first row"
        )
    names = None if columns is None else list(columns)
    with warnings.catch_warnings():
        warnings.simplefilter("error", pandas.errors.ParserWarning)
        try:
            return pandas.read_csv(path, header=header, names=names, **options)
        except pandas.errors.ParserWarning:
            raise InputError(
                f"{path}: its rows have more fields than its first row has names; name all of them "
                "there, or remove a separator at their end"
            ) from None


def _columns_of_table(table: pandas.DataFrame, where: str) -> dict[str, np.ndarray]:
    """Return the columns by name, (run, time, 1), and of columns with other values just these.

    An index that is named as time or run is a column, and so is an index of dates.
    """
    table = _with_index(table)
    if not len(table):
        raise InputError(f"{where} has no rows")
    names = [str(name) for name in table.columns]
    groups = [np.arange(len(table))]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise InputError(f"{where}: several columns are named {twice[0]}; give each its own name")
    plain = [plain_name(name).lower() for name in names]
    run = next((k for k, name in enumerate(plain) if name in _RUNS), None)
    if run is not None:
        if (unknown := np.flatnonzero(table.iloc[:, run].isna())).size:
            raise InputError(f"{where}: row {unknown[0] + 1} has no {names[run]}")
        groups = list(table.groupby(table.columns[run], sort=False).indices.values())
    arrays = {}
    for k, name in enumerate(names):
        if k == run:
            continue
        values, is_number = _cells(table.iloc[:, k], plain[k] in _TIMES)
        if re.fullmatch(r"Unnamed: \d+", name):  # pandas calls columns without a name so
            rows = is_number and k == 0 and len(np.unique(values)) == len(values)
            if is_number and (np.isnan(values).all() or (rows and not (values % 1).any())):
                continue  # numbers of the rows, or separators at their ends
            raise InputError(f"{where}: column {k + 1} has no name; name all with --columns")
        arrays[name] = _padded([values[rows, None] for rows in groups]) if is_number else values
    return arrays


def _with_index(table: pandas.DataFrame) -> pandas.DataFrame:
    """Return a table in which the index is a column where it says times or runs."""
    known = {plain_name(str(name)).lower() for name in table.columns}
    if table.index.nlevels == 1 and table.index.name is None and table.index.dtype.kind in "Mm":
        table = table.rename_axis("time")
    levels = [plain_name(str(name)).lower() for name in table.index.names]
    labels = [k for k, name in enumerate(levels) if name in (*_TIMES, *_RUNS) and name not in known]
    return table.reset_index(level=labels) if labels else table


def _cells(column: pandas.Series, are_times: bool) -> tuple[np.ndarray, bool]:
    """Return a column as float64 and true, or the values in it that are no real numbers."""
    import pandas

    if isinstance(column.dtype, pandas.CategoricalDtype):
        column = column.astype(column.cat.categories.dtype)
    if column.dtype.kind == "O" and all(isinstance(value, _REAL) for value in column):
        column = pandas.Series(_real_objects(column.to_numpy()))
    numbers = pandas.to_numeric(column, errors="coerce")
    texts = numbers.isna() & column.notna()
    if are_times and texts.any():
        dates = pandas.to_datetime(column, errors="coerce", format="ISO8601", utc=True)
        column = column if dates.isna().any() else dates
    if column.dtype.kind in "Mm" and are_times:
        if column.dtype.kind == "M":
            column = pandas.to_datetime(column, utc=True).dt.tz_localize(None)
        return _times(column.to_numpy(), ""), True
    if column.dtype.kind in "bcMm":
        return column.to_numpy(), False
    if column.dtype.kind == "O":  # True is a number to pandas
        texts |= column.map(lambda value: isinstance(value, bool | np.bool_ | complex))
    if texts.any():
        return column[texts].to_numpy(), False
    if numbers.dtype.kind in "iu" and not numbers.isna().any():
        values = numbers.to_numpy()
        if not are_times and _is_rounded(values):
            return values, False
        return (_times(values, "") if are_times else values.astype(np.float64)), True
    return numbers.to_numpy(dtype=np.float64, na_value=np.nan), True


def _padded(rows: Sequence[np.ndarray]) -> np.ndarray:
    """Return arrays of different lengths as one, (row, length, ...), NaN behind their ends."""
    result = np.full((len(rows), max(map(len, rows)), *rows[0].shape[1:]), np.nan)
    for row, values in zip(result, rows, strict=True):
        row[: len(values)] = values
    return result


def _find_runs(
    source: _Source,
    variable: str | None,
    parameters: Sequence[str] = (),
    axes: str | None = None,
    times: Any = None,
) -> Runs:
    """Find states, times, step and parameters among the arrays of a source.

    Raises
    ------
    InputError
        If it is not clear which array is meant, or shapes do not fit.
    """
    where = source.where
    held = {plain_name(name): source.numbers(name) for name in parameters}
    ndims = (3, 4) if axes == "particles" else (2, 3)
    arrays = {n: a for n, a in source.arrays.items() if n not in parameters}
    arrays = {n: a for n, a in arrays.items() if plain_name(n) not in held}
    if variable is not None:
        state_names = [name.strip() for name in variable.split(",")]
    elif source.is_table:
        time = source.usual(_TIMES)
        state_names = [name for name in arrays if name != time]
    else:
        state_names = [_only_states(arrays, where, ndims)]
    states_by_name = {name: source.numbers(name) for name in state_names}
    if axes == "particles":
        states_by_name = {
            name: _of_all_particles(a, f"{where}, {name}") for name, a in states_by_name.items()
        }
    rest = _Source(where, {n: a for n, a in arrays.items() if n not in state_names})
    folder = state_names[0].rpartition("/")[0] if state_names else ""
    time = rest.usual(_TIMES, folder)
    step = rest.usual(_STEPS, folder)
    if times is not None:
        times = _times(times, "times")
    elif time is not None and rest.numbers(time, True).size > 1:
        times = rest.numbers(time, True).squeeze()
    states, names = _joined(states_by_name, times, where)
    if source.is_table:
        names = tuple(plain_name(name) or name for name in state_names)
    elif axes == "time":
        states = states.swapaxes(0, 1)
    count, length = states.shape[:2]
    if times is not None:
        if times.size != length and times.shape != (count, length):
            hint = _AXES if times.size == count else ""
            raise InputError(
                f"{where}: times of shape {times.shape} do not fit states of shape {states.shape}"
                f"{hint}"
            )
        times = np.broadcast_to(times.reshape(-1, length), (count, length))
    for name, values in held.items():
        if source.is_table:
            same = ((values == values[:, :1]) | np.isnan(values)).all()
            values = values[:, 0] if same else np.empty(0)
        reserved = check_name(name, f"{where}, parameter {name}") == STEP
        if reserved or values.size not in (1, count) or not np.isfinite(values).all():
            raise InputError(
                f"{where}, {name}: a parameter is a finite number, the same for all times of each "
                f"of {count} trajectories, with another name than {STEP}"
            )
        held[name] = np.broadcast_to(values.ravel(), (count,))
    steps = np.empty(0) if step is None else rest.numbers(step)
    step_size = float(steps.item()) if steps.size == 1 else None
    return Runs(
        where, states, times, step_size, names, held, ",".join(state_names), source.is_table
    )


def _of_all_particles(values: np.ndarray, where: str) -> np.ndarray:
    """Return states (trajectory, time, dim) of arrays ([trajectory,] time, particle, d)."""
    if values.ndim not in (3, 4):
        raise InputError(
            f"{where}: with the axes of particles an array has the shape (time, particle, d), or "
            f"(trajectory, time, particle, d), but this one has {values.shape}"
        )
    values = values if values.ndim == 4 else values[None]
    return values.reshape(*values.shape[:2], -1)  # (trajectory, time, particle * d)


def _only_states(arrays: Mapping[str, Any], where: str, ndims: Collection[int]) -> str:
    """Return the name of the one array that can be states."""
    possible = [name for name, value in arrays.items() if np.ndim(value) in ndims]
    usual = [name for name in possible if name.rpartition("/")[2].lower() in _STATES]
    for names in (usual, possible):
        if len(names) == 1:
            return names[0]
    shapes = ", ".join(f"{name} {np.shape(value)}" for name, value in arrays.items()) or "nothing"
    raise InputError(
        f"{where}: expected one array of states, of shape (trajectory, time, dim) or (time, dim), "
        f"found {shapes}; name it with --variable (variable=... in Python), or states before and "
        "after with --pairs"
    )


def _numbers(values: Any, where: str) -> np.ndarray:
    """Return the values as float64, NaN where they are masked or filled."""
    array = _array(values, where)
    if array.dtype.kind == "O" and all(isinstance(v, _REAL) for v in array.flat):
        array = _real_objects(array)
    if array.dtype.kind == "c" or array.dtype.names == ("real", "imag"):
        raise InputError(
            f"{where}: expected an array of real numbers, found complex ones; give real and "
            "imaginary parts as components of their own"
        )
    if array.dtype.kind not in "fiu":
        text = printable(str(next(iter(array.flat), "nothing")))[:60]
        raise InputError(
            f"{where}: expected an array of real numbers, found '{text}'; --variable chooses "
            "arrays or columns, and vp.import_dataset takes any table that pandas.read_csv reads"
        )
    if _is_rounded(array):
        raise InputError(
            f"{where}: the whole number {_largest(array)} is beyond 2^53, where double precision "
            "rounds; subtract an offset first"
        )
    return array.astype(np.float64)


def _times(values: Any, where: str) -> np.ndarray:
    """Return times as float64; dates, durations and large counts are differences to the first."""
    array = _array(values, where)
    if array.dtype.kind in "Mm" and array.size:
        seconds = (array - array.flat[0]) / np.timedelta64(1, "s")
        return np.asarray(seconds, dtype=np.float64)
    if _is_rounded(array):
        array = array - array.flat[0]
    return _numbers(array, where)


def _array(values: Any, where: str) -> np.ndarray:
    """Return the values as an array of any type, NaN where they are masked or filled."""
    with reading(where, said="cannot be read as an array"):
        if isinstance(values, h5py.Dataset):
            check_dataset(values, where)
            packing = {name: fixed_attribute(values, name) for name in _PACKING}
            return _unpacked(values[...], {k: v for k, v in packing.items() if v is not None})
        array: np.ndarray = as_numpy(values)
        return array


def _unpacked(values: np.ndarray, attributes: Mapping[str, Any]) -> np.ndarray:
    """Return the values of a variable as the conventions of netCDF pack them.

    NaN stands for ``_FillValue`` and ``missing_value``; others are multiplied by ``scale_factor``,
    and ``add_offset`` is added.
    """
    missing = np.zeros(values.shape, dtype=bool)
    for name in ("_FillValue", "missing_value"):
        if name in attributes and np.asarray(attributes[name]).dtype.kind in "fiu":
            missing |= np.isin(values, attributes[name])
    scale, offset = (
        float(np.asarray(attributes.get(name, default)).item())
        for name, default in (("scale_factor", 1.0), ("add_offset", 0.0))
    )
    if scale != 1 or offset != 0:
        values = values * scale + offset
    return np.where(missing, np.nan, values) if missing.any() else values


def _is_rounded(values: np.ndarray) -> bool:
    """Whether there are whole numbers that double precision does not hold exactly."""
    return values.dtype.kind in "iu" and values.size > 0 and abs(_largest(values)) > _EXACT


def _largest(values: np.ndarray) -> int:
    return max(int(values.min()), int(values.max()), key=abs)


def _real_objects(values: np.ndarray) -> np.ndarray:
    """Return Python's numbers as float64, NaN for None; values of another kind as they are."""
    if any(isinstance(value, bool | np.bool_) for value in values.flat):
        return values
    numbers = [np.nan if value is None else float(value) for value in values.flat]
    return np.array(numbers).reshape(values.shape)


def _joined(
    columns: Mapping[str, np.ndarray], times: np.ndarray | None, where: str
) -> tuple[np.ndarray, tuple[str, ...] | None]:
    """Return states (run, time, dim) of one or several arrays, and names of the components."""
    if not columns:
        raise InputError(f"{where} has no column for the states")
    arrays = list(columns.values())
    several = len(columns) > 1
    if several:  # MATLAB's vectors are matrices
        arrays = [a.ravel() if a.ndim == 2 and 1 in a.shape else a for a in arrays]
    first = arrays[0]
    alone = not several or (  # (time, d) of a single trajectory
        first.ndim == 2 and times is not None and times.size == len(first) != first.shape[1]
    )
    parts = [a[None] if (alone and a.ndim == 2) or a.ndim == 1 else a for a in arrays]
    if not alone and first.ndim < 3:
        parts = [a[..., None] for a in parts]
    if any(a.ndim != 3 or 0 in a.shape for a in parts) or len({a.shape[:2] for a in parts}) > 1:
        shapes = ", ".join(f"{name} {a.shape}" for name, a in columns.items())
        raise InputError(
            f"{where}: expected states of shape (trajectory, time, dim) or (time, dim), or several "
            f"arrays of the same trajectories and times, found {shapes}"
        )
    names = [
        name.rpartition("/")[2] + (str(k + 1) if a.shape[2] > 1 else "")
        for name, a in zip(columns, parts, strict=True)
        for k in range(a.shape[2])
    ]
    return np.concatenate(parts, axis=-1), tuple(names) if several else None
