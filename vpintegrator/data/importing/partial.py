"""Import of partial observations: full states at equal steps, from orbits fitted to them."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from vpintegrator.data.importing.arguments import Identification, Partial, Reading, Sharing
from vpintegrator.data.importing.arrays import Arrays, padded
from vpintegrator.data.importing.columns import in_radians, plain_name
from vpintegrator.data.importing.samples import step_of, times_of
from vpintegrator.data.partial import (
    IdentifiedSystem,
    LearnedPotential,
    Observed,
    identify,
    learn_potential,
)
from vpintegrator.data.partial.identify import orbits_of
from vpintegrator.data.partial.likelihood import OrbitEstimate, Orbits
from vpintegrator.dynamics import System, load_system
from vpintegrator.dynamics.angles import unwrapped
from vpintegrator.errors import InputError, nearest

_MOST = 20_000  # observations that parameters are fitted to
_CORRELATED = 4.0  # standard deviations of the correlation of neighbouring residuals
_STRONGLY = 0.2  # and the correlation itself, from which equations do not fit
_NEARLY = 0.8  # of the longest orbit
_TERM = re.compile(
    r"\s*([+-]?)\s*(?:(\d*\.?\d+(?:[eE][+-]?\d+)?)\s*\*\s*)?([A-Za-z_]\w*(?:\[\w+\])*)"
)


class Completed(NamedTuple):
    """Full states, from fitted orbits.

    Attributes
    ----------
    arrays
        States at equal steps.
    system
        The system, with fitted parameters.
    table
        Table ``[equations]`` of the recipe.
    told
        Conclusions about the columns, a sentence each.
    """

    arrays: Arrays
    system: System
    table: dict[str, Any]
    told: list[str]


def _is_partial(arrays: Arrays, given: Identification, partial: Partial) -> bool:
    """Whether less than the states is given, so that orbits have to be fitted."""
    if partial.positions_only or partial.observed is not None:
        return True
    if given.system is None:
        return False
    system = _known(given)
    return not system.is_measured and arrays.states.shape[2] < system.phase_dim


def complete(
    arrays: Arrays,
    reading: Reading,
    identification: Identification,
    partial: Partial,
    sharing: Sharing,
    title: str | None,
    where: str,
) -> Completed | None:
    """Fit orbits to partial observations, and their parameters to all but the test group.

    Returns None where whole states are given.

    Raises
    ------
    InputError
        If options contradict one another, or the observations do not determine the states.
    """
    if not _is_partial(arrays, identification, partial):
        return None
    if reading.parameter_columns:
        raise InputError(f"{where}: partial observations have no parameter columns; leave them out")
    told = list[str]()
    columns = [plain_name(name) for name in arrays.names or ()]
    system, matrix = None, None
    if partial.positions_only:
        columns = columns or [f"q{k + 1}" for k in range(arrays.states.shape[2])]
        periods = _angles(partial, columns, arrays, told)
    else:
        system = _known(identification)
        matrix = _matrix(system, partial.observed, columns, arrays.states.shape[2], told, where)
        columns = columns or [f"column {k + 1}" for k in range(len(matrix))]
        periods = {k: system.periods[at] for k, at in _single(matrix) if at in system.periods}
    arrays, turned = in_radians(arrays, periods)
    states, continued = unwrapped(arrays.states, periods)
    told += turned
    if continued:
        told.append(f"angles that jumped are continued: {', '.join(columns[k] for k in continued)}")
    observed = _observed(arrays, states, matrix, reading, where)
    used, noise = _used(observed, sharing), _noise(identification.noise, observed)
    degree = None
    if system is None:
        learned = learn_potential(
            observed.orbits(used),
            columns,
            periods=periods,
            masses=_masses(partial, columns),
            degree=partial.potential_degree,
            noise=noise,
            title=title or (Path(where).stem if "." in where else "Learned potential"),
        )
        model, degree = learned.model, learned
        observed = Observed(observed.times, observed.values, model.matrix)
    else:
        names = list(identification.fit or ())
        _check_fit(system, names)
        model = identify(system, names, observed.orbits(used), noise)
    orbits, found, length = orbits_of(model, observed)
    step = reading.step or observed.median_step
    rows = _on_grid(orbits, found, observed, length, step)
    table = _table(model, degree, found, observed, columns, len(used))
    return Completed(_arrays(arrays, observed, rows, step, model.system), model.system, table, told)


def _arrays(
    given: Arrays, observed: Observed, rows: list[np.ndarray], step: float, system: System
) -> Arrays:
    """Return states of fitted orbits as if they had been read."""
    shortest, longest = (f(map(len, rows)) for f in (min, max))
    if shortest >= _NEARLY * longest:  # orbits of equal length need no missing states
        rows = [row[:shortest] for row in rows]
    starts = observed.times[:, 0]
    times = [start + step * np.arange(len(row)) for start, row in zip(starts, rows, strict=True)]
    return Arrays(
        padded(rows),
        padded(times),
        names=system.components,
        lengths=np.array([len(row) for row in rows]),
        variable=given.variable,
        time_unit=given.time_unit,
        guessed=given.guessed,
        parameters=np.empty((len(rows), max(map(len, rows)), 0)),
    )


def _used(observed: Observed, sharing: Sharing) -> np.ndarray:
    """Return the numbers of the trajectories that parameters are fitted to."""
    count, length = observed.times.shape
    split, groups = sharing.deal(count, length)
    used = np.arange(count)
    if split.by == "trajectory":
        used = np.sort(np.concatenate([groups["train"][0], groups["validation"][0]]))
    return np.asarray(used[:: -(-len(used) * length // _MOST)])


def _masses(partial: Partial, columns: Sequence[str]) -> np.ndarray | None:
    if partial.masses is None:
        return None
    masses = np.asarray(partial.masses, dtype=float)
    if masses.shape != (len(columns),) or not (np.isfinite(masses) & (masses > 0)).all():
        raise InputError(
            f"masses = {partial.masses}: expected a positive number for each of the positions "
            f"{', '.join(columns)}"
        )
    return masses


def _single(matrix: np.ndarray) -> list[tuple[int, int]]:
    """Return columns that are a single component, and the component."""
    rows = [np.flatnonzero(row) for row in matrix]
    return [(k, int(at[0])) for k, at in enumerate(rows) if len(at) == 1]


def _known(given: Identification) -> System:
    if given.system is None:
        raise InputError(
            "observed names components of a system, so give --system; or learn a potential from "
            "positions with --positions-only"
        )
    if isinstance(given.system, System):
        return given.system
    return load_system(given.system, **(given.parameters or {}))


def _angles(
    partial: Partial, columns: Sequence[str], arrays: Arrays, told: list[str]
) -> dict[int, float]:
    """Return the periods of angles, which are named or have a unit of angles."""
    if partial.angles is not None:
        for name in partial.angles:
            if name not in columns:
                hint = nearest(name, columns) or f" (there are: {', '.join(columns) or 'none'})"
                raise InputError(f"no column '{name}' to be an angle{hint}")
        return {columns.index(name): 2 * math.pi for name in partial.angles}
    units = [re.match(r"(rad|deg|°)[a-z]*$", unit) for unit in arrays.units]
    found = {k: 2 * math.pi for k, unit in enumerate(units) if unit}
    if found:
        names = ", ".join(columns[k] for k in found)
        told.append(f"angles by their unit, with a Fourier sum as potential: {names}")
    else:
        told.append("no position is an angle (--angles NAME,... names those that are)")
    return found


def _matrix(
    system: System,
    given: Sequence[str] | None,
    columns: Sequence[str],
    count: int,
    told: list[str],
    where: str,
) -> np.ndarray:
    """Return what each column is of the components, (column, dim)."""
    components = list(system.components)
    if given is None and set(columns) <= {*components} and columns:
        given = columns
    elif given is None and 2 * count == system.phase_dim and system.structure == "Hamiltonian":
        given = components[:count]
        names = columns or [f"column {k + 1}" for k in range(count)]
        pairs = ", ".join(f"{a} is {b}" for a, b in zip(names, given, strict=True))
        told.append(f"columns are taken for positions: {pairs} (--observed says otherwise)")
    if given is None or len(given) != count:
        named = f" ({', '.join(columns)})" if columns else ""
        raise InputError(
            f"{system.name} has {len(components)} components ({', '.join(components)}), but "
            f"{where} holds states of {count}{named}; "
            f"say what each column is with --observed, as in --observed {components[0]} or "
            f"--observed '{components[0]} + {components[-1]}'"
        )
    return np.array([_combination(text, components) for text in given])


def _combination(text: str, components: Sequence[str]) -> np.ndarray:
    """Return coefficients (dim,) of a linear combination such as ``q + 0.5*p``."""
    row, at = np.zeros(len(components)), 0
    while at < len(text.rstrip()):
        match = _TERM.match(text, at)
        if match is None or (at > 0 and not match[1]):
            raise InputError(
                f"observed '{text}': expected a sum of components, as in q or q + 0.5*p"
            )
        sign, factor, name = match.groups()
        if name not in components:
            hint = nearest(name, components) or f" (there are: {', '.join(components)})"
            raise InputError(f"observed '{text}': no component '{name}'{hint}")
        row[components.index(name)] += float(f"{sign}{factor or 1}")
        at = match.end()
    return row


def _observed(
    arrays: Arrays, states: np.ndarray, matrix: np.ndarray | None, given: Reading, where: str
) -> Observed:
    times = times_of(arrays, given, where)
    count, length, _ = states.shape
    if times is None:
        times = np.broadcast_to(step_of(arrays, given, where) * np.arange(length), (count, length))
    assert arrays.lengths is not None
    known = np.arange(length) < arrays.lengths[:, None]
    return Observed.of(np.where(known, times, np.nan), states, matrix, where)


def _noise(noise: Any, observed: Observed) -> np.ndarray | None:
    if noise is None:
        return None
    found = np.atleast_1d(np.asarray(noise, dtype=float))
    columns = observed.values.shape[2]
    if len(found) not in (1, columns) or not (np.isfinite(found) & (found > 0)).all():
        raise InputError(
            f"noise = {noise}: expected a positive standard deviation, or one for each of the "
            f"{columns} observed columns"
        )
    return np.broadcast_to(found, (columns,)).copy()


def _on_grid(
    orbits: Orbits, found: OrbitEstimate, observed: Observed, length: int, step: float
) -> list[np.ndarray]:
    """Return states of each trajectory at equal steps from its first time on."""
    cut = observed.segments(length)
    used = np.isfinite(cut.values).sum(axis=(1, 2)) > orbits.free
    pieces = len(cut.times) // len(observed.times)
    begin = np.where(used, cut.times[:, 0], np.inf).reshape(-1, pieces)
    owner, wanted = [], []  # segments, and the times of the grid in them
    for row, (first, last) in enumerate(observed.times[:, [0, -1]]):
        grid = first + step * np.arange(int((last - first) / step * (1 + 1e-12)) + 1)
        piece = np.searchsorted(begin[row], grid, side="right") - 1
        for k in np.unique(piece):
            owner.append(row * pieces + int(k))
            wanted.append(np.concatenate([cut.times[owner[-1], :1], grid[piece == k]]))
    times = np.maximum.accumulate(np.nan_to_num(padded(wanted), nan=-np.inf), axis=1)
    place = (np.cumsum(used) - 1)[owner]
    states = orbits(np.empty(0), found.first[place], times)
    rows: list[list[np.ndarray]] = [[] for _ in observed.times]
    for segment, state, time in zip(owner, states, wanted, strict=True):
        rows[segment // pieces].append(state[1 : len(time)])
    return [np.concatenate(parts) for parts in rows]


def _table(
    model: IdentifiedSystem,
    learned: LearnedPotential | None,
    found: OrbitEstimate,
    observed: Observed,
    columns: Sequence[str],
    fitted: int,
) -> dict[str, Any]:
    """Return the table ``[equations]`` of the recipe."""
    correlation, significance = _correlation(found, observed)
    fits = not (correlation > _STRONGLY and significance > _CORRELATED)
    seen = {at for _, at in _single(model.matrix)}
    states = model.system.components[: model.orbits.free]
    hidden = [name for k, name in enumerate(states) if k not in seen]
    left = found.used.sum() - len(found.first) * len(states)
    ratio = math.sqrt(np.square(found.residual).sum() / max(left, 1))
    noise = ", ".join(f"{s:.3g} ({n})" for s, n in zip(model.noise, columns, strict=False))
    orbit = "orbits" if len(found.first) == len(observed.times) else "segments of orbits"
    said = (
        f"states are those of {orbit} fitted to the observations, so {', '.join(hidden)} "
        f"{'is' if len(hidden) == 1 else 'are'} reconstructed; parameters from {fitted} of "
        f"{len(observed.times)} trajectories; noise {noise}; residuals of all are {ratio:.2f} "
        "times the noise"
    )
    if not fits:
        said = (
            f"they do NOT describe the data: neighbouring residuals are correlated "
            f"({correlation:.2f}); {said}"
        )
    table: dict[str, Any] = {
        "fits": "yes" if fits else "no",
        "said": said,
        "observed": list(columns),
        "reconstructed": hidden,
        "matrix": model.matrix.tolist(),
        "noise": model.noise.tolist(),
        "covariance": model.covariance.tolist(),
        "fitted": {
            name: [float(value), float(error)]
            for name, value, error in zip(model.names, model.values, model.errors, strict=True)
        },
    }
    if learned is not None:
        table["degree"] = learned.degree
        table["scores"] = {f"degree {n}": score for n, score in learned.scores.items()}
    return table


def _correlation(found: OrbitEstimate, observed: Observed) -> tuple[float, float]:
    """Return the correlation of neighbouring residuals, and its size in standard deviations."""
    r = found.residual.reshape(len(found.residual), -1, observed.values.shape[2])
    both = (r[:, 1:] != 0) & (r[:, :-1] != 0)
    count = int(both.sum())
    product = float((r[:, 1:] * r[:, :-1])[both].sum())
    square = float(np.square(r[r != 0]).mean()) if (r != 0).any() else 1.0
    correlation = product / max(count, 1) / square
    return correlation, correlation * math.sqrt(count)


def _check_fit(system: System, names: Sequence[str]) -> None:
    from_known = system.parameters
    for name in names:
        if name not in from_known or not isinstance(from_known[name], int | float):
            hint = nearest(name, from_known) or f" (it has: {', '.join(from_known) or 'none'})"
            raise InputError(f"{system.name} has no parameter '{name}' to be fitted{hint}")
