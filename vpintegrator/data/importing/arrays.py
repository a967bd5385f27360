"""Arrays of states as others wrote them, brought to one form."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from vpintegrator.errors import InputError, nearest

TIMES = ("t", "time", "times", "timestamp", "datetime")
STEPS = ("step", "dt", "h", "time_step", "timestep")
TRAJECTORIES = ("trajectory", "trajectory_id", "traj", "id", "run", "track", "trial", "experiment")
_STATES = ("state", "states", "trajectory", "trajectories", "data", "z", "x")


@dataclass(frozen=True)
class Arrays:
    """States as they stand in a file.

    Attributes
    ----------
    states
        (trajectory, time, dim), or (time, dim) for a single trajectory.
    times
        (time,), or (trajectory, time) where each trajectory has its own; None if not known.
    step
        Step that the file gives, or None.
    names
        Names of the components in the file; None if not known.
    lengths
        Number of times of each trajectory, (trajectory,), where they differ: the rows after are
        NaN.
    variable
        Names of the arrays or columns that hold the states.
    units, time_unit
        Units of the components and of time, empty if not known.
    guessed
        Uncertain conclusions about the file, a sentence each.
    parameters
        Columns that are parameters: (trajectory, time, name), or by name as they stand there.
    source
        Name of the file, without its folder, where the arrays were read before the import.
    pairs
        Whether each trajectory is a pair of states before and after a map.
    """

    states: np.ndarray
    times: np.ndarray | None = None
    step: float | None = None
    names: tuple[str, ...] | None = None
    lengths: np.ndarray | None = None
    variable: str = ""
    units: tuple[str, ...] = ()
    time_unit: str = ""
    guessed: tuple[str, ...] = ()
    parameters: np.ndarray | Mapping[str, np.ndarray] | None = None
    source: str = ""
    pairs: bool = False


def choose(
    arrays: Mapping[str, Any],
    where: str,
    variable: str | None,
    axes: Callable[[str], tuple[str, ...] | None] = lambda name: None,
    parameters: Sequence[str] = (),
) -> Arrays:
    """Find states, times and step among named arrays.

    Parameters
    ----------
    arrays
        NumPy arrays, or objects that convert to arrays, by name.
    where
        The file's name, for messages.
    variable
        Argument of :func:`read_arrays`.
    axes
        The names of an array's dimensions, where they are known.
    parameters
        Names of arrays that are parameters: a number, one for each trajectory, or one for each
        state.

    Raises
    ------
    InputError
        If it is not clear which array is meant.
    """
    shapes = {name: np.shape(value) for name, value in arrays.items()}
    names = None
    held = {name: _named(arrays, name, where) for name in parameters}
    arrays = {name: value for name, value in arrays.items() if name not in parameters}
    shapes = {name: shape for name, shape in shapes.items() if name not in parameters}
    if variable is not None:
        chosen = [name.strip() for name in variable.split(",")]
        for name in chosen:
            if name not in arrays:
                hint = nearest(name, arrays) or f" (it has: {', '.join(arrays) or 'none'})"
                raise InputError(f"{where} has no variable '{name}'{hint}")
    else:
        chosen = [_only_state(shapes, where)]
    columns = [numbers(arrays[name], f"{where}, {name}") for name in chosen]
    dimensions = axes(chosen[0]) or ()
    if len(chosen) > 1 and not any(dimensions):
        columns = [_without_unit_axis(column) for column in columns]
    if len(chosen) == 1:
        states = _time_before_state(columns[0], dimensions, where)
    else:
        states, names = _joined(columns, chosen, dimensions, where)
    folder = chosen[0].rpartition("/")[0]
    times = _sibling(arrays, folder, TIMES, chosen)
    step = _sibling(arrays, folder, STEPS, chosen)
    found = None if times is None else numbers(times[1], f"{where}, {times[0]}")
    if found is not None:
        found = _without_unit_axis(found)
        found = found if found.ndim else None
    length = None if step is None else numbers(step[1], f"{where}, {step[0]}")
    return Arrays(
        states,
        found,
        None if length is None or length.size != 1 else float(length.reshape(())),
        names,
        variable=",".join(chosen),
        parameters=held or None,
    )


def _joined(
    columns: Sequence[np.ndarray], chosen: Sequence[str], axes: tuple[str, ...], where: str
) -> tuple[np.ndarray, tuple[str, ...]]:
    """Return several arrays as states, and names of the components.

    Arrays (trajectory, time, d) are joined along their last axis. Arrays (trajectory, time), or
    (time,) of one trajectory, are components.
    """
    named = [name.rpartition("/")[2] for name in chosen]
    if all(column.ndim == 3 for column in columns):
        parts = [_time_before_state(column, axes, where) for column in columns]
        counts = [part.shape[-1] for part in parts]
        names = [
            name if count == 1 else f"{name}{k + 1}"
            for name, count in zip(named, counts, strict=True)
            for k in range(count)
        ]
    else:
        # a dimension that was there is time or (trajectory, time); the new one is the component
        dimensions = (*axes, "component") if axes else ()
        names = named
        parts = [_time_before_state(column[..., None], dimensions, where) for column in columns]
    if len({part.shape[:-1] for part in parts}) > 1 or len({c.ndim for c in columns}) > 1:
        pairs = zip(chosen, columns, strict=True)
        sizes = ", ".join(f"{name} {column.shape}" for name, column in pairs)
        raise InputError(
            f"{where}: arrays that are joined need the same trajectories and times, but their "
            f"shapes are {sizes}"
        )
    return np.concatenate(parts, axis=-1), tuple(names)


def _named(arrays: Mapping[str, Any], name: str, where: str) -> np.ndarray:
    """Return the numbers of the array of this name."""
    if name not in arrays:
        hint = nearest(name, arrays) or f" (it has: {', '.join(arrays) or 'none'})"
        raise InputError(f"{where} has no variable '{name}'{hint}")
    return numbers(arrays[name], f"{where}, {name}")


def each_state(
    parameters: Mapping[str, np.ndarray], count: int, length: int, where: str
) -> np.ndarray:
    """Return parameters (trajectory, time, name) of arrays that hold a number for all, each or any.

    Raises
    ------
    InputError
        If the shape of an array is none of (), (trajectory,), (trajectory, time), or (time,) of a
        single trajectory.
    """
    columns = []
    for name, given in parameters.items():
        values = _without_unit_axis(given) if given.ndim == 2 and count > 1 else given
        shapes = {(): (1, 1), (count,): (count, 1), (count, length): (count, length)}
        if count == 1:
            shapes |= {(length,): (1, length), (length, 1): (1, length)}
        if values.shape not in shapes:
            raise InputError(
                f"{where}, {name}: a parameter is one number, one for each of {count} trajectories "
                f"or one for each of {length} times too, not an array of shape {given.shape}"
            )
        columns.append(np.broadcast_to(values.reshape(shapes[values.shape]), (count, length)))
    return np.stack(columns, axis=-1)


def padded(rows: Sequence[np.ndarray]) -> np.ndarray:
    """Arrays of different lengths as one, (row, length, ...), NaN behind the ends of the rows."""
    result = np.full((len(rows), max(map(len, rows)), *rows[0].shape[1:]), np.nan)
    for row, values in zip(result, rows, strict=True):
        row[: len(values)] = values
    return result


def with_step(found: Arrays, attributes: Mapping[str, Any]) -> Arrays:
    """Return the arrays with the step that the file's attributes give, unless a step is known."""
    for key in STEPS:
        if found.step is None and key in attributes:
            return replace(found, step=float(attributes[key]))
    return found


