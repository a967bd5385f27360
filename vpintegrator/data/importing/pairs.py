"""Datasets from states before and after a map."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from vpintegrator.data.dataset import Dataset
from vpintegrator.data.importing.import_dataset import import_dataset
from vpintegrator.data.importing.readers import Runs, opened, read_runs
from vpintegrator.errors import InputError

_FEWEST = 5  # pairs of a dataset


def import_pairs(
    before: Any,
    after: Any,
    path: str | os.PathLike[str],
    *,
    source: Any = None,
    step: float | None = None,
    components: Sequence[str] | None = None,
    variable: str | None = None,
    structure: str | None = None,
    title: str | None = None,
    fractions: Sequence[float] | None = None,
    seed: int = 0,
    overwrite: bool = False,
) -> Dataset:
    """Make a dataset of states before and after a map.

    Each pair becomes a trajectory of two states, or those that follow one another become one
    trajectory, see :func:`vpintegrator.import_dataset`. Pairs in which a number is missing or
    infinite (lost particles) are left out and counted in ``notes`` of the recipe.

    Parameters
    ----------
    before, after
        Arrays (pair, component); paths of two files that hold one each; or, with ``source``, the
        names of two arrays there. Of a table, ``before`` and ``after`` are endings or beginnings of
        the names of its columns, as in ``x_before``; columns ``x`` and ``x_after`` go together too.
    path
        The HDF5 file to write.
    source
        A file, a table or a dictionary that holds both.
    step
        Time between the states; 1 by default, for a map such as a turn in a ring.
    components
        Names of the components, for arrays. Names such as x, px, y, py tell positions and momenta.
    variable
        Components to take of two files, with commas between; all by default.
    structure, title, fractions, seed, overwrite
        As for :func:`vpintegrator.import_dataset`.

    Returns
    -------
    Dataset
        Opened.

    Raises
    ------
    InputError
        If the states differ in number or components, or fewer than five pairs are complete.

    Examples
    --------
    >>> before = np.random.default_rng(0).normal(size=(100, 2))
    >>> after = before @ np.array([[0.8, -0.6], [0.6, 0.8]])
    >>> names = ["x", "px"]
    >>> ring = vp.import_pairs(before, after, "ring.h5", components=names, overwrite=True)
    >>> ring.shapes["train"], ring.system.kind
    ((70, 2, 2), 'measured, symplectic')
    """
    both, names, where = _read_pairs(before, after, source, variable)
    if components is not None:
        names = tuple(components)
        if len(names) != both.shape[2]:
            raise InputError(
                f"{where}: {len(names)} components are named, but states have {both.shape[2]}"
            )
    kept, notes = np.isfinite(both).all(axis=(1, 2)), tuple[str, ...]()
    if kept.sum() < _FEWEST:
        raise InputError(
            f"{where}: {kept.sum()} of {len(both)} pairs are complete, without NaN; {_FEWEST} are "
            "needed"
        )
    if lost := int((~kept).sum()):
        many = "1 pair" if lost == 1 else f"{lost:,} pairs"
        notes = (f"left out, as states are NaN or infinite (lost): {many} of {len(both):,}",)
    return import_dataset(
        Runs(where, both[kept], step=1.0, names=names, variable=",".join(names or ()), notes=notes),
        path,
        step=step,
        structure=structure,
        title=title,
        fractions=fractions,
        seed=seed,
        overwrite=overwrite,
    )


def _read_pairs(
    before: Any, after: Any, source: Any, variable: str | None
) -> tuple[np.ndarray, tuple[str, ...] | None, str]:
    """Return pairs (pair, 2, component), names of the components, and the source in words."""
    if source is not None and variable is not None:
        raise InputError("variable chooses components of two files, not of one source")
    found = [(before, variable), (after, variable)]
    if source is not None:
        if not isinstance(before, str) or not isinstance(after, str):
            raise InputError("before and after name arrays or columns of the source: give texts")
        if (table := _table(source)) is not None:
            return _columns(table, before, after)
        found = [(source, before), (source, after)]
    first, second = (read_runs(each, name) for each, name in found)
    for runs in (first, second):
        if len(runs.states) > 1 or runs.times is not None:
            raise InputError(
                f"{runs.where}: expected states (pair, component), which go together row by row, "
                "without times and runs; --variable (variable=...) chooses the components"
            )
    where, one, other = first.where, first.states[0], second.states[0]
    if one.shape != other.shape:
        raise InputError(
            f"{where}: states before have shape {one.shape}, after {other.shape}; lost particles "
            "are rows of NaN"
        )
    if one.shape[1] > one.shape[0]:
        raise InputError(
            f"{where}: expected (pair, component), found {one.shape}, fewer pairs than components; "
            "transpose the arrays"
        )
    if first.names is not None and sorted(first.names) == sorted(second.names or ()):
        other = other[:, [list(second.names or ()).index(name) for name in first.names]]
    return np.stack([one, other], axis=1), first.names, where


def _table(source: Any) -> Runs | None:
    """Return the columns of a source that is a table, else None."""
    if isinstance(source, str | os.PathLike):
        with opened(source) as found:
            return None if isinstance(found, Mapping) else read_runs(source)
    return read_runs(source) if hasattr(source, "iloc") else None


def _columns(
    table: Runs, before: str, after: str
) -> tuple[np.ndarray, tuple[str, ...] | None, str]:
    """Return pairs of a table whose columns are called ``x`` or ``x_before``, and ``x_after``."""
    names, rows = table.names or (), table.states[0]
    second = {base: k for k, name in enumerate(names) if (base := _base(name, after))}
    left = [k for k in range(len(names)) if k not in second.values()]
    first = {_base(names[k], before) or names[k]: k for k in left}
    if len(table.states) > 1 or not second or not second.keys() <= first.keys():
        raise InputError(
            f"{table.where}: expected columns such as x and x_{after}, or x_{before} and "
            f"x_{after}, for each component, found {', '.join(names)}"
        )
    pairs = tuple(name for name in first if name in second)
    one, other = ([group[name] for name in pairs] for group in (first, second))
    return np.stack([rows[:, one], rows[:, other]], axis=1), pairs, table.where


def _base(name: str, mark: str) -> str:
    """Return the name of a component in that of a column, empty if the mark is not there."""
    mark = mark.strip("_")
    for found in (name.removesuffix(f"_{mark}"), name.removeprefix(f"{mark}_")):
        if mark and found != name:
            return found
    return ""
