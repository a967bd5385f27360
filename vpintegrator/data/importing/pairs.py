"""Datasets from pairs of states, before and after a map, as tracking codes and experiments give."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from vpintegrator.arguments import grouped, positive
from vpintegrator.data.dataset import Dataset
from vpintegrator.data.importing.arguments import MeasuredClaims
from vpintegrator.data.importing.array_files import read_arrays
from vpintegrator.data.importing.arrays import Arrays, numbers
from vpintegrator.data.importing.columns import plain_name
from vpintegrator.data.importing.import_dataset import import_dataset
from vpintegrator.errors import InputError

_TABLES = (".csv", ".tsv", ".txt", ".dat")
_FEWEST = 5


@grouped(claims=MeasuredClaims)
def import_pairs(
    before: Any,
    after: Any,
    path: str | os.PathLike[str],
    *,
    source: str | os.PathLike[str] | None = None,
    step: float | None = None,
    components: Sequence[str] | None = None,
    variable: str | None = None,
    claims: MeasuredClaims,
    title: str | None = None,
    fractions: Sequence[float] | None = None,
    seed: int = 0,
    overwrite: bool = False,
) -> Dataset:
    """Make a dataset of states before and after a map.

    Each pair becomes a trajectory of two states, or all of them one trajectory if each pair begins
    where the one before ends. Pairs in which a number is missing or infinite
    (lost particles) are left out and counted in ``guessed`` of the recipe.

    Parameters
    ----------
    before, after
        Arrays (pair, component); paths of two files that hold one each; or, with ``source``, the
        names of two arrays there. Of a table, ``before`` and ``after`` are endings or beginnings of
        the names of its columns, as in ``x_before``; columns ``x`` and ``x_after`` go together too.
    path
        The HDF5 file to write.
    source
        A file that holds both.
    step
        Time between the states; 1 by default, for a map such as a turn in a ring.
    components
        Names of the components, for arrays. Names such as x, px, y, py tell positions and momenta.
    variable
        Components to take of a table, with commas between; all by default.
    claims, structure, topology
        Structure, ``"symplectic"``, ``"volume-preserving"`` or ``"none"``, and topology, ``"ring"``
        or ``"chain"``, as for ``vp.import_dataset``. Symplectic states are stored as positions,
        then momenta.
    title
        Title; by default the file's name.
    fractions, seed
        Parts of train, validation and test, and the seed of the dealing out.
    overwrite
        Whether a file of that name may be replaced.

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
    >>> ring.shapes["train"], ring.system.structure
    ((70, 2, 2), 'measured, symplectic')
    """
    found, where = _read(before, after, source, variable)
    first, second = found
    if components is not None:
        components = tuple(components)
        if len(components) != first.states.shape[1]:
            raise InputError(
                f"{where}: {len(components)} components are named, but states have "
                f"{first.states.shape[1]}"
            )
        first = replace(first, names=components)
    _check_shapes(first.states, second.states, where, claims.topology is not None)
    states, told = _without_lost(first.states, second.states, where)
    if step is None:
        step = first.step or 1.0
    is_orbit = len(states) > 1 and np.array_equal(states[1:, 0], states[:-1, 1])
    if is_orbit:
        states = np.concatenate([states[:, 0], states[-1:, 1]])[None]
        told.append("the pairs follow one another: they are one trajectory, whose groups are times")
    arrays = replace(
        first,
        states=states,
        times=None,
        step=positive("step", step),
        lengths=None,
        guessed=(*first.guessed, *told),
        source=where if first.source else "",
        pairs=not is_orbit,
    )
    return import_dataset(
        arrays,
        path,
        split="time" if is_orbit else "trajectory",
        structure=claims.structure,
        topology=claims.topology,
        title=title,
        fractions=fractions,
        seed=seed,
        overwrite=overwrite,
    )


def _read(
    before: Any, after: Any, source: str | os.PathLike[str] | None, variable: str | None
) -> tuple[tuple[Arrays, Arrays], str]:
    """Return states before and after, (pair, component) each, and the name of the source."""
    if source is not None:
        for name, value in (("before", before), ("after", after)):
            if not isinstance(value, str):
                raise InputError(f"{name} names an array of {source}, so it is a text")
        where = str(source)
        if variable is not None:
            raise InputError(f"{where}: variable chooses components of two tables, not of one file")
        if _is_table(Path(source)):
            return _columns(read_arrays(source), before, after, where), where
        first, second = (_plain(read_arrays(source, n), where, n) for n in (before, after))
        return (replace(first, source=where), second), where
    found = []
    for name, value in (("before", before), ("after", after)):
        if isinstance(value, str | os.PathLike):
            found.append(_plain(read_arrays(value, variable), str(value), ""))
        else:
            found.append(_plain(Arrays(numbers(value, name)), name, ""))
    where = "the pairs given"
    if isinstance(before, str | os.PathLike):
        where = str(before)
        found[0] = replace(found[0], source=where)
    first, second = found
    if first.names is not None and second.names is not None:
        order = _order(first.names, second.names, where)
        found[1] = replace(second, states=second.states[:, order], names=first.names)
    return (found[0], found[1]), where


def _is_table(path: Path) -> bool:
    inner = path.with_suffix("") if path.suffix.lower() == ".gz" else path
    return inner.suffix.lower() in _TABLES


def _plain(arrays: Arrays, where: str, name: str) -> Arrays:
    """Return arrays whose states are (pair, component)."""
    states, what = arrays.states, f"{where}, {name}" if name else where
    if states.ndim == 3 and arrays.lengths is not None:  # a table: a row for each state
        held = "times" if arrays.times is not None else "a column of trajectories"
        if len(states) > 1 or arrays.times is not None:
            raise InputError(
                f"{what}: rows have {held}, but two tables go together row by row; choose the "
                "components with --variable (variable=... in Python)"
            )
        states = states[0, : int(arrays.lengths[0])]
    if states.ndim != 2 or 0 in states.shape:
        raise InputError(f"{what}: expected states (pair, component), found shape {states.shape}")
    return replace(arrays, states=states)


def _columns(table: Arrays, before: str, after: str, where: str) -> tuple[Arrays, Arrays]:
    """The states of a table whose columns are called ``x`` or ``x_before``, and ``x_after``."""
    names = [plain_name(name) for name in table.names or ()]
    assert table.lengths is not None
    rows = table.states[np.arange(table.states.shape[1]) < table.lengths[:, None]]
    second = {base: k for k, name in enumerate(names) if (base := _base(name, after))}
    others = [k for k in range(len(names)) if k not in second.values()]
    first = {_base(names[k], before) or names[k]: k for k in others}
    pairs = [name for name in first if name in second]
    lonely = [name for name in second if name not in first]
    if not pairs or lonely:
        example = f"; {lonely[0]} has no column before" if lonely else ""
        raise InputError(
            f"{where}: expected columns such as x and x_{after}, or x_{before} and x_{after}, "
            f"found {', '.join(names)}{example}"
        )
    left = [name for name in first if name not in second]
    told = (f"left out, as no column tells it after: {', '.join(left)}",) if left else ()
    one, other = ([group[name] for name in pairs] for group in (first, second))
    units = tuple(table.units[k] for k in one) if table.units else ()
    common = replace(
        table, times=None, lengths=None, units=units, guessed=(*table.guessed, *told), source=where
    )
    common = replace(common, names=tuple(pairs), variable=",".join(pairs))
    return replace(common, states=rows[:, one]), replace(common, states=rows[:, other])


def _base(name: str, mark: str) -> str:
    """Return the name of a component in that of a column, empty if the mark is not there."""
    mark = mark.strip("_")
    for found in (name.removesuffix(f"_{mark}"), name.removeprefix(f"{mark}_")):
        if mark and found != name:
            return found
    return ""


def _order(first: Sequence[str], second: Sequence[str], where: str) -> list[int]:
    """Return the columns of the second table in the order of the first."""
    if sorted(first) == sorted(second):
        return [list(second).index(name) for name in first]
    if len(first) != len(second):
        raise InputError(
            f"{where}: states before have components {', '.join(first)}, after {', '.join(second)}"
        )
    return list(range(len(first)))


def _check_shapes(before: np.ndarray, after: np.ndarray, where: str, in_a_row: bool) -> None:
    """Refuse states of different shapes; components in a row may be more than pairs."""
    if before.shape != after.shape:
        raise InputError(
            f"{where}: states before have shape {before.shape}, after {after.shape}; lost "
            "particles are rows of NaN"
        )
    if before.shape[1] > before.shape[0] and not in_a_row:
        raise InputError(
            f"{where}: expected (pair, component), found {before.shape}, fewer pairs than "
            "components; transpose the arrays, or say that the components are those of a ring or "
            "chain by --topology (topology=... in Python)"
        )


def _without_lost(
    before: np.ndarray, after: np.ndarray, where: str
) -> tuple[np.ndarray, list[str]]:
    """Return pairs (pair, 2, component) without those of lost particles, and how many these are."""
    both = np.stack([before, after], axis=1)
    kept = np.isfinite(both).all(axis=(1, 2))
    lost, count = int((~kept).sum()), int(kept.sum())
    if count < _FEWEST:
        raise InputError(
            f"{where}: {count} of {len(both)} pairs are complete, without NaN; {_FEWEST} are needed"
        )
    if not lost:
        return both, []
    many = "1 pair" if lost == 1 else f"{lost:,} pairs"
    return both[kept], [
        f"left out, as states are NaN or infinite (lost particles): {many} of {len(both):,}"
    ]