def numbers(values: Any, where: str) -> np.ndarray:
    """Return the values as float64, or InputError if they are no real numbers."""
    try:
        found = np.asarray(values)
    except (ValueError, TypeError, RuntimeError) as error:
        raise InputError(f"{where}: cannot be read as an array: {error}") from None
    if found.dtype.kind not in "fiu":
        kinds = {"c": "complex numbers", "b": "true and false", "O": "objects", "M": "dates"}
        what = kinds.get(found.dtype.kind, "text")
        raise InputError(f"{where}: expected real numbers, found {what}")
    return found.astype(np.float64)


def _without_unit_axis(values: np.ndarray) -> np.ndarray:
    """Return a vector where it is stored as a matrix of one row or column, as MATLAB does it."""
    return values.ravel() if values.ndim == 2 and 1 in values.shape else values


def _only_state(shapes: Mapping[str, tuple[int, ...]], where: str) -> str:
    """Return the one array that can be states."""
    possible = [name for name, shape in shapes.items() if len(shape) in (2, 3)]
    usual = [name for name in possible if name.rpartition("/")[2].lower() in _STATES]
    if len(possible) == 1 or len(usual) == 1:
        return (usual if len(usual) == 1 else possible)[0]
    if not possible:
        sizes = ", ".join(f"{name} {shape}" for name, shape in shapes.items()) or "nothing"
        raise InputError(
            f"{where} holds no array of shape (trajectory, time, dim) or (time, dim), but {sizes}"
        )
    raise InputError(
        f"{where} holds several arrays that may be the states, {', '.join(possible)}; name one "
        "with --variable (variable=... in Python), or name states before and after with --pairs"
    )


def _sibling(
    arrays: Mapping[str, Any], folder: str, names: tuple[str, ...], chosen: list[str]
) -> tuple[str, Any] | None:
    """Return an array of a usual name, in the folder of the states or above."""
    for place in dict.fromkeys((folder, "")):
        for name in arrays:
            parent, _, last = name.rpartition("/")
            if parent == place and last.lower() in names and name not in chosen:
                return name, arrays[name]
    return None


def _time_before_state(states: np.ndarray, axes: tuple[str, ...], where: str) -> np.ndarray:
    """Bring (..., component, time) into the order (..., time, component), where axes have names."""
    place = [k for k, name in enumerate(axes) if name.rpartition("/")[2].lower() in TIMES]
    if len(place) != 1 or states.ndim not in (2, 3):
        return states
    if states.ndim == 2:
        return np.moveaxis(states, place[0], 0)
    others = [k for k in range(3) if k != place[0]]
    first = [k for k in others if axes[k].rpartition("/")[2].lower() in TRAJECTORIES]
    if len(first) == 1 and others[0] != first[0]:
        others.reverse()
    return np.transpose(states, (others[0], place[0], others[1]))
